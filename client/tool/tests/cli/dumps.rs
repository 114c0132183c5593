//! Is every command's output valid by its schema, errors included, for every available dump of a
//! real processor?

use crate::cli::describe::assert_described;
use crate::cli::support::{folder, halprof, halprof_json, json, offered, shared_path, text};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The dumps in `../shared/cpuid`, relative to the workspace; none if they are missing, which
/// `HALPROF_REQUIRE_DUMPS=1` makes an error.
fn dumps() -> Vec<PathBuf> {
    let folder = shared_path("cpuid");
    let required = std::env::var_os("HALPROF_REQUIRE_DUMPS").is_some_and(|value| value == "1");
    match std::fs::read_dir(&folder) {
        Ok(files) => files.map(|file| file.expect("a file").path()).collect(),
        Err(error) if required => panic!("{}: {error}", folder.display()),
        Err(error) => {
            eprintln!("skipped, no dumps: {}: {error}", folder.display());
            Vec::new()
        }
    }
}

#[test]
fn every_dump_is_described_and_measured() {
    let (_folder, path) = folder();
    for dump in dumps() {
        let machine = text(&dump);
        assert_described(machine);
        json(&format!("--machine {machine} stat"));
        // Sources that can be sampled are; for the others the refusal says that they cannot.
        let record = halprof_json(&format!("--machine {machine} record -o {}", text(&path)));
        record.json();
        assert!(matches!(record.status, 0 | 4), "{machine}: {}", record.stdout);
    }
}

/// A dump whose processors have another signature in leaf 1; `None` if dumps are missing.
fn edited(folder: &Path, name: &str, from: &str, to: &str) -> Option<PathBuf> {
    let dump = dumps().into_iter().find(|dump| text(dump).contains(name))?;
    let leaves = std::fs::read_to_string(dump).expect("a dump");
    assert!(leaves.contains(from), "{name}");
    let path = folder.join(format!("{to}.txt"));
    std::fs::write(&path, leaves.replace(from, to)).expect("written");
    Some(path)
}

/// What a command answers on a model whose events nobody knows: no event of another model, and the
/// reason.
#[test]
fn a_model_that_nobody_knows_has_no_vendor_event_in_any_command() {
    let (folder, _) = folder();
    for (name, from, to, event, counted) in [
        // Family 1Ah model D0h, which is proposed for Zen 6.
        ("KrackanPoint", "00B60F00", "00BD0F00", "ls_dispatch.all", "Timer"),
        // Family 19h model B0h.
        ("KrackanPoint", "00B60F00", "00AB0F00", "ls_dispatch.all", "Timer"),
        // Diamond Rapids, family 13h model 1.
        ("00506E3_Skylake", "000506E3", "00400F10", "IDQ.DSB_UOPS", "InstructionRetired"),
    ] {
        let Some(machine) = edited(folder.path(), name, from, to) else { return };
        let machine = text(&machine);
        let list = json(&format!("--machine {machine} list --events --all"));
        let rows = list["sources"].as_array().expect("a list");
        assert!(rows.iter().all(|row| row["event"] == false), "{to}");
        let row = rows.iter().find(|row| row["name"] == counted).expect(counted);
        assert_eq!(row["supported"], true, "{to}");
        for command in [
            format!("stat -e {event}"),
            format!("check -e {event}"),
            format!("record -e {event} -o never.hprec"),
            format!("explain {event}"),
            "list --event-format wprp".to_owned(),
        ] {
            let ran = halprof(&format!("--machine {machine} {command}"));
            assert_eq!(ran.status, 4, "{to} {command}");
            assert!(ran.stderr.contains("does not know the events of"), "{to} {}", ran.stderr);
        }
        let error = halprof_json(&format!("--machine {machine} stat -e {event}")).json();
        assert_eq!(error["error"]["code"], "unknown-model", "{to}");
        let offered = |name: &str| offered("bash", &format!("--machine {machine} stat -e {name}"));
        assert_eq!(offered(event), "", "{to}");
        assert!(offered(counted).lines().any(|name| name == counted), "{to}");
        let doctor = json(&format!("--machine {machine} doctor"));
        let checks = doctor["checks"].as_array().expect("a list");
        let check = checks.iter().find(|check| check["name"] == "events").expect("a check");
        assert_eq!((&check["state"], &check["code"]), (&"warning".into(), &"unknown-model".into()));
    }
}

/// The Krackan Point dump as family 1Ah model 50h lists Zen 6's events and none of Zen 5's alone.
#[test]
fn zen_6_lists_no_event_of_zen_5() {
    let (folder, _) = folder();
    let Some(machine) = edited(folder.path(), "KrackanPoint", "00B60F00", "00B50F00") else {
        return;
    };
    let machine = text(&machine);
    let list = json(&format!("--machine {machine} list --events --all"));
    let names: BTreeSet<&str> = list["sources"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|row| row["name"].as_str())
        .collect();
    assert!(names.contains("bp_fe_redir.resync") && !names.contains("bp_redirects.resync"));
    let ran = halprof_json(&format!("--machine {machine} stat -e bp_redirects.resync"));
    let error = &ran.json()["error"];
    assert_eq!(error["code"], "source-unknown");
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("event of Zen 5")), "{error}");
}

/// Wherever the vendor has formulas, the parts of level 1 are the whole, on each type of core.
#[test]
fn top_down_adds_up_on_every_dump() {
    const OFFERED: &str = "SandyBridge Haswell Skylake Coffeelake CometLake ICX AlderLake RaptorLake \
        ArrowLake";
    for dump in dumps() {
        let machine = text(&dump);
        let ran = halprof_json(&format!("--machine {machine} stat --topdown"));
        if ran.status != 0 {
            assert!(!OFFERED.split(' ').any(|name| machine.contains(name)), "{machine}");
            assert_eq!(ran.json()["error"]["code"], "unavailable", "{machine}");
            continue;
        }
        let stat = ran.json();
        let mut kinds: BTreeMap<&str, Vec<[f64; 2]>> = BTreeMap::new();
        for row in stat["topdown"].as_array().expect("rows") {
            let value = row["value"].as_f64().unwrap_or_else(|| panic!("{machine}: {row}"));
            let kind = row["cpu_type"].as_str().expect("a name");
            let bound = row["error"].as_f64().unwrap_or(0.0);
            kinds.entry(kind).or_default().push([value, bound]);
        }
        let info = json(&format!("--machine {machine} info"));
        let processors = info["processors"].as_array().expect("a list").iter();
        let types: BTreeSet<String> = processors.map(|one| one["core_type"].to_string()).collect();
        assert!(kinds.len() >= types.len(), "{machine}: {kinds:?} {types:?}");
        for (kind, parts) in kinds {
            let sum: f64 = parts.iter().map(|[value, _]| value).sum();
            let bound: f64 = parts.iter().map(|[_, bound]| bound).sum();
            assert!((sum - 100.0).abs() <= bound + 0.01, "{machine} {kind}: {sum} ±{bound}");
            assert!((4..=5).contains(&parts.len()), "{machine} {kind}");
        }
    }
}

/// Processors of which no formula is published, by the signature in leaf 1 EAX and the native model in
/// leaf 0x1A EAX, with the method of their performance and efficiency cores. Their own leaves are not
/// known: those of Arrow Lake H stand for them, of which leaf 0x23 differs by the type of core.
const WITHOUT_FORMULA: [(&str, u32, u8, [&str; 2]); 5] = [
    ("Panther Lake", 0x000C_06C0, 4, ["vendor", "architectural"]),
    ("Nova Lake", 0x0030_0F10, 5, ["architectural", "architectural"]),
    ("Nova Lake", 0x0030_0F30, 5, ["architectural", "architectural"]),
    ("Clearwater Forest", 0x000D_06D0, 3, ["architectural", "architectural"]),
    ("Diamond Rapids", 0x0040_0F10, 3, ["architectural", "architectural"]),
];

/// The low-power efficiency cores have none of the architectural events.
#[test]
fn top_down_is_by_the_architectural_events_where_leaf_0x23_has_them() {
    let Some(dump) = dumps().into_iter().find(|dump| text(dump).contains("ArrowLakeH")) else {
        return;
    };
    let dump = std::fs::read_to_string(dump).expect("a dump");
    let (_folder, path) = folder();
    for (name, signature, native, methods) in WITHOUT_FORMULA {
        let edited = dump
            .replace("CPUID 00000001: 000C0652", &format!("CPUID 00000001: {signature:08X}"))
            .replace("CPUID 0000001A: 40000003", &format!("CPUID 0000001A: 4000000{native}"))
            .replace("CPUID 0000001A: 20000003", &format!("CPUID 0000001A: 2000000{native}"));
        std::fs::write(&path, edited).expect("a file");
        let machine = text(&path);
        let stat = json(&format!("--machine {machine} stat --topdown"));
        let rows = stat["topdown"].as_array().expect("rows");
        let cpu_types: Vec<_> =
            rows.chunk_by(|one, next| one["cpu_type"] == next["cpu_type"]).collect();
        let [performance, efficiency, low_power] = cpu_types[..] else {
            panic!("{name}: {rows:?}");
        };
        for (rows, method) in [performance, efficiency].into_iter().zip(methods) {
            // Eight slots a cycle, of which 120 million of 1,200 million retire.
            for (row, expected) in rows.iter().zip([25.0, 5.0, 60.0, 10.0]) {
                let value = row["value"].as_f64().unwrap_or_else(|| panic!("{name}: {row}"));
                assert!((value - expected).abs() < 0.1, "{name}: {row}");
                assert_eq!(row["method"], method, "{name}: {row}");
            }
            assert_eq!(rows.len(), 4, "{name}");
        }
        let [none] = low_power else { panic!("{name}: {low_power:?}") };
        let reason = none["reason"].as_str().expect("a reason");
        assert!(reason.contains("leaf 0x23"), "{name}: {reason}");
        assert!(none["method"].is_null() && none["value"].is_null(), "{name}: {none}");
        let shown = halprof(&format!("--machine {machine} stat --topdown")).stdout;
        assert!(shown.contains("by the architectural events"), "{shown}");
    }
}
