//! What was counted, before it becomes rows.

use super::body::Interval;
use crate::select::periods::Period;
use shared_types::request::counts::Count;

/// One measurement of the chosen sources, in one or more passes.
#[derive(Default)]
pub(super) struct Measured {
    pub(super) passes: Vec<OnePass>,
    pub(super) intervals: Vec<Interval>,
    /// It was ended early.
    pub(super) cut: bool,
}

/// What was counted in one pass.
pub(super) struct OnePass {
    /// The indexes of the chosen sources.
    pub(super) sources: Vec<usize>,
    pub(super) elapsed_ns: u64,
    pub(super) turns: u32,
    pub(super) periods: Vec<Period>,
    /// For each processor, one count for each of `sources`.
    pub(super) counts: Vec<Vec<Count>>,
}
