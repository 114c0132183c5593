//! Can an untrusted recording control the terminal, or open files that it names?

use crate::cli::support::{Ran, folder, halprof, halprof_json, json, text};
use halprof_etw::PointerSize;
use halprof_etw::payload::counters::CounterNames;
use halprof_etw::payload::image::Image;
use halprof_etw::payload::processor::Switch;
use halprof_etw::payload::stack::{Frames, Stack};
use halprof_etw::payload::thread::{Thread, ThreadName};
use halprof_etw::payload::{Change, EventKind, process as etw};
use halprof_profile::file::{
    Branches, LOST_EVENTS, Metadata, Module, Process, Source, Statistics, Writer,
};
use shared_types::{Branch, Mode, Sample};
use sim_etw::write::{self, Origin, Session};
use std::collections::BTreeMap;
use std::path::Path;

/// Clears the screen, writes to the clipboard, starts a line, moves with C1, reverses the
/// direction.
const NAME: &str = "a\u{1b}[2J\u{1b}]52;c;eA==\u{7}\nforged\r\u{9b}31m\u{7f}\u{202e}txt\u{2066}";
const CODE: u64 = 0x1000;

fn module(name: &str, path: &str) -> Module {
    Module {
        process: Some(8),
        name: name.to_owned(),
        path: Some(path.to_owned()),
        start: CODE,
        end: CODE + 0x1000,
        ..Module::default()
    }
}

/// A recording with hostile names only, and one module with samples at its start.
fn recording(path: &Path, module: Module) {
    let metadata = Metadata {
        machine: NAME.to_owned(),
        interface: NAME.to_owned(),
        halprof: NAME.to_owned(),
        command: vec![NAME.to_owned()],
        timestamp_frequency: 1_000_000_000,
        processors: 1,
        sources: ["b", NAME]
            .map(|name| Source { name: name.to_owned(), ..Source::default() })
            .to_vec(),
        branches: Some(Branches { depth: u32::MAX, kinds: Vec::new(), recorder: NAME.to_owned() }),
        ..Metadata::default()
    };
    let mut writer = Writer::create(path, &metadata).expect("created");
    let process = Process { id: 8, name: NAME.to_owned(), ..Process::default() };
    writer.processes(&[process]).expect("written");
    writer.modules(&[module]).expect("written");
    let samples: Vec<Sample> = (0..100)
        .map(|n| Sample {
            timestamp: n,
            ip: CODE + n,
            period: 10,
            process: 8,
            source: u16::from(n % 2 == 0),
            mode: Mode::User as u8,
            branches: 2,
            ..Sample::default()
        })
        .collect();
    let branches: Vec<Branch> = (0..200)
        .map(|n| Branch {
            from: CODE + n,
            to: CODE + n / 2,
            kind: n as u8,
            flags: n as u8,
            ..Branch::default()
        })
        .collect();
    writer.branched(&samples, &branches).expect("written");
    let statistics = Statistics {
        generated: 107,
        lost: BTreeMap::from([(NAME.to_owned(), 7)]),
        ..Statistics::default()
    };
    writer.finish(&statistics, false).expect("finished");
}

/// The report on a recording of one sample that has lost others.
fn report_with_lost<const N: usize>(lost: [(&str, u64); N]) -> Ran {
    let (_folder, path) = folder();
    let metadata = Metadata { sources: vec![Source::default()], ..Metadata::default() };
    let mut writer = Writer::create(&path, &metadata).expect("created");
    writer.samples(&[Sample::default()]).expect("written");
    let lost = lost.map(|(cause, n)| (cause.to_owned(), n)).into();
    writer.finish(&Statistics { lost, ..Statistics::default() }, false).expect("finished");
    halprof(&format!("report {}", text(&path)))
}

/// All samples that a number can count are lost, and one more.
#[test]
fn losses_beyond_the_largest_number_are_reported() {
    let report = report_with_lost([("a", u64::MAX), ("b", 1)]);
    assert_eq!(report.status, 0, "{}", report.stderr);
    let all = "18,446,744,073,709,551,615";
    let warning = format!("{all} of {all} samples were lost");
    assert!(report.stderr.contains(&warning), "{}", report.stderr);
    assert!(report.stdout.contains(&format!("{all} lost")), "{}", report.stdout);
}

/// A trace's session counts the events that it lost, and not their kinds.
#[test]
fn events_that_a_trace_lost_are_not_called_samples() {
    let report = report_with_lost([(LOST_EVENTS, 3)]);
    assert!(report.stderr.contains("lost 3 events of unknown kinds"), "{}", report.stderr);
    assert!(!report.stderr.contains("samples were lost"), "{}", report.stderr);
}

/// The text contains nothing that a terminal would act on, and no line that a name has started.
fn assert_harmless(what: &str, text: &str) {
    let acted = |c: char| c.is_control() && c != '\n';
    let turned = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    assert_eq!(text.chars().find(|&c| acted(c) || turned(c)), None, "{what}: {text}");
    assert_eq!(text.lines().find(|line| line.starts_with("forged")), None, "{what}: {text}");
}

/// Runs a command that shows [`NAME`], as text and as JSON.
fn assert_shows_harmlessly(line: &str) {
    let ran = halprof(line);
    assert_harmless(line, &ran.stdout);
    assert_harmless(line, &ran.stderr);
    let shown = ran.stdout.contains("x1b[2J") || ran.stderr.contains("x1b[2J");
    assert!(shown, "{line} shows it: {} {}", ran.stdout, ran.stderr);
    assert_harmless(line, &halprof_json(line).stdout);
}

#[test]
fn no_name_of_a_recording_reaches_the_terminal_as_it_is() {
    let (folder, path) = folder();
    let file = text(&path);
    recording(&path, module(NAME, NAME));
    let out = folder.path().join("out");
    for line in [
        "report FILE",
        "report FILE --by source,process,module",
        "report FILE --by line --by address",
        "report FILE --by edge --by edge,module",
        "report FILE --by path,symbol",
        "report FILE --diff FILE",
        "report FILE --source none",
        "script FILE",
        "annotate FILE",
        "annotate FILE 0x1000",
        "annotate FILE --source none",
        "export FILE --format html -o OUT",
        "export FILE --format folded --source none",
        "export FILE --format perf-script -o OUT",
        "export FILE --format perf-script --source none",
    ] {
        assert_shows_harmlessly(&line.replace("FILE", file).replace("OUT", text(&out)));
    }
    // Programs that read JSON get the name unchanged.
    let told = json(&format!("report {file} --by module"));
    assert_eq!(told["tables"][0]["parts"][0]["rows"][0]["module"], NAME);
}

/// A trace has names of processes, images and counters.
#[test]
fn no_name_of_a_trace_reaches_the_terminal_as_it_is() {
    const THREAD: u32 = 8;
    let (folder, path) = folder();
    let trace = folder.path().join("a.etl");
    let switch = |old_thread, new_thread| {
        EventKind::Switch(Switch { old_thread, new_thread, old_state: 5, ..Switch::default() })
    };
    // The event has one byte for each character.
    let image = "a\u{1b}[2J\nforged\r\u{7f}";
    let frames = 0xFFFF_F800_0000_0000_u64.to_le_bytes();
    let frames = Frames::from_bytes(&frames, PointerSize::Eight);
    let kernel = Image {
        change: Change::RundownStart,
        base: 0xFFFF_F800_0000_0000,
        size: 0x1000,
        process: Some(0),
        name: NAME.to_owned(),
        file: None,
    };
    let events = [
        EventKind::CounterNames(CounterNames { names: vec![NAME.to_owned()] }),
        EventKind::Process(Box::new(etw::Process::new(Change::RundownStart, 40, image))),
        EventKind::Thread(Box::new(Thread::new(Change::RundownStart, 40, THREAD))),
        EventKind::ThreadName(Box::new(ThreadName {
            process: 40,
            thread: THREAD,
            name: NAME.to_owned(),
        })),
        EventKind::Image(Box::new(kernel)),
        switch(0, THREAD),
        switch(THREAD, 0),
        switch(0, THREAD),
        EventKind::Stack(Stack { event_time: 7, process: 40, thread: THREAD, frames }),
        switch(THREAD, 0),
    ];
    let events = (0..).zip(&events).map(|(time, event)| {
        let values: &[u64] = if matches!(event, EventKind::Switch(_)) { &[7] } else { &[] };
        (Origin { time, ..Origin::default() }, event, values)
    });
    let file = std::fs::File::create(&trace).expect("a file");
    write::trace(file, Session::default(), events).expect("written");
    let (trace, file) = (text(&trace), text(&path));
    json(&format!("convert {trace} -o {file}"));
    for line in [
        "stat --from TRACE --by thread",
        "stat --from TRACE --by process -I 1",
        "stat --from TRACE --by thread -I 1",
        "stat --from FILE --by thread",
        "report --off-cpu TRACE",
        "report --off-cpu --stack TRACE",
    ] {
        assert_shows_harmlessly(&line.replace("FILE", file).replace("TRACE", trace));
    }
    for file in [trace, file] {
        let row = &json(&format!("stat --from {file} --by thread"))["by_thread"][0];
        assert_eq!([&row["source"], &row["thread_name"]], [NAME, NAME]);
    }
    assert_eq!(json(&format!("report --off-cpu {trace}"))["rows"][0]["thread_name"], NAME);
}

/// Opening a pipe is noticed: whoever opens it waits for a writer.
#[cfg(unix)]
#[test]
fn no_path_of_another_machines_recording_is_opened() {
    let (folder, path) = folder();
    let program = folder.path().join("program");
    std::fs::copy(env!("CARGO_BIN_EXE_halprof"), &program).expect("copied");
    let (image, file) = (text(&program), text(&path));
    recording(&path, module("program", image));
    let told = json(&format!("report {file} --by symbol"));
    assert_eq!(told["symbols"][0]["image"], serde_json::Value::Null, "{told}");
    let notes = told["symbols"][0]["notes"][0].as_str().expect("a note");
    assert!(notes.contains("was not opened"), "{notes}");
    // If the user names the folder, the file is opened.
    let named = text(folder.path());
    let told = json(&format!("report {file} --by symbol --symbol-path {named}"));
    assert_eq!(told["symbols"][0]["image"], image, "{told}");
    for stranger in [r"\\host\share\program", r"\\.\PhysicalDrive0", "//host/share/program"] {
        recording(&path, module("gone", stranger));
        let told = json(&format!("report {file} --by symbol --symbol-path /"));
        let notes = told["symbols"][0]["notes"].to_string();
        assert!(notes.contains("was not opened"), "{stranger}: {notes}");
    }
}

/// Somebody's folder has a file whose name begins with `@`, and a hidden one that would be read for
/// it. A shell makes arguments of what is visible.
#[cfg(unix)]
#[test]
fn no_file_that_a_shell_names_is_read_as_arguments() {
    use std::os::unix::fs::symlink;
    use std::process::Command;
    type Make = fn(&Path);
    let kinds: [(&str, &str, Make); 5] = [
        ("@.b.rec", ".b.rec", |at| std::fs::write(at, "").expect("written")),
        ("@.b.rec", ".b.rec", |at| std::fs::create_dir(at).expect("a folder")),
        ("@.b.rec", ".b.rec", |at| symlink("nowhere", at).expect("a link")),
        ("@..rec", "..rec", |at| symlink("a.rec", at).expect("a link")),
        // What this stood for was the name of another file.
        ("@@.b.rec", "@.b.rec", |at| std::fs::write(at, "").expect("written")),
    ];
    for (visible, read, make) in kinds {
        let (folder, path) = folder();
        recording(&path, module("m", "m"));
        let (folder, victim) = (folder.path(), folder.path().join("victim"));
        make(&folder.join(visible));
        std::fs::write(folder.join(read), format!("--output\n{}\n", text(&victim)))
            .expect("written");
        std::fs::write(&victim, "precious").expect("written");
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec \"$0\" export --format folded *.rec"]);
        let ran = Ran::of(shell.arg(env!("CARGO_BIN_EXE_halprof")).current_dir(folder));
        let kept = std::fs::read_to_string(&victim).expect("it is there");
        assert_eq!(kept, "precious", "{visible}: {}", ran.stderr);
        // Who means it can still say so.
        let mut meant = Command::new(env!("CARGO_BIN_EXE_halprof"));
        meant.args(["export", "--format", "folded", "a.rec", &format!("@./{read}")]);
        let ran = Ran::of(meant.current_dir(folder));
        let replaced = std::fs::read_to_string(&victim).expect("it is there");
        assert!(replaced != "precious", "{visible}: {}", ran.stderr);
    }
}
