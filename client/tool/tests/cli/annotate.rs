//! Does `annotate` show code without symbols as it shows it with them? `tests/cases` has the rest.

use crate::cli::binaries;
use crate::cli::reports::Recorded;
use crate::cli::support::{halprof, json, refused};
use serde_json::Value;

/// The addresses of instructions, and their samples.
fn sampled(annotated: &Value) -> Vec<(u64, u64)> {
    let rows = annotated["instructions"].as_array().expect("instructions").iter();
    rows.map(|row| {
        let address = row["address"].as_str().expect("an address");
        let address = u64::from_str_radix(&address[2..], 16).expect("a number");
        (address, row["samples"][0].as_u64().expect("a number"))
    })
    .collect()
}

/// What an address and a range show without symbols is what the name showed.
#[test]
fn a_stripped_program_is_annotated_by_address_and_by_range() {
    for (built, function, left) in [
        (binaries::elf(), "spin", Some("work+0x")),
        (binaries::pe_with_frames(), "spin", Some("work.exe+0x")),
        (binaries::pe_with_frames(), "wait", Some("wait")),
        // It is behind the export.
        (binaries::pe_with_frames(), "start", Some("work.exe+0x")),
        (binaries::pe_of_32_bits(), "spin", None),
    ] {
        let Some(built) = built else { return };
        let recorded = Recorded::of_function(&built, function, 1_000_000);
        let annotate = |place: &str| format!("annotate {} {place}", recorded.file());
        let all = sampled(&json(&annotate(function)));
        let (last, before) = all.split_last().expect("instructions");
        strip(&built);
        let within = format!("{:#x}", before[1].0);
        if let Some(name) = left {
            let by_address = json(&annotate(&within));
            let symbol = by_address["symbol"].as_str().expect("a name");
            assert!(symbol.starts_with(name), "{function}: {symbol}");
            assert_eq!(sampled(&by_address), all, "{function}");
        } else {
            let stderr = halprof(&annotate(&within)).stderr;
            assert!(stderr.contains("Give a range of addresses"), "{stderr}");
        }
        let (first, end) = (before[0].0, last.0);
        for range in [format!("{first:#x}-{end:#x}"), format!("{first:#x}+{}", end - first)] {
            assert_eq!(sampled(&json(&annotate(&range))), before, "{range}");
        }
        let longest = before.windows(2).max_by_key(|two| two[1].0 - two[0].0);
        let within = longest.expect("two instructions")[0].0 + 1;
        for range in [
            format!("{first:#x}-{within:#x}"),
            format!("{first:#x}+0"),
            format!("{end:#x}-{first:#x}"),
        ] {
            refused(&annotate(&range), 2, "usage");
        }
    }
}

fn strip(built: &binaries::Built) {
    let pdb = built.folder.path().join("work.pdb");
    if pdb.exists() {
        std::fs::remove_file(pdb).expect("removed");
    } else {
        assert_eq!(binaries::run("strip", &[], &[&built.file]), Some(true));
    }
}
