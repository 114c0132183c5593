//! The marks of programs: blocks `MARK` and `CHAN`.

pub use halprof_measure::marks::{Cost, Mark};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub(super) const MARKS: [u8; 4] = *b"MARK";
pub(super) const CHANNELS: [u8; 4] = *b"CHAN";

/// The channels and the clock of marks, from the beginning up to some moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Channels {
    /// The names of the channels, by the index in marks.
    pub names: Vec<String>,
    /// How the time of a mark was read.
    pub clock: String,
    /// Ticks of that clock per second of the system's clock.
    pub ticks_a_second: u64,
    /// The possible error of that rate, in billionths.
    pub rate_error_ppb: u64,
    /// How long the two clocks were compared, in nanoseconds.
    pub rate_over_ns: u64,
    /// The step of the clock, in ticks.
    pub step_ticks: u64,
    /// What a mark costs; `None` if no program has made one.
    pub cost: Option<Cost>,
    /// Marks that were dropped, by cause.
    pub dropped: BTreeMap<String, u64>,
    /// Invalid data found in the buffer.
    pub damaged: u64,
    /// Processes that found the recorder.
    pub processes: u64,
}

/// The marks of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marked {
    /// Their channels and clock, as last reported; `None` if marks were not recorded.
    pub channels: Option<Channels>,
    /// Complete marks that were read.
    pub count: u64,
    /// The marks themselves, in no order; empty unless they were asked for.
    pub marks: Vec<Mark>,
}
