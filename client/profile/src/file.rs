//! The file that `record` writes and everything else reads.
//!
//! All numbers are little-endian. The file begins with [`MAGIC`] and a 32-bit [`VERSION`]; blocks
//! follow, each with
//!
//! | bytes | meaning |
//! |---|---|
//! | 4 | tag |
//! | 4 | length of the payload, at most [`PAYLOAD_MAX`] |
//! | 4 | CRC-32 (IEEE 802.3) of the payload |
//! | 4 | CRC-32 of the twelve bytes before |
//! | length | payload |
//!
//! | tag | payload | where |
//! |---|---|---|
//! | `META` | [`Metadata`] as JSON | first, once |
//! | `SAMP` | whole [`Sample`]s as on the wire | anywhere |
//! | `BRCH` | the branch records of samples | right after the samples that they belong to |
//! | `BRAW` | an undocumented value for each of these records | before the samples that they belong to |
//! | `FRAM` | whole [`StackFrame`]s | before the stacks that have them |
//! | `STAK` | a [`StackId`] for each sample | right before the samples that they belong to |
//! | `PROC` | a list of [`Process`] as JSON | anywhere |
//! | `MODU` | a list of [`Module`] as JSON | anywhere |
//! | `METH` | a list of [`Method`] as JSON | anywhere |
//! | `CNTS` | [`TraceCounts`] without their threads as JSON | once |
//! | `THRD` | a list of threads with their counts as JSON | after `CNTS` |
//! | `STAT` | [`Statistics`] as JSON, replacing earlier ones | anywhere, and before the end |
//! | `EVNT` | a list of [`RecordedEvent`] as JSON | anywhere |
//! | `MARK` | whole [`Mark`]s of programs | anywhere |
//! | `CHAN` | [`Channels`] as JSON, replacing earlier ones | anywhere |
//! | `END ` | [`Ending`] as JSON | last, once |
//!
//! Blocks with unknown tags are skipped and counted: [`Recording::skipped`]. A process or module with
//! the same identifier or address and the same beginning as an earlier one replaces it: that is how
//! an end, or an identity found later, is recorded.
//!
//! A recorder writes to `FILE.partial` and gives the file its final name once the end is written,
//! so that a file of that name is never incomplete. Each block is handed to the system whole and at
//! once: if the recorder is killed, `FILE.partial` holds every block up to then, but no end. The
//! intact part of a truncated or damaged file is still read, and [`Recording::damaged`] says what is
//! missing.

use crate::number::thousands;
use halprof_measure::errata::Erratum;
use halprof_measure::float::float;
use halprof_measure::tracing::analysis::counts::TraceCounts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared_types::{EventKind, Sample, SystemEvent};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

mod background;
pub mod branches;
pub(crate) mod combined;
mod context;
mod counts;
pub(crate) mod etl;
mod format;
pub mod inventory;
mod known_rows;
mod live;
mod marks;
mod methods;
mod open;
pub(crate) mod origin;
mod process_ids;
mod reader;
mod source;
pub(crate) mod stacks;
#[cfg(test)]
pub(crate) mod test_recording;
mod writer;

pub use background::{Background, Block, Sink};
pub use branches::RecordedBranches;
pub use context::{Context, ContextCounts, mode_of};
pub(crate) use etl::EndedWaits;
pub use etl::{DeliveredSamples, Files, LOST_BUFFERS, LOST_EVENTS, convert, convert_session};
pub use live::Live;
pub use marks::{Channels, Cost, Mark, Marked};
pub use methods::Method;
pub(crate) use open::open_waits;
pub use open::{open, open_session, processors, read, sessions};
pub use process_ids::ProcessIds;
pub(crate) use process_ids::{Times, loaded};
pub use reader::{Reader, is_recording};
pub use source::{BranchVisitor, SampleSource, SampleVisitor};
pub use stacks::{DEPTH_MAX, StackCounts, StackFrame, StackId, StackTable};
pub use writer::{Writer, backup_path, replace, replace_keeping_old, write_whole};

/// The process of samples whose process is unknown. Windows' tracing writes this, too, where an event
/// has no process.
pub const NO_PROCESS: u32 = u32::MAX;
/// What such a process is called.
pub(crate) const UNKNOWN_PROCESS: &str = "unknown process";

/// The first eight bytes of every recording.
pub const MAGIC: [u8; 8] = *b"HALPROF\x1A";
/// The version of this format.
pub const VERSION: u32 = 2;
/// The longest payload of a block in bytes. It bounds what a damaged length makes a reader
/// allocate.
pub const PAYLOAD_MAX: u32 = 1 << 24;

const META: [u8; 4] = *b"META";
const SAMPLES: [u8; 4] = *b"SAMP";
const BRANCHES: [u8; 4] = *b"BRCH";
const RAW_BRANCHES: [u8; 4] = *b"BRAW";
const PROCESSES: [u8; 4] = *b"PROC";
const THREAD_NAMES: [u8; 4] = *b"TNAM";
const MODULES: [u8; 4] = *b"MODU";
const STATISTICS: [u8; 4] = *b"STAT";
const EVENTS: [u8; 4] = *b"EVNT";
const END: [u8; 4] = *b"END ";

const HEAD_BYTES: usize = 16;

/// What was recorded, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// The version of halprof that wrote it; empty if it is a trace of Windows' own tracing.
    pub halprof: String,
    /// What measured: the driver, or the name of the modelled machine.
    pub machine: String,
    /// Whether the machine was modelled.
    pub modelled: bool,
    /// The machine's name in its network; empty if not known.
    pub host: String,
    /// The interface in use.
    pub interface: String,
    /// Ticks of the time-stamp counter per second.
    pub timestamp_frequency: u64,
    /// How many processors the machine has.
    pub processors: u32,
    /// Which processors are of which type; empty if all cores are alike.
    pub cores: Vec<Cores>,
    /// When it began: wall-clock time in seconds since 1970-01-01 UTC.
    pub began: u64,
    /// What ran: the program with its arguments, or the workload; empty if nothing was started.
    pub command: Vec<String>,
    /// A mark that only the machine recognises on which it was made: see
    /// [`origin`](crate::symbols::origin). Empty if not known.
    pub origin: String,
    /// The sources, by the index in samples.
    pub sources: Vec<Source>,
    /// How many passes there were. Each measures its own sources, one pass after the other.
    pub passes: u32,
    /// How branches were recorded; `None` if they were not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branches: Option<Branches>,
}

/// How the branches before each sample were recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Branches {
    /// The largest number of records in a sample.
    pub depth: u32,
    /// The kinds of branches that were recorded; empty if all were.
    pub kinds: Vec<String>,
    /// The processor feature that recorded them, or [`Self::OF_TRACE`].
    pub recorder: String,
}

impl Branches {
    /// The recorder of records from a trace, which does not say which processor feature made them.
    pub const OF_TRACE: &str = "windows-tracing";
}

impl Metadata {
    /// Whether branches of all kinds were recorded: then the code between two records of a sample
    /// was executed from its first instruction to its last.
    pub fn has_straight_code(&self) -> bool {
        let branches = self.branches.as_ref();
        branches.is_none_or(|branches| branches.kinds.is_empty())
    }

    /// Whether records may say how branches were predicted, how long they took and which kind they
    /// are. Records of Windows' own tracing may not: nobody documents what they say of that.
    pub fn has_predictions(&self) -> bool {
        let branches = self.branches.as_ref();
        branches.is_none_or(|branches| branches.recorder != Branches::OF_TRACE)
    }

    /// The vendor's errata that concern each source, by its name.
    pub fn errata(&self) -> BTreeMap<&str, BTreeSet<&Erratum>> {
        let mut errata: BTreeMap<&str, BTreeSet<&Erratum>> = BTreeMap::new();
        for source in self.sources.iter().filter(|source| !source.errata.is_empty()) {
            errata.entry(&source.name).or_default().extend(&source.errata);
        }
        errata
    }

    /// The sources that some processors cannot count, each with these processors.
    pub fn excluded_cpus(&self) -> BTreeSet<(&str, &str)> {
        let partly = self.sources.iter().filter(|source| !source.excluded_cpus.is_empty());
        partly.map(|source| (source.name.as_str(), source.excluded_cpus.as_str())).collect()
    }
}

/// Adjacent processors of one type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cores {
    /// `performance` or `efficiency`.
    pub name: String,
    /// The index of the first processor.
    pub first: u32,
    /// The index of the last processor.
    pub last: u32,
}

/// One source that was sampled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Source {
    /// Its name, with its filter if it has one.
    pub name: String,
    /// Its period at the beginning; each sample has its own.
    pub period: Period,
    /// The pass it was sampled in, from 0.
    pub pass: u32,
    /// Processors that cannot count it and were left out, as in `4-11`; empty where all can.
    #[serde(alias = "left_out", skip_serializing_if = "String::is_empty")]
    pub excluded_cpus: String,
    /// What it counts, in a sentence or two; empty if that is not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub meaning: String,
    /// The vendor's errata that concern it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errata: Vec<Erratum>,
}

/// Says that only some processors counted a source.
pub fn cannot_count(source: &str, excluded_cpus: &str) -> String {
    format!("{source}: processors {excluded_cpus} cannot count it and are left out")
}

/// The sampling period of one source: in units of 100 ns for ProfileTime, in events for all others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Period {
    /// The period that was requested, or the default.
    pub requested: u64,
    /// The period in use.
    pub used: u64,
    /// The number of events of the counter between two samples.
    pub events: u64,
    /// ProfileTime is sampled by reference cycles: halted time is not sampled.
    pub by_reference_cycles: bool,
    /// ProfileTime is sampled by core cycles: halted time is not sampled, and the rate follows the
    /// core's frequency.
    pub by_core_cycles: bool,
    /// Each period was drawn from a band of an eighth around this one, their mean.
    pub drawn: bool,
}

impl Period {
    /// The period in use in events of the counter; 0 if the recording does not say.
    pub const fn in_events(&self) -> u64 {
        if self.events == 0 { self.used } else { self.events }
    }
}

/// How long a source was on a counter, if sources were multiplexed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Slices {
    /// The source's index.
    pub source: u32,
    /// How long its pass was sampled, summed over processors, in ticks of the time-stamp counter.
    pub enabled: u64,
    /// How long it was on a counter, in the same ticks.
    pub running: u64,
    /// The 95 % bound of an estimate for the whole time, in millionths of it; `None` if there
    /// were too few slices to know. This is the counter's bound; the samples' is [`Self::error`].
    pub error_ppm: Option<u64>,
    /// How many processors sampled it.
    pub processors: u32,
}

impl Slices {
    /// The part of the time in which it was on a counter, from 0 to 1.
    pub fn running_share(&self) -> f64 {
        float(self.running) / float(self.enabled.max(1))
    }

    /// Scales events counted while it was on a counter to the whole time.
    pub fn scale(&self, events: u64) -> u64 {
        let product = u128::from(events) * u128::from(self.enabled) + u128::from(self.running / 2);
        let scaled = product.checked_div(self.running.into());
        scaled.map_or(0, |scaled| u64::try_from(scaled).unwrap_or(u64::MAX))
    }

    /// The 95 % bound of the scaled events of this many samples, if it is known. `squares` is the sum
    /// of the squares of the samples' scaled events; `period` is the number of events between samples,
    /// for sources without samples.
    ///
    /// The error of sampling is added to that of multiplexing: each processor may have counted up
    /// to one period after its last sample, and chance decides which samples a filter selects.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "no float is too large for the conversion"
    )]
    pub fn error(&self, scaled: u64, samples: u64, squares: u128, period: u64) -> Option<u64> {
        let multiplexing = float(scaled) * float(self.error_ppm?) / 1e6;
        let each = match samples {
            0 => float(self.scale(period)),
            samples => float(scaled) / float(samples),
        };
        let missing = each * f64::from(self.processors.max(1));
        let by_chance = 1.96 * float(squares).sqrt();
        Some((multiplexing + missing.max(by_chance)).ceil() as u64)
    }
}

/// A process that ran during the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    /// Its identifier, which other processes may have before or after it.
    pub id: u32,
    /// The name of its program.
    pub name: String,
    /// When it was first seen, as a sample's timestamp; `None` if it was running before.
    pub started: Option<u64>,
    /// When it was first found to have ended, as a sample's timestamp; `None` if it ran on.
    pub ended: Option<u64>,
    /// The start in an earlier row, which this one replaces: when a scan found it, before its start
    /// was known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<u64>,
}

/// A thread that has a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NamedThread {
    /// The identifier of its process.
    pub process: u32,
    pub thread: u32,
    pub name: String,
    /// When it was first seen with this name, as a sample's timestamp.
    pub seen: u64,
}

/// An image of code in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Module {
    /// The process it was loaded in; `None` for the kernel's modules, which every process sees.
    pub process: Option<u32>,
    pub name: String,
    /// The file it was loaded from, if known.
    pub path: Option<String>,
    /// Its first address.
    pub start: u64,
    /// The first address after it.
    pub end: u64,
    /// When it was first seen, as a sample's timestamp; `None` if it was loaded before.
    pub loaded: Option<u64>,
    /// When it was first found unloaded, as a sample's timestamp; `None` if it stayed.
    pub unloaded: Option<u64>,
    /// The time of loading in an earlier row, which this one replaces, as in [`Process::found`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<u64>,
    /// What identifies its symbols, if that was determined.
    pub identity: Option<Identity>,
    /// What identifies the PE file itself in a symbol store, if that was determined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stamp: Option<Stamp>,
    /// Proves to the machine that loaded it that this row is unaltered: see
    /// [`seal`](crate::symbols::seal).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seal: Option<String>,
}

/// An event of the system or the driver; processes and images are in [`Process`] and [`Module`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedEvent {
    /// Its time, as a sample's timestamp.
    pub timestamp: u64,
    /// The name of its [`EventKind`].
    pub kind: String,
    /// The processor, if it happened on one.
    pub processor: Option<u32>,
    /// Samples lost, or how often the periods were raised; otherwise 0.
    pub amount: u64,
}

impl RecordedEvent {
    /// An event of the driver; `None` if its kind is not known here.
    pub fn new(event: &SystemEvent) -> Option<Self> {
        use EventKind::{ProcessorAdded, SamplesLost, Storm, Throttled};
        let kind = EventKind::from_wire(event.kind)?;
        let on_processor = matches!(kind, ProcessorAdded | SamplesLost | Storm | Throttled);
        Some(Self {
            timestamp: event.timestamp,
            kind: kind.name().to_owned(),
            processor: on_processor.then_some(event.subject),
            amount: event.amount,
        })
    }
}

/// The build of a PE file, as symbol stores identify it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stamp {
    /// TimeDateStamp of its header.
    pub time: u32,
    /// SizeOfImage of its header.
    pub size: u32,
}

/// The build of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Build {
    /// What identifies its symbols; `None` if its linker recorded nothing.
    pub identity: Option<Identity>,
    /// What identifies a PE file itself.
    pub stamp: Option<Stamp>,
}

impl Module {
    /// Whether an address is within it.
    pub const fn contains(&self, address: u64) -> bool {
        self.start <= address && address < self.end
    }
}

/// What identifies the symbols of a module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Identity {
    /// The debug directory of a PE file (CodeView RSDS).
    Pdb {
        /// The path or name of the PDB file, as written by the linker.
        file: String,
        /// Its GUID: 32 upper-case hexadecimal digits, as symbol servers write it.
        guid: String,
        age: u32,
    },
    /// The build identifier of an ELF file, in hexadecimal.
    BuildId(String),
}

/// How many samples were taken and lost from the beginning up to some moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Statistics {
    /// The time so far in nanoseconds; modelled time on a modelled machine.
    pub elapsed_ns: u64,
    /// Periods that elapsed: those in the file, those lost, and those not yet drained.
    pub generated: u64,
    /// Samples lost, by cause.
    pub lost: BTreeMap<String, u64>,
    /// Events that the lost samples stand for, by cause.
    pub lost_events: BTreeMap<String, u64>,
    /// Interrupts for which none of our counters had overflowed.
    pub spurious: u64,
    /// Why sampling ended early, by the driver itself or by a request that failed, as an error code.
    pub ended: Option<String>,
    /// The sources that were multiplexed, in passes that are over.
    #[serde(alias = "turns")]
    pub slices: Vec<Slices>,
    /// How often the interrupt-time guard raised the periods.
    pub throttled: u64,
    /// The longest period in use for any source, in events.
    pub longest_period: u64,
    /// Ticks of the time-stamp counter spent in the interrupt handler, on all processors together.
    pub handler_ticks: u64,
    /// Interrupts that found branch records cleared: the branches before that are lost.
    #[serde(skip_serializing_if = "is_zero")]
    pub branches_cleared: u64,
    /// Branch records of a trace that are not among those of the samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped_branches: Option<DroppedBranches>,
    /// System events that were lost.
    pub events_lost: u64,
    /// Samples of the idle threads, of all sources, which are not among the others: a trace of
    /// Windows' own tracing has them.
    #[serde(skip_serializing_if = "is_zero")]
    pub idle_samples: u64,
    /// How many samples have call stacks; `None` where none were recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stacks: Option<StackCounts>,
    /// How many samples are of threads, deferred calls and interrupts, where Windows says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contexts: Option<ContextCounts>,
    /// What is missing or damaged in the trace that it was converted from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<String>,
    /// What a trace has besides samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContents>,
}

/// Branch records of a trace that are not among those of its samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct DroppedBranches {
    /// Events with records whose sample the trace does not have: the sample was lost, or the records
    /// belong to another event, such as a context switch, where they are those of the previous thread.
    pub without_sample: u64,
    /// Entries of zeros: fewer branches were taken since the thread was switched in than a processor
    /// records.
    pub empty: u64,
    /// Entries that no branch made: code cannot be at their target (on Zen 4, bit 61 marks them,
    /// erratum 1452), or there are more than any processor records.
    pub no_branches: u64,
}

impl DroppedBranches {
    /// The sum of two traces' records.
    pub const fn sum(self, other: Self) -> Self {
        Self {
            without_sample: self.without_sample.saturating_add(other.without_sample),
            empty: self.empty.saturating_add(other.empty),
            no_branches: self.no_branches.saturating_add(other.no_branches),
        }
    }
}

/// What a trace of Windows' own tracing has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct TraceContents {
    /// Its events, of whatever kind.
    pub events: u64,
    /// The processes that they name.
    pub processes: u64,
    /// Its context switches.
    pub switches: u64,
}

impl TraceContents {
    /// The sum of two traces' contents.
    pub const fn sum(self, other: Self) -> Self {
        Self {
            events: self.events.saturating_add(other.events),
            processes: self.processes.saturating_add(other.processes),
            switches: self.switches.saturating_add(other.switches),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Statistics {
    /// What was added since `before`, an earlier state of the same recording. [`Self::slices`] are
    /// taken as they are now, because their bounds cannot be subtracted.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            elapsed_ns: self.elapsed_ns.saturating_sub(before.elapsed_ns),
            generated: self.generated.saturating_sub(before.generated),
            lost: more(&self.lost, &before.lost),
            lost_events: more(&self.lost_events, &before.lost_events),
            spurious: self.spurious.saturating_sub(before.spurious),
            throttled: self.throttled.saturating_sub(before.throttled),
            handler_ticks: self.handler_ticks.saturating_sub(before.handler_ticks),
            branches_cleared: self.branches_cleared.saturating_sub(before.branches_cleared),
            events_lost: self.events_lost.saturating_sub(before.events_lost),
            idle_samples: self.idle_samples.saturating_sub(before.idle_samples),
            ..self.clone()
        }
    }
}

/// How much each number has grown.
fn more(now: &BTreeMap<String, u64>, before: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let grown = now.iter().map(|(name, n)| {
        let before = before.get(name).copied().unwrap_or(0);
        (name.clone(), n.saturating_sub(before))
    });
    grown.collect()
}

/// What the recorder writes when it has finished.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ending {
    /// Samples in the file.
    pub samples: u64,
    /// Marks in the file.
    pub marks: u64,
    /// Whether it was ended by Ctrl-C.
    pub interrupted: bool,
}

/// A recording without its samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// The file that it was read from.
    pub file: PathBuf,
    /// What was recorded, and where.
    pub metadata: Metadata,
    /// The processes that ran, in the order in which they were seen.
    pub processes: Vec<Process>,
    /// The threads that have names, in the order in which they got them.
    pub threads: Vec<NamedThread>,
    /// The modules and where they were loaded, in the order in which they were seen.
    pub modules: Vec<Module>,
    /// Code that runtimes made while programs ran.
    pub methods: Vec<Method>,
    /// Which identifiers stand for several processes. The process of a sample that a
    /// [`SampleSource`] gives is one of these numbers.
    pub process_ids: ProcessIds,
    /// Other events as they were reported: in order for each processor.
    pub events: Vec<RecordedEvent>,
    /// The last statistics of the samples.
    pub statistics: Option<Statistics>,
    /// Complete samples that were read.
    pub samples: u64,
    /// The call stacks of samples.
    pub stacks: StackTable,
    /// The counts of threads, if it is of a trace whose context switches have some.
    pub counts: Option<TraceCounts>,
    /// Branch records that were read.
    pub branches: u64,
    /// The marks of programs.
    pub marked: Marked,
    /// What the recorder wrote at the end; `None` if it died, or if the file is truncated.
    pub ending: Option<Ending>,
    /// Remarks on what looks like a loss of a trace but is not, each a sentence.
    pub remarks: Vec<String>,
    /// Blocks that this version does not know and has skipped, counted by tag.
    pub skipped: BTreeMap<String, u64>,
    /// The first damage that was found.
    pub damage: Option<Damage>,
    /// What is missing in each incomplete one of several recordings that were combined.
    pub damaged_parts: Vec<String>,
    /// The time from the first sample to the last, if the samples were read.
    pub seen_ns: u64,
    /// The sources whose samples are in step with what they sampled, where that was examined, and how
    /// many of them are worth one independent sample.
    pub in_step: BTreeMap<String, u64>,
}

/// Where a file differs from what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Its offset in bytes from the beginning of the file.
    pub offset: u64,
    /// What is wrong there, as the end of a sentence.
    pub why: &'static str,
}

impl Recording {
    /// Samples lost, by cause, as last reported.
    pub fn lost(&self) -> BTreeMap<String, u64> {
        let statistics = self.statistics.as_ref();
        statistics.map_or_else(BTreeMap::new, |statistics| statistics.lost.clone())
    }

    /// The sources that were not on a counter all the time, by the index in samples.
    pub fn slices(&self) -> BTreeMap<u16, Slices> {
        let all = self.statistics.iter().flat_map(|statistics| &statistics.slices);
        all.filter_map(|slices| Some((u16::try_from(slices.source).ok()?, slices.clone())))
            .collect()
    }

    /// Whether it is a trace of Windows' own tracing, or was made of one.
    pub fn is_of_trace(&self) -> bool {
        self.statistics.as_ref().is_some_and(|statistics| statistics.trace.is_some())
    }

    /// Samples of idle threads, which are not among the others.
    pub fn idle_samples(&self) -> u64 {
        self.statistics.as_ref().map_or(0, |statistics| statistics.idle_samples)
    }

    /// How many samples have call stacks; `None` where none were recorded.
    pub fn stack_counts(&self) -> Option<StackCounts> {
        self.statistics.as_ref()?.stacks
    }

    /// How many samples are of threads, deferred calls and interrupts; `None` where nothing says it.
    pub fn contexts(&self) -> Option<ContextCounts> {
        self.statistics.as_ref()?.contexts
    }

    /// Whether it is known how many samples were lost, which it is not if the file is truncated or
    /// damaged.
    pub fn losses_are_known(&self) -> bool {
        self.damaged().is_none()
    }

    /// How many samples were lost, whatever the cause; `None` where that is not known.
    pub fn all_lost(&self) -> Option<u64> {
        let lost = self.lost();
        let is_known = self.losses_are_known() && !lost.contains_key(LOST_BUFFERS);
        is_known.then(|| lost.into_values().fold(0, u64::saturating_add))
    }

    /// The number of lost samples in words, as the end of a sentence.
    pub fn losses(&self) -> String {
        self.all_lost()
            .map_or_else(|| "losses unknown".to_owned(), |lost| format!("{} lost", thousands(lost)))
    }

    /// The length of the recording in nanoseconds, as last reported; if the file does not say, the
    /// time between its first sample and its last.
    pub fn elapsed_ns(&self) -> u64 {
        let statistics = self.statistics.as_ref();
        statistics.map_or(self.seen_ns, |statistics| statistics.elapsed_ns)
    }

    /// Why this is not the whole recording; `None` if it is.
    pub fn damaged(&self) -> Option<String> {
        if !self.damaged_parts.is_empty() {
            return Some(self.damaged_parts.join("; "));
        }
        let damage = self.damage.as_ref();
        let damage = damage.map(|damage| format!("at byte {} {}", damage.offset, damage.why));
        let what = match (&self.ending, damage) {
            (Some(_), None) => return None,
            (Some(_), Some(damage)) => format!("the recording is damaged: {damage}"),
            (None, None) => "the recorder ended before it had finished".to_owned(),
            (None, Some(damage)) => format!("the recording has no end: {damage}"),
        };
        Some(format!("{what}; {}", self.missing()))
    }

    /// Which part of the samples is missing here.
    fn missing(&self) -> String {
        let marks = self.marked.count;
        let intact = match marks {
            0 => format!("{} samples are whole", thousands(self.samples)),
            _ => format!(
                "{} samples and {} marks are whole",
                thousands(self.samples),
                thousands(marks)
            ),
        };
        let written = self.ending.as_ref();
        let written = written.map(|ending| ending.samples.saturating_add(ending.marks));
        let lost = self.lost().into_values().fold(0, u64::saturating_add);
        let statistics = self.statistics.as_ref();
        let generated = statistics.map(|statistics| statistics.generated.saturating_sub(lost));
        match (written, generated) {
            (Some(written), _) => {
                let read = self.samples.saturating_add(marks);
                let not = thousands(written.saturating_sub(read));
                format!("{intact}, {not} are not")
            }
            (None, Some(stored)) if stored > self.samples => {
                let missing = thousands(stored - self.samples);
                format!("{intact}, at least {missing} are missing")
            }
            (None, _) => {
                format!("{intact}; those taken afterwards are missing, their number is not known")
            }
        }
    }
}

#[cfg(test)]
mod tests;
