//! Is a list that a shell has split at its commas still the same list?

use crate::cli::support::{halprof, json, refused};
use serde_json::Value;

const SKYLAKE: [&str; 2] = ["--machine", "skylake"];

fn on_skylake(arguments: &[&str]) -> Value {
    json(&[&SKYLAKE, arguments].concat())
}

#[test]
fn sources_and_processors_may_come_as_several_arguments() {
    let whole = on_skylake(&["check", "-e", "TotalIssues,CacheMisses:u", "-C", "0-1,3"]);
    for parted in [
        &["check", "-e", "TotalIssues", "CacheMisses:u", "-C", "0-1", "3"][..],
        &["check", "-C", "0-1", "3", "-e", "TotalIssues", "CacheMisses:u"],
        &["check", "-e", "TotalIssues", "-e", "CacheMisses:u", "-C", "0-1,3"],
        &["check", "-e", "TotalIssues", "CacheMisses:u", "-C", "3", "0", "1"],
    ] {
        assert_eq!(on_skylake(parted), whole, "{parted:?}");
    }
    let whole = on_skylake(&["registers", "-C", "0,2"]);
    assert_eq!(on_skylake(&["registers", "-C", "0", "2"]), whole);
}

#[test]
fn each_group_stays_a_group() {
    let machine = ["--machine", "pentium"];
    let check = |arguments: &[&str]| {
        let ran = halprof(&[&["--json"], &machine[..], &["check"], arguments].concat());
        (ran.status, ran.json())
    };
    let parted = check(&["-g", "TotalIssues", "BranchInstructions", "-g", "DcacheMisses"]);
    assert_eq!(parted, check(&["-g", "TotalIssues,BranchInstructions", "-g", "DcacheMisses"]));
    assert_eq!(parted, check(&["-e", "{TotalIssues", "BranchInstructions}", "{DcacheMisses}"]));
    assert_eq!(parted.0, 0, "{}", parted.1);
    // All three in one group do not fit on a Pentium, which has two counters.
    let (status, one) = check(&["-g", "TotalIssues", "BranchInstructions", "DcacheMisses"]);
    assert_eq!((status, &one["fits"]), (4, &false.into()));
}

#[test]
fn a_list_ends_at_options_and_at_the_program() {
    let ran =
        halprof(&["--machine", "skylake", "stat", "-e", "TotalIssues", "TotalCycles", "--json"]);
    let counts = ran.json()["counts"].as_array().map(Vec::len);
    assert_eq!((ran.status, counts), (0, Some(2)));
    // A model runs no program: the refusal shows that the program was not taken for a source.
    for list in ["-e", "-g"] {
        refused(
            &["stat", list, "TotalIssues", "TotalCycles", "--", "notepad", "a,b"],
            4,
            "unavailable",
        );
    }
    refused(&["stat", "-C", "0", "1", "--", "notepad"], 4, "unavailable");
}

#[test]
fn a_list_without_anything_is_bad_usage() {
    for list in ["-e", "-g", "-C"] {
        refused(&["stat", list], 2, "usage");
        refused(&["stat", list, "--per-cpu"], 2, "usage");
        refused(&["stat", list, "0", ""], 2, "usage");
    }
}
