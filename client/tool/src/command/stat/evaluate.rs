//! How counts become intervals and the result, whatever has counted.

use super::result::{Interval, PassRow, RunRow, StatResult, StatRows, TopDownRow};
use super::topdown::TopDown;
use crate::results::count_row::{self, CountRow};
use crate::results::counts::{Counts, Pass};
use crate::results::view::{RowBuilder, RunRows};
use crate::run::interrupt::interrupted;
use crate::run::scope::Scope;
use std::collections::BTreeMap;
use std::slice;

pub(super) struct Evaluation<'a> {
    pub(super) view: RowBuilder<'a>,
    /// Where the slots went, if requested.
    pub(super) topdown: Option<TopDown>,
}

/// Which part of a measurement an interval is; times are from the beginning of the run.
pub(super) struct Span {
    /// The number of the run, if there are several.
    pub(super) run: Option<u32>,
    /// The number of the pass, if there are several.
    pub(super) pass: Option<u32>,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
}

impl Evaluation<'_> {
    pub(super) fn interval(&self, span: &Span, counts: &Counts) -> Interval {
        let counts = slice::from_ref(counts);
        Interval {
            run: span.run,
            pass: span.pass,
            start_ns: span.start_ns,
            length_ns: span.end_ns.saturating_sub(span.start_ns),
            time_ns: span.end_ns,
            rows: StatRows {
                // A pass has only some of the events.
                topdown: if span.pass.is_none() { self.slots(counts) } else { Vec::new() },
                ..StatRows::of(self.view.rows_with_metrics(counts))
            },
            last: false,
        }
    }

    pub(super) fn result(&self, runs: &[Counts], machine: String, scope: Scope) -> StatResult {
        let first = runs.first().map_or(&[][..], |run| &run.passes);
        let in_passes = runs.iter().flat_map(|run| &run.events).any(|counts| counts.pass.is_some());
        let (elapsed_ns, elapsed_repeats) = count_row::elapsed(runs, self.view.trim);
        let mut built = self.view.rows_with_metrics(runs);
        let each = std::mem::take(&mut built.each);
        let rows = StatRows { topdown: self.slots(runs), ..StatRows::of(built) };
        let topdown = self.topdown.as_ref();
        StatResult {
            machine,
            scope,
            elapsed_ns,
            elapsed_repeats,
            interrupted: interrupted(),
            slices: runs
                .iter()
                .flat_map(|run| &run.passes)
                .map(|one| one.slices)
                .max()
                .unwrap_or(1),
            next: topdown.map_or_else(BTreeMap::new, |topdown| topdown.next(&rows.topdown)),
            rows,
            periods: first.iter().flat_map(|pass| pass.periods.clone()).collect(),
            passes: first.iter().filter(|_| in_passes).map(|pass| self.pass_row(pass)).collect(),
            runs: runs.iter().zip(each).map(|(run, counts)| RunRow::new(run, counts)).collect(),
            ..StatResult::default()
        }
    }

    fn slots(&self, runs: &[Counts]) -> Vec<TopDownRow> {
        let topdown = self.topdown.as_ref();
        topdown.map_or_else(Vec::new, |topdown| topdown.rows(&self.view, runs))
    }

    fn pass_row(&self, pass: &Pass) -> PassRow {
        PassRow { sources: self.view.labels(&pass.events), elapsed_ns: pass.elapsed_ns }
    }
}

impl StatRows {
    fn of(rows: RunRows) -> Self {
        Self { counts: rows.counts, derived: rows.metrics, ..Self::default() }
    }
}

impl RunRow {
    pub(super) fn new(run: &Counts, counts: Vec<CountRow>) -> Self {
        Self { elapsed_ns: run.elapsed_ns(), counts, interrupted: run.interrupted }
    }
}
