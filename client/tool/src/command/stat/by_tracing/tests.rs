//! What a fake backend is asked for; `tests/cases/tracing.txt` has what a model's sessions count.

use super::super::run;
use crate::cli::args::Commands;
use crate::output::error::Result;
use crate::run::tracing::fake::{Log, command, context};
use halprof_measure::tracing::session::{TraceEnd, TraceRequest};
use serde_json::Value;

/// The result while others hold some of the two counters, and what each session was to count.
fn stat(arguments: &[&str], taken: usize) -> (Result<Value>, Vec<Vec<u32>>) {
    stat_while(arguments, |log| log.taken = taken)
}

/// The result while the backend is as `set` says.
fn stat_while(arguments: &[&str], set: impl FnOnce(&mut Log)) -> (Result<Value>, Vec<Vec<u32>>) {
    let (mut ctx, log) = context();
    set(&mut log.borrow_mut());
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("stat.json");
    let file = path.to_str().expect("UTF-8");
    let has_length = arguments.contains(&"-d");
    let length: &[&str] = if has_length { &[] } else { &["-d", "0.01"] };
    let (Commands::Stat(options), output) =
        command(&[&["stat", "-o", file], length, arguments].concat())
    else {
        panic!("{arguments:?}");
    };
    let status = run(&options, &mut ctx, &output);
    let log = log.borrow();
    assert!(!log.running, "{arguments:?}");
    let counted = |request: &TraceRequest| {
        assert!(request.sampled.is_empty() && !request.stacks, "{request:?}");
        request.counted.clone()
    };
    let read = |_| serde_json::from_slice(&std::fs::read(&path).expect("a file")).expect("JSON");
    (status.map(read), log.requests.iter().map(counted).collect())
}

#[test]
fn of_what_nobody_named_as_much_is_counted_as_there_are_free_counters() {
    let by_thread = ["-e", "instructions,cycles", "--by", "thread", "-I", "100"];
    for (arguments, taken, requests, left_out) in [
        (&[][..], 0, &[&[19, 2][..]][..], None),
        (&by_thread, 0, &[&[2, 19]], None),
        (&[], 1, &[&[19, 2], &[19]], Some("TotalIssues not counted")),
        (&["--passes"], 1, &[&[19, 2], &[19]], Some("TotalIssues not counted")),
    ] {
        let (result, counted) = stat(arguments, taken);
        assert_eq!(counted, requests);
        let warnings = result.expect("counted")["warnings"].to_string();
        assert!(left_out.is_none_or(|said| warnings.contains(said)), "{warnings}");
        assert_eq!(warnings.contains("not counted"), left_out.is_some(), "{warnings}");
    }
}

/// No session is left, and of what is refused none is started.
#[test]
fn a_session_ends_whatever_ends_the_counting() {
    for (arguments, taken, requests, code) in [
        (&[][..], 2, &[&[19, 2][..], &[19]][..], "counters-reserved"),
        (&["-e", "cycles,instructions"], 1, &[&[19, 2]], "counters-reserved"),
        (
            &["-e", "cycles,instructions,CacheMisses", "--passes"],
            1,
            &[&[19, 2]],
            "counters-reserved",
        ),
        (&["--", "/no/such/program"], 0, &[&[19, 2]], "file"),
        (&["--topdown"], 0, &[], "unavailable"),
        (&["-e", "cycles,instructions,CacheMisses"], 0, &[], "unavailable"),
    ] {
        let (result, counted) = stat(arguments, taken);
        assert_eq!(counted, requests, "{arguments:?}");
        assert_eq!(result.expect_err("refused").code(), code, "{arguments:?}");
    }
}

/// Two intervals of a session that another program stops after the first, or that loses events.
#[test]
fn intervals_end_with_the_session_and_say_what_it_lost() {
    let arguments = ["-e", "instructions,cycles", "-I", "60", "-d", "0.15"];
    for (ended, lost, expected) in [
        (None, 0, None),
        (Some(TraceEnd::Stopped), 0, Some("measuring ended early: another program stopped")),
        (None, 3, Some("lost 3 events")),
    ] {
        let (result, _) = stat_while(&arguments, |log| {
            (log.ended, log.lost) = (ended, lost);
        });
        let result = result.expect("counted");
        let warnings = result["warnings"].to_string();
        assert!(expected.is_none_or(|said| warnings.contains(said)), "{warnings}");
        let intervals = result["intervals"].as_array().expect("intervals");
        let values = |counts: &Value| counts[0]["value"].as_u64().unwrap_or(0);
        let sum: u64 = intervals.iter().map(|interval| values(&interval["counts"])).sum();
        assert_eq!(sum, values(&result["counts"]), "{result}");
        assert_eq!(sum, 100);
    }
}

#[test]
fn intervals_in_which_windows_does_not_deliver_are_refused() {
    let (result, counted) = stat(&["-I", "49"], 0);
    assert_eq!(result.expect_err("refused").code(), "usage");
    assert!(counted.is_empty());
}
