//! What a program said of itself: blocks `MARK` and `CHAN`.

pub use halprof_measure::marks::Mark;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub(super) const MARKS: [u8; 4] = *b"MARK";
pub(super) const CHANNELS: [u8; 4] = *b"CHAN";

/// What marks were made on and how, from the beginning up to some moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Channels {
    /// The names of the channels, by the index that marks have.
    pub names: Vec<String>,
    /// How the time of a mark was read.
    pub clock: String,
    /// Ticks of it in a second of the system's clock.
    pub ticks_a_second: u64,
    /// How far that may be off, in billionths.
    pub rate_error_ppb: u64,
    /// For how long both clocks were compared, in nanoseconds.
    pub rate_over_ns: u64,
    /// The steps of the clock, in ticks.
    pub step_ticks: u64,
    /// What a mark costs; `None` where no program has made one.
    pub cost: Option<Cost>,
    /// Marks that were dropped, by cause.
    pub dropped: BTreeMap<String, u64>,
    /// What stood in the buffer and made no sense.
    pub damaged: u64,
    /// Processes that found the recorder.
    pub processes: u64,
}

/// What a mark costs: how far those are apart that follow each other at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cost {
    /// The least distance, in ticks.
    pub min_ticks: u64,
    /// The middle one.
    pub median_ticks: u64,
    /// How many distances these are of.
    pub distances: u64,
}

/// The marks of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marked {
    /// What they were made on, as told last; `None` where marks were not recorded.
    pub channels: Option<Channels>,
    /// Whole marks that were read.
    pub count: u64,
    /// The marks themselves, in no order; empty unless they were asked for.
    pub marks: Vec<Mark>,
}
