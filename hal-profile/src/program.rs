//! What a session has processors do, encoded when it is configured: a processor only executes it.
//!
//! For each source and each kind of processor there is one [`Slot`]: the registers, the values to
//! write to them, and the rotation to which they belong. All zeros: nothing to run.

use crate::branches::Recording;
use crate::capabilities::Capabilities;
#[cfg(feature = "legacy")]
use crate::capabilities::Gate;
use crate::counter::{Counter, CounterWidth};
use crate::encode::{Encoding, Filter, Register};
use crate::guard::Limits;
use crate::processor_set::ProcessorSet;
use crate::registers::{amd, intel};
use crate::state::ActiveCounters;
use shared_types::ErrorCode;
use shared_types::request::session::UsedInterval;
use zerocopy::FromZeros;

/// The most sources in one session.
pub const MAX_SOURCES: usize = 256;
/// The most counters of one processor, general and fixed.
pub const MAX_COUNTERS: usize = 32;
/// The most kinds of processor that are distinguished in one machine.
pub const MAX_KINDS: usize = 8;

/// The program of a session, for all processors. It does not change while they run it.
#[derive(Debug, FromZeros)]
pub struct Program {
    pub(crate) settings: Settings,
    pub(crate) sources: [Source; MAX_SOURCES],
    pub(crate) kinds: [KindProgram; MAX_KINDS],
}

/// Settings common to all sources and processors.
#[derive(Clone, Copy, Debug, FromZeros)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and all are false in zeroed memory"
)]
pub(crate) struct Settings {
    /// Number of sources.
    pub(crate) count: usize,
    /// The kinds of processor that were known when it was configured, as a mask; these have
    /// programs.
    pub(crate) kinds: u16,
    /// Sources are sampled as well as counted.
    pub(crate) samples: bool,
    /// At least one source is counted by a timer.
    pub(crate) timers: bool,
    /// Overflows arrive through the HAL's callback.
    pub(crate) no_address: bool,
    /// Windows adds up the counters for each thread.
    pub(crate) by_thread: bool,
    /// System events are recorded.
    pub(crate) events: bool,
    /// The client may see kernel addresses.
    pub(crate) kernel: bool,
    /// Branches recorded for each sample.
    pub(crate) branches: u8,
    /// Overflows arrive at halprof's own handler, and no branches are recorded.
    pub(crate) usual: bool,
    pub(crate) processors: ProcessorSet,
    /// How long each rotation runs, in units of 100 ns.
    pub(crate) rotation: u32,
    /// The same in ticks of the time-stamp counter.
    pub(crate) rotation_ticks: u64,
    /// Seed of the order of rotations.
    pub(crate) seed: u32,
    /// Frequency of the time-stamp counter, in ticks per second.
    pub(crate) frequency: u64,
    /// Limits on the time that interrupts may take on a processor.
    pub(crate) interrupt_time: Limits,
    /// Capacity of each ring, in samples.
    pub(crate) ring_samples: u32,
}

/// One source, as requested.
#[derive(Clone, Copy, Debug, FromZeros)]
pub(crate) struct Source {
    pub(crate) id: u32,
    pub(crate) raw: u64,
    /// The general counters that may count it.
    pub(crate) counters: u32,
    /// The kinds of processor that count it, as a mask.
    pub(crate) kinds: u16,
    /// Nothing else may be counted at the same time.
    pub(crate) alone: bool,
    pub(crate) filter: Filter,
    /// Sources with the same non-zero number run together or not at all.
    pub(crate) group: u16,
    /// Counted by a timer whose interval is `interval.used`, in units of 100 ns.
    pub(crate) timer: bool,
    pub(crate) interval: UsedInterval,
}

/// What one kind of processor runs.
#[derive(Clone, Debug, FromZeros)]
pub(crate) struct KindProgram {
    /// One for each source, in order.
    pub(crate) slots: [Slot; MAX_SOURCES],
    /// The first slot of each rotation, as its index plus 1.
    pub(crate) first: [u16; MAX_SOURCES],
    /// The first of the slots that run in every rotation, as its index plus 1: every rotation's list
    /// ends with theirs.
    pub(crate) every: u16,
    /// The number of rotations; 0 if no source takes a counter.
    pub(crate) rotations: u16,
    /// All counters that any rotation uses, in the layout of the global registers.
    pub(crate) counters: u64,
    /// What START has those counters do to prove that they count.
    pub(crate) proof: ActiveCounters,
    /// How branches are recorded.
    pub(crate) recording: Recording,
}

/// Where a source is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(u8)]
pub(crate) enum Seat {
    /// The session has no such source.
    #[default]
    None = 0,
    /// On a counter.
    Counter = 1,
    /// By a timer, on no counter.
    Timer = 2,
    /// This kind of processor does not count it.
    Refused = 3,
}

/// One counter's work in one rotation.
#[derive(Clone, Copy, Debug, FromZeros)]
pub struct Slot {
    /// The value of its select without the bit that starts it; for a fixed counter, its nibble in
    /// its position in IA32_FIXED_CTR_CTRL.
    pub select: u64,
    /// NetBurst: the registers written before the select.
    pub(crate) upstream: [Register; 3],
    /// The select's MSR; 0 for a fixed counter.
    pub select_msr: u32,
    /// The MSR through which the counter's value is written.
    pub write_msr: u32,
    /// The MSR from which it is read; 0 if it is read with RDPMC.
    pub read_msr: u32,
    /// ECX for RDPMC.
    pub pmc: u32,
    /// Events between two samples, before any doubling by the guard; 0 if the source is not
    /// sampled.
    pub period: u32,
    /// The counter.
    pub counter: Counter,
    /// Its width.
    pub width: CounterWidth,
    /// It interrupts when it overflows.
    pub interrupts: bool,
    pub(crate) seat: Seat,
    /// The source: its index in the session.
    pub source: u16,
    /// The rotation, or [`EVERY_TURN`](shared_types::request::source::Placement::EVERY_TURN).
    pub rotation: u16,
    /// The next slot of the same rotation, as its index plus 1; 0 for the last.
    pub(crate) next: u16,
    /// The [`ErrorCode`] if this kind of processor does not count the source.
    pub(crate) error: u16,
}

impl Program {
    /// Copies `other` in place: a program is too large to pass on a kernel stack.
    pub fn copy_from(&mut self, other: &Self) {
        self.settings = other.settings;
        self.sources.copy_from_slice(&other.sources);
        for (kind, others) in self.kinds.iter_mut().zip(&other.kinds) {
            kind.copy_from(others);
        }
    }

    pub(crate) fn sources(&self) -> &[Source] {
        self.sources.get(..self.settings.count).unwrap_or_default()
    }

    /// What a kind of processor runs.
    pub(crate) fn kind(&self, kind: u8) -> Option<&KindProgram> {
        self.kinds.get(usize::from(kind))
    }

    /// The largest number of rotations on any kind.
    pub(crate) fn rotations(&self) -> u16 {
        let rotations = self.kinds.iter().map(|kind| kind.rotations);
        rotations.max().unwrap_or(0)
    }
}

impl KindProgram {
    fn copy_from(&mut self, other: &Self) {
        self.slots.copy_from_slice(&other.slots);
        self.first = other.first;
        self.every = other.every;
        self.rotations = other.rotations;
        self.counters = other.counters;
        self.proof = other.proof;
        self.recording = other.recording;
    }

    pub(crate) fn slot(&self, index: usize) -> Option<&Slot> {
        self.slots.get(index)
    }

    /// The slots of one rotation; of
    /// [`EVERY_TURN`](shared_types::request::source::Placement::EVERY_TURN), those of every rotation.
    pub(crate) fn rotation(&self, rotation: u16) -> impl Iterator<Item = &Slot> {
        let first = self.first.get(usize::from(rotation));
        let mut next = first.copied().unwrap_or(self.every);
        core::iter::from_fn(move || {
            let slot = self.slots.get(usize::from(next).wrapping_sub(1))?;
            next = slot.next;
            Some(slot)
        })
        .take(MAX_COUNTERS)
    }
}

impl Slot {
    /// A slot on a counter of this processor.
    #[inline]
    #[must_use]
    pub fn new(capabilities: &Capabilities, counter: Counter, encoding: &Encoding) -> Self {
        let index = u32::from(counter.index());
        let layout = &capabilities.layout;
        let blank = Self {
            upstream: encoding.upstream,
            counter,
            seat: Seat::Counter,
            ..Self::new_zeroed()
        };
        if counter.is_fixed() {
            return Self {
                select: encoding.select << fixed_shift(counter),
                write_msr: intel::IA32_FIXED_CTR0 + index,
                pmc: intel::RDPMC_FIXED | index,
                width: capabilities.fixed_width,
                ..blank
            };
        }
        let distance = index * layout.stride;
        Self {
            select: encoding.select,
            select_msr: layout.select + distance,
            write_msr: layout.counter_write + distance,
            read_msr: if reads_by_msr(capabilities, counter) {
                layout.counter + distance
            } else {
                0
            },
            pmc: index,
            width: capabilities.width,
            ..blank
        }
    }

    /// The slot of a source that this kind of processor does not count, and why.
    pub(crate) fn refused(error: ErrorCode) -> Self {
        Self {
            seat: Seat::Refused,
            error: error as u16,
            ..Self::new_zeroed()
        }
    }

    /// The slot of a source that a timer counts.
    pub(crate) fn timer() -> Self {
        Self {
            seat: Seat::Timer,
            ..Self::new_zeroed()
        }
    }

    /// NetBurst: the registers written before the select; the last is always the ESCR.
    pub fn upstream(&self) -> impl Iterator<Item = &Register> {
        let [_, _, escr] = &self.upstream;
        let registers = if escr.msr == 0 {
            &[]
        } else {
            self.upstream.as_slice()
        };
        registers.iter().filter(|register| register.msr != 0)
    }

    /// The counter's bit in the global registers.
    #[must_use]
    pub fn bit(&self) -> u64 {
        self.counter.global_bit()
    }

    /// The mask of its nibble in IA32_FIXED_CTR_CTRL; 0 for a general counter.
    #[must_use]
    pub fn fixed_control(&self) -> u64 {
        if self.counter.is_fixed() {
            0xF << fixed_shift(self.counter)
        } else {
            0
        }
    }
}

/// The position of a fixed counter's nibble in IA32_FIXED_CTR_CTRL, which has room for 16.
fn fixed_shift(counter: Counter) -> u32 {
    4 * u32::from(counter.index() % 16)
}

fn reads_by_msr(capabilities: &Capabilities, counter: Counter) -> bool {
    let amd = capabilities.interface() == shared_types::ProfileInterface::Amd64;
    // RDPMC does not exist before the Pentium MMX, and has errata there.
    #[cfg(feature = "legacy")]
    if capabilities.gate == Gate::Cesr {
        return true;
    }
    amd && counter.index() >= amd::RDPMC_CORE_COUNTERS
}

/// Memory, lent by the host, in which a program is made before it replaces a session's. All zeros
/// at first.
#[derive(Debug, FromZeros)]
pub struct Scratch {
    pub(crate) program: Program,
    pub(crate) assignment: crate::assign::Assignment,
    pub(crate) seen: Seen,
}

/// The sources or groups seen so far: a hash table of indexes plus 1.
#[derive(Debug, FromZeros)]
pub(crate) struct Seen([u16; 2 * MAX_SOURCES]);

impl Seen {
    pub(crate) fn clear(&mut self) {
        self.0 = [0; 2 * MAX_SOURCES];
    }

    /// Remembers `index` under a key; returns the index remembered earlier for the same item, as
    /// judged by `same`.
    pub(crate) fn put(
        &mut self,
        key: u64,
        index: usize,
        same: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let size = self.0.len();
        // Fibonacci hashing, with linear probing in a table that is at most half full.
        let start = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize;
        for step in 0..size {
            let entry = self.0.get_mut((start + step) % size)?;
            let earlier = usize::from(*entry).checked_sub(1);
            if earlier.is_none_or(&same) {
                *entry = index as u16 + 1;
                return earlier;
            }
        }
        None
    }
}

/// Ticks of a clock of `frequency` in `hundred_ns` units of 100 ns.
#[must_use]
pub fn ticks(hundred_ns: u64, frequency: u64) -> u64 {
    (u128::from(hundred_ns) * u128::from(frequency) / 10_000_000) as u64
}
