//! Finds what a user names in a backend's list of sources, and divides it into what one session can
//! count.
//!
//! Windows names its sources itself: a name is found as it stands, as halprof's and Linux perf's names
//! of the same event, or by its number. Nothing else can be measured: no raw selects, no vendor's
//! events, no user or kernel mode alone.

use super::{ProfileSource, TIMER};
use crate::error::{Error, Result};
use crate::selection::{EventRef, Item, after_profile, filter_suffix, parse_number};
use crate::suggest::did_you_mean;
use shared_types::request::session::Spec;

/// The hint where one session cannot count all that was named.
pub const IN_PASSES: &str = "Name fewer sources, or count them in several runs.";

/// The hint where a group is too large for any session.
const FEWER: &str = "Name fewer sources together.";

/// What counts the same, best first: Windows' names, and what others call it. Which of them Windows
/// lists differs from machine to machine.
const NAMES: [(&[&str], &[&str]); 9] = [
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

/// The most sources that every version of Windows can count in one session.
pub const COUNTERS: u32 = 4;

/// Events between samples, unless the user says. Windows' own default of 65,536 would interrupt a
/// busy processor every 20 microseconds.
const INTERVAL_OF_CYCLES: u32 = 1_000_000;
const INTERVAL_OF_OTHERS: u32 = 100_000;
/// A millisecond, which is Windows' default.
const INTERVAL_OF_TIMER: u32 = 10_000;

/// A source to count or to sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// Windows' name.
    pub name: String,
    /// As the user named it; `None` where no user did.
    pub requested: Option<String>,
    /// The number in the list.
    pub source: u32,
    /// Between samples: of the timer in units of 100 ns, else in events.
    pub interval: u32,
    /// 0, or the number of the group that is counted at once.
    pub group: u16,
}

impl TraceEvent {
    fn new(source: &ProfileSource, requested: Option<&str>) -> Self {
        let default = match (source.id, NAMES.iter().position(|row| has(row.0, &source.name))) {
            (TIMER, _) => INTERVAL_OF_TIMER,
            (_, Some(0 | 1)) => INTERVAL_OF_CYCLES,
            _ => INTERVAL_OF_OTHERS,
        };
        let (min, max) = (source.min_interval, source.max_interval.max(source.min_interval));
        Self {
            name: source.name.clone(),
            requested: requested.map(str::to_owned),
            source: source.id,
            interval: default.clamp(min, max),
            group: 0,
        }
    }
}

/// Finds each item of a list.
pub fn resolve(items: &[Item], sources: &[ProfileSource]) -> Result<Vec<TraceEvent>> {
    let mut events: Vec<TraceEvent> = Vec::new();
    for item in items {
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
    let mut event = TraceEvent::new(source, Some(&item.requested));
    event.group = item.group;
    if let Some(period) = item.period {
        let (min, max) = (source.min_interval, source.max_interval);
        let interval = u32::try_from(period).ok().filter(|one| (min..=max).contains(one));
        event.interval = interval.ok_or_else(|| {
            Error::usage(
                format!("{}: Windows takes no period of {period}", item.requested),
                format!("It takes {min} to {max}."),
            )
        })?;
    }
    Ok(event)
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
    /// A list of AMD's has 176.
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

/// What is sampled if nothing is named: cycles, else the timer, which every list has.
pub fn sampled_by_default(sources: &[ProfileSource]) -> Option<TraceEvent> {
    let source = find("cycles", sources).or_else(|| find("Timer", sources))?;
    Some(TraceEvent::new(source, None))
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
        return Err(too_many(events.len(), most, IN_PASSES));
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

fn too_many(events: usize, most: usize, hint: &str) -> Error {
    Error::unavailable(
        format!("{events} sources were to be counted at once, and Windows counts {most} at most"),
        hint,
    )
}
