//! Does libpfm4 have the same select for each event that both it and the vendors' lists name? PAPI
//! takes its events from it, and its tables are not made from ours.

use halprof_measure::events::Microarchitecture;
use halprof_tests::facts::{number, records};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// The events for which libpfm4 has another select, and why.
const DIFFERENCES: &str = include_str!("../libpfm4/differences.csv");
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/libpfm4/encodings.c");
const HEADER: &str = "/usr/include/perfmon/pfmlib.h";
/// libpfm4 sets the mode, interrupt and enable bits, which are not part of the event.
const NOT_THE_EVENTS: u64 = 0b0101_0011 << 16;

/// The tables of events for which libpfm4 4.13 has a PMU.
const PMUS: [(&str, &str); 33] = [
    ("amdzen1", "amd64_fam17h_zen1"),
    ("amdzen2", "amd64_fam17h_zen2"),
    ("amdzen3", "amd64_fam19h_zen3"),
    ("amdzen4", "amd64_fam19h_zen4"),
    ("bonnell", "atom"),
    ("broadwell", "bdw"),
    ("broadwellde", "bdw_ep"),
    ("broadwellx", "bdw_ep"),
    ("cascadelakex", "clx"),
    ("elkhartlake", "tmt"),
    ("goldmont", "glm"),
    ("goldmontplus", "glm"),
    ("haswell", "hsw"),
    ("haswellx", "hsw_ep"),
    ("icelake", "icl"),
    ("icelakex", "icx"),
    ("ivybridge", "ivb"),
    ("ivytown", "ivb_ep"),
    ("jaketown", "snb_ep"),
    ("knightslanding", "knl"),
    ("nehalemep", "nhm"),
    ("nehalemex", "nhm_ex"),
    ("rocketlake", "icl"),
    ("sandybridge", "snb"),
    ("sapphirerapids", "spr"),
    ("silvermont", "slm"),
    ("skylake", "skl"),
    ("skylakex", "skx"),
    ("snowridgex", "tmt"),
    ("tigerlake", "icl"),
    ("westmereep-dp", "wsm_dp"),
    ("westmereep-sp", "wsm"),
    ("westmereex", "wsm_dp"),
];

#[test]
fn each_event_that_both_name_has_one_select_or_a_reason() {
    if !Path::new(HEADER).exists() {
        let required = std::env::var_os("HALPROF_REQUIRE_TOOLS").is_some_and(|one| one == "1");
        assert!(!required, "no {HEADER}: `cargo xtask setup`");
        println!("skipped: no {HEADER}: `cargo xtask setup`");
        return;
    }
    let explained = explained();
    let mut used = BTreeSet::new();
    let mut same = 0;
    let mut without_reason = Vec::new();
    for (table, name, own, theirs) in encoded() {
        if own == theirs {
            same += 1;
            continue;
        }
        let key = (table, name);
        if explained.get(&key) == Some(&(own, theirs)) {
            used.insert(key);
        } else {
            without_reason.push(format!("{key:?}: {own:#X}, libpfm4 {theirs:#X}"));
        }
    }
    assert!(without_reason.is_empty(), "{without_reason:#?}");
    let stale: Vec<_> = explained.keys().filter(|key| !used.contains(*key)).collect();
    assert!(stale.is_empty(), "no longer different: {stale:?}");
    assert_eq!(same, 5987);
}

/// The two selects of each difference that has a known reason, by table and event.
fn explained() -> BTreeMap<(String, String), (u64, u64)> {
    let mut explained = BTreeMap::new();
    for row in records(DIFFERENCES) {
        assert!(!row["reason"].is_empty(), "{row:?}");
        let selects = (number(&row["halprof"]), number(&row["libpfm4"]));
        for table in row["tables"].split(' ') {
            explained.insert((table.to_owned(), row["event"].clone()), selects);
        }
    }
    explained
}

/// Table, event, our select and libpfm4's, for each event that it knows.
fn encoded() -> Vec<(String, String, u64, u64)> {
    let mut events = Vec::new();
    for (table, pmu) in PMUS {
        let one = Microarchitecture::all().iter().find(|one| one.table == table);
        for event in one.expect(table).events() {
            events.push((table.to_owned(), event.name.clone(), event.select(), pmu));
        }
    }
    let names = events.iter().map(|(_, name, _, pmu)| format!("{pmu}::{name}\n"));
    let answers = libpfm4(&names.collect::<String>());
    let answers: Vec<&str> = answers.lines().collect();
    assert_eq!(answers.len(), events.len());
    let both = events.into_iter().zip(answers);
    let known = both.filter_map(|((table, name, own, _), answer)| {
        let theirs = u64::from_str_radix(answer, 16).ok()?;
        Some((table, name, own, theirs & !NOT_THE_EVENTS))
    });
    known.collect()
}

/// What the program prints for these lines.
fn libpfm4(lines: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("encodings");
    let compiled = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .args([PROGRAM, "-lpfm"])
        .status();
    assert!(compiled.expect("cc").success());
    // All input is in a file before the output is read, so that the pipes cannot block each other.
    let path = folder.path().join("lines");
    std::fs::write(&path, lines).expect("written");
    let printed = Command::new(&program)
        .stdin(Stdio::from(std::fs::File::open(&path).expect("the lines")))
        .output()
        .expect("it runs");
    std::io::stderr().write_all(&printed.stderr).expect("told");
    assert!(printed.status.success());
    String::from_utf8(printed.stdout).expect("text")
}
