//! Is everything counted and sampled exactly, from installation to removal?

use super::{Driven, FINITE, Running, SOURCES, compile, counted, number};
use crate::cli::support::signal;
use serde_json::{Value, json};
use std::process::Command;
use std::time::Instant;

/// What `stat` counts of the workload that ends.
const COUNTS: [(&str, &[(&str, u64)]); 2] = [
    (
        "TotalCycles,TotalIssues,BranchInstructions,BranchMispredictions",
        &[
            ("TotalCycles", 300_000_000),
            ("TotalIssues", 200_000_000),
            ("BranchInstructions", 40_000_000),
            ("BranchMispredictions", 800_000),
        ],
    ),
    (
        "TotalIssues:u,TotalIssues:k",
        &[("TotalIssues:u", 180_000_000), ("TotalIssues:k", 20_000_000)],
    ),
];

#[test]
fn everything_is_counted_from_installation_to_removal() {
    let Some(driven) = Driven::new() else {
        return;
    };
    assert_eq!(driven.refused("info").1, "no-driver");
    it_is_installed_twice(&driven);
    exact_counts(&driven);
    intervals_have_the_whole(&driven);
    samples_have_the_whole(&driven);
    a_program_is_counted(&driven);
    one_look_has_the_whole(&driven);
    the_c_library_counts(&driven);
    every_processor_of_2048(&driven);
    what_has_no_end_is_in_step_with_time(&driven);
    two_clients_share_no_counters(&driven);
    ctrl_c_leaves_the_counts(&driven);
    a_killed_client_leaves_no_session(&driven);
    it_is_removed(&driven);
    the_link_is_enough(&driven);
}

fn it_is_installed_twice(driven: &Driven) {
    driven.set(FINITE);
    let installed = driven.done("install");
    assert_eq!((&installed["created"], &installed["restart"]), (&json!(true), &json!(false)));
    for line in ["driver loaded", "device added: 0x0", "pnp 0", "device started"] {
        assert!(driven.log().lines().any(|one| one == line), "{line}:\n{}", driven.log());
    }
    assert_eq!(driven.done("install")["created"], false);
    let info = driven.done("info");
    assert_eq!((&info["modelled"], &info["backend"]), (&json!(false), &json!("driver")));
    let doctor = driven.run("--json doctor").json();
    let checks = doctor["checks"].as_array().expect("checks");
    for name in ["driver", "owner", "counting", "sampling"] {
        let check = checks.iter().find(|check| check["name"] == name);
        assert_eq!(check.map(|check| &check["state"]), Some(&json!("ok")), "{name}: {doctor}");
    }
}

fn exact_counts(driven: &Driven) {
    for (list, counts) in COUNTS {
        let counts: Vec<_> = counts.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        let result = driven.done(&format!("stat -d 1 -e {list}"));
        assert_eq!(counted(&result), counts, "{result}");
        let workload = FINITE.lines().nth(1).and_then(|line| line.strip_prefix("workload "));
        let machine = ["--json", "--machine", "skylake,processors=2", "stat", "-e", list];
        let mut model = Command::new(env!("CARGO_BIN_EXE_halprof"));
        let model = model.args(machine).args(["--workload", workload.expect("it")]).output();
        let model: Value = serde_json::from_slice(&model.expect("it runs").stdout).expect("JSON");
        assert_eq!(counted(&model), counts, "{model}");
    }
}

fn intervals_have_the_whole(driven: &Driven) {
    let result = driven.done("stat -d 1 -I 200 -e TotalIssues");
    let intervals = result["intervals"].as_array().expect("intervals");
    let values: Vec<u64> = intervals.iter().map(|one| counted(one)[0].1).collect();
    assert!(values.len() >= 2, "{values:?}");
    assert_eq!(values.iter().sum::<u64>(), 200_000_000, "{values:?}");
    assert_eq!(counted(&result)[0].1, 200_000_000);
    assert_eq!(values.last(), Some(&0), "it has ended long before");
}

/// One sample in a million, and one in 65,536 on each of two processors. Both are asked for: without
/// a period it would be drawn.
fn samples_have_the_whole(driven: &Driven) {
    for (source, samples) in
        [("TotalIssues:1000000", 200), ("TotalIssues:65536", 2 * (100_000_000 / 65_536))]
    {
        let recorded = driven.done(&format!("record -d 1 -e {source} -o a.rec"));
        assert_eq!(number(&recorded["samples"]), samples, "{recorded}");
        let lost = recorded["lost"].as_object().expect("by cause").values().map(number);
        assert_eq!(lost.sum::<u64>(), 0, "{recorded}");
        assert_eq!(number(&driven.done("report a.rec")["samples"]), samples);
    }
}

fn a_program_is_counted(driven: &Driven) {
    let ran = driven.run("--json stat -e TotalCycles -- program.exe exit 7");
    assert_eq!(ran.status, Some(7), "{}", ran.errors);
    assert_eq!(ran.json()["scope"]["exit_status"], 7);
    assert!(counted(&ran.json())[0].1 > 0, "{}", ran.output);
}

fn one_look_has_the_whole(driven: &Driven) {
    let ran = driven.run("top --once --csv -e TotalIssues");
    assert_eq!(ran.status, Some(0), "{}", ran.errors);
    assert!(ran.output.contains("200000000"), "{}", ran.output);
    let ran = driven.run("top --once -e TotalIssues");
    assert!(ran.output.contains("TotalIssues"), "{}", ran.output);
}

fn the_c_library_counts(driven: &Driven) {
    let here = driven.wine.folder();
    let built = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/exe/halprof_c.dll");
    std::fs::copy(built, here.join("halprof_c.dll")).expect("the C library");
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../c/include");
    let formats = "-D__USE_MINGW_ANSI_STDIO=1";
    compile(&here.join("count.exe"), &[include, formats, &format!("{SOURCES}/count.c"), built]);
    let mut count = driven.wine.command(&super::program("wine64"));
    count.args(["count.exe", "1000"]).env(super::OVERRIDES.0, super::OVERRIDES.1);
    let ran = Running::of(driven, count).ended();
    let output = ran.output.replace('\r', "");
    assert_eq!(output, "modelled 0\n300000000 200000000\n", "{}\n{}", ran.errors, driven.log());
}

/// More than one page of counts.
fn every_processor_of_2048(driven: &Driven) {
    driven.uninstall();
    driven.install(
        "machine skylake,processors=2048\nbegin start\n\
         workload instructions=1000000,cycles=1500000,processors=all\n",
    );
    let result = driven.done("stat -d 1 -e TotalIssues,TotalCycles");
    let counts: Vec<u64> = counted(&result).into_iter().map(|(_, count)| count).collect();
    assert_eq!(counts, [2_048_000_000, 3_072_000_000]);
}

fn what_has_no_end_is_in_step_with_time(driven: &Driven) {
    driven.uninstall();
    driven.install("");
    let result = driven.done("stat -d 1 -e TotalCycles,TotalIssues");
    let counts = counted(&result);
    assert_eq!(counts[0].1, 2 * counts[1].1, "{result}");
    // A cycle in a nanosecond, on two processors.
    assert!(counts[0].1 >= 2_000_000_000, "{result}");
}

fn two_clients_share_no_counters(driven: &Driven) {
    driven.forget_log();
    // It counts until the others have been refused, however long Wine takes to start them.
    let first = Running::new(driven, "--json stat -d 600 -e TotalCycles");
    driven.await_log("start", 1);
    let since = Instant::now();
    let info = driven.done("info");
    assert!(number(&info["holder"]["session"]) > 0, "{info}");
    assert_eq!(driven.refused("stat -d 1 -e TotalCycles").1, "busy");
    let least = since.elapsed();
    signal("INT", first.child.id());
    let first = first.ended().json();
    // Two processors of 1 GHz, in step with time.
    assert!(u128::from(counted(&first)[0].1) >= 2 * least.as_nanos(), "{first}");
}

fn ctrl_c_leaves_the_counts(driven: &Driven) {
    driven.forget_log();
    let stat = Running::new(driven, "--json stat -d 600 -e TotalCycles");
    driven.await_log("start", 1);
    // Wine turns SIGINT into the Ctrl-C of a console.
    signal("INT", stat.child.id());
    let ran = stat.ended();
    assert_eq!(ran.status, Some(0), "{}", ran.errors);
    assert_eq!(ran.json()["interrupted"], true);
    assert!(counted(&ran.json())[0].1 > 0, "{}", ran.output);
}

fn a_killed_client_leaves_no_session(driven: &Driven) {
    driven.forget_log();
    let stat = Running::new(driven, "stat -d 600 -e TotalCycles");
    driven.await_log("start", 1);
    signal("KILL", stat.child.id());
    assert_eq!(stat.ended().status, None);
    driven.await_log("close", 1);
    driven.done("stat -d 0.1 -e TotalCycles");

    // While STOP is in the driver: it ends first.
    driven.forget_log();
    driven.set("delay stop 2000\n");
    let stat = Running::new(driven, "stat -d 0.1 -e TotalCycles");
    driven.await_log("delays stop", 1);
    signal("KILL", stat.child.id());
    assert_eq!(stat.ended().status, None);
    driven.await_log("close", 1);
    driven.set("");
    let log = driven.log();
    let at = |line: &str| log.find(line).unwrap_or(usize::MAX);
    assert!(at("\nstop in") < at("\nclose\n"), "{log}");
    driven.done("stat -d 0.1 -e TotalCycles");
}

fn it_is_removed(driven: &Driven) {
    driven.forget_log();
    let removed = driven.done("uninstall");
    assert_eq!(removed["devices"], json!([r"ROOT\HALPROF\0000"]), "{removed}");
    let log = driven.log();
    for line in ["pnp 23", "pnp 2"] {
        assert!(log.lines().any(|one| one == line), "{line}:\n{log}");
    }
    assert_eq!(driven.refused("info").1, "no-driver");
}

/// A driver that runs and whose interface nobody lists.
fn the_link_is_enough(driven: &Driven) {
    driven.install("");
    let mut info = driven.command(&["--json", "info"]);
    info.env("FAKE_UNLISTED", "1");
    let ran = Running::of(driven, info).ended();
    assert_eq!(ran.status, Some(0), "{}{}", ran.output, ran.errors);
    assert_eq!(ran.json()["backend"], "driver");
    driven.uninstall();
}
