//! Does every kind of bad input end with the right status, a stable code and a hint?

use crate::cli::support::{halprof, json, refused};
use serde_json::Value;

#[test]
fn bad_usage_ends_with_2() {
    for arguments in [
        &["nonsense"][..],
        &["stat", "--nonsense"],
        &[],
        &["list", "--machine"],
        &["stat", "-e", "{TotalCycles"],
        &["stat", "-e", ""],
        &["stat", "-e", "TotalCycles:x"],
        &["stat", "-e", "r100C0:k"],
        &["stat", "-C", "3-1"],
        &["stat", "-C", "x"],
        &["stat", "--csv"],
        &["stat", "-r", "0"],
        &["stat", "-d", "0"],
        &["stat", "-d", "-1"],
        &["stat", "-d", "nan"],
        &["stat", "-I", "0"],
        &["stat", "-I", "0.999"],
        &["stat", "-I", "inf"],
        &["stat", "-r", "1001"],
        &["stat", "--per-cpu", "--per-core-type"],
        &["stat", "-M", "nonsense"],
        &["stat", "--rotate", "0"],
        &["stat", "--passes", "--rotate", "5"],
        &["stat", "--trim"],
        &["stat", "--workload", "nonsense=1"],
        &["stat", "--workload", "instructions=99999999999999999999"],
        &["--machine", "skylake,processors=0", "info"],
        &["--machine", "skylake,processors=2049", "info"],
        &["--machine", "skylake,cores=4", "info"],
        &["--machine", "", "info"],
    ] {
        refused(arguments, 2, "usage");
    }
}

#[test]
fn a_bad_number_is_told_in_plain_words() {
    for (option, bad, wanted) in [
        (&["stat", "-r"][..], "-1", "a whole number from 1 to 1,000"),
        (&["stat", "-d"], "abc", "a number, e.g. 0.5"),
        (&["record", "--rotate"], "1s", "a number, e.g. 0.5"),
        (&["--width"], "x", "a whole number, at least 0"),
        (&["report", "a.rec", "--rows"], "-1", "a whole number, at least 0"),
        (&["report", "a.rec", "--path-length"], "-1", "a whole number from 2 to 32"),
        (&["timeline", "a.rec", "--rows"], "-1", "a whole number, at least 0"),
        (&["simulate", "--range", "f", "--max-steps"], "-1", "a whole number, at least 1"),
        (&["simulate", "--range", "f", "--max-steps"], "0", "a whole number, at least 1"),
    ] {
        let arguments = [option, &[bad]].concat();
        let ran = halprof(&arguments);
        assert_eq!(ran.status, 2, "{arguments:?}");
        let told = ran.stderr.contains(&format!("invalid value '{bad}'"));
        assert!(told && ran.stderr.contains(wanted), "{}", ran.stderr);
    }
    for option in ["--topdown=3", "--topdown=x"] {
        let ran = halprof(&["stat", option]);
        assert!(ran.stderr.contains("from 1 to 2"), "{}", ran.stderr);
    }
}

#[test]
fn clap_alone_answers_where_no_json_is_asked_for() {
    let ran = halprof(&["stat", "--nonsense"]);
    assert_eq!(ran.status, 2);
    assert!(ran.stdout.is_empty() && ran.stderr.contains("--nonsense"));
    // Arguments after `--` belong to the program.
    let ran = halprof(&["nonsense", "--", "--json"]);
    assert!(ran.status == 2 && ran.stdout.is_empty());
}

#[test]
fn help_and_version_are_no_errors() {
    for arguments in [&["--help"][..], &["stat", "--help"], &["--version"]] {
        let ran = halprof(arguments);
        assert_eq!(ran.status, 0);
        assert!(ran.stdout.contains("halprof"));
    }
}

/// Whatever needs a counter says why there is none, and what would help.
#[test]
fn a_machine_without_counters_says_why() {
    let on = ["--machine", "hyperv-guest-masked"];
    let is_told = |text: &str| text.contains("version 0") && text.contains("Set-VMProcessor");
    for arguments in [
        &["stat", "-M", "ipc"][..],
        &["stat", "--topdown"],
        &["stat", "-e", "TotalCycles"],
        &["check", "-e", "TotalCycles"],
        &["explain", "TotalCycles"],
        &["top", "--once", "-e", "TotalCycles"],
        &["top", "--once", "--by", "symbol"],
    ] {
        let ran = halprof(&[&on, arguments].concat());
        assert_eq!(ran.status, 4, "{arguments:?}");
        assert!(is_told(&ran.stderr), "{arguments:?}: {}", ran.stderr);
    }
    for arguments in [&["stat"][..], &["check"], &["top", "--once", "-I", "10"]] {
        let ran = halprof(&[&on, arguments].concat());
        assert_eq!(ran.status, 0, "{arguments:?}");
        assert!(is_told(&ran.stderr), "{arguments:?}: {}", ran.stderr);
    }
    for command in ["stat", "check"] {
        let warnings = json(&[on[0], on[1], command])["warnings"].to_string();
        assert!(is_told(&warnings), "{command}: {warnings}");
    }
    // A topic that may be meant helps more.
    let ran = halprof(&[on[0], on[1], "explain", "bussy"]);
    assert!(ran.stderr.contains("Did you mean `busy`?"), "{}", ran.stderr);
}

/// Before a machine is open nobody knows whether it is a model, whatever the arguments say.
#[test]
fn an_error_says_modelled_of_a_machine_that_was_opened() {
    let modelled = |arguments: &[&str]| {
        let ran = halprof(&[&["--json"], arguments].concat());
        assert_ne!(ran.status, 0, "{arguments:?}");
        ran.json()["modelled"].clone()
    };
    for arguments in [
        &["stat", "--nonsense"][..],
        &["--machine", "no-such-model", "info"],
        &["explain", "stat", "driver"],
        &["report", "no-such.rec"],
    ] {
        assert_eq!(modelled(arguments), Value::Null, "{arguments:?}");
    }
    let unknown = ["--machine", "skylake", "stat", "-e", "driver"];
    assert_eq!(modelled(&unknown), true);
}

#[test]
fn where_nothing_is_to_measure_on_it_ends_with_3() {
    refused(&["--machine", "no-such-model", "info"], 3, "no-machine");
    #[cfg(not(windows))]
    refused(&["--machine", "driver", "info"], 3, "no-driver");
    #[cfg(not(windows))]
    assert!(halprof(&["--machine", "driver", "info"]).stderr.contains("--machine"));
}

#[test]
#[cfg(not(windows))]
fn what_only_windows_does_ends_with_4_elsewhere() {
    for arguments in
        [&["install"][..], &["install", "no-such.inf"], &["start"], &["stop"], &["uninstall"]]
    {
        refused(arguments, 4, "unavailable");
        assert!(halprof(arguments).stderr.contains("is for Windows"));
    }
    refused(&["uninstall", "halprof.inf"], 2, "usage");
}

#[test]
fn files_that_are_not_what_they_should_be_end_with_5() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    for dump in [file("empty", b""), file("binary", &[0, 255, 7, 1]), file("text", b"hello\n")] {
        refused(&["--machine", &dump, "info"], 5, "bad-file");
        refused(&["report", &dump], 5, "bad-file");
    }
    let missing = folder.path().join("missing");
    refused(&["report", missing.to_str().expect("UTF-8")], 5, "file");
}

#[test]
fn what_the_machine_refuses_ends_with_4() {
    let many: Vec<String> = (1..=257).map(|select| format!("r{select:X}")).collect();
    let many = many.join(",");
    for (arguments, code) in [
        (&["stat", "-e", "Nonsense"][..], "source-unknown"),
        (&["stat", "-e", "0x999"], "source-unknown"),
        (&["check", "-e", "Nonsense"], "source-unknown"),
        (&["stat", "-e", "TotalIssues,TotalIssues"], "source-duplicate"),
        (&["stat", "-e", "TotalIssues:uk,0x2"], "source-duplicate"),
        (&["stat", "-e", "r800C0"], "raw-refused"),
        (&["stat", "-e", &many], "too-many-sources"),
        (&["stat", "-C", "16"], "processor-unknown"),
        (&["stat", "-C", "0-5000"], "processor-unknown"),
        (&["registers", "-C", "99"], "processor-unknown"),
        (&["stat", "--workload", "cycles=1,processors=99"], "processor-unknown"),
        (&["stat", "--", "notepad"], "unavailable"),
        (&["--machine", "hyperv-masked", "stat", "-e", "TotalIssues"], "source-unknown"),
        (&["--machine", "zen4", "stat", "-e", "0xAC"], "source-not-supported"),
        (&["--machine", "pentium3", "stat", "-e", "StoreInstructions"], "source-not-supported"),
        (&["--machine", "pentium", "stat", "-e", "StoreInstructions"], "source-approximate"),
        (
            &[
                "--machine",
                "pentium",
                "stat",
                "-e",
                "{TotalIssues,BranchInstructions,DcacheMisses}",
            ],
            "does-not-fit",
        ),
        (&["--machine", "pentium", "record", "-e", "TotalIssues"], "sampling-unavailable"),
    ] {
        refused(arguments, 4, code);
    }
}

#[test]
fn an_error_for_people_has_its_hint() {
    let ran = halprof(&["stat", "-e", "Nonsense"]);
    assert_eq!(ran.status, 4);
    assert!(ran.stdout.is_empty());
    assert!(ran.stderr.contains("error: ") && ran.stderr.contains("hint: "), "{}", ran.stderr);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    use std::process::{Command, Stdio};
    let mut child = Command::new(env!("CARGO_BIN_EXE_halprof"))
        .args(["--json", "--machine", "zen4,processors=2048", "info"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the tool runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !stderr.contains("panic"), "{stderr}");
}

#[test]
fn a_negative_processor_is_told_as_a_number() {
    for command in ["stat", "registers"] {
        let ran = halprof(&[command, "-C", "-1"]);
        assert_eq!(ran.status, 2, "{}", ran.stderr);
        let told = "`-1` is not a valid list of processors";
        assert!(ran.stderr.contains(told), "{}", ran.stderr);
        assert!(!ran.stderr.contains("-- -1"), "{}", ran.stderr);
    }
}

#[test]
fn hints_end_in_one_full_stop() {
    for machine in
        ["skylake,processors=2049", "skylake,foo=1", "skylake,quirks=foo", "/etc/passwd", ""]
    {
        let ran = halprof(&["--machine", machine, "info"]);
        assert_ne!(ran.status, 0);
        assert!(!ran.stderr.contains(".."), "{}", ran.stderr);
        let told = ran.stderr.matches("processors=2049").count();
        assert!(told <= 1, "{}", ran.stderr);
    }
}

#[test]
fn hints_are_about_what_was_wrong() {
    let ran = halprof(&["stat", "-e", "r1ffffffff"]);
    assert!(!ran.stderr.contains("Write `r"), "{}", ran.stderr);
    let ran = halprof(&["stat", "--workload", "instructions"]);
    assert!(ran.stderr.contains("KEY=VALUE, for example"), "{}", ran.stderr);
    let ran = halprof(&["stat", "--workload", "processors=0,8"]);
    assert!(ran.stderr.contains("by `+`"), "{}", ran.stderr);
    let ran = halprof(&["--machine", "skylake", "stat", "-M", "retiring"]);
    assert!(ran.stderr.contains("--topdown"), "{}", ran.stderr);
}
