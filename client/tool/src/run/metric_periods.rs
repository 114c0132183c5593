//! `halprof record --metric`: the periods of sources that have none.
//!
//! A busy processor is to take [`RATE`](crate::select::sampling_rate::RATE) samples a second of each. How
//! often cycles and instructions come then follows from the clock. Other events are counted beside them
//! for a moment, so that an idle machine, too, says how many come in so many cycles; where a program is
//! still to be started, a table says how many usually do.

use crate::metrics::Metrics;
use crate::output::Output;
use crate::output::error::Result;
use crate::output::number::thousands;
use crate::run::calibration::count;
use crate::run::runner::Runner;
use crate::select::event_set::EventSet;
use crate::select::typical_rates::events_in;
use crate::target::context::Context;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// For how long events are counted.
const COUNTED_NS: u64 = 100_000_000;
/// Fewer events than this say little about how often they come.
const ENOUGH: u128 = 100;

/// How halprof chose a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ChosenBy {
    /// By the rate of the clock: the events come about as often as its ticks.
    Clock,
    /// By counting the events for a tenth of a second.
    Count,
    /// By how often such events usually come.
    Table,
}

/// Chooses the periods of the events that have none, and puts them into the event set. `is_counted`:
/// what is to be sampled already runs.
pub(crate) fn choose(
    event_set: &mut EventSet,
    passes: &[Vec<usize>],
    is_counted: bool,
    ctx: &mut Context,
    runner: &mut Runner,
    output: &Output,
) -> Result<BTreeMap<usize, ChosenBy>> {
    let metrics = Metrics::built_in()?;
    let mut chosen = paced(event_set);
    for indexes in passes {
        let open: Vec<usize> =
            indexes.iter().copied().filter(|&index| event_set.period(index) == 0).collect();
        if open.is_empty() {
            continue;
        }
        let counted = if is_counted {
            let (counts, _) = count(ctx, event_set, indexes, runner, Some(COUNTED_NS))?;
            let sum = |column: usize| counts.iter().filter_map(|counts| counts.get(column)).sum();
            indexes.iter().enumerate().map(|(column, &index)| (index, sum(column))).collect()
        } else {
            BTreeMap::new()
        };
        for index in open {
            let by_count = by_count(event_set, &metrics, &counted, index);
            let by_table = || by_table(event_set, &metrics, ctx, index);
            let period = by_count.map(|period| (period, ChosenBy::Count));
            let period = period.or_else(|| Some((by_table()?, ChosenBy::Table)));
            let Some((period, by)) = period else { continue };
            event_set.set_mean_period(index, event_set.within_limits(index, period));
            chosen.insert(index, by);
        }
    }
    for (&index, by) in &chosen {
        output.note(&text(event_set, index, *by));
    }
    Ok(chosen)
}

/// The events whose periods follow from the clock.
pub(crate) fn paced(event_set: &EventSet) -> BTreeMap<usize, ChosenBy> {
    let paced = event_set.indexes().into_iter().filter(|&index| event_set.is_drawn(index));
    paced.map(|index| (index, ChosenBy::Clock)).collect()
}

/// The events that come while those that the clock paces come as often as in one of their periods.
fn by_count(
    event_set: &EventSet,
    metrics: &Metrics,
    counted: &BTreeMap<usize, u128>,
    index: usize,
) -> Option<u64> {
    let events = counted.get(&index).copied().filter(|&events| events >= ENOUGH)?;
    let beside = |index: usize| counted.get(&index).copied().filter(|&events| events >= ENOUGH);
    let paced: Vec<(usize, u128)> =
        paced(event_set).into_keys().filter_map(|index| Some((index, beside(index)?))).collect();
    // Cycles keep the clock's time; instructions only about.
    let is_clock = |index| quantity(event_set, metrics, index) == Some("cycles");
    let &(paced, beside) = paced.iter().find(|(index, _)| is_clock(*index)).or(paced.first())?;
    u64::try_from(u128::from(event_set.period(paced)) * events / beside).ok()
}

fn by_table(event_set: &EventSet, metrics: &Metrics, ctx: &Context, index: usize) -> Option<u64> {
    events_in(quantity(event_set, metrics, index)?, EventSet::cycles_of_a_period(ctx))
}

/// What an event counts, in the words of the metrics.
fn quantity<'a>(event_set: &EventSet, metrics: &'a Metrics, index: usize) -> Option<&'a str> {
    let label = &event_set.events.get(index)?.label;
    metrics.quantity(label.split(':').next().unwrap_or_default())
}

fn text(event_set: &EventSet, index: usize, by: ChosenBy) -> String {
    let label = event_set.events.get(index).map_or("", |event| event.label.as_str());
    let how = match by {
        ChosenBy::Clock => "by the clock",
        ChosenBy::Count => "by counting 0.1 s",
        ChosenBy::Table => "by a table of usual rates",
    };
    format!("{label}: a period of about {}, {how}", thousands(event_set.period(index)))
}
