//! What does a user see at 60, 80 and 120 columns? Each screen is a file in `tests/screens`; after
//! an intended change, running the tests with `HALPROF_SCREENS=write` rewrites them.

use crate::cli::support::halprof;

#[path = "../screens/screen.rs"]
pub(crate) mod screen;
use screen::{WIDTHS, assert_screen};

const SCREENS: [(&str, &[&str]); 14] = [
    ("stat", &["--machine", "skylake", "stat"]),
    ("stat-hybrid", &["--machine", "hybrid", "stat", "-M", "ipc"]),
    ("stat-repeats", &["--machine", "skylake", "stat", "-r", "3", "-e", "TotalCycles,CacheMisses"]),
    ("stat-intervals", &["--machine", "skylake", "stat", "-I", "50", "-e", "TotalCycles"]),
    (
        "stat-by-process",
        &[
            "--machine",
            "skylake",
            "stat",
            "--by",
            "process",
            "--workload",
            "instructions=300000000,cycles=200000000,programs=70+20+10",
        ],
    ),
    (
        "stat-intervals-hybrid",
        &[
            "--machine",
            "hybrid",
            "stat",
            "-I",
            "50",
            "--per-core-type",
            "-e",
            "TotalCycles,FixedTopdownSlots",
        ],
    ),
    ("topdown", &["--machine", "skylake", "stat", "--topdown=2", "-C", "0"]),
    (
        "top-by-symbol",
        &[
            "--machine",
            "skylake",
            "top",
            "--once",
            "--by",
            "process,symbol",
            "--workload",
            "instructions=100000000,cycles=100000000,programs=70+20+10,user=90",
        ],
    ),
    ("registers", &["--machine", "skylake", "registers"]),
    ("list-metrics", &["--machine", "hybrid", "list", "--metrics"]),
    ("info", &["--machine", "hybrid", "info"]),
    ("list", &["--machine", "skylake", "list"]),
    ("list-verbose", &["--machine", "zen4", "list", "-v", "LS*"]),
    ("doctor", &["--machine", "hyperv-masked", "doctor"]),
];

#[test]
fn screens_are_as_expected_and_keep_to_their_width() {
    for (name, command) in SCREENS {
        for columns in WIDTHS {
            let width = columns.to_string();
            let ran = halprof(&[command, &["--width", &width]].concat());
            for line in ran.stdout.lines() {
                assert!(line.chars().count() <= columns, "{name}: {line}");
            }
            assert_screen(&format!("{name}-{columns}"), &ran.stdout);
        }
    }
}

/// With files, which are named without their folder.
#[test]
fn screens_of_recordings_keep_to_their_width() {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = ["--machine", "skylake"];
    let record = ["record", "-e", "TotalIssues,CacheMisses", "-C", "0"];
    let record = [&machine[..], &record, &["-o", "a-recording-with-a-long-name.rec"]].concat();
    let script = ["script", "a-recording-with-a-long-name.rec", "--time", "0-0.0005"];
    for (name, command) in [("record", &record[..]), ("script", &script)] {
        for columns in WIDTHS {
            let ran = std::process::Command::new(env!("CARGO_BIN_EXE_halprof"))
                .args(command)
                .args(["--width", &columns.to_string()])
                .current_dir(folder.path())
                .output()
                .expect("the tool runs");
            let text = String::from_utf8(ran.stdout).expect("UTF-8");
            for line in text.lines() {
                assert!(line.chars().count() <= columns, "{name}: {line}");
            }
            assert_screen(&format!("{name}-{columns}"), &text);
        }
    }
}

#[test]
fn what_is_piped_is_whole() {
    let list = halprof(&["--machine", "zen4", "list", "-v"]).stdout;
    let cut = halprof(&["--machine", "zen4", "list", "-v", "--width", "60"]).stdout;
    assert!(!list.contains('…') && !list.contains("No room for"), "{list}");
    assert!(list.lines().any(|line| line.chars().count() > 120), "{list}");
    assert!(cut.lines().count() > list.lines().count(), "{cut}");
}

#[test]
fn a_report_without_options_is_a_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.rec");
    let file = file.to_str().expect("UTF-8");
    let sources = "TotalIssues,TotalCycles,BranchInstructions,BranchMispredictions,CacheMisses";
    for (machine, list) in
        [("skylake", "TotalIssues"), ("skylake,processors=64", sources), ("skylake", "all")]
    {
        halprof(&["--machine", machine, "record", "-e", list, "-o", file]);
        for width in ["60", "80", "0"] {
            let report = halprof(&["report", file, "--width", width]);
            assert_eq!(report.status, 0, "{}", report.stderr);
            let lines = report.stdout.lines().count();
            assert!(lines <= 40, "{lines} lines:\n{}", report.stdout);
            for said in ["recorded  ", " by halprof ", "machine", "lost", "More: "] {
                assert!(report.stdout.contains(said), "{said}: {}", report.stdout);
            }
        }
    }
    let all = halprof(&["report", file, "--by", "processor", "--by", "module"]);
    assert!(all.stdout.contains("processor") && all.stdout.contains("module"));
}

/// Names are cut and columns follow on the next line, but no line is longer than what was asked for.
#[test]
fn no_line_is_longer_than_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.rec");
    let file = file.to_str().expect("UTF-8");
    let (_other, branches) = crate::cli::branches::recorded(&crate::cli::branches::app(), &[]);
    let record = "TotalCycles:100000,CacheMisses:1000";
    halprof(&["--machine", "skylake", "record", "-e", record, "-o", file]);
    let all = "process,thread,processor,module,symbol,line,address,core,machine,source";
    let by_five = "process,thread,processor,module,symbol";
    let sources = "BranchInstructions,BranchMispredictions,CacheMisses,LLCReference,r003C,r00C0";
    let stat = ["--machine", "skylake", "stat", "-e", sources];
    let per_cpu = [&stat[..], &["-I", "50", "--per-cpu"]].concat();
    for arguments in [
        &per_cpu[..],
        &[&per_cpu[..], &["-r", "3"]].concat(),
        &[&per_cpu[..], &["--passes"]].concat(),
        &[&stat[..], &["--per-cpu", "-r", "3"]].concat(),
        &["report", file, "--by", by_five],
        &["report", file, "--by", all],
        &["report", file, "--diff", file, "--by", by_five],
        &["report", &branches, "--by", "edge,line"],
        &["script", file],
    ] {
        for columns in WIDTHS {
            let width = columns.to_string();
            let ran = halprof(&[arguments, &["--width", &width]].concat());
            assert_eq!(ran.status, 0, "{arguments:?}: {}", ran.stderr);
            for line in ran.stdout.lines() {
                let long = line.chars().count();
                assert!(long <= columns, "{arguments:?}: {long} of {columns}: {line}");
            }
        }
    }
}
