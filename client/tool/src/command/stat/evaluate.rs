//! How counts become intervals and the result, whatever has counted.

use super::result::{Interval, PassRow, RunRow, StatResult, StatRows, TopDownRow};
use super::topdown::TopDown;
use crate::results::count_row;
use crate::results::counts::{Counts, Pass};
use crate::results::view::RowBuilder;
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
                ..self.rows(counts)
            },
            last: false,
        }
    }

    pub(super) fn result(&self, runs: &[Counts], machine: String, scope: Scope) -> StatResult {
        let first = runs.first().map_or(&[][..], |run| &run.passes);
        let in_passes = runs.iter().flat_map(|run| &run.events).any(|counts| counts.pass.is_some());
        let (elapsed_ns, elapsed_repeats) = count_row::elapsed(runs, self.view.trim);
        let rows = StatRows { topdown: self.slots(runs), ..self.rows(runs) };
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
            runs: runs.iter().filter(|_| runs.len() > 1).map(|run| self.run_row(run)).collect(),
            ..StatResult::default()
        }
    }

    fn rows(&self, runs: &[Counts]) -> StatRows {
        StatRows {
            counts: self.view.rows(runs),
            derived: self.view.metric_rows(runs),
            ..StatRows::default()
        }
    }

    fn slots(&self, runs: &[Counts]) -> Vec<TopDownRow> {
        let topdown = self.topdown.as_ref();
        topdown.map_or_else(Vec::new, |topdown| topdown.rows(&self.view, runs))
    }

    fn pass_row(&self, pass: &Pass) -> PassRow {
        PassRow { sources: self.view.labels(&pass.events), elapsed_ns: pass.elapsed_ns }
    }

    fn run_row(&self, run: &Counts) -> RunRow {
        RunRow {
            elapsed_ns: run.elapsed_ns(),
            counts: self.view.rows(slice::from_ref(run)),
            interrupted: run.interrupted,
        }
    }
}
