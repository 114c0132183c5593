//! What a fake backend is asked for; `tests/cases/tracing.txt` has what a model's sessions count.

use super::super::run;
use crate::cli::args::Commands;
use crate::output::error::Result;
use crate::run::tracing::fake::{command, context};
use halprof_measure::tracing::session::TraceRequest;
use serde_json::Value;

/// The result while others hold some of the two counters, and what each session was to count.
fn stat(arguments: &[&str], taken: usize) -> (Result<Value>, Vec<Vec<u32>>) {
    let (mut ctx, log) = context();
    log.borrow_mut().taken = taken;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("stat.json");
    let file = path.to_str().expect("UTF-8");
    let (Commands::Stat(options), output) =
        command(&[&["stat", "-d", "0.01", "-o", file], arguments].concat())
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
    let by_thread = ["-e", "instructions,cycles", "--by", "thread", "-I", "5"];
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
