//! The functions that have samples, by each of their names: what a typed name can mean.

use super::aggregator::{GroupBy, Groups};
use super::filter::Filter;
use super::{aggregate, aggregate_files, filtered::TimeRange};
use crate::file::{Recording, open_waits, sessions};
use crate::symbols::{FunctionNames, SymbolPath, Symbols};
use halprof_measure::Result;
use std::collections::BTreeSet;
use std::path::Path;

/// Stacks are left out, because a function that has no samples of its own has no say in what a name
/// means.
const BY_LOCATION: GroupBy = GroupBy { location: true, ..GroupBy::NOTHING };

/// The functions that the names of a filter may mean: those in the modules that it accepts, whenever and
/// wherever they have samples in these recordings.
pub fn functions<P: AsRef<Path>>(
    paths: &[P],
    filter: &Filter,
    symbol_path: &SymbolPath,
) -> Result<BTreeSet<FunctionNames>> {
    let mut all = BTreeSet::new();
    for session in sessions(paths)? {
        let (recording, groups) = aggregate_files(&session, &Filter::default(), &[BY_LOCATION])?;
        add(&mut all, &recording, &groups, filter, symbol_path);
    }
    Ok(all)
}

/// Like [`functions`], for a report of waits: its places are those where the threads of a trace went on
/// after they had waited.
pub(crate) fn functions_that_waited(
    path: &Path,
    filter: &Filter,
    symbol_path: &SymbolPath,
) -> Result<BTreeSet<FunctionNames>> {
    let mut waits = open_waits(path)?;
    let (recording, groups) =
        aggregate(waits.as_mut(), &TimeRange::default(), &[BY_LOCATION], |_| {})?;
    let mut all = BTreeSet::new();
    add(&mut all, &recording, &groups, filter, symbol_path);
    Ok(all)
}

fn add(
    all: &mut BTreeSet<FunctionNames>,
    recording: &Recording,
    groups: &Groups,
    filter: &Filter,
    symbol_path: &SymbolPath,
) {
    let mut symbols = Symbols::open(recording, symbol_path);
    // Locations are in order, so those of one function mostly follow each other.
    let mut last: Option<FunctionNames> = None;
    for location in groups.locations(&recording.stacks) {
        let frame = symbols.resolve(location.process, location.ip, location.mode());
        if last.as_ref().is_some_and(|last| last.is_of(&frame)) {
            continue;
        }
        let paths = symbols.paths(&frame.module);
        let Some(symbol) = frame.symbol.filter(|_| filter.passes_module(&frame.module, paths))
        else {
            continue;
        };
        let paths = paths.to_vec();
        let function = FunctionNames { module: frame.module, symbol, also: frame.also, paths };
        all.insert(function.clone());
        last = Some(function);
    }
}
