//! `halprof record --rate`: first counts the sources that will be sampled, without interrupts, and
//! chooses the periods from the counts. `--rate auto` repeats this until two tries agree, and lengthens
//! the run if even these periods give too few samples.

use crate::cli::args::{self, Rate};
use crate::output::Output;
use crate::output::error::Result;
use crate::output::number::{seconds, thousands};
use crate::run::recorder::configured;
use crate::run::runner::{Every, LONGER, Runner};
use crate::select::event_set::EventSet;
use crate::select::periods;
use crate::select::sampling_rate::SamplingRate;
use crate::select::time::positive;
use crate::target::context::Context;
use halprof_measure::Session;
use halprof_measure::selection::EventSpec;
use schemars::JsonSchema;
use serde::Serialize;
use std::ops::ControlFlow;

/// The length of a try if nothing that runs ends by itself.
const TRY_NS: u64 = 1_000_000_000;
/// The largest number of tries of `--rate auto`.
const TRIES_MAX: u32 = 3;

/// The tries, and their result.
#[derive(JsonSchema, Serialize)]
pub(crate) struct Calibration {
    rate: u64,
    samples: Option<u64>,
    tries: Vec<Try>,
    /// Whether each pass's last try agrees with its previous one.
    settled: bool,
    /// The length of each pass, if it is longer than was asked, for enough samples.
    lengthened_ns: Option<u64>,
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

/// Chooses the periods of every pass and puts them into the choice; `None` if they are to stay as
/// they are.
pub(crate) fn calibrate(
    options: &args::Record,
    ctx: &mut Context,
    event_set: &mut EventSet,
    passes: &[Vec<usize>],
    runner: &mut Runner,
    output: &Output,
) -> Result<Option<Calibration>> {
    let (tries, target) = match options.rate {
        None => return Ok(None),
        Some(Rate::Auto) => (TRIES_MAX, SamplingRate::default()),
        Some(Rate::Hz(rate)) => {
            (1, SamplingRate { rate: positive("--rate", rate, 1.0, 1e9)?, samples: None })
        }
    };
    // What cannot be sampled is refused before anything runs.
    for indexes in passes {
        configured(&mut ctx.connection, event_set, indexes, false)?;
    }
    let mut calibration = Calibration {
        rate: target.rate,
        samples: target.samples,
        tries: Vec::new(),
        settled: true,
        lengthened_ns: None,
    };
    let mut planned: u128 = 0;
    for (number, indexes) in (0..).zip(passes) {
        let mut settled = false;
        for _ in 0..tries {
            let before = intervals(event_set, indexes);
            let one = try_once(&target, ctx, event_set, indexes, number, runner)?;
            output.note(&text(&one, calibration.tries.len() + 1));
            calibration.tries.push(one);
            let mut both = before.into_iter().zip(intervals(event_set, indexes));
            settled = both.all(|(before, after)| is_near(before, after));
            if settled {
                break;
            }
        }
        calibration.settled &= settled;
        let last = calibration.tries.last();
        planned = planned.saturating_add(last.map_or(0, |last| last.planned(runner)));
    }
    if !calibration.settled && tries > 1 {
        output.note(
            "calibration: the last two tries do not agree; what runs differs from run to run",
        );
    }
    if let Some((longer_ns, note)) = lengthen(target.samples, planned, runner) {
        calibration.lengthened_ns = Some(longer_ns);
        output.note(&note);
    }
    Ok(Some(calibration))
}

/// Lengthens the run if `planned` samples are fewer than wanted; returns its new length, and what to
/// say about it.
fn lengthen(target: Option<u64>, planned: u128, runner: &mut Runner) -> Option<(u64, String)> {
    let (target, requested_ns) = (u128::from(target?), u128::from(runner.limit_ns()?));
    if SamplingRate::is_reached(u64::try_from(planned).unwrap_or(u64::MAX)) {
        return None;
    }
    let enough_ns = target.saturating_mul(requested_ns).div_ceil(planned.max(1));
    let enough_ns = u64::try_from(enough_ns).unwrap_or(u64::MAX);
    let longer_ns = runner.lengthen(enough_ns)?;
    let samples = planned.saturating_mul(longer_ns.into()) / requested_ns.max(1);
    let note = format!(
        "calibration: sampling takes {} instead of {}, at most {LONGER} times as long, for about {} \
         samples",
        seconds(longer_ns),
        seconds(requested_ns),
        thousands(samples)
    );
    Some((longer_ns, note))
}

impl Try {
    /// How many samples the periods would give in a run as long as planned.
    fn planned(&self, runner: &Runner) -> u128 {
        let planned_ns = runner.planned_ns(self.elapsed_ns).unwrap_or(0);
        let sources = self.sources.iter().map(|source| source.samples);
        let samples = sources.fold(0, u128::saturating_add);
        let all = samples.saturating_mul(planned_ns.into());
        all.checked_div(self.elapsed_ns.into()).unwrap_or(0)
    }
}

fn intervals(event_set: &EventSet, indexes: &[usize]) -> Vec<u64> {
    indexes.iter().map(|&index| event_set.period(index)).collect()
}

/// Runs once, counting, and chooses periods from the counts.
fn try_once(
    target: &SamplingRate,
    ctx: &mut Context,
    event_set: &mut EventSet,
    indexes: &[usize],
    pass: u32,
    runner: &mut Runner,
) -> Result<Try> {
    let (counts, elapsed_ns) = count(ctx, event_set, indexes, runner)?;
    let planned_ns = runner.planned_ns(elapsed_ns);
    let samples = target.samples.filter(|_| planned_ns.is_some());
    let planned_ns = planned_ns.unwrap_or(elapsed_ns);
    let target = SamplingRate { samples, ..*target };
    let all = event_set.events.len();
    for (column, &index) in indexes.iter().enumerate() {
        let planned = |events: &u128| {
            let events = events.saturating_mul(planned_ns.into());
            events.checked_div(elapsed_ns.into()).unwrap_or(0)
        };
        let events = counts.iter().filter_map(|counts| counts.get(column));
        let events: Vec<u128> = events.map(planned).collect();
        if let Some(period) = target.period(&events, planned_ns, indexes.len(), all) {
            event_set.set_mean_period(index, period);
        }
    }
    let (_, settled) = configured(&mut ctx.connection, event_set, indexes, false)?;
    let used = periods::of_pass(event_set, indexes, &settled).into_iter();
    let sources = used.enumerate().map(|(column, period)| {
        let events = counts.iter().filter_map(|counts| counts.get(column).copied());
        Tried {
            source: period.source,
            events: events.clone().sum(),
            period: period.used,
            samples: samples_of(events, period.used),
        }
    });
    Ok(Try { pass, elapsed_ns, sources: sources.collect() })
}

/// The counts of each processor, and the time taken. ProfileTime is counted in the unit of its
/// period, as if no processor ever halted.
fn count(
    ctx: &mut Context,
    event_set: &EventSet,
    indexes: &[usize],
    runner: &mut Runner,
) -> Result<(Vec<Vec<u128>>, u64)> {
    let setup = event_set.setup_of(indexes);
    runner.prepare()?;
    let mut session =
        Session::open(&mut ctx.connection, event_set.sees_kernel(), event_set.setup().approximate)?;
    session.configure(&setup, false)?;
    session.start()?;
    let try_ns = (!runner.ends()).then_some(TRY_NS);
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

/// Whether two periods give nearly the same number of samples: within a tenth.
const fn is_near(one: u64, other: u64) -> bool {
    one.abs_diff(other) <= one / 10
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
