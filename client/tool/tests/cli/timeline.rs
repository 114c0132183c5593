//! Does `timeline` show what a recording's marks say, and refuse invalid requests?
//!
//! The recordings here are written by the library, so that every time is known;
//! `tests/programs/marks.rs` has recordings of programs.

use crate::cli::screens::screen::{WIDTHS, assert_screen};
use crate::cli::support::{folder, halprof, json as halprof_value, refused, text};
use halprof_profile::file::{Channels, Cost, Mark, Metadata, Statistics, Writer};
use serde_json::{Value, json};
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

#[test]
fn screens_are_as_expected_and_keep_to_their_width() {
    let (_folder, path) = folder();
    recording(&path);
    for (name, options) in [
        ("timeline", "--rows 8"),
        ("timeline-ticks", "--ticks 500ns"),
        ("timeline-between", "--between begin,end"),
        ("timeline-channel", "--channel cache* --rows 3"),
    ] {
        for columns in WIDTHS {
            let ran = halprof(&format!("timeline {} --width {columns} {options}", text(&path)));
            assert_eq!(ran.status, 0, "{}", ran.stderr);
            assert_screen(&format!("{name}-{columns}"), &ran.stdout, columns);
        }
    }
}

#[test]
fn figures_are_those_of_the_marks() {
    let (_folder, path) = folder();
    recording(&path);
    let file = text(&path);
    for (options, pointer, expected) in [
        ("", "/marks", json!(210)),
        ("", "/elapsed_ns", json!(99_199)),
        ("--between begin,end", "/between/lengths/min_ns", json!(100)),
        ("--between begin,end", "/between/lengths/max_ns", json!(199)),
        ("--between begin,end", "/between/lengths/mean_ns", json!(149.5)),
        ("", "/channels/0/gaps/n", json!(99)),
        ("", "/channels/0/gaps/mode_ns", json!(1000)),
        ("--ticks 1us", "/ticks/tracks/0/marks", vec![1; 80].into()),
        ("--time 0.00001-0.00002 --channel end", "/marks", json!(10)),
        ("--time 0.00001-0.00002 --channel end", "/recorded", json!(210)),
        ("--rows 0", "/rows/1/on_any_ns", json!(50)),
        ("--rows 0", "/rows/209/number", json!(210)),
    ] {
        let value = halprof_value(&format!("timeline {file} {options}"));
        assert_eq!(value.pointer(pointer), Some(&expected), "{options} {pointer}: {value}");
    }
}

#[test]
fn exports_show_the_marks() {
    let (_folder, path) = folder();
    recording(&path);
    let file = text(&path);
    let export = |format: &str, marks: u64| {
        let out = format!("{file}.{format}");
        let written = halprof_value(&format!("export {file} --format {format} -o {out}"));
        assert_eq!(written["marks"], marks, "{format}");
        std::fs::read_to_string(out).expect("read")
    };
    export("folded", 0);
    let profile: Value = serde_json::from_str(&export("firefox", 210)).expect("JSON");
    let threads = profile["threads"].as_array().expect("threads").iter();
    let counts: Vec<_> = threads.map(|thread| &thread["markers"]["length"]).collect();
    // The turns alternate between two threads, and every tenth turn has one more mark.
    assert_eq!(counts, [110, 100]);
    let page = export("html", 210);
    let row = "<td>begin</td><td class=\"number\">100</td><td class=\"number\">1 µs</td>";
    assert!(page.contains("210 marks on 3 channels in 99.2 µs") && page.contains(row), "{page}");
    assert!(!page.contains('\u{1b}'), "nothing of a name is markup");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let (_folder, path) = folder();
    recording(&path);
    let file = text(&path);
    for options in [
        "--between begin",
        "--between begin,nd",
        "--ticks 0s",
        "--ticks ten",
        "--time 2-1",
        "-o b.rec",
        "-- true",
        "--machine skylake",
    ] {
        refused(&format!("timeline {file} {options}"), 2, "usage");
    }
    let report = halprof(&format!("report {file}"));
    let words = format!("no samples; 210 marks: `halprof timeline {file}` shows them\n");
    assert_eq!((report.status, report.stdout), (0, words));
}
