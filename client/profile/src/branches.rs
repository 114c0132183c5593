//! What branch records say: which edges and paths a program takes, and how often it executes the
//! code between.
//!
//! A record has no process and no thread: those of a sample may have begun in the thread that ran
//! before. So the newest are believed as far as they can be one thread's. From where a record went
//! to, the code runs on to the next newer record's branch: in one module, and not backwards. A
//! record of which that is not true, and all older ones, are of somebody else. This needs branches
//! of all kinds; with some left out, only records whose addresses are in no module of the sampled
//! process are known to be others'.

pub(crate) mod code;
pub mod table;

use crate::recording::{Reader, Recording};
use crate::report::filter::Filter;
use crate::report::{Names, Window};
use crate::symbols::Symbols;
use halprof_measure::{Error, Result};
use shared_types::{Branch, Mode, Sample};
use std::path::Path;

/// What became of the records of the samples that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Samples that have some.
    pub samples: u64,
    /// All records of these.
    pub records: u64,
    /// Those with a side that the recorder had no right to see.
    pub hidden: u64,
    /// Dropped: an address is in no module of the sampled process.
    pub unresolved: u64,
    /// Dropped: no code leads from there to the next newer record, or to one that was dropped for
    /// that.
    pub foreign: u64,
}

impl Kept {
    pub(crate) const fn add(&mut self, other: Self) {
        self.samples += other.samples;
        self.records += other.records;
        self.hidden += other.hidden;
        self.unresolved += other.unresolved;
        self.foreign += other.foreign;
    }
}

/// A record that is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) branch: Branch,
    /// The modules of its addresses, as indices in the recording; `None` where it is hidden.
    pub(crate) modules: Option<[usize; 2]>,
    /// It came right before the step in front of it, which is the newer one.
    pub(crate) joined: bool,
}

impl Step {
    const fn is(&self, flag: u8) -> bool {
        self.branch.flags & flag != 0
    }
}

/// Whose code it is: the upper half of the addresses is the kernel's.
pub(crate) const fn mode(address: u64) -> Mode {
    if address >> 63 == 1 {
        Mode::Kernel
    } else {
        Mode::User
    }
}

/// Gives each sample that counts to `visit`, with what is kept of its records, newest first.
/// `recording` is what the same file has been read as, and `symbols` are its modules'.
pub(crate) fn walk(
    path: &Path,
    filter: &Filter,
    recording: &Recording,
    symbols: &Symbols,
    mut visit: impl FnMut(&Sample, &[Step]),
) -> Result<Kept> {
    let names = Names::of(recording, filter)?;
    let window = Window::of(path, filter)?;
    let straight = recording.metadata.has_straight_code();
    let mut kept = Kept::default();
    let mut steps = Vec::new();
    Reader::open(path)?.branches(|sample, branches| {
        if window.has(sample) && names.passes(sample, filter) {
            kept.add(steps_of(sample, branches, symbols, straight, &mut steps));
            visit(sample, &steps);
        }
    })?;
    Ok(kept)
}

/// Fills `steps` with the records that are believed.
fn steps_of(
    sample: &Sample,
    branches: &[Branch],
    symbols: &Symbols,
    straight: bool,
    steps: &mut Vec<Step>,
) -> Kept {
    let mut kept = Kept {
        samples: 1,
        records: branches.len() as u64,
        ..Kept::default()
    };
    let module = |address| symbols.module(sample.process, address, mode(address));
    steps.clear();
    // Where the next newer record's branch is, if nothing is missing between.
    let mut newer: Option<(u64, usize)> = None;
    for (index, &branch) in branches.iter().enumerate() {
        if branch.flags & Branch::HIDDEN != 0 {
            kept.hidden += 1;
            newer = None;
            steps.push(Step {
                branch,
                modules: None,
                joined: false,
            });
            continue;
        }
        let Some((from, to)) = module(branch.from).zip(module(branch.to)) else {
            kept.unresolved += 1;
            newer = None;
            continue;
        };
        let leads = newer.is_none_or(|(end, within)| to == within && branch.to <= end);
        if straight && !leads {
            kept.foreign += (branches.len() - index) as u64;
            break;
        }
        steps.push(Step {
            branch,
            modules: Some([from, to]),
            joined: newer.is_some(),
        });
        newer = Some((branch.from, from));
    }
    kept
}

/// There is nothing to be said of branches.
pub(crate) fn without_branches(path: &Path) -> Error {
    Error::Unavailable {
        message: format!("{} has no branch records", path.display()),
        hint: "Record again with `halprof record --branches`, on a processor that has them."
            .to_owned(),
    }
}

/// The code between records is not known.
pub(crate) fn without_code(recording: &Recording) -> Error {
    let branches = recording.metadata.branches.as_ref();
    let kinds = branches.map_or_else(String::new, |branches| branches.kinds.join(", "));
    Error::Unavailable {
        message: format!(
            "the recording has only some kinds of branches ({kinds}), so what ran between two records is unknown"
        ),
        hint: "Record again with `--branches` and without `--branch-filter`.".to_owned(),
    }
}

#[cfg(test)]
mod tests;
