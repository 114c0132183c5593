//! Does `doctor --prove` find that a counter counts a known loop, and that it does not?

use crate::cli::support::{halprof, halprof_json};
use serde_json::Value;
use std::collections::BTreeSet;

/// The status, and each processor with its question and verdict.
fn proven(options: &str) -> (i32, Vec<(u64, String, String)>) {
    let ran = halprof_json(options);
    let result = ran.json();
    let answers = result["proof"]["answers"].as_array().expect("answers").iter();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let answer = |one: &Value| {
        let processor = one["processor"].as_u64().expect("a number");
        (processor, text(&one["question"]), text(&one["verdict"]))
    };
    (ran.status, answers.map(answer).collect())
}

#[test]
fn a_known_loop_is_counted_on_each_type_and_at_the_ends_of_groups() {
    for (options, processors) in [
        ("--machine skylake doctor --prove", &[0, 7][..]),
        ("--machine skylake doctor --prove=all", &[0, 1, 2, 3, 4, 5, 6, 7]),
        ("--machine hybrid doctor --prove", &[0, 4, 11]),
        ("--machine zen4,processors=65 doctor --prove", &[0, 63, 64]),
        ("--machine skylake,backend=etw doctor --prove", &[0, 7]),
        ("--machine skylake,backend=etw doctor --prove=all", &[0, 1, 2, 3, 4, 5, 6, 7]),
        ("--machine hybrid,backend=etw doctor --prove", &[0, 4, 11]),
    ] {
        let (status, answers) = proven(options);
        assert_eq!(status, 0, "{options}");
        let own: BTreeSet<u64> = answers.iter().map(|(processor, ..)| *processor).collect();
        assert_eq!(own, processors.iter().copied().collect(), "{options}");
        assert_eq!(answers.len(), 3 * processors.len(), "{options}");
        assert!(answers.iter().all(|(.., verdict)| verdict == "agrees"), "{answers:?}");
    }
}

/// AMD's erratum 1292: one more of every 128.
#[test]
fn a_count_that_is_too_high_disagrees() {
    let (status, answers) = proven("--machine zen4,quirks=zen3-overcount doctor --prove");
    assert_eq!(status, 4);
    for (_, question, verdict) in answers {
        let right = if question == "instructions" { "disagrees" } else { "agrees" };
        assert_eq!(verdict, right, "{question}");
    }
}

#[test]
fn what_cannot_be_counted_is_not_told() {
    // The first Pentium counts no cycles beside instructions.
    let (status, answers) = proven("--machine pentium doctor --prove");
    assert_eq!(status, 0);
    assert!(answers.iter().all(|(.., verdict)| verdict == "cannot-tell"), "{answers:?}");
    // Where nothing can be counted, nothing is tried.
    let masked = halprof_json("--machine hyperv-masked doctor --prove");
    assert_eq!((masked.status, &masked.json()["proof"]), (4, &Value::Null));
    let timer = halprof_json("--machine hyperv-guest-masked,backend=etw doctor --prove");
    assert_eq!(timer.json()["proof"], Value::Null);
    // Windows 10 lists no cycles on AMD.
    let (status, answers) = proven("--machine zen4,processors=65,backend=etw doctor --prove");
    assert_eq!((status, answers.len()), (0, 9));
    for (_, question, verdict) in answers {
        let right = if question == "instructions" { "agrees" } else { "cannot-tell" };
        assert_eq!(verdict, right, "{question}");
    }
}

/// It can be sent to others as it is.
#[test]
fn the_block_says_that_it_is_a_model_and_names_the_processor() {
    for (machine, method) in [("zen4", "driver"), ("zen4,backend=etw", "Windows' own tracing")] {
        let ran = halprof(&format!("--machine {machine} doctor --prove"));
        for says in
            [method, "a modelled machine, not silicon", "AuthenticAMD family 0x19 model 0x61"]
        {
            assert!(ran.stdout.contains(says), "{says}: {}", ran.stdout);
        }
    }
}
