//! Do edges, paths and exports of branch records match what was recorded, in every form of output?

use crate::cli::binaries;
use crate::cli::screens::screen::WIDTHS;
use crate::cli::support::{halprof, json, refused};
use halprof_profile::file::{Branches, Metadata, Module, Source, Statistics, Writer};
use serde_json::{Value, json};
use shared_types::{Branch, Mode, Sample};
use tempfile::TempDir;

const CODE: u64 = 0x1_4000_0000;

/// A loop of two branches, of which the second is mispredicted every third time.
fn round(n: u64) -> [Branch; 2] {
    let mispredicted = if n.is_multiple_of(3) { Branch::MISPREDICTED } else { Branch::PREDICTED };
    [
        Branch {
            from: CODE + 0x20,
            to: CODE + 0x40,
            cycles: 3,
            kind: 2,
            flags: Branch::PREDICTED | Branch::CYCLES,
            reserved: 0,
        },
        Branch {
            from: CODE + 0x50,
            to: CODE + 0x10,
            cycles: 7,
            kind: 1,
            flags: mispredicted | Branch::CYCLES,
            reserved: 0,
        },
    ]
}

/// Samples of three rounds each, newest first, and one of a thread that ran before, with `kinds` of
/// branches.
pub(super) fn recorded(module: &Module, kinds: &[&str]) -> (TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.rec");
    let source = Source { name: "BranchInstructions".to_owned(), ..Source::default() };
    let metadata = Metadata {
        interface: "Emon".to_owned(),
        sources: vec![source],
        branches: Some(Branches {
            depth: 8,
            kinds: kinds.iter().map(|&kind| kind.to_owned()).collect(),
            recorder: "architectural-lbr".to_owned(),
        }),
        ..Metadata::default()
    };
    let sample = Sample {
        process: 7,
        ip: module.start + 0x10,
        mode: Mode::User as u8,
        branches: 7,
        ..Sample::default()
    };
    let foreign = Branch { from: CODE + 0x30, to: CODE + 0x28, ..Branch::default() };
    let of_sample = |n: u64| {
        let rounds = (0..3).flat_map(move |m| round(3 * n + m)).rev();
        rounds.chain([foreign]).map(|branch| Branch {
            from: branch.from - CODE + module.start,
            to: branch.to - CODE + module.start,
            ..branch
        })
    };
    let branches: Vec<Branch> = (0..100).flat_map(of_sample).collect();
    let mut writer = Writer::create(&path, &metadata).expect("created");
    writer.modules(std::slice::from_ref(module)).expect("written");
    writer.branched(&vec![sample; 100], &branches).expect("written");
    writer.finish(&Statistics::default(), false).expect("finished");
    let path = path.to_str().expect("UTF-8").to_owned();
    (folder, path)
}

pub(super) fn app() -> Module {
    Module {
        process: Some(7),
        name: "app.exe".to_owned(),
        start: CODE,
        end: CODE + 0x1_0000,
        ..Module::default()
    }
}

#[test]
fn edges_in_every_form() {
    let (_folder, file) = recorded(&app(), &[]);
    let told = json(&["report", &file, "--by", "edge", "--sort", "mispredicted"]);
    let records = json!({"samples": 100, "records": 700, "hidden": 0, "unresolved": 0, "foreign": 100, "omitted": 0});
    assert_eq!(told["records"], records);
    assert_eq!((&told["depth"], &told["recorder"]), (&json!(8), &json!("architectural-lbr")));
    let part = &told["tables"][0]["parts"][0];
    assert_eq!((&part["source"], &part["taken"]), (&json!("BranchInstructions"), &json!(600)));
    let back = &part["rows"][0];
    assert_eq!(back["edges"][0]["from"]["address"], "0x140000050");
    assert_eq!(back["edges"][0]["to"]["module"], "app.exe");
    let numbers =
        ["taken", "share", "kind", "mispredicted", "cycles"].map(|name| back[name].clone());
    assert_eq!(json!(numbers), json!([300, 0.5, "conditional", 100, 7.0]));
    let share = &back["mispredicted_share"];
    let [value, low, high] =
        ["value", "low", "high"].map(|name| share[name].as_f64().expect("a number"));
    assert!((value - 1.0 / 3.0).abs() < 1e-9);
    // From a hundred samples, not from three hundred records.
    assert!((0.24..0.25).contains(&low) && (0.42..0.44).contains(&high), "{share}");

    let csv = halprof(&["report", &file, "--by", "edge", "--csv"]).stdout;
    let mut lines = csv.lines();
    let heads = "source,edges.from.address,edges.from.module,edges.from.symbol,edges.from.offset,\
                 edges.to.address,edges.to.module,edges.to.symbol,edges.to.offset,taken,share,kind,mispredicted,\
                 mispredicted_share.value,mispredicted_share.low,mispredicted_share.high,cycles,modelled";
    assert_eq!(lines.next(), Some(heads));
    assert_eq!(
        lines.next().map(|line| line.starts_with(
            "BranchInstructions,0x140000020,app.exe,,32,0x140000040,app.exe,,64,300,0.5,jump,0,0.0,"
        )),
        Some(true),
        "{csv}"
    );
    let ran = halprof(&["report", &file, "--by", "edge"]);
    for said in ["700 branch records in 100 samples", "app.exe+0x50", "33.33 %", "conditional"] {
        assert!(ran.stdout.contains(said), "{said}: {}", ran.stdout);
    }
    assert!(ran.stderr.contains("100 of 700 branch records are left out"), "{}", ran.stderr);
}

#[test]
fn paths_in_every_form() {
    let (_folder, file) = recorded(&app(), &[]);
    let told = json(&["report", &file, "--by", "path", "--path-length", "6"]);
    let part = &told["tables"][0]["parts"][0];
    assert_eq!(part["taken"], 100);
    let edges = part["rows"][0]["edges"].as_array().expect("edges");
    let from: Vec<&str> =
        edges.iter().filter_map(|edge| edge["from"]["address"].as_str()).collect();
    assert_eq!(from, ["0x140000020", "0x140000050"].repeat(3));
    assert_eq!(part["rows"][0]["cycles"], 30.0);
    let csv =
        halprof(&["report", &file, "--by", "path,module", "--path-length", "2", "--csv"]).stdout;
    let row = ",\"app.exe → app.exe, app.exe → app.exe\",app.exe app.exe,app.exe app.exe,500,1.0,";
    assert!(csv.contains(row), "{csv}");
    let text = halprof(&["report", &file, "--by", "path"]).stdout;
    assert!(text.contains("app.exe+0x20 → app.exe+0x40, app.exe+0x50 → app.exe+0x10"), "{text}");
}

#[test]
fn what_cannot_be_told_is_refused() {
    let (folder, file) = recorded(&app(), &["call"]);
    let out = folder.path().join("out");
    let out = out.to_str().expect("UTF-8");
    let export = ["export", &file, "--format", "perf-script", "-o", out];
    refused(&export, 4, "unavailable");
    assert!(!folder.path().join("out").exists());
    let text = halprof(&["report", &file, "--by", "edge"]).stdout;
    assert!(text.replace('\n', " ").contains("only call"), "{text}");
    let plain = folder.path().join("plain.rec");
    let plain = plain.to_str().expect("UTF-8");
    json(&["record", "--workload", "cycles=100000000", "-o", plain]);
    for arguments in [
        &["report", plain, "--by", "edge"][..],
        &["report", plain, "--by", "path"],
        &["export", plain, "--format", "perf-script", "-o", out],
    ] {
        refused(arguments, 4, "unavailable");
        let told = halprof(arguments).stderr;
        assert!(told.contains("no branch records") && told.contains("--branches"), "{told}");
    }
    for arguments in [
        &["--by", "edge", "--by", "symbol"][..],
        &["--by", "edge,process"],
        &["--by", "symbol,edge"],
        &["--by", "symbol", "--sort", "mispredicted"],
        &["--by", "edge", "--diff", &file],
        &["--by", "path", "--path-length", "1"],
        &["--by", "path", "--path-length", "33"],
    ] {
        refused(&[&["report", &file], arguments].concat(), 2, "usage");
    }
    let two = ["export", &file, &file, "--format", "perf-script"];
    refused(&two, 2, "usage");
}

/// The path of a model's workload is known: no record belongs to another thread.
#[test]
fn a_model_records_its_branches() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.rec");
    let file = path.to_str().expect("UTF-8");
    let record = |machine: &str, branches: &[&str]| {
        let workload = "instructions=5000000,cycles=5000000,branches=1000000";
        let rest = ["-e", "TotalIssues:10007", "--workload", workload, "-C", "0", "-o", file];
        [&["--machine", machine, "record"], branches, &rest]
            .concat()
            .iter()
            .map(|&one| one.to_owned())
            .collect::<Vec<_>>()
    };
    let taken = |machine, branches: &[&str]| {
        let arguments = record(machine, branches);
        json(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    for (machine, asked, depth, recorder) in [
        ("skylake", "--branches=8", 8, "lbr-info"),
        ("sapphire-rapids", "--branches", 32, "architectural-lbr"),
        ("zen4", "--branches", 16, "amd-lbr-v2"),
    ] {
        let told = taken(machine, &[asked]);
        let branches = &told["branches"];
        assert_eq!((&branches["depth"], &branches["recorder"]), (&json!(depth), &json!(recorder)));
        assert_eq!(branches["kinds"], json!([]));
        let samples = told["samples"].as_u64().expect("a number");
        let records = branches["records"].as_u64().expect("a number");
        // AMD's records may include branches that were not executed in the end; these are left out.
        let most = samples * depth;
        assert!(samples > 400 && records <= most && records * 10 > most * 9, "{machine}: {told}");
        assert!(machine == "zen4" || records == most, "{machine}: {told}");
        let edges = json(&["report", file, "--by", "edge"]);
        let own = json!({"samples": samples, "records": records, "hidden": 0, "unresolved": 0, "foreign": 0, "omitted": 0});
        assert_eq!(edges["records"], own, "{machine}");
        assert_eq!(edges["tables"][0]["parts"][0]["taken"], records);
    }
    let told = taken("sapphire-rapids", &["--branches=16", "--branch-filter", "cond,call"]);
    assert_eq!(told["branches"]["kinds"], json!(["cond", "call"]));
    let edges = json(&["report", file, "--by", "edge"]);
    let rows = edges["tables"][0]["parts"][0]["rows"].as_array().expect("rows");
    assert!(
        rows.len() > 2
            && rows.iter().all(|row| row["kind"] == "conditional" || row["kind"] == "call"),
        "{edges}"
    );
    for (machine, branches, status, code) in [
        ("haswell", &["--branches"][..], 4, "branches-unavailable"),
        ("zen4", &["--branches=32"], 4, "branch-depth"),
        ("skylake", &["--branches=7"], 2, "usage"),
        ("skylake", &["--branches", "--branch-filter", "calls"], 2, "usage"),
        ("skylake", &["--branch-filter", "call"], 2, "usage"),
    ] {
        let arguments = record(machine, branches);
        refused(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), status, code);
    }
}

/// Records are of branch instructions, code runs straight on from each to the next, and as many as
/// the workload says were mispredicted.
#[test]
fn the_records_of_a_model_follow_the_code_of_its_image() {
    for built in [binaries::pe(), binaries::elf()].into_iter().flatten() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.rec");
        let file = path.to_str().expect("UTF-8");
        let workload = format!(
            "instructions=20000000,cycles=40000000,branches=4000000,branch-misses=80000,user=80,image={}",
            built.path()
        );
        let record = [
            "--machine",
            "skylake",
            "record",
            "--branches=16",
            "-e",
            "TotalIssues:10007",
            "--workload",
            &workload,
            "-o",
            file,
        ];
        let taken = json(&record);
        let records = taken["branches"]["records"].as_u64().expect("a number");
        assert!(records > 20_000, "{taken}");
        let edges = json(&["report", file, "--by", "edge"]);
        let found = &edges["records"];
        assert_eq!(
            json!([found["records"], found["unresolved"], found["foreign"]]),
            json!([records, 0, 0])
        );
        let rows = edges["tables"][0]["parts"][0]["rows"].as_array().expect("rows");
        let sum = |field: &str| -> f64 {
            rows.iter().map(|row| row[field].as_f64().expect("a number")).sum()
        };
        // 2 % of 30,000 records: four standard deviations are 0.33 %.
        let share = sum("mispredicted") / sum("taken");
        assert!((share - 0.02).abs() < 0.0033, "{share}");
        let annotated = json(&["annotate", file, "spin"]);
        let rows = annotated["instructions"].as_array().expect("instructions");
        let number = |row: &Value, field: &str| row[field][0].as_u64().expect("a number");
        for (row, next) in rows.iter().zip(&rows[1..]) {
            let (executed, taken) = (number(row, "executed"), number(row, "taken"));
            let text = row["text"].as_str().expect("text");
            let branches = ["j", "call", "ret"].iter().any(|one| text.starts_with(one));
            assert!(taken == 0 || branches, "{row}");
            assert!(number(next, "executed") + taken >= executed, "{row} {next}");
        }
        assert!(rows.iter().any(|row| number(row, "taken") > 1000), "{annotated}");
        for width in WIDTHS {
            let text = halprof(&["annotate", file, "spin", "--width", &width.to_string()]).stdout;
            let long = text.lines().find(|line| line.chars().count() > width);
            assert_eq!(long, None, "{width}");
        }
    }
}

/// Each record as `perf script` prints it, with the module where it was loaded.
#[test]
fn an_export_has_the_records_newest_first() {
    let Some(built) = binaries::pe() else { return };
    let start = 0x7FF6_1234_0000;
    let module = Module { name: "work.exe".to_owned(), start, end: start + 0x1_0000, ..app() };
    let (folder, file) = recorded(&module, &[]);
    let out = folder.path().join("out");
    let out = out.to_str().expect("UTF-8");
    let symbols = built.folder.path().to_str().expect("UTF-8");
    let told =
        json(&["export", &file, "--format", "perf-script", "--symbol-path", symbols, "-o", out]);
    assert_eq!((&told["format"], &told["samples"]), (&json!("perf-script"), &json!(100)));
    let text = std::fs::read_to_string(out).expect("a file");
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("PERF_RECORD_MMAP2 7/7: [0x7ff612340000(0x10000) @ 0x1000 00:00 0 0]: r-xp work.exe")
    );
    let round = |flag| {
        format!(" 0x7ff612340050/0x7ff612340010/{flag}/-/-/7 0x7ff612340020/0x7ff612340040/P/-/-/3")
    };
    let line = format!("7ff612340010{}{}{}", round("P"), round("P"), round("M"));
    assert!(lines.by_ref().take(100).all(|found| found == line), "{text}");
    assert_eq!(lines.next(), None, "one line of the module is enough");
    // Without the file its code section is not known, and a message says so.
    let ran = halprof(&["export", &file, "--format", "perf-script", "-o", out]);
    assert!(ran.stderr.contains("work.exe"), "{}", ran.stderr);
    assert!(!std::fs::read_to_string(out).expect("a file").contains("MMAP2"));
}
