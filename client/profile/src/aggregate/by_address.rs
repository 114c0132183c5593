//! The samples of one recording by address.

use super::filter::Filter;
use super::key::Key;
use super::source_totals::SourceTotals;
use super::totals::Totals;
use super::{Aggregate, aggregate_files};
use crate::file::{Module, Recording};
use crate::symbols::code_location::CodeLocation;
use crate::symbols::{Opened, SymbolPath, Symbols};
use halprof_measure::Result;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::path::Path;

/// The samples that a filter accepts, by address.
pub(crate) struct ByAddress {
    pub(crate) recording: Recording,
    pub(crate) symbols: Symbols,
    /// The sources with samples, those with the most first.
    pub(crate) sources: Vec<SourceTotals>,
    /// Each location with the index of its source in `sources`.
    pub(crate) all: Vec<(CodeLocation, usize, Totals)>,
}

impl ByAddress {
    pub(crate) fn read(path: &Path, filter: &Filter, symbol_path: &SymbolPath) -> Result<Self> {
        let group_by = filter.group_by().with(&[Key::Address]);
        let (recording, groups) = aggregate_files(&[path], filter, &[group_by])?;
        let mut symbols = Symbols::open(&recording, symbol_path);
        let aggregate = Aggregate::new(recording, groups, filter, &[], &mut symbols)?;
        let mut sources = aggregate.sources(group_by);
        sources.retain(|source| source.totals.samples != 0);
        sources.sort_by_key(|source| Reverse(source.totals.samples));
        let places = sources.iter().enumerate().map(|(place, source)| (source.index, place));
        let places: FxHashMap<u16, usize> = places.collect();
        let mut all = Vec::new();
        aggregate.each(group_by, None, |group, totals| {
            let source = places.get(&group.source);
            all.extend(source.map(|&source| (group.location(), source, totals)));
        });
        Ok(Self { recording: aggregate.recording, symbols, sources, all })
    }

    /// The modules whose symbols were looked for, with their samples.
    pub(crate) fn opened(&self) -> Vec<Opened> {
        self.symbols.opened_by(|add| {
            for &(location, _, totals) in &self.all {
                add(location, totals.samples);
            }
        })
    }

    pub(crate) fn module(&self, location: CodeLocation) -> Option<&Module> {
        let module = self.symbols.module(location.process, location.ip, location.mode())?;
        self.recording.modules.get(module)
    }
}
