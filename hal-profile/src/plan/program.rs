//! What a session has processors do, encoded when it is configured: a processor only executes it.
//!
//! For each source and each CPU type there is one [`CounterConfig`]: the registers, the values to
//! write to them, and the slice to which they belong. All zeros: nothing to run.

use crate::cpu::counter::Counter;
use crate::cpu::lbr::Recording;
use crate::plan::assign::{Assignment, Schedule};
use crate::plan::counter_config::{ActiveCounters, CounterConfig};
use crate::plan::cpu_set::ProcessorSet;
use crate::plan::index::PerSource;
use crate::source::filter::Filter;
use shared_types::request::session::UsedInterval;
use zerocopy::FromZeros;

/// The most CPU types that are distinguished in one machine.
pub const MAX_CPU_TYPES: usize = 8;

/// The program of a session, for all processors. It does not change while they run it.
#[derive(Debug, FromZeros)]
pub struct Program {
    pub(crate) settings: Settings,
    pub(crate) sources: PerSource<Source>,
    pub(crate) cpu_programs: [CpuProgram; MAX_CPU_TYPES],
}

/// Settings common to all sources and processors.
#[derive(Clone, Copy, Debug, FromZeros)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and all are false in zeroed memory"
)]
pub(crate) struct Settings {
    pub(crate) count: usize,
    /// The CPU types that were known when it was configured, as a mask; these have
    /// programs.
    pub(crate) cpu_types: u16,
    /// Sources are sampled as well as counted.
    pub(crate) samples: bool,
    /// At least one source is counted by a timer.
    pub(crate) timers: bool,
    /// Windows adds up the counters for each thread.
    pub(crate) by_thread: bool,
    /// System events are recorded.
    pub(crate) events: bool,
    /// The client may see kernel addresses.
    pub(crate) kernel: bool,
    /// Branches recorded for each sample.
    pub(crate) branches: u8,
    pub(crate) processors: ProcessorSet,
    /// How long each slice runs, in units of 100 ns.
    pub(crate) slice: u32,
    /// The timer ticks of one slice; the last of them ends it.
    pub(crate) slice_polls: u32,
    /// The ticks of the time-stamp counter after which a timer tick is the last of its slice.
    pub(crate) slice_ticks: u64,
    /// Seed of the order of slices, and of what periods are drawn.
    pub(crate) seed: u32,
    /// Frequency of the time-stamp counter, in ticks per second.
    pub(crate) frequency: u64,
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
    /// The CPU types that count it, as a mask.
    pub(crate) cpu_types: u16,
    /// Nothing else may be counted at the same time.
    pub(crate) alone: bool,
    pub(crate) filter: Filter,
    /// Sources with the same non-zero number run together or not at all.
    pub(crate) group: u16,
    /// Counted by a timer whose interval is `interval.used`, in units of 100 ns.
    pub(crate) timer: bool,
    pub(crate) interval: UsedInterval,
}

/// What one CPU type runs.
#[derive(Clone, Debug, FromZeros)]
pub(crate) struct CpuProgram {
    /// One for each source, in order.
    pub(crate) configs: PerSource<CounterConfig>,
    /// Which of them run in each slice.
    pub(crate) schedule: Schedule,
    /// All counters that any slice uses, in the layout of the global registers.
    pub(crate) counters: u64,
    /// What START has those counters do to prove that they count.
    pub(crate) self_test: ActiveCounters,
    /// How branches are recorded.
    pub(crate) recording: Recording,
}

impl Program {
    /// Copies `other` in place: a program is too large to pass on a kernel stack.
    pub fn copy_from(&mut self, other: &Self) {
        self.settings = other.settings;
        self.sources.each.copy_from_slice(&other.sources.each);
        for (program, others) in self.cpu_programs.iter_mut().zip(&other.cpu_programs) {
            program.copy_from(others);
        }
    }

    pub(crate) fn sources(&self) -> &[Source] {
        self.sources.each.get(..self.settings.count).unwrap_or_default()
    }

    pub(crate) fn cpu_program(&self, cpu_type: u8) -> Option<&CpuProgram> {
        self.cpu_programs.get(usize::from(cpu_type))
    }

    /// The largest number of slices on any CPU type.
    pub(crate) fn slices(&self) -> u16 {
        let slices = self.cpu_programs.iter().map(|program| program.schedule.slices);
        slices.max().unwrap_or(0)
    }
}

impl CpuProgram {
    /// Forgets what is assigned.
    pub(crate) fn clear(&mut self) {
        self.schedule.clear();
        self.counters = 0;
        self.self_test.clear();
    }

    fn copy_from(&mut self, other: &Self) {
        self.configs.each.copy_from_slice(&other.configs.each);
        self.schedule = other.schedule;
        self.counters = other.counters;
        self.self_test = other.self_test;
        self.recording = other.recording;
    }

    /// Whether any slice uses the counter.
    pub(crate) fn uses(&self, counter: Counter) -> bool {
        self.counters & counter.global_bit() != 0
    }

    pub(crate) fn config(&self, index: usize) -> Option<&CounterConfig> {
        self.configs.each.get(index)
    }

    /// The configurations of one slice, and those of every slice; of
    /// [`EVERY_SLICE`](shared_types::request::source::Placement::EVERY_SLICE), these alone.
    pub(crate) fn slice(&self, slice: u16) -> impl Iterator<Item = &CounterConfig> {
        self.schedule.sources(slice).map(|source| &self.configs[source])
    }
}

/// Memory, provided by the host, in which a program is made before it replaces a session's. All zeros
/// at first.
#[derive(Debug, FromZeros)]
pub struct Scratch {
    pub(crate) program: Program,
    pub(crate) assignment: Assignment,
}

/// Ticks of a clock of `frequency` in `hundred_ns` units of 100 ns.
pub fn ticks(hundred_ns: u64, frequency: u64) -> u64 {
    (u128::from(hundred_ns) * u128::from(frequency) / 10_000_000) as u64
}
