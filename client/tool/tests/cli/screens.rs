//! What does a user see at 60, 80 and 120 columns? Each screen is a file in `tests/screens`; after
//! an intended change, running the tests with `HALPROF_SCREENS=write` rewrites them.

use crate::cli::manuals::commands;
use crate::cli::support::{Ran, command, folder, halprof, json, text};
use crate::cli::{branches, timeline};

#[path = "../screens/screen.rs"]
pub(crate) mod screen;
use screen::{WIDTHS, assert_screen, assert_width};

const SCREENS: [(&str, &str); 23] = [
    ("stat", "--machine skylake stat"),
    ("stat-hybrid", "--machine hybrid stat -M ipc"),
    ("stat-repeats", "--machine skylake stat -r 3 -e TotalCycles,CacheMisses"),
    ("stat-intervals", "--machine skylake stat -I 50 -e TotalCycles"),
    (
        "stat-by-process",
        "--machine skylake stat --by process --workload instructions=300000000,cycles=200000000,programs=70+20+10",
    ),
    (
        "stat-intervals-hybrid",
        "--machine hybrid stat -I 50 --per-core-type -e TotalCycles,FixedTopdownSlots",
    ),
    ("topdown", "--machine skylake stat --topdown=2 -C 0-1"),
    (
        "top-by-symbol",
        "--machine skylake top --once --by process,symbol --workload instructions=100000000,cycles=100000000,programs=70+20+10,user=90",
    ),
    ("registers", "--machine skylake registers"),
    ("list-metrics", "--machine hybrid list --metrics"),
    ("info", "--machine hybrid info"),
    ("list", "--machine skylake list"),
    ("list-verbose", "--machine zen4 list -v LS*"),
    ("doctor", "--machine hyperv-masked doctor"),
    ("prove-traced", "--machine hybrid,backend=etw doctor --prove"),
    // With files, which are named without their folder.
    (
        "record",
        "--machine skylake record -e TotalIssues,CacheMisses -C 0 -o a-recording-with-a-long-name.rec",
    ),
    ("script", "script a-recording-with-a-long-name.rec --time 0-0.0005"),
    ("record-traced", "--machine skylake,backend=etw record -d 1 -o traced.rec"),
    ("report-traced", "report traced.rec --by symbol,line --rows 8"),
    ("timeline", "timeline marks.rec --rows 8"),
    ("timeline-ticks", "timeline marks.rec --ticks 500ns"),
    ("timeline-between", "timeline marks.rec --between begin,end"),
    ("timeline-channel", "timeline marks.rec --channel cache* --rows 3"),
];

#[test]
fn screens_are_as_expected_and_keep_to_their_width() {
    let folder = tempfile::tempdir().expect("a folder");
    timeline::recording(&folder.path().join("marks.rec"));
    for (name, line) in SCREENS {
        for columns in WIDTHS {
            let mut run = command(&format!("{line} --width {columns}"));
            let ran = Ran::of(run.current_dir(folder.path()));
            assert_screen(&format!("{name}-{columns}"), &ran.stdout, columns);
        }
    }
}

/// Names are cut and columns follow on the next line, but no line is longer than what was asked for.
#[test]
fn no_line_is_longer_than_asked() {
    let (_folder, path) = folder();
    let file = text(&path);
    let (_branched, edges) = branches::recorded(&branches::app(), &[]);
    json(&format!("--machine skylake record -e TotalCycles:100000,CacheMisses:1000 -o {file}"));
    let keys = "process,thread,processor,module,symbol";
    let stat = "--machine skylake stat --per-cpu -e BranchInstructions,BranchMispredictions,CacheMisses,LLCReference,r003C,r00C0";
    for line in [
        format!("{stat} -I 50"),
        format!("{stat} -I 50 -r 3"),
        format!("{stat} -I 50 --passes"),
        format!("{stat} -r 3"),
        format!("report {file} --by {keys}"),
        format!("report {file} --by {keys},line,address,core,machine,source"),
        format!("report {file} --diff {file} --by {keys}"),
        format!("report {edges} --by edge,line"),
        format!("script {file}"),
        "--machine hybrid explain TotalIssues".to_owned(),
        "--machine hybrid stat --topdown".to_owned(),
        "help workload".to_owned(),
    ] {
        for columns in WIDTHS {
            let ran = halprof(&format!("--width {columns} {line}"));
            assert_eq!(ran.status, 0, "{line}: {}", ran.stderr);
            assert_width(&line, &ran.stdout, columns);
        }
    }
}

/// What each command's help says, but for its usage, which clap does not break.
#[test]
fn help_keeps_to_its_width() {
    for name in commands().iter().map(String::as_str).chain([""]) {
        for columns in WIDTHS {
            let help = halprof(&format!("--width {columns} help {name}")).stdout;
            let lines: Vec<&str> =
                help.lines().filter(|line| !line.starts_with("Usage: ")).collect();
            assert_width(&format!("help {name}"), &lines.join("\n"), columns);
        }
    }
}
