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
//! | `SAMP` | whole [`Sample`]s as they stand on the wire | anywhere |
//! | `BRCH` | the branch records of samples | right behind the samples that they belong to |
//! | `PROC` | a list of [`Process`] as JSON | anywhere |
//! | `MODU` | a list of [`Module`] as JSON | anywhere |
//! | `STAT` | [`Statistics`] as JSON, each in place of the one before | anywhere, and before the end |
//! | `EVNT` | a list of [`Happened`] as JSON | anywhere |
//! | `END ` | [`Ending`] as JSON | last, once |
//!
//! | `FLDS` | optional fields of samples | behind the samples that they belong to |
//! | `MARK` | whole [`Mark`]s: what a program said of itself | anywhere |
//! | `CHAN` | [`Channels`] as JSON, each in place of the one before | anywhere |
//!
//! `FLDS` has entries of a 32-bit index of a sample in the `SAMP` block before it, a tag of four
//! bytes, a 32-bit length, and so many bytes. Blocks and fields of unknown tags are skipped and
//! counted: [`Recording::skipped`]. A process or module that comes again, with the same
//! identifier or place and the same beginning, takes the place of its earlier self: that is how an
//! end, or an identity found later, is told.
//!
//! A recorder writes to `FILE.partial` and gives the file its name when the end is written, so that
//! a file of that name is never half of one. Each block goes to the system whole and at once: when
//! the recorder is killed, `FILE.partial` holds every block up to then and lacks its end. What is
//! whole in a file that is cut or damaged is read all the same, and [`Recording::flaw`] says what
//! is missing.

use serde::{Deserialize, Serialize};
use shared_types::Sample;
use std::collections::BTreeMap;

mod background;
mod branches;
mod marks;
mod reader;
mod writer;

pub use background::{Background, Part};
pub use marks::{Channels, Cost, Mark, Marked};
pub use reader::{Reader, read};
pub use writer::{Writer, write_whole};

/// The first eight bytes of every recording.
pub const MAGIC: [u8; 8] = *b"HALPROF\x1A";
/// The version of this format.
pub const VERSION: u32 = 2;
/// The longest payload of a block in bytes.
pub const PAYLOAD_MAX: u32 = 1 << 24;

const META: [u8; 4] = *b"META";
const SAMPLES: [u8; 4] = *b"SAMP";
const BRANCHES: [u8; 4] = *b"BRCH";
const PROCESSES: [u8; 4] = *b"PROC";
const MODULES: [u8; 4] = *b"MODU";
const STATISTICS: [u8; 4] = *b"STAT";
const EVENTS: [u8; 4] = *b"EVNT";
const FIELDS: [u8; 4] = *b"FLDS";
const END: [u8; 4] = *b"END ";

/// What a block begins with.
const HEAD_BYTES: usize = 16;

/// What was recorded, where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// The version of halprof that wrote it.
    pub halprof: String,
    /// Who answered: the driver, or what it is a model of.
    pub machine: String,
    /// Whether the machine was modelled, and no silicon.
    pub modelled: bool,
    /// The name that the machine has in its network; empty where that is not known.
    pub host: String,
    /// The interface in use.
    pub interface: String,
    /// Ticks of the time-stamp counter in a second.
    pub timestamp_frequency: u64,
    /// How many processors the machine has.
    pub processors: u32,
    /// Where its cores differ: which processors are of which type.
    pub cores: Vec<Cores>,
    /// When it began: seconds since 1970-01-01 UTC, of the clock on the wall.
    pub began: u64,
    /// What ran: the program with its arguments, or the workload; empty where nothing was started.
    pub command: Vec<String>,
    /// On which machine it was made, for that machine alone to know: see
    /// [`origin`](crate::symbols::origin). Empty where that is not known.
    pub origin: String,
    /// The sources by the index that samples have.
    pub sources: Vec<Source>,
    /// How many passes there were: each measures sources of its own, one after the other.
    pub passes: u32,
    /// How branches were recorded; `None` where they were not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branches: Option<Branches>,
}

/// How the branches before each sample were recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Branches {
    /// How many records a sample has at most.
    pub depth: u32,
    /// The kinds of branches that were recorded; empty where all were.
    pub kinds: Vec<String>,
    /// What of the processor recorded them.
    pub recorder: String,
}

impl Metadata {
    /// Whether branches of all kinds were recorded: then the code between two records of a sample
    /// was executed from its first instruction to its last.
    #[must_use]
    pub fn has_straight_code(&self) -> bool {
        let branches = self.branches.as_ref();
        branches.is_none_or(|branches| branches.kinds.is_empty())
    }
}

/// Processors next to each other that are of one type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cores {
    /// `performance` or `efficiency`.
    pub name: String,
    /// The index of the first.
    pub first: u32,
    /// The index of the last.
    pub last: u32,
}

/// One source that was sampled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Source {
    /// Its name, with its filter if one was given.
    pub name: String,
    /// Its period at the beginning; each sample has its own.
    pub period: Period,
    /// The pass it was sampled in, from 0.
    pub pass: u32,
}

/// How often one source is sampled. That of ProfileTime is in units of 100 ns, others in events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Period {
    /// As asked for, or the default.
    pub requested: u64,
    /// As used.
    pub used: u64,
    /// Events of the counter between samples.
    pub events: u64,
    /// Time is sampled by reference cycles: halted time is not sampled.
    pub by_reference_cycles: bool,
    /// Time is sampled by core cycles: halted time is not sampled, and the rate follows the core's
    /// speed.
    pub by_core_cycles: bool,
}

/// How long a source was on a counter where sources took turns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Turns {
    /// The source's index.
    pub source: u32,
    /// For how long the processors together sampled its pass, in ticks of the time-stamp counter.
    pub enabled: u64,
    /// For how long it was on a counter.
    pub running: u64,
    /// The 95 % bound of an estimate for the whole time, in millionths of it; `None` where there
    /// were too few turns to know.
    pub error_ppm: Option<u64>,
}

impl Turns {
    /// Events for the whole time, of those while it was on a counter.
    #[must_use]
    pub fn scale(&self, events: u64) -> u64 {
        let product = u128::from(events) * u128::from(self.enabled) + u128::from(self.running / 2);
        let scaled = product.checked_div(self.running.into());
        scaled.map_or(0, |scaled| u64::try_from(scaled).unwrap_or(u64::MAX))
    }

    /// The 95 % bound of so many scaled events, where it is known.
    #[must_use]
    pub fn error(&self, scaled: u64) -> Option<u64> {
        let error = u128::from(scaled) * u128::from(self.error_ppm?) / 1_000_000;
        Some(u64::try_from(error).unwrap_or(u64::MAX))
    }
}

/// A process that ran while it was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    /// Its identifier, which another process may have had before or have later.
    pub id: u32,
    /// The name of its program.
    pub name: String,
    /// When it was first seen, as a sample's timestamp; `None` where it ran before.
    pub started: Option<u64>,
    /// When it was first missed, as a sample's timestamp; `None` where it ran on.
    pub ended: Option<u64>,
}

/// An image of code in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Module {
    /// The process it was loaded in; `None` for the kernel's own, which every process sees.
    pub process: Option<u32>,
    /// Its name.
    pub name: String,
    /// The file it was loaded from, where that is known.
    pub path: Option<String>,
    /// Its first address.
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
    /// When it was first seen, as a sample's timestamp; `None` where it was there before.
    pub loaded: Option<u64>,
    /// When it was first missed, as a sample's timestamp; `None` where it stayed.
    pub unloaded: Option<u64>,
    /// What finds its symbols, where that was found out.
    pub identity: Option<Identity>,
    /// What finds a PE file itself in a store, where that was found out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stamp: Option<Stamp>,
}

/// What the system or the driver did; processes and images are in [`Process`] and [`Module`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Happened {
    /// When, as a sample's timestamp.
    pub timestamp: u64,
    /// The name of its [`EventKind`](shared_types::EventKind).
    pub kind: String,
    /// The processor, where it was on one.
    pub processor: Option<u32>,
    /// Samples lost, or how often the periods were lengthened; else 0.
    pub amount: u64,
}

/// Which build a PE file is, as symbol stores tell it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// TimeDateStamp of its head.
    pub time: u32,
    /// SizeOfImage of its head.
    pub size: u32,
}

impl Module {
    /// Whether an address is within it.
    #[must_use]
    pub const fn contains(&self, address: u64) -> bool {
        self.start <= address && address < self.end
    }
}

/// What finds the symbols of a module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Identity {
    /// The debug directory of a PE file (CodeView RSDS).
    Pdb {
        /// The path or name of the PDB file, as the linker wrote it.
        file: String,
        /// Its GUID: 32 hexadecimal digits in capitals, as symbol servers write it.
        guid: String,
        /// Its age.
        age: u32,
    },
    /// The build identifier of an ELF file, in hexadecimal.
    BuildId(String),
}

/// What became of the samples from the beginning up to some moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Statistics {
    /// How long it has taken in nanoseconds; modelled ones on a modelled machine.
    pub elapsed_ns: u64,
    /// Periods that passed: what is in the file, what was lost, and what was not yet drained.
    pub generated: u64,
    /// Samples lost, by cause.
    pub lost: BTreeMap<String, u64>,
    /// Events that the lost samples stand for, by cause.
    pub lost_events: BTreeMap<String, u64>,
    /// Interrupts that found no counter of ours overflowed.
    pub spurious: u64,
    /// Why the driver ended sampling by itself, as an error's code.
    pub ended: Option<String>,
    /// The sources that took turns on the counters, as far as their passes are over.
    pub turns: Vec<Turns>,
    /// How often the interrupt-time guard lengthened the periods.
    pub throttled: u64,
    /// The longest period in use for any source, in events.
    pub longest_period: u64,
    /// Ticks of the time-stamp counter spent in the interrupt handler, over all processors.
    pub handler_ticks: u64,
    /// System events that were lost.
    pub events_lost: u64,
}

/// What the recorder says when it has finished.
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

/// What a recording has beside its samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// What was recorded, where.
    pub metadata: Metadata,
    /// Which processes ran, in the order in which they were seen.
    pub processes: Vec<Process>,
    /// What was loaded where, in the order in which it was seen.
    pub modules: Vec<Module>,
    /// What else happened, as it was told: in order for each processor.
    pub events: Vec<Happened>,
    /// What became of all samples, as told last.
    pub statistics: Option<Statistics>,
    /// Whole samples that were read.
    pub samples: u64,
    /// Branch records that were read.
    pub branches: u64,
    /// What a program said of itself.
    pub marked: Marked,
    /// What the recorder said at the end; `None` where it died, or the file is cut.
    pub ending: Option<Ending>,
    /// What this version does not know and has skipped: blocks and fields of samples, by their tags.
    pub skipped: BTreeMap<String, u64>,
    /// The first damage that was found.
    pub damage: Option<Damage>,
    /// From the first sample to the last, where these were looked at.
    pub seen_ns: u64,
}

/// Where a file is not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Its place in bytes from the beginning of the file.
    pub offset: u64,
    /// What is wrong there, as a sentence's end.
    pub why: &'static str,
}

impl Recording {
    /// Samples lost, by cause, as told last.
    #[must_use]
    pub fn lost(&self) -> BTreeMap<String, u64> {
        let statistics = self.statistics.as_ref();
        statistics.map_or_else(BTreeMap::new, |statistics| statistics.lost.clone())
    }

    /// The sources that were not on a counter all the time, by the index that samples have.
    #[must_use]
    pub fn turns(&self) -> BTreeMap<u16, Turns> {
        let told = self.statistics.iter().flat_map(|told| &told.turns);
        told.filter_map(|turns| Some((u16::try_from(turns.source).ok()?, turns.clone())))
            .collect()
    }

    /// Whether it is known how many samples were lost: not of a file that is cut or damaged.
    #[must_use]
    pub fn losses_are_known(&self) -> bool {
        self.flaw().is_none()
    }

    /// How long it took in nanoseconds, as told last; of a file that does not tell, the time between
    /// its first sample and its last.
    #[must_use]
    pub fn elapsed_ns(&self) -> u64 {
        let statistics = self.statistics.as_ref();
        statistics.map_or(self.seen_ns, |statistics| statistics.elapsed_ns)
    }

    /// Why this is not the whole recording; `None` where it is.
    #[must_use]
    pub fn flaw(&self) -> Option<String> {
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

    /// How much of what was sampled is not here.
    fn missing(&self) -> String {
        let marks = self.marked.count;
        let whole = match marks {
            0 => format!("{} samples are whole", self.samples),
            _ => format!("{} samples and {marks} marks are whole", self.samples),
        };
        let written = self.ending.as_ref();
        let written = written.map(|ending| ending.samples.saturating_add(ending.marks));
        let lost = self.lost().into_values().fold(0, u64::saturating_add);
        let told = self.statistics.as_ref();
        let generated = told.map(|told| told.generated.saturating_sub(lost));
        match (written, generated) {
            (Some(written), _) => {
                let read = self.samples.saturating_add(marks);
                format!("{whole}, {} are not", written.saturating_sub(read))
            }
            (None, Some(stored)) if stored > self.samples => {
                format!("{whole}, at least {} are missing", stored - self.samples)
            }
            (None, _) => {
                format!("{whole}; those taken afterwards are missing, their number is not known")
            }
        }
    }
}

#[cfg(test)]
mod tests;
