//! The recorder's side of the buffer.
//!
//! The program is not trusted: it may write anything anywhere in the buffer at any time. So
//! everything is first copied, once, and the copy is checked: a check of the shared words
//! themselves could be overtaken. Invalid data is left out and counted.

use super::memory::Mapping;
use super::rate::{Moment, Rate};
use super::shared::{CALIBRATION, CHANNELS_MAX, CHUNKS, Cause, Shared, State};
use super::{VARIABLE, rate};
use crate::error::{Error, Result};
use crate::rdpmc::timestamp;
use serde::{Deserialize, Serialize};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The number of distances of calibration marks that are kept. Each process makes 256, so those of
/// some 64 processes are kept, and a program that starts many takes no more memory.
const DISTANCES_MAX: usize = 1 << 14;

/// The minimum time for which the clocks are compared: the error of the rate is that of two
/// readings, divided by this time.
const COMPARED: Duration = Duration::from_millis(50);

/// One mark of a program.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, Immutable, IntoBytes, KnownLayout,
)]
pub struct Mark {
    /// The time, from the time-stamp counter.
    pub time: u64,
    /// The value that the program gave.
    pub value: u64,
    /// The process that made the mark.
    pub process: u32,
    /// The thread that made it.
    pub thread: u32,
    /// The channel: an index in [`Buffer::names`].
    pub channel: u32,
    /// 0.
    pub reserved: u32,
}

/// The cost of a mark, measured in the programs that were recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cost {
    /// The shortest time between two consecutive marks, in ticks, at least a step of the clock.
    pub min_ticks: u64,
    /// The median of these times.
    pub median_ticks: u64,
    /// The number of times that were measured.
    pub distances: u64,
}

/// A recorder's buffer, for the program that it will start and every process that this program
/// starts.
#[derive(Debug)]
pub struct Buffer {
    memory: Mapping,
    token: u64,
    begun: Moment,
    step_ticks: u64,
    reader: Reader,
}

#[derive(Debug)]
struct Reader {
    begun: u64,
    /// The number of marks of each chunk that have been read.
    read: Vec<usize>,
    /// The index of the name of each channel number in use.
    named: [Option<u32>; CHANNELS_MAX],
    names: Vec<String>,
    distances: Vec<u64>,
    damaged: u64,
    /// The marks being checked.
    copied: Vec<[u64; 3]>,
}

impl Buffer {
    /// A buffer of 32 MiB. Only the part in use takes memory, where the system allows that.
    pub fn create() -> Result<Self> {
        let memory = Mapping::create().map_err(|error| {
            Error::unavailable(
                format!("there is no buffer for marks: {error}"),
                "Marks need Windows or Linux on x64, and 32 MiB of memory.",
            )
        })?;
        // The token has to differ from those of other buffers, because an inherited handle's number
        // may stand for something else; the standard library seeds each of its hashers at random.
        let token = RandomState::new().hash_one(timestamp());
        memory.shared().begin(token);
        Ok(Self {
            memory,
            token,
            begun: Moment::now(),
            step_ticks: Moment::step_ticks(),
            reader: Reader {
                begun: timestamp(),
                read: vec![0; CHUNKS],
                named: [None; CHANNELS_MAX],
                names: Vec::new(),
                distances: Vec::new(),
                damaged: 0,
                copied: Vec::new(),
            },
        })
    }

    /// The name and the value of the environment variable by which a program finds the buffer.
    pub fn environment(&self) -> (&'static str, String) {
        let handle = self.memory.handle();
        (VARIABLE, format!("{handle}:{:x}", self.token))
    }

    /// The buffer as a program sees it.
    #[cfg(test)]
    pub(super) fn attach(&self) -> &'static Shared {
        let shared = super::memory::attach(self.memory.handle()).expect("a buffer");
        assert!(shared.is_of(self.token));
        shared
    }

    /// Takes the marks made since the last call. They are in no order: each has its time.
    pub fn drain(&mut self, marks: &mut Vec<Mark>) {
        let shared = self.memory.shared();
        let drained = (0..CHUNKS).filter(|&index| self.reader.chunk(shared, index, marks));
        if drained.count() != 0 {
            shared.freed.fetch_add(1, Release);
        }
    }

    /// The names of the channels that marks were made on.
    pub fn names(&self) -> &[String] {
        &self.reader.names
    }

    /// Marks that were dropped for this cause, as the programs report.
    pub fn dropped(&self, cause: Cause) -> u64 {
        self.memory.shared().dropped(cause)
    }

    /// Marks and chunks that were invalid and left out: something other than a mark wrote to the
    /// buffer.
    pub const fn damaged(&self) -> u64 {
        self.reader.damaged
    }

    /// Processes that found the buffer, as they report.
    pub fn attached(&self) -> u64 {
        self.memory.shared().attached()
    }

    /// The rate of the time-stamp counter since the buffer was made, which is at least 50 ms ago when
    /// this returns: over less time it is not known well.
    pub fn rate(&self) -> Rate {
        std::thread::sleep(COMPARED.saturating_sub(self.begun.elapsed()));
        Moment::now().rate_since(&self.begun)
    }

    /// The step of the time-stamp counter: the smallest difference between readings, unless few of
    /// them show it.
    pub const fn step_ticks(&self) -> u64 {
        self.step_ticks
    }

    /// The cost of a mark; `None` if no program has made one.
    pub fn cost(&self) -> Option<Cost> {
        let mut sorted = self.reader.distances.clone();
        sorted.sort_unstable();
        let median = *sorted.get(sorted.len() / 2)?;
        Some(Cost {
            min_ticks: (*sorted.first()?).max(self.step_ticks),
            median_ticks: median.max(self.step_ticks),
            distances: sorted.len() as u64,
        })
    }
}

impl Reader {
    /// Takes the marks of a chunk; returns whether it has become free.
    fn chunk(&mut self, shared: &Shared, index: usize, marks: &mut Vec<Mark>) -> bool {
        let (Some(state), Some(chunk), Some(read)) =
            (shared.states.get(index), shared.chunks.get(index), self.read.get_mut(index))
        else {
            return false;
        };
        // The state is read before the count: a thread stores its last count before it closes the
        // chunk, so a chunk that is seen closed is read to its end.
        let now = state.load(Acquire);
        if now == State::FREE {
            return false;
        }
        let count = usize::try_from(chunk.count.load(Acquire)).unwrap_or(usize::MAX);
        // The count is larger than possible, or has gone down.
        let new = chunk.marks.get(*read..count);
        let is_state = matches!(now, State::TAKEN | State::CLOSED);
        let Some(new) = new.filter(|_| is_state) else {
            self.damaged += 1;
            *read = 0;
            chunk.free(state);
            return true;
        };
        let closed = now == State::CLOSED;
        // All marks are copied, so a thread may fill the chunk again while they are checked.
        *read = if closed { 0 } else { count };
        let owner = chunk.owner.load(Relaxed);
        for mark in new {
            let copied = mark.each_ref().map(|word| word.load(Relaxed));
            self.copied.push(copied);
        }
        if closed {
            chunk.free(state);
        }
        self.take(shared, owner, marks);
        closed
    }

    /// Checks the marks of one thread and keeps the valid ones.
    fn take(&mut self, shared: &Shared, owner: u64, marks: &mut Vec<Mark>) {
        // Read after the marks: a mark cannot be later, except by the skew of its processor's
        // counter.
        let latest = timestamp().saturating_add(rate::SKEW_TICKS);
        let earliest = self.begun.saturating_sub(rate::SKEW_TICKS);
        let copied = std::mem::take(&mut self.copied);
        let mut calibrated = None;
        for &[time, value, number] in &copied {
            if !(earliest..=latest).contains(&time) {
                self.damaged += 1;
            } else if number == u64::from(CALIBRATION) {
                let distance = calibrated.and_then(|before| time.checked_sub(before));
                let room = DISTANCES_MAX.saturating_sub(self.distances.len());
                self.distances.extend(distance.into_iter().take(room));
                calibrated = Some(time);
            } else if let Some(channel) = self.channel(shared, number) {
                marks.push(Mark {
                    time,
                    value,
                    process: (owner >> 32) as u32,
                    thread: owner as u32,
                    channel,
                    reserved: 0,
                });
            } else {
                self.damaged += 1;
            }
        }
        self.copied = copied;
        self.copied.clear();
    }

    /// The index of a channel's name. Each name is read once.
    fn channel(&mut self, shared: &Shared, number: u64) -> Option<u32> {
        let number = usize::try_from(number).ok()?;
        if let Some(known) = *self.named.get(number)? {
            return Some(known);
        }
        let name = shared.names.get(number)?.read()?;
        let known = self.names.iter().position(|one| *one == name);
        let index = known.unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        });
        let index = u32::try_from(index).ok();
        *self.named.get_mut(number)? = index;
        index
    }
}
