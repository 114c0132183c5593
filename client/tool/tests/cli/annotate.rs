//! Does annotate show the code that ran, each instruction with its samples?

use crate::cli::binaries;
use crate::cli::reports::Recorded;
use crate::cli::support::{halprof, json, refused};
use serde_json::Value;
use std::collections::HashSet;
use std::process::Command;

/// The folder with the programs' sources.
const SOURCES: &str = env!("CARGO_MANIFEST_DIR");

fn numbers<'a>(annotated: &'a Value, field: &'a str) -> impl Iterator<Item = u64> + 'a {
    let rows = annotated["instructions"].as_array().expect("instructions");
    rows.iter().map(move |row| row[field][0].as_u64().expect("a number"))
}

#[test]
fn every_sample_is_at_an_instruction_of_its_line() {
    for built in [binaries::pe(), binaries::elf()].into_iter().flatten() {
        let recorded = Recorded::of_function(&built, "spin", 20_000_000);
        let annotated = json(&["annotate", recorded.file()]);
        assert_eq!(annotated["modelled"], true);
        let symbol = annotated["symbol"].as_str().expect("a name");
        assert_eq!(symbol.split('(').next(), Some("spin"));
        assert_eq!(annotated["between"], 0);
        assert_eq!(numbers(&annotated, "samples").sum::<u64>(), 2000);
        assert_eq!(numbers(&annotated, "events").sum::<u64>(), 20_000_000);
        // The model spreads what it retires over all instructions.
        assert!(numbers(&annotated, "samples").all(|samples| samples > 0), "{annotated}");
        let rows = annotated["instructions"].as_array().expect("instructions");
        let of_line = |line: u64| rows.iter().any(|row| row["line"] == line);
        assert!(of_line(13) && of_line(5), "{annotated}");
        let inlined = rows.iter().find(|row| row["line"] == 5).expect("line 5");
        let name = inlined["inlined"][0].as_str().expect("a name");
        assert_eq!(name.split('(').next(), Some("twice"));
        // The address of the store is where an instruction of line 5 writes.
        assert!(inlined["text"].as_str().expect("text").starts_with("mov"));
        let start = &annotated["address"];
        assert_eq!(&rows[0]["address"], start);
        for place in ["spin", "sp*n", "SPIN", start.as_str().expect("an address")] {
            let same = json(&["annotate", recorded.file(), place]);
            assert_eq!(same["instructions"], annotated["instructions"], "{place}");
        }
        let text = halprof(&["annotate", recorded.file(), "spin", "--source-dir", SOURCES]);
        for said in [
            "sum ^= i << 3;",
            // As `report --by line` has it.
            "binaries/work.c:13 ",
            "ret",
            "2,000 samples here",
            "100.00 % of all",
        ] {
            assert!(text.stdout.contains(said), "{said}: {}", text.stdout);
        }
        let unnamed = halprof(&["annotate", recorded.file(), "spin"]);
        assert!(!unnamed.stdout.contains("sum ^= i << 3;"), "{}", unnamed.stdout);
    }
}

/// The addresses of instructions, and their samples.
fn sampled(annotated: &Value) -> Vec<(u64, u64)> {
    let rows = annotated["instructions"].as_array().expect("instructions");
    let address = |row: &Value| {
        let text = row["address"].as_str().expect("an address");
        u64::from_str_radix(&text[2..], 16).expect("a number")
    };
    let rows = rows.iter().map(address);
    rows.zip(numbers(annotated, "samples")).collect()
}

/// What an address and a range show without symbols is what the name showed.
#[test]
fn a_stripped_program_is_annotated_by_address_and_by_range() {
    for (built, function, left) in [
        (binaries::elf(), "spin", Some("")),
        (binaries::pe_with_frames(), "spin", Some("")),
        (binaries::pe_with_frames(), "wait", Some("wait")),
        // It is behind the export.
        (binaries::pe_with_frames(), "start", Some("")),
        (binaries::pe_of_32_bits(), "spin", None),
    ] {
        let Some(built) = built else { return };
        let recorded = Recorded::of_function(&built, function, 1_000_000);
        let all = sampled(&json(&["annotate", recorded.file(), function]));
        let (last, before) = all.split_last().expect("instructions");
        strip(&built);
        let within = format!("{:#x}", before[1].0);
        if let Some(name) = left {
            let by_address = json(&["annotate", recorded.file(), &within]);
            assert_eq!(by_address["symbol"], name, "{function}");
            assert_eq!(sampled(&by_address), all, "{function}");
        } else {
            let told = halprof(&["annotate", recorded.file(), &within]).stderr;
            assert!(told.contains("Give a range of addresses"), "{told}");
        }
        let (first, end) = (before[0].0, last.0);
        for range in [format!("{first:#x}-{end:#x}"), format!("{first:#x}+{}", end - first)] {
            let of_range = json(&["annotate", recorded.file(), &range]);
            assert_eq!(sampled(&of_range), before, "{range}");
        }
        let longest = before.windows(2).max_by_key(|two| two[1].0 - two[0].0);
        let within = longest.expect("two instructions")[0].0 + 1;
        for (range, why) in [
            (format!("{first:#x}-{within:#x}"), "ends within"),
            (format!("{first:#x}+0"), "empty"),
            (format!("{end:#x}-{first:#x}"), "empty"),
        ] {
            refused(&["annotate", recorded.file(), &range], 2, "usage");
            let told = halprof(&["annotate", recorded.file(), &range]).stderr;
            assert!(told.contains(why), "{range}: {told}");
        }
    }
}

/// Leaves a program without symbols.
fn strip(built: &binaries::Built) {
    let pdb = built.folder.path().join("work.pdb");
    if pdb.exists() {
        std::fs::remove_file(pdb).expect("removed");
    } else {
        assert_eq!(binaries::run("strip", &[], &[&built.file]), Some(true));
    }
}

/// There is no terminal here, so colours come only if they are forced.
#[test]
fn hot_instructions_have_colours_only_where_they_are_wanted() {
    let Some(built) = binaries::elf() else { return };
    let recorded = Recorded::of_function(&built, "spin", 1_000_000);
    let annotated = |forced: bool| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_halprof"));
        command.args(["annotate", recorded.file()]);
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
        if forced {
            command.env("CLICOLOR_FORCE", "1");
        }
        let output = command.output().expect("the tool runs");
        assert!(output.status.success());
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    assert!(annotated(true).contains("\u{1b}[31m"));
    assert!(!annotated(false).contains('\u{1b}'));
}

#[test]
fn code_that_is_not_there_or_of_another_build_is_told() {
    for (built, other) in
        [(binaries::pe(), binaries::other_pe()), (binaries::elf(), binaries::other_elf())]
    {
        let (Some(built), Some(other)) = (built, other) else {
            return;
        };
        let recorded = Recorded::of_function(&built, "spin", 1_000_000);
        refused(&["annotate", recorded.file(), "nothing"], 2, "usage");
        refused(&["annotate", recorded.file(), "0x1"], 2, "usage");
        std::fs::remove_file(&built.file).expect("removed");
        let start = built.file.to_str().expect("UTF-8");
        let gone = halprof(&["annotate", recorded.file()]);
        assert_eq!(gone.stdout, "");
        assert!(gone.stderr.contains(start), "{}", gone.stderr);
        assert_eq!(gone.status, 5, "{}", gone.stderr);
        let own = built.folder.path().to_str().expect("UTF-8");
        let gone = halprof(&["annotate", recorded.file(), "--symbol-path", own]);
        let error = gone.stderr.split("error: ").nth(1).expect("an error");
        let told = error.lines().next().expect("a line");
        let tried = told.split("not found at ").nth(1).expect("where it was tried");
        let tried = tried.split(';').next().expect("a list");
        let tried: Vec<&str> = tried.split(", ").collect();
        let once: HashSet<&&str> = tried.iter().collect();
        assert_eq!(once.len(), tried.len(), "{told}");
        // A file of the same name in a searched folder, but of another build.
        let folder = other.folder.path().to_str().expect("UTF-8");
        let wrong = halprof(&["annotate", recorded.file(), "--symbol-path", folder]);
        assert!(wrong.stderr.contains("another build"), "{}", wrong.stderr);
        assert!(wrong.stderr.contains(folder), "{}", wrong.stderr);
        assert_eq!(wrong.status, 5, "{}", wrong.stderr);
    }
}

#[test]
fn a_made_up_program_has_no_code() {
    let recorded = Recorded::new(&["TotalIssues:10000"], "instructions=1000000");
    refused(&["annotate", recorded.file()], 4, "unavailable");
    let ran = halprof(&["annotate", recorded.file()]);
    let told = ran.stderr.matches("does not name the module's file");
    assert_eq!(told.count(), 1, "{}", ran.stderr);
}

#[test]
fn workloads_with_files_that_are_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().join("text");
    std::fs::write(&text, "no program").expect("written");
    let image = |path: &str| format!("instructions=1000,image={path}");
    for path in [text.to_str().expect("UTF-8"), "/nonexistent", "", "/"] {
        refused(&["stat", "--workload", &image(path)], 5, "bad-file");
    }
    for workload in [
        "instructions=1,function=main",
        "instructions=1,image=a,image=b",
        "instructions=1,image=a,code=0x1-0x2",
    ] {
        refused(&["stat", "--workload", workload], 2, "usage");
    }
    let Some(built) = binaries::elf() else { return };
    let workload = format!("{},function=nothing", image(built.path()));
    refused(&["stat", "--workload", &workload], 2, "usage");
}

/// The samples of one build are added up; another build has different code.
#[test]
fn recordings_of_one_build_are_added_up() {
    let (Some(built), Some(other)) = (binaries::elf(), binaries::other_elf()) else {
        return;
    };
    let recorded = Recorded::of_function(&built, "spin", 2_000_000);
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("copy.rec");
    let copy = copy.to_str().expect("UTF-8");
    std::fs::copy(recorded.file(), copy).expect("copied");
    let elsewhere = Recorded::of_function(&other, "spin", 2_000_000);
    let total = |with: &[&str]| {
        let options = with.iter().flat_map(|file| ["--with", file]);
        let arguments = ["annotate", recorded.file(), "spin"].into_iter().chain(options);
        let annotated = json(&arguments.collect::<Vec<_>>());
        numbers(&annotated, "samples").sum::<u64>()
    };
    assert_eq!(total(&[]), 200);
    assert_eq!(total(&[copy, copy]), 600);
    assert_eq!(total(&[elsewhere.file()]), 200);
}

/// Writes the first part of a recording to another file.
fn cut(recorded: &Recorded, length: usize) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cut.rec");
    let bytes = std::fs::read(recorded.file()).expect("a recording");
    std::fs::write(&path, &bytes[..length.min(bytes.len())]).expect("written");
    let path = path.to_str().expect("UTF-8").to_owned();
    (folder, path)
}

#[test]
fn why_nothing_can_be_annotated() {
    let recorded = Recorded::new(&["TotalIssues:10000"], "instructions=10000000");
    // All that is left is what the recording is of.
    let ran = (600..1100).step_by(50).find_map(|length| {
        let (_folder, path) = cut(&recorded, length);
        let ran = halprof(&["annotate", &path]);
        ran.stderr.contains("has no whole sample").then_some(ran)
    });
    let ran = ran.expect("a recording without samples");
    assert_eq!(ran.status, 5, "{}", ran.stderr);
    assert!(ran.stderr.contains("it is cut within"), "{}", ran.stderr);
    let (_folder, path) = cut(&recorded, 20_000);
    let ran = halprof(&["annotate", &path]);
    assert!(ran.stderr.contains("the recording has no end"), "{}", ran.stderr);
    let ran = halprof(&["annotate", recorded.file(), "--symbol", "x"]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("no samples pass the filters"), "{}", ran.stderr);
    let ran = halprof(&["report", recorded.file(), "--source", "foo"]);
    assert!(ran.stderr.contains("no source called `foo`"), "{}", ran.stderr);
}
