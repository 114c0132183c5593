//! Is every model and every dump described, and each damaged dump refused? `tests/cases` has what one
//! command shows.

use crate::cli::measure::models;
use crate::cli::support::{folder, halprof, halprof_json, json, refused, text};

#[test]
fn every_command_is_valid_on_every_model() {
    let (_folder, path) = folder();
    for model in models() {
        for command in
            ["info", "list", "registers", "check", "list --all", "list --all -v --approximate"]
        {
            let value = json(&format!("--machine {model} {command}"));
            assert_eq!(value["modelled"], true, "{model} {command}");
        }
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
        refused(&format!("--machine {model} stat -e Nonsense"), 4, "source-unknown");
        let ran = halprof_json(&format!("--machine {model} doctor"));
        let ready = ran.json()["ready"].as_bool().expect("a bool");
        assert_eq!(ran.status, if ready { 0 } else { 4 }, "{model}");
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
        let value = json(&["--machine", "no-such-machine", "explain", name]);
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

/// A Skylake with one processor, and where one line of it is missing or contradicted.
#[test]
fn dumps_that_are_none_end_with_5() {
    const LEAF_0: &str = "CPUID 00000000: 00000016-756E6547-6C65746E-49656E69\n";
    const LEAF_1: &str = "CPUID 00000001: 000506E3-00100800-7FFAFBBF-BFEBFBFF\n";
    const LEAF_0A: &str = "CPUID 0000000A: 07300804-00000000-00000000-00000603\n";
    let folder = tempfile::tempdir().expect("a folder");
    let whole = [LEAF_0, LEAF_1, LEAF_0A].concat();
    let other_vendor = whole.replace("756E6547-6C65746E-49656E69", "68747541-444D4163-69746E65");
    let fewer_counters = LEAF_0A.replace("07300804", "07300404");
    let processors: Vec<String> =
        (0..2049).map(|n| format!("CPU#{n:03} AP#{n:03}\n{whole}")).collect();
    let many = processors.concat();
    for (name, content) in [
        ("empty", String::new()),
        ("blank", " \r\n\t\n".to_owned()),
        ("binary", "\0\u{9f}\u{7}".to_owned()),
        ("words", "this is no dump\n".to_owned()),
        ("cut", whole[..whole.len() - 12].to_owned()),
        ("no-leaf-0", [LEAF_1, LEAF_0A].concat()),
        ("no-leaf-1", [LEAF_0, LEAF_0A].concat()),
        ("contradiction", whole.clone() + &fewer_counters),
        ("processors", many),
        ("vendors", format!("CPU#000\n{whole}CPU#001\n{other_vendor}")),
    ] {
        let file = folder.path().join(name);
        std::fs::write(&file, content).expect("written");
        let file = text(&file);
        refused(&format!("--machine {file} stat"), 5, "bad-file");
        refused(&format!("--machine {file},processors=4 list"), 5, "bad-file");
        let ran = halprof(&format!("--machine {file} info"));
        assert_eq!((ran.status, ran.stdout.as_str()), (5, ""), "{name}");
        assert!(ran.stderr.contains("hint: ") && !ran.stderr.contains("panic"), "{name}");
    }
    let good = folder.path().join("good");
    std::fs::write(&good, &whole).expect("written");
    let good = text(&good);
    assert_eq!(json(&format!("--machine {good} info"))["interface"], "Emon");
    refused(&format!("--machine {good},processors=2049 info"), 2, "usage");
}
