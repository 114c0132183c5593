//! Is every command's output valid by its schema, errors included, for every available dump of a
//! real processor?

use crate::cli::describe::assert_described;
use crate::cli::support::{folder, halprof_json, json, text};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The dumps in `../shared/cpuid`, relative to the workspace; none if they are missing, which
/// `HALPROF_REQUIRE_DUMPS=1` makes an error.
fn dumps() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cpuid");
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
