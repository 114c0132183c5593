//! Is every kind of bad input reported as what it is, in text and in JSON, with nothing left
//! behind?

use crate::cli::support::{halprof, json, refused};
use halprof_profile::number::thousands;
use std::fmt::Write;
use std::path::PathBuf;
use tempfile::TempDir;

/// A Skylake with one processor: leaf 0, leaf 1 with and without a local APIC (EDX bit 9), leaf
/// 0x0A.
const LEAF_0: &str = "CPUID 00000000: 00000016-756E6547-6C65746E-49656E69\n";
const LEAF_1: &str = "CPUID 00000001: 000506E3-00100800-7FFAFBBF-BFEBFBFF\n";
const LEAF_1_NO_APIC: &str = "CPUID 00000001: 000506E3-00100800-7FFAFBBF-BFEBF9FF\n";
const LEAF_0A: &str = "CPUID 0000000A: 07300804-00000000-00000000-00000603\n";
/// The same except for the number of counters.
const OTHER_0A: &str = "CPUID 0000000A: 07300404-00000000-00000000-00000603\n";

struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    }
}

/// Refused in JSON, and in text with the hint on standard error only.
fn refused_both_ways(arguments: &[&str], status: i32, code: &str) {
    refused(arguments, status, code);
    let ran = halprof(arguments);
    assert_eq!((ran.status, ran.stdout.as_str()), (status, ""), "{arguments:?}");
    let lines = ran.stderr.lines();
    let told = lines.filter(|line| line.contains("error: ") || line.starts_with("hint: "));
    assert_eq!(told.count(), 2, "{arguments:?}: {}", ran.stderr);
    assert!(!ran.stderr.contains("panic"), "{arguments:?}: {}", ran.stderr);
}

#[test]
fn dumps_that_are_none_end_with_5() {
    let files = Files::new();
    let whole = [LEAF_0, LEAF_1, LEAF_0A].concat();
    let other_vendor = LEAF_0.replace("756E6547-6C65746E-49656E69", "68747541-444D4163-69746E65");
    let many: String = (0..2049).fold(String::new(), |mut text, processor| {
        let _ = write!(text, "CPU#{processor:03} AP#{processor:03}\n{whole}");
        text
    });
    for (name, content) in [
        ("empty", Vec::new()),
        ("blank", b" \r\n\t\n".to_vec()),
        ("binary", vec![0, 159, 146, 150, 255, 7]),
        ("words", b"this is no dump\n".to_vec()),
        ("cut", whole.as_bytes()[..whole.len() - 12].to_vec()),
        ("no-leaf-0", [LEAF_1, LEAF_0A].concat().into_bytes()),
        ("no-leaf-1", [LEAF_0, LEAF_0A].concat().into_bytes()),
        ("contradiction", [LEAF_0, LEAF_1, LEAF_0A, OTHER_0A].concat().into_bytes()),
        ("processors", many.into_bytes()),
        (
            "vendors",
            format!("CPU#000\n{whole}CPU#001\n{other_vendor}{LEAF_1}{LEAF_0A}").into_bytes(),
        ),
    ] {
        let file = files.write(name, content);
        refused_both_ways(&["--machine", &file, "info"], 5, "bad-file");
        refused(&["--machine", &file, "stat"], 5, "bad-file");
        refused(&["--machine", &format!("{file},processors=4"), "list"], 5, "bad-file");
    }
    let good = files.write("good", &whole);
    assert_eq!(json(&["--machine", &good, "info"])["interface"], "Emon");
    refused_both_ways(&["--machine", &format!("{good},processors=2049"), "info"], 2, "usage");
    refused_both_ways(&["--machine", &format!("{good},processors=0"), "info"], 2, "usage");
}

#[test]
fn a_folder_is_no_dump() {
    let files = Files::new();
    let folder = files.path(".");
    let folder = folder.to_str().expect("UTF-8");
    let ran = halprof(&["--json", "--machine", folder, "info"]);
    assert_eq!(ran.status, 5, "{}", ran.stdout);
    ran.json();
}

#[test]
fn sources_and_processors_that_are_not_there_end_with_4() {
    let machine = ["--machine", "skylake"];
    for (arguments, code) in [
        (&["stat", "-e", "Nonsense"][..], "source-unknown"),
        (&["check", "-g", "TotalIssues,0x999"], "source-unknown"),
        (&["record", "-e", "Nonsense:1000"], "source-unknown"),
        (&["stat", "-e", "TotalIssues,2"], "source-duplicate"),
        (&["record", "-e", "TotalIssues:1000,TotalIssues:2000"], "source-duplicate"),
        (&["stat", "-e", "r800C0"], "raw-refused"),
        (&["stat", "-C", "0,99"], "processor-unknown"),
        (&["check", "-C", "99"], "processor-unknown"),
        (&["record", "-C", "99"], "processor-unknown"),
        (&["registers", "-C", "0-2048"], "processor-unknown"),
        (&["stat", "--workload", "cycles=1,processors=0-99"], "processor-unknown"),
        (&["record", "--workload", "cycles=1,processors=99"], "processor-unknown"),
    ] {
        refused_both_ways(&[&machine, arguments].concat(), 4, code);
    }
    let amd = ["--machine", "zen4", "stat", "-e", "0xAC"];
    refused_both_ways(&amd, 4, "source-not-supported");
}

#[test]
fn a_set_that_cannot_fit_is_refused_and_what_is_unknown_is_no_answer() {
    let group = ["TotalIssues", "BranchInstructions", "DcacheMisses"].join(",");
    let machine = ["--machine", "pentium"];
    refused_both_ways(&[&machine[..], &["stat", "-g", &group]].concat(), 4, "does-not-fit");
    let check = halprof(&[&machine[..], &["--json", "check", "-g", &group]].concat());
    assert_eq!((check.status, &check.json()["reason"]), (4, &"does-not-fit".into()));
}

#[test]
fn what_cannot_be_sampled_is_refused_and_leaves_no_file() {
    let files = Files::new();
    let no_apic = files.write("no-apic", [LEAF_0, LEAF_1_NO_APIC, LEAF_0A].concat());
    let output = files.path("a.rec");
    let file = output.to_str().expect("UTF-8");
    for (machine, source) in [
        ("pentium", "TotalIssues"),
        ("pentium", "ProfileTime"),
        (no_apic.as_str(), "TotalCycles"),
        (&no_apic, "ProfileTime"),
        ("hyperv-masked", "ProfileTime"),
    ] {
        let arguments = ["--machine", machine, "record", "-e", source, "-o", file];
        refused_both_ways(&arguments, 4, "sampling-unavailable");
        assert!(!output.exists(), "{machine} {source}");
    }
    // Without the interrupt everything can still be counted, and `list` says what is not possible.
    let stat = json(&["--machine", &no_apic, "stat", "--workload", "instructions=7"]);
    assert!(stat["counts"].as_array().is_some_and(|counts| !counts.is_empty()));
    let list = json(&["--machine", &no_apic, "list"]);
    for source in list["sources"].as_array().expect("a list") {
        assert_eq!(source["sampling"], false, "{source}");
        assert!(source["note"].as_str().is_some_and(|note| !note.is_empty()), "{source}");
    }
}

#[test]
fn a_period_outside_the_limits_is_told_with_the_one_used() {
    let files = Files::new();
    let output = files.path("a.rec");
    let file = output.to_str().expect("UTF-8");
    for (source, requested) in [
        ("TotalIssues:7", 7u64),
        ("TotalIssues:99999999999", 99_999_999_999),
        ("ProfileTime:7", 7),
        ("ProfileTime:99999999999", 99_999_999_999),
    ] {
        for command in [&["record", "-o", file, "-e", source][..], &["stat", "-e", source]] {
            let arguments = [&["--machine", "skylake"], command].concat();
            let told = json(&arguments);
            let period = &told["periods"][0];
            assert_eq!(
                (&period["requested"], &period["clamped"]),
                (&requested.into(), &true.into())
            );
            let used = period["used"].as_u64().expect("a number");
            assert_ne!(used, requested);
            let words = halprof(&arguments).stderr;
            let counts_only = command[0] == "stat" && source.starts_with("Total");
            let shown = if counts_only {
                // Nothing is sampled.
                "a period has no effect".to_owned()
            } else {
                thousands(used)
            };
            assert!(words.contains(&shown), "{source}: {words}");
        }
    }
    refused(&["record", "--rate", "0.5"], 2, "usage");
    let inside = json(&["--machine", "skylake", "stat", "-e", "ProfileTime:20000"]);
    assert_eq!(inside["periods"][0]["clamped"], false);
    assert_eq!(inside["periods"][0]["used"], 20_000);
    let none = json(&["--machine", "skylake", "stat", "-e", "TotalIssues"]);
    assert!(none.get("periods").is_none());
}

#[test]
fn a_negative_number_is_an_error_about_the_number() {
    for arguments in [
        &["stat", "--interval", "-1"][..],
        &["stat", "-I", "-1"],
        &["stat", "-d", "-1"],
        &["stat", "--rotate", "-1"],
        &["record", "--rate", "-1"],
        &["top", "--once", "-I", "-1"],
        &["report", "missing.rec", "--rows", "-1"],
    ] {
        let ran = halprof(arguments);
        assert_eq!(ran.status, 2, "{arguments:?}: {}", ran.stderr);
        assert!(!ran.stderr.contains("unexpected argument"), "{}", ran.stderr);
        assert!(ran.stderr.contains("-1"), "{}", ran.stderr);
    }
}
