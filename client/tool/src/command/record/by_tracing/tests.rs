use super::super::run;
use super::read;
use crate::cli::args::Commands;
use crate::output::error::Result;
use crate::run::tracing::fake::{Log, SAMPLES, command, context};
use halprof_measure::tracing::session::{SampledSource, TraceEnd, TraceRequest};
use halprof_profile::file::{self, Metadata, Source, Statistics, Writer};
use shared_types::Sample;
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
    for (list, sampled) in [
        (&[][..], &[(19, 1_000_000)][..]),
        (&["-e", "Timer"], &[(0, 10_000)]),
        (&["-e", "cycles:5000,instructions"], &[(19, 5000), (2, 1_000_000)]),
    ] {
        let path = in_folder(&folder, "a.rec");
        let (status, log) = record(&[&["-d", "0.01", "-o", &path], list].concat());
        assert_eq!(status.expect("recorded"), 0);
        let sampled: Vec<SampledSource> =
            sampled.iter().map(|&(id, interval)| SampledSource { id, interval }).collect();
        let expected = sampled.len() as u64 * SAMPLES.cast_unsigned();
        let request =
            TraceRequest { sampled, stacks: true, methods: true, ..TraceRequest::default() };
        assert_eq!(log.borrow().requests, [request]);
        assert!(!log.borrow().running);
        let recording = file::read(path.as_ref(), |_| {}).expect("a recording");
        assert_eq!(recording.samples, expected, "{list:?}");
        assert_eq!(recording.metadata.halprof, env!("CARGO_PKG_VERSION"));
        assert!(!recording.metadata.modelled && !recording.metadata.origin.is_empty());
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

/// Windows gives the identifier of a process to another as soon as nobody holds it.
#[cfg(target_os = "linux")]
#[test]
fn a_process_that_ends_ends_its_recording() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut program = std::process::Command::new("sleep").arg("0.2").spawn().expect("it starts");
    let id = program.id().to_string();
    let ended = std::thread::spawn(move || program.wait());
    let (status, log) = record(&["-p", &id, "-o", &in_folder(&folder, "a.rec")]);
    // The trace is a script's, which has no such process.
    let error = status.expect_err("it has no samples").to_string();
    assert!(error.contains(&format!("no process {id} ran")), "{error}");
    assert_eq!((log.borrow().requests.len(), log.borrow().running), (1, false));
    ended.join().expect("no panic").expect("it ends");
    let (status, log) = record(&["-p", &id, "-o", &in_folder(&folder, "a.rec")]);
    assert_eq!(status.expect_err("it has ended").code(), "usage");
    assert_eq!(log.borrow().requests, []);
    let (status, _) = record(&["-p", "1", "-o", &in_folder(&folder, "a.etl")]);
    assert!(status.expect_err("a trace has all").to_string().contains("as Windows wrote it"));
}

/// A program that cannot be started leaves no session.
#[test]
fn a_session_ends_whatever_ends_the_measurement() {
    let folder = tempfile::tempdir().expect("a folder");
    let (status, log) = record(&["-o", &in_folder(&folder, "a.rec"), "--", "/no/such/program"]);
    assert_eq!(status.expect_err("there is none").code(), "file");
    assert_eq!((log.borrow().requests.len(), log.borrow().running), (1, false));
}

/// What a trace samples has an exact period.
#[test]
fn samples_that_go_round_a_loop_are_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = in_folder(&folder, "a.rec");
    let source = Source { name: "TotalCycles".to_owned(), ..Source::default() };
    let metadata = Metadata { sources: vec![source], ..Metadata::default() };
    let mut writer = Writer::create(path.as_ref(), &metadata).expect("created");
    for number in 0..2_000 {
        let process = u32::from(number * 100_003 % 10_007 >= 6_004);
        writer.samples(&[Sample { process, ..Sample::default() }]).expect("written");
    }
    writer.finish(&Statistics::default(), false).expect("finished");
    let in_step = read(path.as_ref()).expect("a recording").recording.in_step;
    assert_eq!(in_step.into_keys().collect::<Vec<_>>(), ["TotalCycles"]);
}

/// What Windows is asked to leave out of the records.
#[test]
fn kinds_of_branches_are_what_is_not_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    for (option, filter) in [
        ("--branches", 0x0),
        ("--branches=user", 0x1),
        ("--branches=kernel", 0x2),
        ("--branches=user+kernel", 0x0),
        ("--branches=return", 0x1DC),
        ("--branches=cond+call+user", 0x1F1),
    ] {
        let path = in_folder(&folder, "a.rec");
        let (status, log) = record(&[option, "-d", "0.01", "-o", &path]);
        assert_eq!(status.expect("recorded"), 0);
        assert_eq!(log.borrow().requests[0].branches, Some(filter), "{option}");
    }
    for option in ["--branches=16", "--branches=8+cond", "--branches=loops"] {
        let (status, log) = record(&[option, "-o", &in_folder(&folder, "a.rec")]);
        status.expect_err(option);
        assert_eq!(log.borrow().requests, []);
    }
}
