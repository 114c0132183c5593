//! What does the tool say of requests that fail, of replies that are not as they should be, and of a
//! driver that does not answer or goes away?

use super::{Driven, Running, counted, number};
use crate::cli::support::signal;
use std::time::{Duration, Instant};

/// What HELLO is completed with, and what the tool makes of it.
const STATUSES: &[(&str, i32, &str)] = &[
    ("C00000A3", 3, "driver-not-ready"),
    ("C0000010", 6, "request-failed"),
    ("C0000002", 6, "request-failed"),
    ("C0000023", 6, "request-failed"),
    ("C0000004", 6, "request-failed"),
    ("C0000022", 4, "access-denied"),
    ("C0000056", 4, "access-denied"),
    ("C0000120", 3, "device-failed"),
    ("C000009A", 3, "device-failed"),
    ("C0000001", 3, "device-failed"),
    ("C000000D", 3, "device-failed"),
    ("80000005", 3, "device-failed"),
    ("C00002B6", 3, "driver-gone"),
    ("C00000C0", 3, "driver-gone"),
];

/// Which replies are cut to which lengths.
const CUT: &[(&str, &[usize], &str)] = &[
    ("hello", &[0, 16, 24, 64], "info"),
    ("describe", &[0, 24, 32], "info"),
    ("processors", &[0, 24, 32], "info"),
    ("stop", &[32], "stat -d 0.1 -e TotalCycles"),
];

#[test]
fn each_failure_is_told_as_what_it_is() {
    let Some(driven) = Driven::new() else {
        return;
    };
    driven.install("");
    statuses_have_their_codes(&driven);
    later_ones_are_not_explained_by_rights_or_versions(&driven);
    cut_replies_are_refused(&driven);
    another_wire_version_is_refused(&driven);
    only_what_takes_thirty_seconds_is_a_time_out(&driven);
    driven.uninstall();
}

fn statuses_have_their_codes(driven: &Driven) {
    for (status, exit, code) in STATUSES {
        driven.set(&format!("fail hello {status}\n"));
        let refused = driven.refused("--machine driver info");
        assert_eq!((refused.0, &*refused.1), (*exit, *code), "{status}: {refused:?}");
        assert!(!refused.2.contains("30 s"), "{refused:?}");
    }
}

fn later_ones_are_not_explained_by_rights_or_versions(driven: &Driven) {
    for status in ["C0000022", "C0000056", "C0000010", "C00000A3"] {
        for (request, line) in [
            ("describe", "info"),
            ("start", "stat -d 0.1 -e TotalCycles"),
            ("stop", "stat -d 0.1 -e TotalCycles"),
            ("drain", "record -d 0.1 -e TotalCycles -o a.rec"),
        ] {
            driven.set(&format!("fail {request} {status}\n"));
            let refused = driven.refused(line);
            assert_eq!((refused.0, &*refused.1), (3, "driver-gone"), "{request}: {refused:?}");
        }
    }
}

fn cut_replies_are_refused(driven: &Driven) {
    for (request, lengths, line) in CUT {
        for length in *lengths {
            driven.set(&format!("cut {request} {length}\n"));
            let refused = driven.refused(line);
            assert_eq!(
                (refused.0, &*refused.1),
                (6, "protocol"),
                "{request} {length}: {refused:?}"
            );
        }
    }
}

/// The version is the second number of the reply.
fn another_wire_version_is_refused(driven: &Driven) {
    for (request, line) in [("hello", "info"), ("stop", "stat -d 0.1 -e TotalCycles")] {
        driven.set(&format!("flip {request} 4 3\n"));
        let refused = driven.refused(line);
        assert_eq!((refused.0, &*refused.1), (6, "version-mismatch"), "{request}: {refused:?}");
    }
}

/// One held request of a command, and STOP after Ctrl-C: both at once, because each takes half a minute.
fn only_what_takes_thirty_seconds_is_a_time_out(driven: &Driven) {
    driven.set("");
    driven.forget_log();
    let stat = Running::new(driven, "--json stat -d 600 -I 100 -e TotalCycles");
    driven.await_log("snapshot", 3);
    driven.set("hold describe\nhold stop\n");
    signal("INT", stat.child.id());
    let since = Instant::now();
    let refused = driven.refused("info");
    assert_eq!((refused.0, &*refused.1), (3, "timed-out"), "{refused:?}");
    assert!(since.elapsed() >= Duration::from_secs(30));
    let ran = stat.ended();
    driven.set("");
    assert_eq!(ran.status, Some(3), "{}", ran.errors);
    let result = ran.json();
    assert_eq!(result["ended"]["code"], "timed-out", "{result}");
    assert!(result["intervals"].as_array().is_some_and(|all| all.len() >= 2), "{result}");
    assert!(counted(&result)[0].1 > 0, "{result}");
    driven.await_log("cancelled", 2);
    driven.done("stat -d 0.1 -e TotalCycles");
}

#[test]
fn what_was_measured_stays_when_the_device_is_removed() {
    let Some(driven) = Driven::new() else {
        return;
    };
    for (line, request, requests) in [
        ("record -d 600 -e TotalIssues:1000000 -o kept.rec", "drain in", 10),
        ("stat -d 600 -I 100 -e TotalCycles", "snapshot", 5),
        ("stat -d 600 -e TotalCycles", "snapshot", 1),
    ] {
        driven.install("");
        driven.forget_log();
        let running = Running::new(&driven, &format!("--json {line}"));
        driven.await_log(request, requests);
        driven.uninstall();
        let ran = running.ended();
        let result = ran.json();
        assert_eq!(ran.status, Some(3), "{line}: {result}\n{}", driven.log());
        assert_eq!(result["ended"]["code"], "driver-gone", "{line}: {result}");
        let hint = result["ended"]["hint"].to_string();
        assert!(!hint.contains("elevated") && !hint.contains("same release"), "{result}");
        if line.starts_with("record") {
            let samples = number(&result["samples"]);
            assert!(samples > 0, "{result}");
            assert_eq!(number(&driven.done("report kept.rec")["samples"]), samples);
        } else {
            assert!(counted(&result)[0].1 > 0, "{result}");
        }
    }
}
