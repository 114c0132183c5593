//! `halprof record --rate`: first counts the sources that will be sampled, without interrupts, and
//! chooses the periods from the counts.

use crate::output::Output;
use crate::output::error::Result;
use crate::output::number::{seconds, thousands};
use crate::run::recorder::configured;
use crate::run::runner::{Every, Runner};
use crate::select::event_set::EventSet;
use crate::select::periods;
use crate::select::sampling_rate::period;
use crate::select::time::positive;
use crate::target::context::Context;
use halprof_measure::selection::EventSpec;
use halprof_measure::{Session, Setup};
use schemars::JsonSchema;
use serde::Serialize;
use std::ops::ControlFlow;

/// The length of a try if nothing that runs ends by itself.
const TRY_NS: u64 = 1_000_000_000;

/// The tries, and their result.
#[derive(JsonSchema, Serialize)]
pub(crate) struct Calibration {
    rate: u64,
    tries: Vec<Try>,
}

/// One run without sampling.
#[derive(JsonSchema, Serialize)]
struct Try {
    pass: u32,
    elapsed_ns: u64,
    sources: Vec<Tried>,
}

/// The counts and the period of one source in a try.
#[derive(JsonSchema, Serialize)]
struct Tried {
    source: String,
    /// Events while it was on a counter.
    events: u128,
    /// The period chosen, within the source's limits.
    period: u64,
    /// Samples that this period would have given.
    samples: u128,
}

/// Chooses the periods of every pass for `rate` samples a second, and puts them into the event set.
pub(crate) fn calibrate(
    rate: f64,
    ctx: &mut Context,
    event_set: &mut EventSet,
    passes: &[Vec<usize>],
    runner: &mut Runner,
    output: &Output,
) -> Result<Calibration> {
    let rate = positive("--rate", rate, 1.0, 1e9)?;
    // What cannot be sampled is refused before anything runs.
    for indexes in passes {
        configured(&mut ctx.connection, event_set, indexes, false)?;
    }
    let mut tries = Vec::new();
    for (pass, indexes) in (0..).zip(passes) {
        let try_ns = (!runner.ends()).then_some(TRY_NS);
        let (counts, elapsed_ns) = count(ctx, event_set, indexes, runner, try_ns)?;
        for (column, &index) in indexes.iter().enumerate() {
            // The rate is for each processor, so the busiest one decides.
            let busiest = counts.iter().filter_map(|counts| counts.get(column)).max();
            let period =
                busiest.and_then(|&events| period(events, elapsed_ns, rate, indexes.len()));
            if let Some(period) = period {
                event_set.set_mean_period(index, period);
            }
        }
        let one = tried(ctx, event_set, indexes, &counts)?;
        let one = Try { pass, elapsed_ns, sources: one };
        output.note(&text(&one, tries.len() + 1));
        tries.push(one);
    }
    Ok(Calibration { rate, tries })
}

/// The sources of a try, with the periods that the driver will use: within each source's limits.
fn tried(
    ctx: &mut Context,
    event_set: &EventSet,
    indexes: &[usize],
    counts: &[Vec<u128>],
) -> Result<Vec<Tried>> {
    let (_, effective) = configured(&mut ctx.connection, event_set, indexes, false)?;
    let used = periods::of_pass(event_set, indexes, &effective).into_iter();
    let sources = used.enumerate().map(|(column, period)| {
        let events = counts.iter().filter_map(|counts| counts.get(column).copied());
        Tried {
            source: period.source,
            events: events.clone().sum(),
            period: period.used,
            samples: samples_of(events, period.used),
        }
    });
    Ok(sources.collect())
}

/// The counts of each processor, and the time taken: `try_ns`, or until what runs ends. ProfileTime is
/// counted in the unit of its period, as if no processor ever halted.
pub(crate) fn count(
    ctx: &mut Context,
    event_set: &EventSet,
    indexes: &[usize],
    runner: &mut Runner,
    try_ns: Option<u64>,
) -> Result<(Vec<Vec<u128>>, u64)> {
    // Branches are recorded with samples only, and nothing is sampled here.
    let setup = Setup { branches: 0, branch_filter: 0, ..event_set.setup_of(indexes) };
    runner.prepare()?;
    let mut session =
        Session::open(&mut ctx.connection, event_set.sees_kernel(), event_set.setup().approximate)?;
    session.configure(&setup, false)?;
    session.start()?;
    runner.begin()?;
    let elapsed_ns = runner.run(Every::LOOK.reading(try_ns), |tick| {
        Ok(if tick.is_due { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    let counts = session.stop_and_read()?;
    drop(session);
    runner.end()?;
    let is_time = |column: usize| {
        let event = indexes.get(column).and_then(|&index| event_set.events.get(index));
        event.is_some_and(EventSpec::is_time)
    };
    let counts = event_set.counts(indexes, &counts).into_iter().map(|counts| {
        let counts = counts.into_iter().enumerate();
        let counts = counts.map(|(column, count)| {
            let counted = if is_time(column) && count.enabled != 0 {
                elapsed_ns / 100
            } else {
                count.counted
            };
            u128::from(counted)
        });
        counts.collect()
    });
    Ok((counts.collect(), elapsed_ns))
}

/// How many samples a period gives if each processor counts the given number of events.
fn samples_of(events: impl IntoIterator<Item = u128>, period: u64) -> u128 {
    let each = events.into_iter();
    each.map(|events| events.checked_div(period.into()).unwrap_or(0)).fold(0, u128::saturating_add)
}

fn text(tried: &Try, number: usize) -> String {
    let sources = tried.sources.iter().map(|source| {
        format!(
            "{}: {} events, a period of {} gives {} samples",
            source.source,
            thousands(source.events),
            thousands(source.period),
            thousands(source.samples)
        )
    });
    let sources: Vec<String> = sources.collect();
    format!("calibration, try {number}, {}: {}", seconds(tried.elapsed_ns), sources.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_processor_has_samples_of_its_own() {
        assert_eq!(samples_of([10, 9, 20], 10), 3);
    }
}
