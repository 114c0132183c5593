//! The branch records of samples that can be those of one thread.
//!
//! A record names no process and no thread: the older records of a sample may come from the thread
//! that ran before. So records are accepted, newest first, as long as they can be one thread's.
//! From the target of a record, code runs straight on to the branch of the next newer record: in
//! one module, and not backwards. A record for which that does not hold, and all older ones, belong
//! to another thread. This test needs branches of all kinds. If some kinds were left out, only
//! records with an address outside all modules of the sampled process are known to be foreign.
//!
//! Windows' own tracing clears the records at each switch, but only after the thread has changed. A
//! sample in between has only records of the previous thread.

use crate::aggregate::filter::Filter;
use crate::aggregate::filtered::{BoundFilter, TimeRange};
use crate::file::{RecordedBranches, Recording, SampleSource, mode_of};
use crate::symbols::Symbols;
use halprof_measure::{Error, Remedy, Result};
use schemars::JsonSchema;
use serde::Serialize;
use shared_types::{Branch, Mode, Sample};
use std::path::Path;

/// How many records of the counted samples were kept and dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct RecordCounts {
    /// Samples with records.
    pub samples: u64,
    /// All records of these samples.
    pub records: u64,
    /// Records with a side that the recorder was not allowed to see.
    pub hidden: u64,
    /// Dropped: an address is in no module of the sampled process.
    pub unresolved: u64,
    /// Dropped: no straight code leads from there to the next newer record, or to one that was
    /// dropped for this reason.
    pub foreign: u64,
    /// Dropped: the sample is of the kernel's switch between two threads, where Windows' own tracing
    /// gives the new thread the records of the old one.
    pub switching: u64,
}

impl RecordCounts {
    pub(crate) const fn add(&mut self, other: Self) {
        self.samples += other.samples;
        self.records += other.records;
        self.hidden += other.hidden;
        self.unresolved += other.unresolved;
        self.foreign += other.foreign;
        self.switching += other.switching;
    }
}

/// A record that is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) branch: Branch,
    /// The modules of its addresses, as indexes in the recording; `None` if it is hidden.
    pub(crate) modules: Option<[usize; 2]>,
    /// Whether it directly precedes the next newer step, with no record missing in between.
    pub(crate) joined: bool,
}

impl Step {
    pub(crate) const fn is(&self, flag: u8) -> bool {
        self.branch.flags & flag != 0
    }
}

/// The mode of an address: the upper half of the address space belongs to the kernel.
pub(crate) const fn mode(address: u64) -> Mode {
    if address >> 63 == 1 { Mode::Kernel } else { Mode::User }
}

/// Calls `visit` with each counted sample and its accepted records, newest first. `recording` was
/// taken from the source before, and `symbols` are those of its modules.
pub(crate) fn walk(
    source: &mut dyn SampleSource,
    filter: &Filter,
    recording: &Recording,
    symbols: &mut Symbols,
    mut visit: impl FnMut(&Sample, &[Step]),
) -> Result<RecordCounts> {
    let bound = BoundFilter::new(filter, recording)?;
    let time_range = TimeRange::read(source, filter)?;
    let straight = recording.metadata.has_straight_code();
    let may_be_of_another = recording.is_of_trace();
    let mut counts = RecordCounts::default();
    let mut steps = Vec::new();
    source.branches(&mut |sample, RecordedBranches { branches, .. }| {
        if !time_range.contains(sample.timestamp) || !bound.passes_sample(sample) {
            return;
        }
        if may_be_of_another && is_switching(sample, symbols) {
            let records = branches.len() as u64;
            let switching =
                RecordCounts { samples: 1, records, switching: records, ..RecordCounts::default() };
            counts.add(switching);
            return;
        }
        counts.add(steps_of(sample, branches, symbols, straight, &mut steps));
        visit(sample, &steps);
    })?;
    Ok(counts)
}

/// The kernel's function that changes threads: it logs the switch, with its records, and then clears
/// them (microsoft/perfview, issue 2288).
const SWITCH: &str = "SwapContext";

/// Whether a sample is in the kernel's switch between threads. Without the kernel's symbols, none is.
fn is_switching(sample: &Sample, symbols: &mut Symbols) -> bool {
    let mode = mode_of(sample.mode);
    mode == Mode::Kernel
        && symbols.frame(sample.process, sample.ip, mode).symbol.as_deref() == Some(SWITCH)
}

/// Fills `steps` with the accepted records.
fn steps_of(
    sample: &Sample,
    branches: &[Branch],
    symbols: &Symbols,
    straight: bool,
    steps: &mut Vec<Step>,
) -> RecordCounts {
    let mut counts =
        RecordCounts { samples: 1, records: branches.len() as u64, ..RecordCounts::default() };
    let module = |address| symbols.module(sample.process, address, mode(address));
    steps.clear();
    // The branch of the next newer record, if nothing is missing in between.
    let mut newer: Option<(u64, usize)> = None;
    for (index, &branch) in branches.iter().enumerate() {
        if branch.flags & Branch::HIDDEN != 0 {
            counts.hidden += 1;
            newer = None;
            steps.push(Step { branch, modules: None, joined: false });
            continue;
        }
        let Some((from, to)) = module(branch.from).zip(module(branch.to)) else {
            counts.unresolved += 1;
            newer = None;
            continue;
        };
        let leads = newer.is_none_or(|(end, within)| to == within && branch.to <= end);
        if straight && !leads {
            counts.foreign += (branches.len() - index) as u64;
            break;
        }
        steps.push(Step { branch, modules: Some([from, to]), joined: newer.is_some() });
        newer = Some((branch.from, from));
    }
    counts
}

/// The error for a recording without branch records.
pub(crate) fn without_branches(path: &Path) -> Error {
    Error::unavailable(format!("{} has no branch records", path.display()), Remedy::RecordBranches)
}

/// The error for a recording whose records do not say how branches were predicted.
pub(crate) fn without_predictions(path: &Path) -> Error {
    Error::unavailable(
        format!(
            "{}: Windows' own tracing does not say which branches were mispredicted",
            path.display()
        ),
        "Order by how often branches were taken; recordings of the driver have predictions, and samples of BranchMispredictions show where they are.",
    )
}

/// The error for a recording whose records do not show the code between them.
pub(crate) fn without_code(recording: &Recording) -> Error {
    let branches = recording.metadata.branches.as_ref();
    let kinds = branches.map_or_else(String::new, |branches| branches.kinds.join(", "));
    Error::unavailable(
        format!(
            "the recording has only some kinds of branches ({kinds}), so what ran between two records is unknown"
        ),
        Remedy::RecordAllBranches,
    )
}
