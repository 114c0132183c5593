//! Do machines, info, list, check, registers and doctor describe the model, valid by schema?

use crate::cli::support::{halprof, json, refused};
use serde_json::Value;

fn models() -> Vec<String> {
    let machines = json(&["machines"]);
    let names = machines["machines"].as_array().expect("a list");
    names.iter().map(|machine| machine["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn every_command_is_valid_on_every_model() {
    let folder = tempfile::tempdir().expect("a folder");
    let recording = folder.path().join("a.rec");
    let file = recording.to_str().expect("UTF-8");
    for model in models() {
        for command in ["info", "list", "registers", "check"] {
            let value = json(&["--machine", &model, command]);
            assert_eq!(value["modelled"], true, "{model} {command}");
        }
        for arguments in [&["list", "--all"][..], &["list", "--all", "-v", "--approximate"]] {
            json(&[&["--machine", &model], arguments].concat());
        }
        let record = halprof(&["--json", "--machine", &model, "record", "-o", file]);
        record.json();
        assert!(matches!(record.status, 0 | 4), "{model}: {}", record.stdout);
        let nonsense = ["--machine", &model, "stat", "-e", "Nonsense"];
        refused(&nonsense, 4, "source-unknown");
        let ran = halprof(&["--json", "--machine", &model, "doctor"]);
        let ready = ran.json()["ready"].as_bool().expect("a bool");
        assert_eq!(ran.status, if ready { 0 } else { 4 }, "{model}");
    }
}

#[test]
#[cfg(not(windows))]
fn a_doctor_without_a_driver_says_so() {
    let ran = halprof(&["--json", "--machine", "driver", "doctor"]);
    let checks = &ran.json()["checks"];
    assert_eq!((ran.status, &checks[0]["state"]), (3, &"problem".into()));
    assert!(checks[0]["hint"].as_str().is_some_and(|hint| hint.contains("--machine")));
}

#[test]
fn every_result_of_a_model_says_so_on_standard_error() {
    for command in ["info", "list", "check", "registers", "doctor", "stat"] {
        for quiet in [&["--quiet"][..], &[], &["--json"]] {
            let ran = halprof(&[quiet, &["--machine", "skylake", command]].concat());
            assert_eq!(ran.status, 0, "{command}: {}", ran.stderr);
            assert!(ran.stderr.contains("modelled machine"), "{command}");
            assert!(ran.stderr.contains("not silicon"), "{command}");
        }
    }
}

#[test]
fn interfaces_are_those_of_the_models() {
    for (model, interface, hal, reason) in [
        ("skylake", "Emon", "Emon", "architectural-performance-monitoring"),
        ("zen4", "Amd64", "Amd64", "amd-vendor"),
        ("pentium", "Pentium", "Default", "pentium-model"),
        ("pentium3", "P6", "Default", "p6-model"),
        ("pentium4", "NetBurst", "Default", "netburst-model"),
        ("hyperv-masked", "Default", "Default", "version-zero"),
        ("hyperv-root-amd", "Default", "Default", "hypervisor-masks"),
    ] {
        let info = json(&["--machine", model, "info"]);
        assert_eq!(info["interface"], interface, "{model}");
        assert_eq!(info["hal_interface"], hal, "{model}");
        assert_eq!(info["reason"], reason, "{model}");
    }
}

#[test]
fn partitions_are_told_with_what_is_behind_them() {
    for (model, partition, monitors, behind) in [
        ("hyperv-root-intel", Some("root"), Some(true), None),
        ("hyperv-root-amd", Some("root"), Some(false), None),
        ("hyperv-guest-intel", Some("guest"), Some(true), None),
        ("hyperv-masked", Some("root"), Some(false), None),
        ("kvm-hyperv-face", Some("guest"), Some(false), Some("KVMKVMKVM")),
        ("skylake", None, None, None),
    ] {
        let info = json(&["--machine", model, "info"]);
        let told = |field: &str| info.pointer(&format!("/processors/0/{field}"));
        assert_eq!(told("partition"), Some(&partition.into()), "{model}");
        assert_eq!(told("monitors_offered"), Some(&monitors.into()), "{model}");
        assert_eq!(told("hypervisor_behind"), Some(&behind.into()), "{model}");
    }
}

#[test]
fn processors_are_repeated_up_to_2048() {
    for n in [1, 2, 65, 2048] {
        let info = json(&["--machine", &format!("skylake,processors={n}"), "info"]);
        let processors = info["processors"].as_array().expect("a list");
        assert_eq!(processors.len(), n);
        let last = processors.last().expect("one at least");
        let at = (last["index"].as_u64(), last["group"].as_u64(), last["number"].as_u64());
        let n = n as u64 - 1;
        assert_eq!(at, (Some(n), Some(n / 64), Some(n % 64)));
    }
}

fn find<'a>(list: &'a Value, name: &str) -> &'a Value {
    let sources = list["sources"].as_array().expect("a list");
    sources.iter().find(|source| source["name"] == name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn the_list_has_the_hals_rows() {
    let list = json(&["--machine", "skylake", "list"]);
    let total = find(&list, "TotalIssues");
    assert_eq!((&total["id"], &total["symbol"]), (&2.into(), &"ProfileTotalIssues".into()));
    assert_eq!(total["select"], "0x000300C0");
    assert_eq!(
        (&total["hal"], &total["supported"], &total["sampling"]),
        (&true.into(), &true.into(), &true.into())
    );
    assert_eq!(
        total["interval"],
        serde_json::json!({"default": 65536, "min": 4096, "max": 2147483647})
    );
    let hal =
        list["sources"].as_array().expect("a list").iter().filter(|source| source["hal"] == true);
    assert_eq!(hal.count(), 13);
    let all = json(&["--machine", "zen4", "list", "--all"]);
    let hal =
        all["sources"].as_array().expect("a list").iter().filter(|source| source["hal"] == true);
    assert_eq!(hal.count(), 176);
    assert!(
        json(&["--machine", "zen4", "list"])["sources"]
            .as_array()
            .expect("a list")
            .iter()
            .all(|source| source["supported"] == true)
    );
}

#[test]
fn a_pentium_counts_and_does_not_sample() {
    let list = json(&["--machine", "pentium", "list"]);
    let source = find(&list, "TotalIssues");
    assert_eq!(source["sampling"], false);
    assert!(source["note"].as_str().expect("text").contains("interrupt"));
}

#[test]
fn a_set_that_fits_has_a_counter_each() {
    let check = json(&[
        "--machine",
        "skylake",
        "check",
        "-e",
        "TotalIssues,BranchInstructions:u,ProfileTime,LLCMisses",
        "-C",
        "1",
    ]);
    assert_eq!((&check["fits"], &check["reason"]), (&true.into(), &Value::Null));
    let assignment = check["assignment"].as_array().expect("a list");
    let row = |index: usize| {
        (&assignment[index]["source"], &assignment[index]["processor"], &assignment[index]["kind"])
    };
    assert_eq!(row(0), (&"TotalIssues".into(), &1.into(), &"fixed".into()));
    assert_eq!(row(1), (&"BranchInstructions:u".into(), &1.into(), &"general".into()));
    assert_eq!(row(2), (&"Timer".into(), &1.into(), &"timer".into()));
    assert_eq!(row(3), (&"LLCMisses".into(), &1.into(), &"general".into()));
    assert_ne!(assignment[1]["counter"], assignment[3]["counter"]);
}

#[test]
fn a_set_that_takes_turns_is_told_and_a_group_that_cannot_is_refused() {
    let check = json(&[
        "--machine",
        "pentium",
        "check",
        "-e",
        "TotalIssues,BranchInstructions,DcacheMisses",
    ]);
    assert_eq!((&check["fits"], &check["reason"]), (&false.into(), &"does-not-fit".into()));
    let ran = halprof(&[
        "--json",
        "--machine",
        "pentium",
        "check",
        "-g",
        "TotalIssues,BranchInstructions,DcacheMisses",
    ]);
    assert_eq!((ran.status, &ran.json()["fits"]), (4, &false.into()));
}

#[test]
fn registers_are_named_and_taken_apart() {
    let registers = json(&["--machine", "skylake", "registers", "-C", "0-1"]);
    let processors = registers["processors"].as_array().expect("a list");
    assert_eq!(processors.len(), 2);
    let all = processors[1]["registers"].as_array().expect("a list");
    let select =
        all.iter().find(|register| register["name"] == "IA32_PERFEVTSEL0").expect("a select");
    assert_eq!(select["number"], 0x186);
    assert!(all.iter().all(|register| register["name"] != "unknown"));
    let cr4 = all.iter().find(|register| register["name"] == "CR4");
    let field = &cr4.expect("CR4")["fields"][0];
    assert_eq!((&field["name"], &field["value"]), (&"PCE".into(), &0.into()));
}
