use super::super::run;
use crate::cli::args::Commands;
use crate::output::error::Result;
use crate::run::tracing::fake::{Log, SAMPLES, command, context};
use halprof_measure::tracing::{SampledSource, TraceEnd, TraceRequest};
use halprof_profile::file;
use std::cell::RefCell;
use std::rc::Rc;
use tempfile::TempDir;

fn record(arguments: &[&str]) -> (Result<u32>, Rc<RefCell<Log>>) {
    let (mut ctx, log) = context();
    let (Commands::Record(options), output) = command(&[&["record"], arguments].concat()) else {
        panic!("{arguments:?}");
    };
    (run(&options, &mut ctx, &output), log)
}

fn in_folder(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().expect("UTF-8").to_owned()
}

#[test]
fn what_is_sampled_is_recorded_with_what_only_the_recorder_knows() {
    let folder = tempfile::tempdir().expect("a folder");
    for (list, sampled, names) in [
        (&[][..], &[(19, 1_000_000)][..], &["TotalCycles"][..]),
        (&["-e", "Timer"], &[(0, 10_000)], &["Timer"]),
        (&["-e", "cycles:5000,instructions"], &[(19, 5000), (2, 1_000_000)], &["TotalCycles"]),
    ] {
        let path = in_folder(&folder, "a.rec");
        let (status, log) = record(&[&["-d", "0.01", "-o", &path], list].concat());
        assert_eq!(status.expect("recorded"), 0);
        let sampled: Vec<SampledSource> =
            sampled.iter().map(|&(id, interval)| SampledSource { id, interval }).collect();
        let expected = sampled.len() as u64 * SAMPLES.cast_unsigned();
        let request = TraceRequest { sampled, stacks: true, ..TraceRequest::default() };
        assert_eq!(log.borrow().requests, [request]);
        assert!(!log.borrow().running);
        let recording = file::read(path.as_ref(), |_| {}).expect("a recording");
        assert_eq!(recording.samples, expected, "{names:?}");
        assert_eq!(recording.metadata.halprof, env!("CARGO_PKG_VERSION"));
        assert!(!recording.metadata.modelled && !recording.metadata.origin.is_empty());
    }
}

#[test]
fn a_trace_is_kept_as_it_is_where_its_extension_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = in_folder(&folder, "a.ETL");
    let (status, _) = record(&["-d", "0.01", "-o", &path]);
    assert_eq!(status.expect("recorded"), 0);
    let trace = halprof_etw::Trace::open(std::fs::File::open(&path).expect("a file"));
    assert_eq!(trace.expect("a trace").header().processors, 2);
}

#[test]
fn what_tracing_cannot_do_is_refused_by_name_and_nothing_is_started() {
    for arguments in [
        &["--branches"][..],
        &["--rate", "1000"],
        &["--passes"],
        &["--rotate", "5"],
        &["--cpu", "0"],
        &["--approximate"],
        &["-e", "cycles:u"],
        &["-e", "r00C0"],
        &["-e", "L2Misses"],
        &["-e", "cycles,instructions,CacheMisses"],
    ] {
        let (status, log) = record(arguments);
        let error = status.expect_err("refused");
        assert_eq!((error.code(), error.exit_status()), ("unavailable", 4), "{arguments:?}");
        let named = error.to_string();
        let is_named = arguments.iter().any(|one| named.contains(one));
        assert!(is_named || named.contains("3 sources"), "{named}");
        assert!(log.borrow().requests.is_empty(), "{arguments:?}");
    }
}

/// Without `-d` the session would go on until Ctrl-C.
#[test]
fn a_session_that_ends_by_itself_ends_the_recording() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = in_folder(&folder, "a.rec");
    let (mut ctx, log) = context();
    log.borrow_mut().ended = Some(TraceEnd::Full(4 << 30));
    let (Commands::Record(options), output) = command(&["record", "-o", &path]) else { panic!() };
    assert_eq!(run(&options, &mut ctx, &output).expect("recorded"), 0);
}

/// A program that cannot be started leaves no session.
#[test]
fn a_session_ends_whatever_ends_the_measurement() {
    let folder = tempfile::tempdir().expect("a folder");
    let (status, log) = record(&["-o", &in_folder(&folder, "a.rec"), "--", "/no/such/program"]);
    assert_eq!(status.expect_err("there is none").code(), "file");
    assert_eq!((log.borrow().requests.len(), log.borrow().running), (1, false));
}
