//! A recording of marks, written by the library, so that every time is known: `tests/cases/marks.txt`
//! and the screens have what `timeline` shows of it, `tests/programs/marks.rs` recordings of programs.

use halprof_profile::file::{Channels, Cost, Mark, Metadata, Statistics, Writer};
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
