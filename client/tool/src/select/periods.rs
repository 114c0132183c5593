//! The requested periods and those in use, and what to say if they differ.

use crate::output::number::thousands;
use crate::select::event_set::EventSet;
use halprof_measure::Effective;
use halprof_measure::selection::EventSpec;
use schemars::JsonSchema;
use serde::Serialize;
use shared_types::request::session::UsedInterval;

/// The period of one source. ProfileTime's is in units of 100 ns, all others' in events.
#[derive(Clone, PartialEq, Eq, JsonSchema, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of the JSON object")]
pub(crate) struct Period {
    pub(crate) source: String,
    /// The period that was requested, or the source's default.
    pub(crate) requested: u64,
    pub(crate) used: u64,
    /// Events of the counter between samples.
    pub(crate) events: u64,
    /// The request was outside the source's limits.
    clamped: bool,
    /// Sampled by reference cycles instead of time: halted time is not sampled.
    pub(crate) by_reference_cycles: bool,
    /// Sampled by core cycles instead of time: halted time is not sampled, and the rate follows the
    /// core's frequency.
    pub(crate) by_core_cycles: bool,
    /// Each period is drawn from a band of an eighth around this one, their mean.
    pub(crate) drawn: bool,
    #[serde(skip)]
    pub(crate) time: bool,
}

impl Period {
    /// A period of a trace's source, which is in events unless the source is time.
    pub(crate) fn new(source: &str, requested: u64, used: u64, time: bool) -> Self {
        Self {
            source: source.to_owned(),
            requested,
            used,
            events: if time { 0 } else { used },
            clamped: requested != used,
            by_reference_cycles: false,
            by_core_cycles: false,
            drawn: false,
            time,
        }
    }
}

/// The periods of those events that were configured together.
pub(crate) fn of_pass(
    event_set: &EventSet,
    indexes: &[usize],
    effective: &Effective,
) -> Vec<Period> {
    let mut periods = Vec::new();
    let mut spec = 0;
    for event in indexes.iter().filter_map(|&index| event_set.events.get(index)) {
        periods.extend(effective.intervals.get(spec).map(|used| period(event, used)));
        spec += event.specs.len();
    }
    periods
}

/// The periods that matter when these of the events are counted: the tick of time, and
/// those that were requested.
pub(crate) fn of_counting(
    event_set: &EventSet,
    indexes: &[usize],
    effective: &Effective,
) -> Vec<Period> {
    let all = indexes.iter().zip(of_pass(event_set, indexes, effective));
    all.filter(|(index, period)| period.time || event_set.period(**index) != 0)
        .map(|(_, period)| period)
        .collect()
}

fn period(event: &EventSpec, interval: &UsedInterval) -> Period {
    Period {
        source: event.label.clone(),
        requested: if interval.requested == 0 { interval.used } else { interval.requested },
        used: interval.used,
        events: interval.events,
        clamped: interval.flags & UsedInterval::CLAMPED != 0,
        by_reference_cycles: interval.flags & UsedInterval::BY_REFERENCE_CYCLES != 0,
        by_core_cycles: interval.flags & UsedInterval::BY_CORE_CYCLES != 0,
        drawn: interval.flags & UsedInterval::DRAWN != 0,
        time: event.is_time(),
    }
}

/// A remark on periods of sources that are counted without sampling. That of time is its tick.
pub(crate) fn unused(periods: &[Period]) -> Option<String> {
    let unused = periods.iter().filter(|period| !period.time);
    let names: Vec<&str> = unused.map(|period| period.source.as_str()).collect();
    let names = (!names.is_empty()).then(|| names.join(", "))?;
    Some(format!("a period has no effect here, because nothing is sampled: {names}"))
}

/// Notes on periods outside the limits of their sources.
pub(crate) fn clamped<'a>(
    periods: impl Iterator<Item = &'a Period>,
) -> impl Iterator<Item = String> {
    periods.filter(|period| period.clamped).map(|period| {
        let unit = if period.time { " x 100 ns" } else { "" };
        format!(
            "{}: a period of {}{unit} is outside its limits; {}{unit} was used",
            period.source,
            thousands(period.requested),
            thousands(period.used)
        )
    })
}

/// Notes on what differs from the request.
pub(crate) fn notes<'a>(
    periods: impl IntoIterator<Item = &'a Period, IntoIter: Clone>,
) -> Vec<String> {
    let periods = periods.into_iter();
    let by_cycles = periods.clone().filter_map(|period| {
        let (cycles, also) = match (period.by_reference_cycles, period.by_core_cycles) {
            (true, _) => ("reference cycles", ""),
            (false, true) => ("core cycles", ", and a faster core is sampled more often"),
            (false, false) => return None,
        };
        Some(format!(
            "{}: time is sampled by {cycles}, one sample every {}; halted time is not sampled{also}",
            period.source,
            thousands(period.events)
        ))
    });
    clamped(periods).chain(by_cycles).collect()
}
