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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selection::parse_list;
    use crate::tracing::fake::{AMD, INTEL, VIRTUALISED, list};

    fn resolved(text: &str, sources: &[ProfileSource]) -> Result<Vec<TraceEvent>> {
        let mut items = Vec::new();
        parse_list(text, &mut items)?;
        resolve(&items, sources)
    }

    #[test]
    fn names_of_everybody_lead_to_what_windows_lists() {
        for (name, intel, amd) in [
            ("cycles", Some("TotalCycles"), None),
            ("INSTRUCTIONS", Some("TotalIssues"), Some("TotalIssues")),
            ("ProfileTotalIssues", Some("TotalIssues"), Some("TotalIssues")),
            ("UnhaltedCoreCyclesFixed", Some("UnhaltedCoreCyclesFixed"), None),
            ("branch-misses", Some("BranchMispredictions"), Some("BranchMispredictions")),
            ("InstructionRetired", Some("InstructionRetired"), Some("TotalIssues")),
            ("LLCMisses", Some("LLCMisses"), None),
            ("0x1B", Some("UnhaltedReferenceCycles"), None),
            ("ProfileTime", Some("Timer"), Some("Timer")),
            ("Timer", Some("Timer"), Some("Timer")),
            ("IcacheMisses", None, Some("IcacheMisses")),
        ] {
            for (sources, found) in [(INTEL, intel), (AMD, amd)] {
                let sources = list(sources);
                assert_eq!(find(name, &sources).map(|one| one.name.as_str()), found, "{name}");
            }
        }
    }

    #[test]
    fn what_windows_cannot_do_is_refused_by_name() {
        for (text, sources, message, hint) in [
            ("cycles:u", INTEL, "`cycles:u`: Windows' own tracing measures user and", "`:u`"),
            (
                "r00C0",
                INTEL,
                "`r00C0`: Windows' own tracing takes no event selects",
                "Timer, Total",
            ),
            ("TotalIsues", INTEL, "no source called `TotalIsues`", "Did you mean `TotalIssues`"),
            ("cycles", VIRTUALISED, "no source called `cycles`", "It lists Timer."),
            ("cycles:100", INTEL, "no period of 100", "It takes 4096 to 2147483647."),
            ("cycles,UnhaltedCoreCycles,TotalCycles", INTEL, "TotalCycles is listed twice", "once"),
        ] {
            let error = resolved(text, &list(sources)).expect_err(text);
            assert!(error.to_string().contains(message), "{error}");
            let (Error::Unavailable { hint: said, .. } | Error::Usage { hint: said, .. }) = error
            else {
                panic!("{error}");
            };
            assert!(said.contains(hint), "{said}");
        }
        assert!(resolved("cycles:uk", &list(INTEL)).is_ok(), "both modes are what it does");
    }

    #[test]
    fn intervals_are_the_users_or_moderate() {
        let of = |text| resolved(text, &list(INTEL)).expect(text)[0].interval;
        assert_eq!(of("cycles"), 1_000_000);
        assert_eq!(of("branch-misses"), 100_000);
        assert_eq!(of("Timer"), 10_000);
        assert_eq!(of("cycles:5000"), 5000);
    }

    #[test]
    fn as_many_are_counted_at_once_as_windows_says() {
        let names = |events: &[TraceEvent]| {
            events.iter().map(|event| event.name.clone()).collect::<Vec<_>>().join(" ")
        };
        let intel = list(INTEL);
        assert_eq!(
            names(&counted_by_default(&intel, Some(3))),
            "TotalCycles TotalIssues BranchInstructions"
        );
        assert_eq!(counted_by_default(&intel, None).len(), 4);
        assert_eq!(
            names(&counted_by_default(&list(AMD), Some(6))),
            "TotalIssues BranchInstructions BranchMispredictions"
        );
        assert!(counted_by_default(&list(VIRTUALISED), Some(4)).is_empty());
        let sampled = |sources| sampled_by_default(&list(sources)).expect("one").name;
        assert_eq!([INTEL, AMD, VIRTUALISED].map(sampled), ["TotalCycles", "Timer", "Timer"]);
        let five = "cycles,{instructions,branches},cache-misses,branch-misses";
        let events = resolved(five, &intel).expect("they are listed");
        for (counters, passes, divided) in [
            (Some(5), false, Some(vec![vec![0, 1, 2, 3, 4]])),
            (None, false, None),
            (None, true, Some(vec![vec![0, 1, 2, 3], vec![4]])),
            (Some(2), true, Some(vec![vec![0], vec![1, 2], vec![3, 4]])),
            (Some(1), true, None),
            (Some(0), true, None),
        ] {
            assert_eq!(sessions(&events, counters, passes).ok(), divided, "{counters:?}");
        }
        let timer = resolved("Timer", &intel).expect("it is listed");
        assert!(sessions(&timer, Some(4), false).is_err(), "time is not counted");
    }
}
