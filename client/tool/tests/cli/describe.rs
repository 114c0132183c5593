//! Is every model described, and all that is listed? `tests/cases` has what one command shows.

use crate::cli::measure::models;
use crate::cli::support::{
    Ran, command, folder, halprof, halprof_json, json, offered, refused, text,
};

/// Each command that describes a modelled machine gives valid JSON, and a source that is not there is
/// refused.
pub(super) fn assert_described(machine: &str) {
    for command in
        ["info", "list", "registers", "check", "list --all", "list --all -v --approximate"]
    {
        let value = json(&format!("--machine {machine} {command}"));
        assert_eq!(value["modelled"], true, "{machine} {command}");
    }
    let doctor = halprof_json(&format!("--machine {machine} doctor"));
    let ready = doctor.json()["ready"].as_bool().expect("a bool");
    assert_eq!(doctor.status, if ready { 0 } else { 4 }, "{machine}");
    refused(&format!("--machine {machine} stat -e Nonsense"), 4, "source-unknown");
}

#[test]
fn every_command_is_valid_on_every_model() {
    let (_folder, path) = folder();
    for model in models() {
        assert_described(&model);
        // What can be sampled is; what would not end is refused.
        for workload in
            ["cycles=300000000", "cycles=4611686018427387904", "branches=4611686018427387904"]
        {
            let record =
                format!("--machine {model} record -o {} --workload {workload}", text(&path));
            let record = halprof_json(&record);
            record.json();
            assert!(matches!(record.status, 0 | 2 | 4), "{model}: {}", record.stdout);
            assert!(record.status != 0 || workload.len() < 20, "{model} {workload}");
        }
    }
}

#[test]
fn all_that_is_listed_can_be_explained() {
    let contents = json("explain");
    let topics = contents["topics"].as_array().expect("a list");
    assert!(topics.len() > 30, "{}", topics.len());
    for topic in topics {
        let name = topic["topic"].as_str().expect("a name");
        // The machine does not matter; it need not even exist.
        let mut explain = command("--json --machine no-such-machine explain");
        let value = Ran::of(explain.arg(name)).json();
        assert_eq!((&value["topic"], &value["kind"]), (&topic["topic"], &topic["kind"]));
        assert_eq!(value["modelled"], false);
    }
    for machine in
        ["skylake", "hybrid", "zen4", "k8", "pentium", "pentium3", "pentium4", "hyperv-masked"]
    {
        let list = json(&format!("--machine {machine} list --all"));
        // Every ninth source is enough: the code is the same for all.
        for source in list["sources"].as_array().expect("a list").iter().step_by(9) {
            let value = json(&format!("--machine {machine} explain {}", source["id"]));
            assert_eq!(value["topic"], source["name"], "{machine}");
            let has_select = source["select"].is_string() && source["name"] != "Timer";
            let registers = value["registers"].as_array().expect("a list");
            assert_eq!(!registers.is_empty(), has_select, "{machine}: {source}");
        }
    }
}

#[test]
fn every_event_that_is_listed_has_a_sentence_and_a_source_too() {
    for machine in ["skylake", "hybrid", "zen2", "zen6"] {
        let list = json(&format!("--machine {machine} list --all --events"));
        let sources = list["sources"].as_array().expect("a list").iter();
        let silent = sources.filter(|one| one["description"] == "");
        assert_eq!(silent.map(|one| &one["name"]).collect::<Vec<_>>(), [""; 0], "{machine}");
    }
}

#[test]
fn shells_that_show_it_complete_an_event_with_its_sentence() {
    for (shell, between) in [("zsh", ':'), ("fish", '\t'), ("powershell", '\t')] {
        let said = offered(shell, "--machine skylake stat -e mem_load_retired.l3_m");
        let line = format!("MEM_LOAD_RETIRED.L3_MISS{between}Loads retired that missed the L3.");
        assert!(said.lines().any(|said| said.starts_with(&line)), "{shell}: {said}");
    }
}

/// Above the pictures of its source, and where the mouse rests on the source's name in the table.
#[test]
fn a_page_says_what_its_sources_count() {
    let (_folder, path) = folder();
    let recording = text(&path);
    let work = "--workload instructions=20000000,cycles=20000000";
    for (machine, event, sentence) in [
        ("skylake", "INST_RETIRED.ANY_P:u:100000", "Instructions retired."),
        ("zen4", "ls_not_halted_cyc:100000", "Cycles in which the thread is not halted."),
        ("zen4,backend=etw", "TotalIssues:100000", "Work that the program asked for: "),
    ] {
        let record =
            halprof_json(&format!("--machine {machine} record -e {event} -o {recording} {work}"));
        assert_eq!(record.status, 0, "{}{}", record.stdout, record.stderr);
        let page = halprof(&format!("export -f html -o - {recording}")).stdout;
        for place in ["<p>", "<td title=\""] {
            assert!(page.contains(&format!("{place}{sentence}")), "{machine}: {place}");
        }
    }
}

/// Each register with the mode bits that the filter sets there (SDM: CC of CESR, T0_USR and T0_OS of
/// an ESCR, USR and OS of a select).
#[test]
fn a_filter_is_in_the_register() {
    for (machine, name, [both, user, kernel]) in [
        ("pentium", "DATA_READ_MISS", [0xC3, 0x83, 0x43]),
        ("skylake", "TotalIssues", [0x3_00C0, 0x1_00C0, 0x2_00C0]),
        ("skylake", "UOPS_ISSUED.ANY", [0x3_010E, 0x1_010E, 0x2_010E]),
        ("skylake", "rC0", [0x3_00C0, 0x1_00C0, 0x2_00C0]),
        ("zen4", "ex_ret_ops", [0x3_00C1, 0x1_00C1, 0x2_00C1]),
        ("pentium4", "TotalIssues", [0x0400_060C, 0x0400_0604, 0x0400_0608]),
    ] {
        for (filter, wanted) in [("", both), (":uk", both), (":u", user), (":k", kernel)] {
            let value = json(&format!("--machine {machine} explain {name}{filter}"));
            let register = &value["registers"][0]["value"];
            assert_eq!(*register, format!("{wanted:#x}"), "{machine} {name}{filter}");
        }
    }
}
