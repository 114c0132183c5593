//! The memory that a program and its recorder share.
//!
//! Each side treats the contents as numbers only: all of it is atomic, any bits are valid, and
//! neither side uses a number as an address or a length before checking it.

use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

pub(super) const CHANNELS_MAX: usize = 256;
/// The longest name of a channel, in bytes.
pub(super) const NAME_MAX: usize = NAME_WORDS * size_of::<u64>();

/// The largest number of threads that make marks at once: each has a chunk. With 8 KiB each, they
/// are the 32 MiB of the buffer.
pub(super) const CHUNKS: usize = 4096;
/// As many marks as make a chunk 8 KiB long.
pub(super) const MARKS: usize = 340;
const NAME_WORDS: usize = 7;

/// The channel of the calibration marks, whose distances give the cost of a mark.
pub(super) const CALIBRATION: u32 = CHANNELS_MAX as u32;
/// The channel of marks for which no channel was left.
const REFUSED: u32 = CALIBRATION + 1;
/// The channel where there is no recorder.
pub(super) const NONE: u32 = u32::MAX;

/// The first bytes of the buffer, with the version of its layout at the end.
const MAGIC: u64 = u64::from_le_bytes(*b"HALPMRK1");

/// Why marks were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No chunk was free.
    Full,
    /// There were more channels than `CHANNELS_MAX`.
    Channels,
    /// The thread was ending and had returned its chunk.
    ThreadEnded,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 3] = [Self::Full, Self::Channels, Self::ThreadEnded];

    /// The cause in words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Channels => "too-many-channels",
            Self::ThreadEnded => "thread-ended",
        }
    }
}

/// The whole buffer. All zeros is the empty state of everything but the head.
#[repr(C)]
pub(super) struct Shared {
    magic: AtomicU64,
    /// Distinguishes this buffer from every other that ever existed.
    token: AtomicU64,
    /// The number of processes that found the buffer.
    attached: AtomicU64,
    /// The number of times that the recorder has freed chunks.
    pub(super) freed: AtomicU64,
    dropped: [AtomicU64; Cause::ALL.len()],
    pub(super) names: [Name; CHANNELS_MAX],
    /// The [`State`] of each chunk. They are adjacent, so that unused chunks are never touched.
    pub(super) states: [AtomicU32; CHUNKS],
    pub(super) chunks: [Chunk; CHUNKS],
}

/// The state of a chunk, as a number in `states`.
pub(super) struct State;

impl State {
    /// Any thread may take it.
    pub(super) const FREE: u32 = 0;
    /// A thread fills it.
    pub(super) const TAKEN: u32 = 1;
    /// The recorder owns it once it has read the rest.
    pub(super) const CLOSED: u32 = 2;
}

#[repr(C)]
pub(super) struct Name {
    /// 0 while it is free, [`Name::WRITING`], or else its length and [`Name::READY`].
    state: AtomicU64,
    words: [AtomicU64; NAME_WORDS],
}

/// The marks of one thread.
#[repr(C)]
pub(super) struct Chunk {
    /// The process in the upper half, the thread in the lower half.
    pub(super) owner: AtomicU64,
    /// The number of complete marks.
    pub(super) count: AtomicU64,
    spare: [AtomicU64; 2],
    /// Time, value and channel of each mark.
    pub(super) marks: [[AtomicU64; 3]; MARKS],
}

const _: () = assert!(size_of::<Chunk>() == 8192, "a chunk is two pages");

impl Shared {
    /// Turns zeros into a buffer.
    pub(super) fn begin(&self, token: u64) {
        self.token.store(token, Relaxed);
        self.magic.store(MAGIC, Release);
    }

    pub(super) fn is_of(&self, token: u64) -> bool {
        self.magic.load(Acquire) == MAGIC && self.token.load(Relaxed) == token
    }

    pub(super) fn attach(&self) {
        self.attached.fetch_add(1, Relaxed);
    }

    pub(super) fn attached(&self) -> u64 {
        self.attached.load(Relaxed)
    }

    #[cold]
    pub(super) fn drop_mark(&self, cause: Cause) {
        if let Some(count) = self.dropped.get(cause as usize) {
            count.fetch_add(1, Relaxed);
        }
    }

    pub(super) fn dropped(&self, cause: Cause) -> u64 {
        let count = self.dropped.get(cause as usize);
        count.map_or(0, |count| count.load(Relaxed))
    }

    #[cfg(test)]
    pub(super) fn rename(&self, number: usize, name: &str) {
        let name_of = self.names.get(number).expect("a channel");
        name_of.state.store(0, Relaxed);
        assert!(name_of.take(name.len() as u64, &words(name)));
    }

    /// Overwrites all of it, as a faulty program might.
    #[cfg(test)]
    pub(super) fn scribble(&self, mut value: impl FnMut() -> u64) {
        for state in &self.states {
            state.store(value() as u32, Relaxed);
        }
        let head = [&self.magic, &self.token, &self.attached, &self.freed];
        let names = self.names.iter();
        let names = names.flat_map(|name| std::iter::once(&name.state).chain(&name.words));
        let chunks = self.chunks.iter().flat_map(|chunk| {
            let marks = chunk.marks.iter().flatten();
            [&chunk.owner, &chunk.count].into_iter().chain(marks)
        });
        let words = head.into_iter().chain(&self.dropped).chain(names);
        words.chain(chunks).for_each(|word| word.store(value(), Relaxed));
    }

    /// The number of the channel of this name. Two threads that ask at once may both write it; the
    /// recorder treats channels of one name as one.
    pub(super) fn channel(&self, name: &str) -> u32 {
        let name = fitting(name);
        let (length, words) = (name.len() as u64, words(name));
        for (number, slot) in (0..).zip(&self.names) {
            if slot.is(length, &words) || slot.take(length, &words) {
                return number;
            }
        }
        REFUSED
    }
}

impl Chunk {
    pub(super) fn free(&self, state: &AtomicU32) {
        // In this order: the thread that takes the chunk must not find the old count, which the
        // recorder would read as marks.
        self.count.store(0, Relaxed);
        state.store(State::FREE, Release);
    }
}

/// A name, cut to what fits.
fn fitting(name: &str) -> &str {
    let mut ends = (0..=NAME_MAX).rev();
    ends.find_map(|end| name.get(..end.min(name.len()))).unwrap_or_default()
}

/// The bytes of a name, padded with zeros.
fn words(name: &str) -> [u64; NAME_WORDS] {
    let mut words = [0; NAME_WORDS];
    for (word, bytes) in words.iter_mut().zip(name.as_bytes().chunks(size_of::<u64>())) {
        let bytes = bytes.iter().rev();
        *word = bytes.fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    words
}

impl Name {
    const WRITING: u64 = 1 << 32;
    const READY: u64 = 1 << 33;

    fn is(&self, length: u64, words: &[u64; NAME_WORDS]) -> bool {
        let mut own = self.words.iter().zip(words);
        self.state.load(Acquire) == Self::READY | length
            && own.all(|(own, word)| own.load(Relaxed) == *word)
    }

    fn take(&self, length: u64, words: &[u64; NAME_WORDS]) -> bool {
        let taken = self.state.compare_exchange(0, Self::WRITING, Relaxed, Relaxed);
        if taken.is_err() {
            return false;
        }
        for (own, word) in self.words.iter().zip(words) {
            own.store(*word, Relaxed);
        }
        // Whoever reads this reads the words as they were written before it.
        self.state.store(Self::READY | length, Release);
        true
    }

    /// The name, copied and then checked; `None` where there is none.
    pub(super) fn read(&self) -> Option<String> {
        // In any state but ready a high bit is left, and no name is as long as that.
        let length = self.state.load(Acquire) ^ Self::READY;
        let length = usize::try_from(length).ok()?;
        let words = self.words.iter().map(|word| word.load(Relaxed));
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        let name = bytes.get(..length)?;
        Some(String::from_utf8_lossy(name).into_owned())
    }
}
