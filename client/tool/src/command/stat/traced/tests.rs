use super::super::run;
use crate::cli::args::Commands;
use crate::output::error::Result;
use crate::run::tracing::fake::{Log, command, context};
use halprof_measure::tracing::TraceRequest;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::rc::Rc;

fn stat(arguments: &[&str]) -> (Result<u32>, Rc<RefCell<Log>>) {
    stat_with(arguments, 0)
}

/// The same while others hold some of the counters.
fn stat_with(arguments: &[&str], taken: usize) -> (Result<u32>, Rc<RefCell<Log>>) {
    let (mut ctx, log) = context();
    log.borrow_mut().taken = taken;
    let (Commands::Stat(options), output) = command(&[&["stat"], arguments].concat()) else {
        panic!("{arguments:?}");
    };
    (run(&options, &mut ctx, &output), log)
}

#[test]
fn a_session_counts_what_is_named_or_as_much_as_there_are_counters_for() {
    for (list, counted) in [
        (&[][..], &[19, 2][..]),
        (&["-e", "CacheMisses"], &[10]),
        (&["-e", "instructions,cycles", "--by", "thread", "-I", "5"], &[2, 19]),
    ] {
        let (status, log) = stat(&[&["-d", "0.01"], list].concat());
        assert_eq!(status.expect("counted"), 0, "{list:?}");
        let counted = counted.to_vec();
        let request = TraceRequest { counted, ..TraceRequest::default() };
        assert_eq!((&log.borrow().requests, log.borrow().running), (&vec![request], false));
    }
}

/// The result of a measurement.
fn result(arguments: &[&str], taken: usize) -> (Result<Value>, Rc<RefCell<Log>>) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("stat.json");
    let arguments = [&["-d", "0.01", "-o", path.to_str().expect("UTF-8")], arguments].concat();
    let (status, log) = stat_with(&arguments, taken);
    let read = |_| serde_json::from_slice(&std::fs::read(&path).expect("a file")).expect("JSON");
    (status.map(read), log)
}

fn counted(log: &Rc<RefCell<Log>>) -> Vec<Vec<u32>> {
    log.borrow().requests.iter().map(|request| request.counted.clone()).collect()
}

/// The double counts 100 of everything in each session.
#[test]
fn in_passes_each_session_counts_what_it_can() {
    let list = ["-e", "cycles,CacheMisses,instructions", "--passes"];
    let (result, log) = result(&list, 0);
    let result = result.expect("counted");
    assert_eq!(counted(&log), [vec![19, 10], vec![2]]);
    let counts = result["counts"].as_array().expect("counts").iter();
    let counts = counts.map(|row| json!([row["source"], row["value"], row["pass"]]));
    assert_eq!(
        counts.collect::<Vec<_>>(),
        [json!(["source 19", 100, 1]), json!(["source 10", 100, 1]), json!(["source 2", 100, 2])]
    );
    let passes = result["passes"].as_array().expect("passes").iter();
    let sources: Vec<&Value> = passes.map(|pass| &pass["sources"]).collect();
    assert_eq!(sources, [&json!(["source 19", "source 10"]), &json!(["source 2"])]);
    // Each session has two switches: into the thread, and out of it.
    assert_eq!(result["trace"]["switches"], 4);
}

#[test]
fn of_what_nobody_named_as_much_is_counted_as_there_are_free_counters() {
    for (arguments, taken, requests, left_out) in [
        (&[][..], 0, &[&[19, 2][..]][..], None),
        (&[], 1, &[&[19, 2], &[19]], Some("TotalIssues could not be counted")),
        (&["--passes"], 1, &[&[19, 2], &[19]], Some("TotalIssues could not be counted")),
    ] {
        let (result, log) = result(arguments, taken);
        assert_eq!(counted(&log), requests);
        let warnings = result.expect("counted")["warnings"].to_string();
        assert!(left_out.is_none_or(|said| warnings.contains(said)), "{warnings}");
        assert_eq!(warnings.contains("could not be counted"), left_out.is_some(), "{warnings}");
    }
    for (arguments, taken, requests) in [
        (&[][..], 2, &[&[19, 2][..], &[19]][..]),
        (&["-e", "cycles,instructions"], 1, &[&[19, 2]]),
        (&["-e", "cycles,instructions,CacheMisses", "--passes"], 1, &[&[19, 2]]),
    ] {
        let (result, log) = result(arguments, taken);
        assert_eq!(counted(&log), requests);
        assert_eq!(result.expect_err("refused").code(), "counters-reserved");
        assert!(!log.borrow().running);
    }
}

#[test]
fn what_a_session_cannot_count_is_refused_and_nothing_is_started() {
    for (arguments, named) in [
        (&["--topdown"][..], "--topdown"),
        (&["--repeat", "2"], "--repeat"),
        (&["--rotate", "5"], "--rotate"),
        (&["-e", "cycles:u"], "cycles:u"),
        (&["-e", "Timer"], "Timer is time"),
        (&["-e", "cycles,instructions,CacheMisses"], "3 sources"),
        (&["-e", "{cycles,instructions,CacheMisses}", "--passes"], "3 sources"),
    ] {
        let (status, log) = stat(&[&["-d", "0.01"], arguments].concat());
        let error = status.expect_err("refused");
        assert_eq!((error.code(), error.exit_status()), ("unavailable", 4), "{arguments:?}");
        assert!(error.to_string().contains(named), "{error}");
        assert!(log.borrow().requests.is_empty(), "{arguments:?}");
    }
}

/// A program that cannot be started leaves no session.
#[test]
fn a_session_ends_whatever_ends_the_counting() {
    let (status, log) = stat(&["--", "/no/such/program"]);
    assert_eq!(status.expect_err("there is none").code(), "file");
    assert_eq!((log.borrow().requests.len(), log.borrow().running), (1, false));
}
