//! Does help show what a user needs, where it is needed?

use crate::cli::support::{halprof, refused};

fn help(command: &str) -> String {
    halprof(&["help", command]).stdout
}

#[test]
fn options_stand_under_headings_and_examples_below() {
    let stat = help("stat");
    for said in [
        "What:",
        "How long and how often:",
        "Output:",
        "Modelled machines:",
        "Examples:",
        "Workloads (modelled machines only):",
        "[[metric]]",
        "--machine <SPEC>",
    ] {
        assert!(stat.contains(said), "{said}: {stat}");
    }
    let record = help("record");
    assert!(record.contains("SOURCE:PERIOD"), "{record}");
    for command in [
        "info", "list", "check", "record", "report", "script", "annotate", "export", "top",
        "explain",
    ] {
        assert!(help(command).contains("Examples:"), "{command}");
    }
}

#[test]
fn what_a_workload_is_has_help_of_its_own() {
    let ran = halprof(&["help", "workload"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stdout.starts_with("Workloads "), "{}", ran.stdout);
    assert!(ran.stdout.contains("Default: 100 million"), "{}", ran.stdout);
    assert!(halprof(&["help"]).stdout.contains("halprof help workload"));
    assert_eq!(halprof(&["help", "workloads"]).status, 2);
}

#[test]
fn what_is_measured_comes_before_models() {
    for command in ["check", "stat", "record", "top"] {
        let help = help(command);
        let at = |heading: &str| help.find(&format!("\n{heading}:\n"));
        let what = at("What").expect("a heading");
        assert!(at("Modelled machines").is_some_and(|models| models > what), "{help}");
        assert!(at("How long and how often").is_none_or(|how| how > what), "{help}");
    }
    assert!(help("report").contains("machine or source"));
}

#[test]
fn a_machine_is_offered_where_there_is_something_to_measure() {
    for command in ["report", "script", "annotate", "export", "install", "machines"] {
        assert!(!help(command).contains("--machine <SPEC>"), "{command}");
        // Before the command it still shows how every command line may begin.
    }
    for command in [
        "info",
        "list",
        "check",
        "stat",
        "record",
        "top",
        "doctor",
        "explain",
        "registers",
        "rdpmc",
    ] {
        assert!(help(command).contains("--machine <SPEC>"), "{command}");
    }
    for arguments in [
        &["--machine", "zen4", "info"][..],
        &["info", "--machine", "zen4"],
        &["--machine", "skylake", "info", "--machine", "zen4"],
    ] {
        assert!(halprof(arguments).stderr.contains("zen4"), "{arguments:?}");
    }
    refused(&["report", "--machine", "zen4", "a.rec"], 2, "usage");
}

#[test]
fn a_misspelt_model_is_guessed() {
    let ran = halprof(&["--machine", "skylke", "stat"]);
    assert_eq!(ran.status, 3);
    assert!(ran.stderr.contains("Did you mean `skylake`?"), "{}", ran.stderr);
    let ran = halprof(&["--machine", "nothing-like-it", "stat"]);
    assert!(!ran.stderr.contains("Did you mean"), "{}", ran.stderr);
}

#[test]
fn misspelt_names_are_guessed_wherever_one_is_taken() {
    for (arguments, meant) in [
        (&["stat", "-M", "ipcc"][..], "`ipc`"),
        (&["stat", "-e", "TotalIsues"], "`TotalIssues`"),
        (&["stat", "--workload", "instruction=5"], "`instructions`"),
        (&["stat", "--workload", "cycles=5,imag=a"], "`image`"),
        (&["report", "a.rec", "--by", "modul"], "`module`"),
        (&["explain", "countersreserved"], "`counters-reserved`"),
    ] {
        let stderr = halprof(arguments).stderr;
        let said = stderr.contains("Did you mean") && stderr.contains(meant);
        assert!(said, "{arguments:?}: {stderr}");
    }
    let stderr = halprof(&["stat", "--by", "proces"]).stderr;
    assert!(stderr.contains("'process'"), "{stderr}");
}

/// An option that the parser refuses is reported like any other error.
#[test]
fn a_wrong_option_is_told_like_any_error() {
    let ran = halprof(&["report", "a.rec", "--rows", "-1"]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.starts_with("halprof: error: "), "{}", ran.stderr);
    assert!(ran.stderr.contains("'-1'"), "{}", ran.stderr);
}

#[test]
fn a_file_holds_arguments() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("arguments");
    let at = format!("@{}", file.to_str().expect("UTF-8"));
    std::fs::write(&file, "--machine\nskylake\nstat\n\n-e\nTotalIssues\n").expect("written");
    let ran = halprof(&["--json", &at]);
    assert_eq!(ran.json()["counts"][0]["source"], "TotalIssues");
    let more = halprof(&["--json", &at, "--per-cpu"]);
    assert_eq!(more.json()["counts"].as_array().map(Vec::len), Some(8));
    let gone = format!("{at}.gone");
    refused(&[&gone], 5, "file");
    let told = halprof(&[&gone]).stderr;
    assert!(told.contains(&format!("`@{gone}`")), "{told}");
}

/// MSVC's thunks are named so.
#[test]
fn an_argument_may_begin_with_an_at_sign() {
    let thunk = ["explain", "@@ILT+5(foo)"];
    let told = halprof(&[&["--machine", "skylake"], &thunk[..]].concat());
    assert!(told.stderr.contains("`@ILT+5(foo)`"), "{}", told.stderr);
    refused(&thunk, 4, "source-unknown");
}
