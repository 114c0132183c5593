//! Is what a user names found in Windows' list, and divided into what one session can count?

use crate::windows::{AMD, INTEL, VIRTUALISED, list};
use halprof_measure::selection::parse_list;
use halprof_measure::tracing::session::ProfileSource;
use halprof_measure::tracing::session::plan::{
    TraceEvent, counted_by_default, find, resolve, sampled_by_default, sessions,
};
use halprof_measure::{Error, Result};

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
        ("r00C0", INTEL, "`r00C0`: Windows' own tracing takes no event selects", "Timer, Total"),
        ("TotalIsues", INTEL, "no source called `TotalIsues`", "Did you mean `TotalIssues`"),
        ("cycles", VIRTUALISED, "no source called `cycles`", "It lists Timer."),
        ("cycles,UnhaltedCoreCycles,TotalCycles", INTEL, "TotalCycles is listed twice", "once"),
    ] {
        let error = resolved(text, &list(sources)).expect_err(text);
        assert!(error.to_string().contains(message), "{error}");
        let (Error::Unavailable { hint: said, .. } | Error::Usage { hint: said, .. }) = error
        else {
            panic!("{error}");
        };
        assert!(said.to_string().contains(hint), "{said}");
    }
    assert!(resolved("cycles:uk", &list(INTEL)).is_ok(), "both modes are what it does");
}

#[test]
fn intervals_are_the_users_within_the_limits_or_the_hals() {
    let of = |text| {
        let event = resolved(text, &list(INTEL)).expect(text).remove(0);
        (event.requested_interval, event.interval)
    };
    // Cycles take about a thousand samples a second, as by the driver.
    assert_eq!(of("cycles"), (1_000_000, 1_000_000));
    assert_eq!(of("branch-misses"), (65_536, 65_536));
    assert_eq!(of("Timer"), (10_000, 10_000));
    assert_eq!(of("cycles:5000"), (5_000, 5_000));
    assert_eq!(of("cycles:4095"), (4_095, 4_096));
    assert_eq!(of("cycles:99999999999"), (99_999_999_999, 2_147_483_647));
    let unnamed = sampled_by_default(&list(INTEL)).expect("cycles");
    assert_eq!(unnamed.interval, 1_000_000);
}

#[test]
fn all_are_those_that_are_listed() {
    let sources = list(INTEL);
    let all = resolved("all", &sources).expect("all");
    assert_eq!(all.len(), sources.len());
    let ids = |events: &[TraceEvent]| events.iter().map(|one| one.source).collect::<Vec<_>>();
    let more = resolved("cycles,ALL", &sources).expect("all");
    assert_eq!((ids(&more)[0], more.len()), (19, all.len()), "each once");
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
