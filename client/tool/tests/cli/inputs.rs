//! Is a file known by what it has, whatever it is called?

use crate::cli::support::{folder, halprof, json, refused, text};
use std::fs;

#[test]
fn a_trace_is_one_under_any_name() {
    let (folder, _) = folder();
    let at = |name: &str| folder.path().join(name);
    let trace = at("a.etl");
    json(&format!("--machine skylake,backend=etw record -o {}", text(&trace)));
    let samples = |name: &str| json(&format!("report {}", text(&at(name))))["samples"].clone();
    fs::copy(&trace, at("noext")).expect("copied");
    fs::copy(&trace, at("a.bin")).expect("copied");
    assert!(samples("a.etl").as_u64().is_some_and(|samples| samples > 1000));
    assert_eq!(samples("noext"), samples("a.etl"));
    assert_eq!(samples("a.bin"), samples("a.etl"));
}

#[test]
fn what_is_no_recording_is_said_to_be_what_it_is() {
    let (folder, _) = folder();
    for (bytes, what) in [
        (&b"\x1F\x8B\x08\0\0\0\0\0\0\x03..."[..], "gzip"),
        (b"PERFILE2\x68\0\0\0", "Linux perf"),
        (b"MSCF\0\0\0\0\0\0\0\0", "a cabinet"),
        (b"MZ\x90\0\x03\0\0\0\x04\0\0\0", "a program"),
        (b"\x7FELF\x02\x01\x01\0\0\0\0\0", "a program"),
        (b"{\"schema\": 1}", "JSON"),
        (b"PK\x03\x04\0\0\0\0\0\0\0\0", "archive"),
        (b"time,cpu,process", "not a halprof recording"),
    ] {
        let file = folder.path().join("file");
        fs::write(&file, bytes).expect("written");
        let line = format!("report {}", text(&file));
        refused(&line, 5, "bad-file");
        let ran = halprof(&line);
        assert!(ran.stderr.contains(what), "{}", ran.stderr);
    }
}
