//! Does `timeline` show what a recording's marks say, and refuse invalid requests?
//!
//! The recordings here are written by the library, so that every time is known;
//! `tests/programs/marks.rs` has recordings of programs.

use crate::cli::screens::screen::{WIDTHS, assert_screen};
use crate::cli::support::{halprof, json, refused};
use halprof_profile::file::{Channels, Cost, Mark, Metadata, Statistics, Writer};
use serde_json::Value;
use std::path::Path;

/// A hundred turns of two threads on three channels, with 1 tick per nanosecond.
pub(crate) fn recording(path: &Path) {
    let metadata = Metadata {
        machine: "a processor".to_owned(),
        timestamp_frequency: 1_000_000_000,
        ..Metadata::default()
    };
    let mut marks = Vec::new();
    for turn in 0..100 {
        let thread = 11 + (turn % 2) as u32;
        let begin = 5000 + 1000 * turn;
        let mut mark = |time, channel| {
            marks.push(Mark { time, value: turn, process: 10, thread, channel, reserved: 0 });
        };
        mark(begin, 0);
        mark(begin + 100 + turn, 1);
        if turn % 10 == 0 {
            mark(begin + 50, 2);
        }
    }
    let channels = Channels {
        names: ["begin", "end", "cache \u{1b}[2J miss"].map(str::to_owned).to_vec(),
        clock: "RDTSC without a fence".to_owned(),
        ticks_a_second: 1_000_000_000,
        rate_error_ppb: 1234,
        rate_over_ns: 50_000_000,
        step_ticks: 1,
        cost: Some(Cost { min_ticks: 18, median_ticks: 20, distances: 255 }),
        processes: 1,
        ..Channels::default()
    };
    let mut writer = Writer::create(path, &metadata).expect("a file");
    writer.marks(&marks).expect("written");
    writer.channels(&channels).expect("written");
    writer.finish(&Statistics::default(), false).expect("written");
}

fn with_recording(test: impl FnOnce(&str)) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.rec");
    recording(&path);
    test(path.to_str().expect("UTF-8"));
}

#[test]
fn screens_are_as_expected_and_keep_to_their_width() {
    with_recording(|file| {
        for (name, options) in [
            ("timeline", &["--rows", "8"][..]),
            ("timeline-ticks", &["--ticks", "500ns"]),
            ("timeline-between", &["--between", "begin,end"]),
            ("timeline-channel", &["--channel", "cache*", "--rows", "3"]),
        ] {
            for columns in WIDTHS {
                let width = columns.to_string();
                let ran = halprof(&[&["timeline", file, "--width", &width], options].concat());
                assert_eq!(ran.status, 0, "{}", ran.stderr);
                for line in ran.stdout.lines() {
                    assert!(line.chars().count() <= columns, "{name}: {line}");
                }
                assert_screen(&format!("{name}-{columns}"), &ran.stdout);
            }
        }
    });
}

#[test]
fn figures_are_those_of_the_marks() {
    with_recording(|file| {
        let value = json(&["timeline", file, "--between", "begin,end", "--ticks", "1us"]);
        assert_eq!((&value["marks"], &value["elapsed_ns"]), (&210.into(), &99_199.into()));
        let lengths = &value["between"]["lengths"];
        assert_eq!((&lengths["min_ns"], &lengths["max_ns"]), (&100.into(), &199.into()));
        assert_eq!(lengths["mean_ns"], 149.5);
        let begin = &value["channels"][0]["gaps"];
        assert_eq!((&begin["n"], &begin["mode_ns"]), (&99.into(), &1000.into()));
        let row = &value["ticks"]["tracks"][0]["marks"];
        assert!(row.as_array().expect("a list").iter().all(|marks| *marks == 1));
        let some = json(&["timeline", file, "--time", "0.00001-0.00002", "--channel", "end"]);
        assert_eq!((&some["marks"], &some["recorded"]), (&10.into(), &210.into()));
        let all = json(&["timeline", file, "--rows", "0"]);
        assert_eq!(all["rows"].as_array().map(Vec::len), Some(210));
        assert_eq!(all["rows"][1]["on_any_ns"], 50);
    });
}

#[test]
fn exports_show_the_marks() {
    with_recording(|file| {
        let export = |format: &str| {
            let out = format!("{file}.{format}");
            let told = json(&["export", file, "--format", format, "-o", &out]);
            assert_eq!(told["marks"], 210, "{told}");
            std::fs::read_to_string(out).expect("read")
        };
        let profile: Value = serde_json::from_str(&export("firefox")).expect("JSON");
        let threads = profile["threads"].as_array().expect("threads").iter();
        let counts = threads.map(|thread| thread["markers"]["length"].clone());
        // The turns alternate between two threads, and every tenth turn has one more mark.
        assert_eq!(counts.collect::<Vec<_>>(), [110, 100].map(Value::from));

        let page = export("html");
        for said in [
            "<h2>Marks</h2>",
            "210 marks on 3 channels in 99.2 µs",
            "<td>begin</td><td class=\"number\">100</td><td class=\"number\">1 µs</td>",
        ] {
            assert!(page.contains(said), "{said}");
        }
        assert!(!page.contains('\u{1b}'), "nothing of a name is markup");
        // A page without marks is unchanged.
        let told = json(&["export", file, "--format", "folded", "-o", &format!("{file}.f")]);
        assert_eq!(told["marks"], 0);
    });
}

#[test]
fn what_makes_no_sense_is_refused() {
    with_recording(|file| {
        for options in [
            &["--between", "begin"][..],
            &["--between", "begin,nd"],
            &["--ticks", "0s"],
            &["--ticks", "ten"],
            &["--time", "2-1"],
            &["-o", "b.rec"],
            &["--", "true"],
        ] {
            refused(&[&["timeline", file], options].concat(), 2, "usage");
        }
        let ran = halprof(&["timeline", file, "--between", "begn,end"]);
        assert!(ran.stderr.contains("Did you mean `begin`?"), "{}", ran.stderr);
    });
    refused(&["timeline"], 2, "usage");
    refused(&["timeline", "no-such-file"], 5, "file");
    refused(&["timeline", "Cargo.toml"], 5, "bad-file");
}

#[test]
fn a_machine_is_refused_and_a_report_of_marks_names_the_timeline() {
    with_recording(|file| {
        refused(&["--machine", "skylake", "timeline", file], 2, "usage");
        let ran = halprof(&["report", file]);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let told = format!("no samples; 210 marks: `halprof timeline {file}` shows them\n");
        assert_eq!(ran.stdout, told);
        let table = halprof(&["report", file, "--csv"]);
        assert!(table.stderr.contains(told.trim_end()), "{}", table.stderr);
    });
}

/// Neither command replaces what the other, or itself, has written.
#[test]
#[cfg(unix)]
fn what_was_there_is_kept() {
    use std::process::Command;
    let folder = tempfile::tempdir().expect("a folder");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_halprof"));
        let ran = command.current_dir(folder.path()).args(arguments).output();
        let ran = ran.expect("it runs");
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8(ran.stderr).expect("UTF-8")
    };
    for turn in 0..2 {
        for (arguments, name) in [
            (&["--machine", "skylake", "record"][..], "halprof.rec"),
            (&["timeline", "--", "true"], "halprof.marks"),
        ] {
            let told = run(arguments);
            let kept = format!("the {name} that was there is now {name}.old");
            assert_eq!(told.contains(&kept), turn == 1, "{told}");
        }
    }
    let names = std::fs::read_dir(folder.path()).expect("a folder");
    let names = names.map(|name| name.expect("a name").file_name());
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    let wanted = ["halprof.marks", "halprof.marks.old", "halprof.rec", "halprof.rec.old"];
    assert_eq!(names, wanted);
}

#[test]
fn a_recording_without_marks_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.rec");
    let file = file.to_str().expect("UTF-8");
    json(&["--machine", "skylake", "record", "-o", file]);
    let ran = halprof(&["timeline", file]);
    assert_eq!(ran.status, 0);
    assert!(ran.stderr.contains("has no marks"), "{}", ran.stderr);
}

#[cfg(unix)]
#[test]
fn a_program_without_marks_has_no_tables() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.rec");
    let path = path.to_str().expect("UTF-8");
    let ran = halprof(&["timeline", "-o", path, "--", "true"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stdout.ends_with("\nno marks\n"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("channel  "), "{}", ran.stdout);
}
