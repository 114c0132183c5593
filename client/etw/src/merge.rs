//! The buffers of all processors, in one file or several, as one sequence by time.
//!
//! Inside a buffer times do not fall, nor from one of a processor's buffers to the next. So one
//! buffer for each processor is in memory, and the earliest of their events is the next. Buffers may
//! be in any order in the file (a circular file begins with the latest): an index is made first, of
//! the time of each buffer's first event.

use crate::buffer::{self, BufferHeader, HEADER_LENGTH, Step, flag};
use crate::compress;
use crate::damage::{Cause, Damage, Losses};
use crate::header::{self, Header};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::io::{self, Read, Seek, SeekFrom};

/// Buffers as they are in the files.
pub(crate) struct Input<R> {
    /// Each with its length.
    files: Vec<(R, u64)>,
}

impl<R: Read + Seek> Input<R> {
    pub(crate) fn new(readers: Vec<R>) -> io::Result<Self> {
        let files = readers.into_iter().map(|mut reader| {
            let length = reader.seek(SeekFrom::End(0))?;
            Ok((reader, length))
        });
        Ok(Self { files: files.collect::<io::Result<_>>()? })
    }

    /// Up to `length` bytes of a file; fewer at its end.
    pub(crate) fn read(
        &mut self,
        file: usize,
        at: u64,
        length: usize,
        into: &mut Vec<u8>,
    ) -> io::Result<()> {
        into.clear();
        let Some((reader, _)) = self.files.get_mut(file) else { return Ok(()) };
        reader.seek(SeekFrom::Start(at))?;
        reader.take(length as u64).read_to_end(into).map(|_| ())
    }

    fn length(&self, file: usize) -> u64 {
        self.files.get(file).map_or(0, |&(_, length)| length)
    }

    /// The length of all files together.
    fn whole_length(&self) -> u64 {
        self.files.iter().fold(0, |sum, &(_, length)| sum.saturating_add(length))
    }

    /// How many files there are.
    pub(crate) fn count(&self) -> usize {
        self.files.len()
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    file: usize,
    first_time: i64,
    /// When it was written: after its last event.
    time: i64,
    offset: u64,
    size: u32,
    used: u32,
    processor: u16,
    is_compressed: bool,
    is_after_loss: bool,
}

impl Entry {
    /// What its events are in order with: other files have processors of their own.
    const fn chain(&self) -> (usize, u16) {
        (self.file, self.processor)
    }
}

/// All buffers of the files.
#[derive(Default)]
pub(crate) struct Index {
    entries: Vec<Entry>,
    /// The number of buffers, readable or not.
    pub(crate) buffers: u64,
    sequence: Vec<i64>,
}

/// What is read of a buffer for the index: its header and enough for its first event's time, which
/// compressed bytes give sooner.
const INDEXED: usize = HEADER_LENGTH + 64;

impl Index {
    /// Reads the headers of all buffers of a file.
    pub(crate) fn read<R: Read + Seek>(
        &mut self,
        input: &mut Input<R>,
        file: usize,
        is_compressed: bool,
        (damage, losses): (&mut Damage, &mut Losses),
    ) -> io::Result<()> {
        let (mut at, mut bytes) = (0, Vec::new());
        let length = input.length(file);
        while at < length {
            input.read(file, at, INDEXED, &mut bytes)?;
            let Some(header) = BufferHeader::parse(&bytes) else {
                damage.add(Cause::CutBuffer);
                break;
            };
            if !header.has_valid_size() {
                let is_empty = bytes.iter().all(|&byte| byte == 0);
                damage.add(if is_empty { Cause::NotClosed } else { Cause::BufferSize });
                break;
            }
            self.add((file, at), &header, &bytes, is_compressed, damage);
            let is_after = |losses| u64::from(header.flags & losses != 0);
            losses.buffers_after_lost_events += is_after(flag::EVENTS_LOST);
            losses.buffers_after_lost_buffers += is_after(flag::BUFFER_LOST);
            at += u64::from(header.buffer_size);
        }
        if at > length {
            damage.add(Cause::CutBuffer);
        }
        losses.unused_numbers = self.missing();
        Ok(())
    }

    fn add(
        &mut self,
        (file, offset): (usize, u64),
        header: &BufferHeader,
        bytes: &[u8],
        is_compressed: bool,
        damage: &mut Damage,
    ) {
        self.buffers += 1;
        self.sequence.push(header.sequence_number);
        if header.is_compressed() && !is_compressed {
            damage.add(Cause::CompressedBuffer);
            return;
        }
        if !header.has_valid_use() {
            damage.add(Cause::BufferUse);
            return;
        }
        self.entries.push(Entry {
            file,
            time: header.time,
            first_time: first_time(header, bytes).unwrap_or(header.time),
            offset,
            size: header.buffer_size,
            used: header.used,
            processor: header.processor,
            is_compressed: header.is_compressed(),
            is_after_loss: header.flags & (flag::EVENTS_LOST | flag::BUFFER_LOST) != 0,
        });
    }

    /// The processors that have buffers.
    pub(crate) fn processors(&self) -> impl Iterator<Item = u16> {
        let mut processors: Vec<u16> = self.entries.iter().map(|entry| entry.processor).collect();
        processors.sort_unstable();
        processors.dedup();
        processors.into_iter()
    }

    /// How many numbers the sequence of the last file's buffers lacks. Numbers that occur twice are
    /// those of files that were put together: they say nothing.
    fn missing(&mut self) -> u64 {
        let mut sequence = std::mem::take(&mut self.sequence);
        sequence.sort_unstable();
        let numbers = sequence.windows(2);
        let gaps = numbers.map(|pair| pair[1].abs_diff(pair[0]));
        let sum =
            gaps.map(|gap| gap.checked_sub(1)).try_fold(0_u64, |sum, gap| sum.checked_add(gap?));
        // More than were ever written is a damaged number.
        sum.filter(|&missing| missing < 1 << 32).unwrap_or(0)
    }
}

/// The time of the first event. Without one the buffer's own is as good.
fn first_time(header: &BufferHeader, bytes: &[u8]) -> Option<i64> {
    let body = bytes.get(HEADER_LENGTH..)?;
    if !header.is_compressed() {
        return header::time(body);
    }
    let mut first = Vec::new();
    compress::xpress(body, 24, &mut first);
    header::time(&first)
}

/// An event's place in the sequence: by time, else as in the file.
type Key = Reverse<(i64, u64, usize)>;

/// The buffers of one processor in one file.
#[derive(Default)]
struct Chain {
    processor: u16,
    /// Which entries of the index are left.
    entries: std::ops::Range<usize>,
    /// The buffer that is read, decompressed, without its header.
    bytes: Vec<u8>,
    offset: u64,
    /// Where the current event begins, and the one after it.
    at: usize,
    next: usize,
    /// Whether something is missing before the next event, and before the current one.
    has_gap: bool,
    is_after_gap: bool,
    header: Option<Header>,
    time: i64,
    /// When the trace began, and when the buffer was written that is read: all events are between.
    origin: i64,
    written: i64,
}

/// What all chains share.
struct Shared {
    entries: Vec<Entry>,
    /// The bytes of all chains' buffers, and the most that they may be.
    open: u64,
    most_open: u64,
    /// How many more bytes may be decompressed.
    left: u64,
    compressed: Vec<u8>,
    damage: Damage,
}

/// The events of all chains.
pub(crate) struct Merge {
    chains: Vec<Chain>,
    heap: BinaryHeap<Key>,
    shared: Shared,
    /// The chain whose event was given out last, which must be advanced.
    last: Option<usize>,
}

/// An event, still as bytes.
pub(crate) struct Record<'a> {
    pub(crate) processor: u16,
    pub(crate) time: i64,
    pub(crate) header: &'a Header,
    pub(crate) bytes: &'a [u8],
    /// Events of the processor before it are missing.
    pub(crate) is_after_gap: bool,
}

/// How many times a file's length the decompressed buffers of all processors may take together, and
/// all buffers of the file: more than Windows' events compress to, and less than a file made for it
/// could claim (a few bytes can stand for a buffer of 16 MB).
const OPEN: u64 = 16;
const DECOMPRESSED: u64 = 256;

fn beyond(length: u64, times: u64) -> u64 {
    length.saturating_mul(times).saturating_add(buffer::MOST.into())
}

impl Merge {
    pub(crate) fn new<R: Read + Seek>(
        input: &mut Input<R>,
        mut index: Index,
        origin: i64,
        damage: Damage,
    ) -> io::Result<Self> {
        index.entries.sort_by_key(|entry| (entry.chain(), entry.first_time));
        let mut chains = Vec::new();
        let mut begin = 0;
        for part in index.entries.chunk_by(|a, b| a.chain() == b.chain()) {
            chains.push(Chain::new(part[0].processor, begin..begin + part.len(), origin));
            begin += part.len();
        }
        let mut merge = Self {
            chains,
            heap: BinaryHeap::new(),
            shared: Shared {
                entries: index.entries,
                open: 0,
                most_open: beyond(input.whole_length(), OPEN),
                left: beyond(input.whole_length(), DECOMPRESSED),
                compressed: Vec::new(),
                damage,
            },
            last: None,
        };
        for chain in 0..merge.chains.len() {
            let key = merge.chains[chain].advance(input, &mut merge.shared)?;
            merge.heap.extend(key.map(|(time, offset)| Reverse((time, offset, chain))));
        }
        Ok(merge)
    }

    pub(crate) const fn damage(&self) -> &Damage {
        &self.shared.damage
    }

    /// The next event, with where damage is kept.
    pub(crate) fn next<R: Read + Seek>(
        &mut self,
        input: &mut Input<R>,
    ) -> io::Result<Option<(Record<'_>, &mut Damage)>> {
        if let Some(last) = self.last.take() {
            let key = self.chains[last].advance(input, &mut self.shared)?;
            // It is the heap's first: it was given out.
            if let Some(mut first) = self.heap.peek_mut() {
                match key {
                    Some((time, offset)) => *first = Reverse((time, offset, last)),
                    None => _ = PeekMut::pop(first),
                }
            }
        }
        let Some(&Reverse((_, _, first))) = self.heap.peek() else {
            return Ok(None);
        };
        self.last = Some(first);
        let chain = &self.chains[first];
        let record = chain.header.as_ref().map(|header| Record {
            processor: chain.processor,
            time: chain.time,
            header,
            bytes: &chain.bytes[chain.at..chain.at + usize::from(header.size)],
            is_after_gap: chain.is_after_gap,
        });
        Ok(record.map(|record| (record, &mut self.shared.damage)))
    }
}

impl Chain {
    fn new(processor: u16, entries: std::ops::Range<usize>, origin: i64) -> Self {
        Self { processor, entries, time: i64::MIN, origin, ..Self::default() }
    }

    /// Goes to the next event, in this buffer or a later one. `None` after the last.
    fn advance<R: Read + Seek>(
        &mut self,
        input: &mut Input<R>,
        shared: &mut Shared,
    ) -> io::Result<Option<(i64, u64)>> {
        loop {
            if self.find_event(&mut shared.damage) {
                return Ok(Some((self.time, self.offset)));
            }
            let Some(entry) = self.entries.next() else {
                shared.open -= self.bytes.capacity() as u64;
                self.bytes = Vec::new();
                return Ok(None);
            };
            self.load(input, shared.entries[entry], shared)?;
        }
    }

    /// Finds the next event in this buffer.
    fn find_event(&mut self, damage: &mut Damage) -> bool {
        self.header = None;
        loop {
            match buffer::step(&self.bytes, self.next) {
                Step::Event { header, next } => {
                    (self.at, self.next) = (self.next, next);
                    self.set_time(&header, damage);
                    self.is_after_gap = std::mem::take(&mut self.has_gap);
                    self.header = Some(header);
                    return true;
                }
                // Unless it is read, it is missing before the next one.
                Step::Skipped { cause, next } => {
                    self.next = next;
                    self.has_gap = true;
                    damage.add(cause);
                }
                Step::Refused(cause) => {
                    self.has_gap = true;
                    damage.add(cause);
                    return false;
                }
                Step::End => return false,
            }
        }
    }

    fn set_time(&mut self, header: &Header, damage: &mut Damage) {
        // An event without a time gets that of the one before it; the first gets the trace's start.
        let time = header.time.unwrap_or(self.time.max(self.origin));
        if time < self.time {
            damage.add(Cause::TimeBackwards);
        } else if time < self.origin || time > self.written {
            damage.add(Cause::TimeOutside);
        }
        self.time = time;
    }

    /// Reads a buffer in place of this one. One that cannot be read is left empty.
    fn load<R: Read + Seek>(
        &mut self,
        input: &mut Input<R>,
        entry: Entry,
        shared: &mut Shared,
    ) -> io::Result<()> {
        self.bytes.clear();
        (self.next, self.offset) = (0, entry.offset);
        // The first buffer of a file has no time, and some writers give none.
        self.written = if entry.time > entry.first_time { entry.time } else { i64::MAX };
        self.has_gap |= entry.is_after_loss;
        let begin = entry.offset + HEADER_LENGTH as u64;
        let used = entry.used as usize - HEADER_LENGTH;
        let is_justified = !entry.is_compressed || shared.left >= used as u64;
        if !is_justified || !self.make_room(used, shared) {
            shared.damage.add(Cause::Expansion);
            self.has_gap = true;
        } else if entry.is_compressed {
            shared.left -= used as u64;
            let size = entry.size as usize - HEADER_LENGTH;
            input.read(entry.file, begin, size, &mut shared.compressed)?;
            if !compress::xpress(&shared.compressed, used, &mut self.bytes) {
                shared.damage.add(Cause::Decompression);
            }
        } else {
            input.read(entry.file, begin, used, &mut self.bytes)?;
        }
        Ok(())
    }

    /// Makes room for a buffer of `length` bytes, unless all chains would have too much.
    fn make_room(&mut self, length: usize, shared: &mut Shared) -> bool {
        shared.open -= self.bytes.capacity() as u64;
        let fits = shared.open + length as u64 <= shared.most_open;
        if !fits || self.bytes.capacity() > MOST_ROOM * length {
            self.bytes = Vec::new();
        }
        if fits {
            self.bytes.reserve_exact(length);
        }
        shared.open += self.bytes.capacity() as u64;
        fits
    }
}

/// How many times a buffer's length may be kept for the next, smaller one.
const MOST_ROOM: usize = 16;
