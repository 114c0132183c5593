//! `stat --diff`: what is compared of two results.

use crate::metrics::WorseWhen;
use crate::results::diff::{Compared, Figure, SECONDS};
use halprof_measure::selection::format_processors;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The name of the measured time among the figures.
pub(super) const ELAPSED: &str = "elapsed";

/// The part of a result that is compared.
#[derive(Deserialize)]
pub(super) struct ComparedStat {
    machine: String,
    backend: Option<String>,
    #[serde(default)]
    modelled: bool,
    scope: Scope,
    elapsed_ns: f64,
    elapsed_repeats: Option<Repeats>,
    interrupted: bool,
    ended: Option<IgnoredAny>,
    counts: Vec<Count>,
    derived: Vec<Metric>,
    #[serde(default)]
    topdown: Vec<IgnoredAny>,
}

#[derive(Deserialize)]
struct Scope {
    processors: Vec<u32>,
    program: Option<String>,
}

#[derive(Deserialize)]
struct Repeats {
    confidence: f64,
}

#[derive(Deserialize)]
struct Count {
    source: String,
    requested: Option<String>,
    processor: Option<u32>,
    core_type: Option<String>,
    value: Option<f64>,
    scaled: bool,
    error: Option<f64>,
    repeats: Option<Repeats>,
}

#[derive(Deserialize)]
struct Metric {
    #[serde(rename = "metric")]
    id: String,
    filter: String,
    unit: String,
    processor: Option<u32>,
    core_type: Option<String>,
    value: Option<f64>,
    scaled: bool,
    error: Option<f64>,
    confidence: Option<f64>,
    worse: Option<WorseWhen>,
}

impl Compared for ComparedStat {
    const COMMAND: &'static str = "stat";

    fn figures(&self) -> Vec<Figure> {
        // Skip events that only top-down needs: nobody asked for them.
        let is_shown = |count: &&Count| self.topdown.is_empty() || count.requested.is_some();
        let counts = self.counts.iter().filter(is_shown).map(|count| Figure {
            processor: count.processor,
            core_type: count.core_type.clone(),
            ..Figure::of_events(
                &count.source,
                count.value,
                bound(count.scaled, count.error, count.repeats.as_ref().map(|one| one.confidence)),
            )
        });
        let metrics = self.derived.iter().map(|row| Figure {
            name: match row.filter.as_str() {
                "" => row.id.clone(),
                filter => format!("{}:{filter}", row.id),
            },
            unit: row.unit.clone(),
            processor: row.processor,
            core_type: row.core_type.clone(),
            value: row.value,
            bound: bound(row.scaled, row.error, row.confidence),
            worse: row.worse,
        });
        let elapsed = Figure {
            unit: SECONDS.to_owned(),
            ..Figure::of_events(
                ELAPSED,
                Some(self.elapsed_ns / 1e9),
                Some(self.elapsed_repeats.as_ref().map_or(0.0, |one| one.confidence / 1e9)),
            )
        };
        counts.chain(metrics).chain([elapsed]).collect()
    }

    fn conditions(&self) -> Vec<(&'static str, String)> {
        vec![
            ("machine", self.machine.clone()),
            ("backend", self.backend.clone().unwrap_or_else(|| "none".to_owned())),
            ("processors", format_processors(self.scope.processors.iter().copied())),
            ("program", self.scope.program.clone().unwrap_or_else(|| "none".to_owned())),
        ]
    }

    fn is_cut(&self) -> bool {
        self.interrupted || self.ended.is_some()
    }

    fn is_repeated(&self) -> bool {
        self.modelled || self.elapsed_repeats.is_some()
    }
}

/// The bound of a figure, by that of its estimate and by the spread of its runs, which may be off in
/// the same direction.
fn bound(scaled: bool, error: Option<f64>, confidence: Option<f64>) -> Option<f64> {
    let known = error.is_some() || !scaled;
    known.then(|| error.unwrap_or(0.0) + confidence.unwrap_or(0.0))
}
