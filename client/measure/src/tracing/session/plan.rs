//! Finds what a user names in a backend's list of sources, and divides it into what one session can
//! count.
//!
//! Windows has its own names of sources. A source is found by that name, by halprof's or Linux
//! perf's name of the same event, or by its number. Nothing else can be measured: no raw selects,
//! no vendor's events, no user or kernel mode alone.

use super::{ProfileSource, TIMER};
use crate::error::{Error, Hint, Remedy, Result};
use crate::selection::{EventRef, Item, after_profile, filter_suffix, parse_number};
use crate::suggest::did_you_mean;
use shared_types::request::session::Spec;

/// The hint where a group is too large for any session.
const FEWER: &str = "Name fewer sources together.";

/// Names of the same event: Windows' own, best first, and what others call it. Machines differ in
/// which of Windows' names they list.
pub(crate) const NAMES: [(&[&str], &[&str]); 9] = [
    (
        &["TotalCycles", "UnhaltedCoreCycles", "UnhaltedCoreCyclesFixed"],
        &["cycles", "cpu-cycles", "FixedCycles"],
    ),
    (
        &["TotalIssues", "InstructionRetired", "InstructionsRetiredFixed"],
        &["instructions", "FixedInstructions"],
    ),
    (&["BranchInstructions", "BranchInstructionRetired"], &["branches", "branch-instructions"]),
    (&["BranchMispredictions", "BranchMispredictsRetired"], &["branch-misses"]),
    (&["CacheMisses", "LLCMisses"], &["cache-misses"]),
    (&["LLCReference"], &["cache-references"]),
    (
        &["UnhaltedReferenceCycles", "UnhaltedReferenceCyclesFixed"],
        &["ref-cycles", "bus-cycles", "FixedReferenceCycles"],
    ),
    (&["DcacheMisses"], &["L1-dcache-load-misses"]),
    (&["Timer"], &["ProfileTime", "cpu-clock"]),
];

/// What is counted if nothing is named, by names of [`NAMES`]: the first of these, as many as there
/// are counters.
const COUNTED_BY_DEFAULT: [&str; 6] =
    ["cycles", "instructions", "branches", "branch-misses", "cache-misses", "cache-references"];

/// The most sources that every version of Windows can count in one session: Windows 8 has room for
/// four (ETW_PMC_SUPPORT, as G. Chappell describes it).
pub const COUNTERS: u32 = 4;

/// Cycles or instructions between samples where no interval is given: about a thousand samples a second
/// of a busy processor, where the interval in force would be more than ten times as many.
pub const INTERVAL_OF_CYCLES: u32 = 1_000_000;
/// The sources of cycles and instructions, by Windows' names and halprof's. UnhaltedReferenceCycles is not
/// one of them: on many processors it ticks with the bus or the crystal, ten times as slowly.
const PACED: [&str; 12] = [
    "TotalCycles",
    "Cycles",
    "UnhaltedCoreCycles",
    "UnhaltedCoreCyclesFixed",
    "FixedCycles",
    "TotalIssues",
    "InstructionRetired",
    "InstructionsRetiredFixed",
    "FRRetiredx86Instructions",
    "FixedInstructions",
    "UnhaltedReferenceCyclesFixed",
    "FixedReferenceCycles",
];
/// Events between samples of another source, if Windows does not say which interval is in force:
/// the HAL's default.
const INTERVAL_OF_HAL: u32 = 65_536;
/// A millisecond, which is Windows' default.
const INTERVAL_OF_TIMER: u32 = 10_000;
/// The name that stands for every source that is listed.
const ALL: &str = "all";

/// Whether the events of a source come about as often as the clock ticks, so that the clock tells how many
/// of them are from one sample to the next.
pub fn is_paced_by_clock(source: &str) -> bool {
    has(&PACED, source)
}

/// Where the interval of a source is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntervalFrom {
    /// The caller.
    Given,
    /// The rate of the clock.
    Clock,
    /// Windows: its default, or what is in force.
    Windows,
}

/// A source to count or to sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// Windows' name.
    pub name: String,
    /// As the user named it; `None` where no user did.
    pub requested: Option<String>,
    /// The number in the list.
    pub source: u32,
    /// The interval that was asked for, or the source's default.
    pub requested_interval: u64,
    /// The interval between samples, in units of 100 ns for the timer, in events for all other
    /// sources. It is the requested one, moved into the limits of the source.
    pub interval: u32,
    /// Where the requested interval is from.
    pub interval_from: IntervalFrom,
    /// 0, or the number of the group that is counted at once.
    pub group: u16,
}

impl TraceEvent {
    /// Whether it is the timer, included only by `all`.
    pub fn is_time_by_chance(&self) -> bool {
        let by_all = self.requested.as_ref().is_some_and(|text| text.eq_ignore_ascii_case(ALL));
        by_all && self.source == TIMER
    }

    fn new(source: &ProfileSource, requested: Option<&str>) -> Self {
        let (default, from) = match (source.id, source.interval) {
            (TIMER, _) => (INTERVAL_OF_TIMER, IntervalFrom::Windows),
            _ if is_paced_by_clock(&source.name) => (INTERVAL_OF_CYCLES, IntervalFrom::Clock),
            (_, 0) => (INTERVAL_OF_HAL, IntervalFrom::Windows),
            (_, in_force) => (in_force, IntervalFrom::Windows),
        };
        let event = Self {
            name: source.name.clone(),
            requested: requested.map(str::to_owned),
            source: source.id,
            requested_interval: 0,
            interval: 0,
            interval_from: from,
            group: 0,
        };
        event.with_interval(default.into(), from, source)
    }

    /// A source that nobody named, with the nearest interval that it has; without one, with its default.
    pub fn chosen(source: &ProfileSource, interval: Option<u64>) -> Self {
        let event = Self::new(source, None);
        let event = match interval {
            Some(interval) => event.with_interval(interval, IntervalFrom::Given, source),
            None => event,
        };
        Self { requested_interval: event.interval.into(), ..event }
    }

    /// Asks for an interval, and takes the nearest that the source has.
    fn with_interval(self, requested: u64, from: IntervalFrom, source: &ProfileSource) -> Self {
        let (min, max) = (source.min_interval, source.max_interval.max(source.min_interval));
        let interval = u32::try_from(requested).unwrap_or(u32::MAX).clamp(min, max);
        Self { requested_interval: requested, interval, interval_from: from, ..self }
    }
}

/// Finds each item of a list.
pub fn resolve(items: &[Item], sources: &[ProfileSource]) -> Result<Vec<TraceEvent>> {
    let mut events: Vec<TraceEvent> = Vec::new();
    for item in items {
        if item.text.eq_ignore_ascii_case(ALL) {
            let is_new =
                |source: &&ProfileSource| events.iter().all(|event| event.source != source.id);
            let new = sources.iter().filter(is_new);
            let new: Vec<TraceEvent> =
                new.map(|source| TraceEvent::new(source, Some(&item.requested))).collect();
            events.extend(new);
            continue;
        }
        let event = resolve_one(item, sources)?;
        if events.iter().any(|other| other.source == event.source) {
            return Err(Error::usage(
                format!("{} is listed twice: {} is Windows' source of it", item.text, event.name),
                "Name each source once.",
            ));
        }
        events.push(event);
    }
    Ok(events)
}

fn resolve_one(item: &Item, sources: &[ProfileSource]) -> Result<TraceEvent> {
    if let Some(filter) = item.filter.filter(|filter| *filter != Spec::USER | Spec::KERNEL) {
        return Err(Error::unavailable(
            format!(
                "`{}`: Windows' own tracing measures user and kernel mode together",
                item.requested
            ),
            format!("Leave out `{}`; the driver can tell the modes apart.", filter_suffix(filter)),
        ));
    }
    let EventRef::Named(name) = &item.event else {
        return Err(Error::unavailable(
            format!("`{}`: Windows' own tracing takes no event selects", item.text),
            listed(sources),
        ));
    };
    let source = find(name, sources).ok_or_else(|| unlisted(name, sources))?;
    let group = item.group;
    let event = TraceEvent { group, ..TraceEvent::new(source, Some(&item.requested)) };
    Ok(match item.period {
        Some(period) => event.with_interval(period, IntervalFrom::Given, source),
        None => event,
    })
}

/// The source that has this name, or is what somebody calls by it.
pub fn find<'a>(name: &str, sources: &'a [ProfileSource]) -> Option<&'a ProfileSource> {
    let bare = after_profile(name);
    let named = |name: &str| sources.iter().find(|one| one.name.eq_ignore_ascii_case(name));
    let number = parse_number(name);
    let by_number = || sources.iter().find(|one| number == Some(one.id.into()));
    let equivalent = || {
        let is_row =
            |row: &&(&[&str], &[&str])| has(row.0, name) || has(row.0, bare) || has(row.1, name);
        let (windows, _) = NAMES.iter().find(is_row)?;
        windows.iter().find_map(|name| named(name))
    };
    named(name).or_else(|| named(bare)).or_else(equivalent).or_else(by_number)
}

fn has(names: &[&str], name: &str) -> bool {
    names.iter().any(|one| one.eq_ignore_ascii_case(name))
}

fn unlisted(name: &str, sources: &[ProfileSource]) -> Error {
    let listed = listed(sources);
    let meant = did_you_mean(name, sources.iter().map(|source| &source.name));
    Error::unavailable(
        format!("Windows lists no source called `{name}`"),
        meant.map_or(listed.clone(), |meant| format!("{meant} {listed}")),
    )
}

/// What Windows lists, in a sentence.
fn listed(sources: &[ProfileSource]) -> String {
    /// AMD's lists have up to 176, too many for a sentence.
    const MOST: usize = 20;
    let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
    match names.get(..MOST) {
        Some(first) => format!("It lists {} and {} more.", first.join(", "), names.len() - MOST),
        None => format!("It lists {}.", names.join(", ")),
    }
}

/// What is counted if nothing is named: cycles, instructions, then what Windows lists and has
/// counters for. Empty if it lists no counter.
pub fn counted_by_default(sources: &[ProfileSource], counters: Option<u32>) -> Vec<TraceEvent> {
    let listed = COUNTED_BY_DEFAULT.iter().filter_map(|name| find(name, sources));
    let counted = listed.take(counters.unwrap_or(COUNTERS) as usize);
    counted.map(|source| TraceEvent::new(source, None)).collect()
}

/// What is sampled if nothing is named: cycles, or without cycles the timer, which every list has.
pub fn sampled_by_default(sources: &[ProfileSource]) -> Option<TraceEvent> {
    let sampled = find("cycles", sources).or_else(|| find("Timer", sources));
    sampled.map(|source| TraceEvent::new(source, None))
}

/// The indexes of the events of each session that counts them: one session, or with `passes` as many
/// as are needed, in which groups stay together.
pub fn sessions(
    events: &[TraceEvent],
    counters: Option<u32>,
    passes: bool,
) -> Result<Vec<Vec<usize>>> {
    let most = counters.unwrap_or(COUNTERS) as usize;
    if let Some(timer) = events.iter().find(|event| event.source == TIMER) {
        return Err(Error::unavailable(
            format!(
                "{} is time, which Windows' own tracing samples and does not count",
                timer.name
            ),
            "Leave it out; a result says how long each thread ran.",
        ));
    }
    if most == 0 {
        return Err(Error::unavailable(
            "Windows has no counter for a session that counts",
            "Sample the timer instead.",
        ));
    }
    let mut sessions: Vec<Vec<usize>> = vec![Vec::new()];
    for together in groups(events) {
        if together.len() > most {
            return Err(too_many(together.len(), most, FEWER));
        }
        match sessions.last_mut() {
            Some(last) if last.len() + together.len() <= most => last.extend(together),
            _ => sessions.push(together),
        }
    }
    if sessions.len() > 1 && !passes {
        return Err(too_many(events.len(), most, Remedy::SeveralRuns));
    }
    Ok(sessions)
}

/// The indexes of each group, and of each event without one.
fn groups(events: &[TraceEvent]) -> Vec<Vec<usize>> {
    let mut groups: Vec<(u16, Vec<usize>)> = Vec::new();
    for (index, event) in events.iter().enumerate() {
        match groups.iter_mut().find(|(group, _)| *group != 0 && *group == event.group) {
            Some((_, members)) => members.push(index),
            None => groups.push((event.group, vec![index])),
        }
    }
    groups.into_iter().map(|(_, members)| members).collect()
}

fn too_many(events: usize, most: usize, hint: impl Into<Hint>) -> Error {
    Error::unavailable(
        format!("Windows counts at most {most} sources at once; {events} were given"),
        hint,
    )
}
