//! How often the code of one module ran, as llvm-profgen's own `--skip-symbolization --use-offset`
//! writes it: the number of ranges, a line `start-end:count` for each, the number of branches, a line
//! `from->to:count` for each, in hexadecimal (LLVM's llvm-profgen.rst). A range is the code from the
//! target of one branch to the next branch; a branch from outside the module begins at
//! [`EXTERNAL`].

use super::{Outcome, Records};
use crate::aggregate::branches::Step;
use crate::file::Recording;
use halprof_measure::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::Arc;

/// llvm-profgen's address of all code outside its module.
const EXTERNAL: u64 = 1;

/// Writes the module that the filter names or, without one, that has most records. The others are
/// left out.
pub(super) fn write(records: &mut Records<'_>, out: &mut impl Write) -> Result<Outcome> {
    let recording = records.recording;
    let names: Vec<Arc<str>> =
        (0..recording.modules.len()).map(|module| records.symbols.module_name(module)).collect();
    let mut modules: BTreeMap<&str, Counts> = BTreeMap::new();
    let kept = records.walk(|_, steps| {
        for (index, step) in steps.iter().enumerate() {
            // Newest first.
            let next = index.checked_sub(1).and_then(|newer| steps.get(newer));
            count((recording, &names), step, next.filter(|_| step.joined), &mut modules);
        }
    })?;
    let filter = records.filter;
    let passes = |name: &str| filter.passes_module(name, records.symbols.paths(name));
    let named = modules.iter().filter(|(name, _)| passes(name));
    let Some((&name, counts)) = named.max_by_key(|(_, counts)| counts.sum()) else {
        return Err(nothing(&modules.into_keys().collect::<Vec<_>>()));
    };
    let omitted: BTreeSet<&str> = modules.keys().copied().filter(|&other| other != name).collect();
    let omitted = omitted.into_iter().map(str::to_owned).collect();
    Ok((kept, omitted, counts.write(out)))
}

/// The error if no module is left: all that have records were excluded, or there is none.
fn nothing(modules: &[&str]) -> Error {
    if modules.is_empty() {
        return Error::unavailable(
            "no branch record leads into a known module",
            "Record with the right to see what is sampled, and export all processes.",
        );
    }
    let hint = format!("Records are in {}.", modules.join(", "));
    Error::usage("no module of that name has branch records", hint)
}

/// What was executed in a module, by offsets from its start.
#[derive(Default)]
struct Counts {
    /// The first and the last instruction of a range.
    ranges: BTreeMap<(u64, u64), u64>,
    /// The branch and its target.
    branches: BTreeMap<(u64, u64), u64>,
}

impl Counts {
    fn sum(&self) -> u64 {
        self.branches.values().sum()
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}", self.ranges.len())?;
        for ((first, last), count) in &self.ranges {
            writeln!(out, "{first:x}-{last:x}:{count}")?;
        }
        writeln!(out, "{}", self.branches.len())?;
        for ((from, to), count) in &self.branches {
            writeln!(out, "{from:x}->{to:x}:{count}")?;
        }
        Ok(())
    }
}

/// Counts a branch, and the straight code from its target to the branch of `next`, the record that
/// directly follows.
fn count<'a>(
    (recording, names): (&Recording, &'a [Arc<str>]),
    step: &Step,
    next: Option<&Step>,
    modules: &mut BTreeMap<&'a str, Counts>,
) {
    let named = |at: usize| recording.modules.get(at).zip(names.get(at));
    let Some([from, to]) = step.modules.map(|both| both.map(named)) else {
        return;
    };
    let Some((to, name)) = to else { return };
    let counts = modules.entry(name).or_default();
    let target = step.branch.to - to.start;
    let within = from.filter(|&(_, from)| from == name).map(|(from, _)| from);
    let source = within.map_or(EXTERNAL, |from| step.branch.from - from.start);
    *counts.branches.entry((source, target)).or_default() += 1;
    if let Some(next) = next {
        *counts.ranges.entry((target, next.branch.from - to.start)).or_default() += 1;
    }
}
