//! The tests, each of one run of the tool.

use libtest_mimic::Trial;
use serde_json::Value;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(crate) const SOON: Duration = Duration::from_secs(60);

/// A trial for each function, by its name.
macro_rules! trials {
    ($($test:ident)*) => {
        vec![$(libtest_mimic::Trial::test(stringify!($test), || {
            $test();
            Ok(())
        })),*]
    };
}
pub(crate) use trials;

pub(crate) fn all() -> Vec<Trial> {
    let mut all = trials! {
        statuses_are_passed_on
        statuses_are_passed_on_where_it_is_sampled
        the_first_failure_of_several_runs
        a_program_s_own_failure_is_not_that_of_a_comparison
        programs_in_turns_are_compared_and_named
        a_program_that_fails_has_no_verdict
        ctrl_c_shows_the_pairs_that_are_complete
        what_does_not_start_is_an_error
        the_result_names_its_scope
        what_it_prints_is_not_in_the_result
        what_dies_at_once_is_counted
        a_duration_ends_the_program
        ctrl_c_ends_both
        ctrl_c_leaves_no_program_behind
        intervals_tell_their_own_lengths
        repeats_have_a_spread
    };
    all.extend(crate::removed::all());
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    all.extend(crate::marks::all());
    all
}

pub(crate) fn halprof(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this file"));
    command.arg("halprof").args(arguments);
    command
}

pub(crate) fn ran(arguments: &[&str]) -> Output {
    halprof(arguments).output().expect("it runs")
}

/// The arguments of a line, and the script of a shell that is run beside it.
fn with_script<'a>(line: &'a str, script: &'a str) -> Vec<&'a str> {
    line.split_whitespace().chain(["--", "sh", "-c", script]).collect()
}

fn shown(line: &str) -> String {
    let output = ran(&line.split_whitespace().collect::<Vec<_>>());
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// A new folder, and the path of a file in it.
pub(crate) fn scratch() -> (TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.rec").to_str().expect("UTF-8").to_owned();
    (folder, file)
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

pub(crate) fn json(text: &[u8]) -> Value {
    let text = String::from_utf8_lossy(text);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn is_alive(process: &str) -> bool {
    let mut kill = Command::new("kill");
    kill.args(["-0", process]).stderr(Stdio::null()).status().expect("kill").success()
}

/// Sends a signal to a process, or to the group of processes after a hyphen.
pub(crate) fn signal(name: &str, target: &str) {
    let status = Command::new("kill").args(["-s", name, "--", target]).status();
    assert!(status.expect("kill").success());
}

/// The content of the file once it is not empty.
pub(crate) fn read_when_written(path: &str) -> String {
    let since = Instant::now();
    loop {
        match std::fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ if since.elapsed() > SOON => panic!("{path} stays empty"),
            _ => sleep(Duration::from_millis(5)),
        }
    }
}

fn ended_soon(mut child: Child) -> Output {
    let since = Instant::now();
    while child.try_wait().expect("a status").is_none() {
        if since.elapsed() > SOON {
            let _ = child.kill();
            panic!("it does not end");
        }
        sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("its output")
}

fn statuses_are_passed_on() {
    for (script, status) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 255", 255),
        ("kill -SEGV $$", 128 + 11),
        ("kill -KILL $$", 128 + 9),
    ] {
        let ran = ran(&with_script("--json stat -e TotalCycles", script));
        assert_eq!(ran.status.code(), Some(status), "{script}");
        let stat = json(&ran.stdout);
        assert_eq!(
            (&stat["schema"], &stat["interrupted"]),
            (&"halprof/stat/2".into(), &false.into())
        );
    }
}

fn statuses_are_passed_on_where_it_is_sampled() {
    let (_folder, file) = scratch();
    let pid = format!("{file}.pid");
    let lasting = format!("echo $$ > {pid}; exec sleep 600");
    for (options, script, status) in [
        ("", "exit 0", 0),
        ("", "sleep 0.1; exit 7", 7),
        ("--rate 100", "sleep 0.1; exit 7", 7),
        ("-d 0.2", &lasting, 0),
    ] {
        let record = format!("--json record -e TotalCycles -o {file} {options}");
        let ran = ran(&with_script(&record, script));
        let told = json(&ran.stdout);
        assert_eq!(ran.status.code(), Some(status), "{script}: {told}");
        assert_eq!(told["schema"], "halprof/record/2", "{script}");
    }
    assert!(!is_alive(&read_when_written(&pid)));
}

fn the_first_failure_of_several_runs() {
    let (_folder, file) = scratch();
    let script = format!("echo >> {file}; exit $(wc -l < {file})");
    assert_eq!(ran(&with_script("stat -e TotalCycles -r 3", &script)).status.code(), Some(1));
    assert_eq!(std::fs::read(file).expect("written").len(), 3, "runs");
}

/// A script tells a build that fails its tests from one that is slower.
fn a_program_s_own_failure_is_not_that_of_a_comparison() {
    let (_folder, file) = scratch();
    ran(&with_script(&format!("--json stat -e TotalCycles -o {file}"), "exit 0"));
    for (script, status) in [("sleep 0.3; exit 3", 3), ("sleep 0.3", 1)] {
        let line = format!("--json stat -e TotalCycles --diff {file} --fail-above 0");
        let ran = ran(&with_script(&line, script));
        let stat = json(&ran.stdout);
        assert_eq!(stat["diff"][0]["failed"], true, "{stat}");
        assert_eq!(ran.status.code(), Some(status), "{script}");
    }
}

/// Two programs in a folder: copies of these, by which their files differ.
fn two_programs(before: &str, after: &str) -> (TempDir, [String; 2]) {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = |name: &str, of: &str| {
        let file = folder.path().join(name);
        std::fs::copy(of, &file).expect("a copy");
        file.display().to_string()
    };
    let programs = [copy("before", before), copy("after", after)];
    (folder, programs)
}

fn sha256(file: &str) -> String {
    let output = Command::new("sha256sum").arg(file).output().expect("sha256sum");
    String::from_utf8_lossy(&output.stdout).split_whitespace().next().expect("a hash").to_owned()
}

fn programs_in_turns_are_compared_and_named() {
    let (_folder, [before, after]) = two_programs("/bin/sleep", "/bin/sleep");
    let arguments = ["--json", "stat", "-e", "TotalCycles", "-r", "4", "--against", &before, "--"];
    let ran = ran(&[&arguments[..], &[&after, "0.05"]].concat());
    let stat = json(&ran.stdout);
    assert_eq!(ran.status.code(), Some(0), "{stat}");
    let told = &stat["against"];
    assert_eq!(told["pairs"], 4);
    for (side, program) in [("before", &before), ("after", &after)] {
        assert_eq!(told[side]["program"], **program, "{told}");
        assert_eq!(told[side]["sha256"], sha256(program), "{told}");
        assert_eq!(told[side]["exit_status"], 0, "{told}");
    }
    assert_eq!(told["order"][1], "after");
    assert_eq!(told["order"][3], "before");
    let elapsed = stat["diff"].as_array().expect("figures").iter();
    let elapsed = elapsed.filter(|row| row["metric"] == "elapsed").count();
    assert_eq!(elapsed, 1, "{stat}");
}

fn a_program_that_fails_has_no_verdict() {
    for (before, after) in [("/bin/false", "/bin/true"), ("/bin/true", "/bin/false")] {
        let (_folder, [before, after]) = two_programs(before, after);
        let line = ["--json", "stat", "-e", "TotalCycles", "-r", "3", "--against", &before];
        let ran = ran(&[&line[..], &["--fail-above", "0", "--", &after]].concat());
        let stat = json(&ran.stdout);
        assert_eq!((ran.status.code(), stat.get("diff")), (Some(1), None), "{stat}");
        assert_eq!(stat["against"]["pairs"], 0, "{stat}");
        assert!(stat["warnings"].to_string().contains("there is no verdict"), "{stat}");
    }
}

fn ctrl_c_shows_the_pairs_that_are_complete() {
    let (_folder, [before, after]) = two_programs("/bin/sleep", "/bin/sleep");
    let line = ["--json", "stat", "-e", "TotalCycles", "-r", "1000", "--against", &before, "--"];
    let mut command = halprof(&[&line[..], &[&after, "0.02"]].concat());
    let child = command.process_group(0).stdout(Stdio::piped()).spawn().expect("it runs");
    // Some pairs are complete by then, and a thousand take forty seconds.
    sleep(Duration::from_secs(2));
    signal("INT", &format!("-{}", child.id()));
    let stat = json(&ended_soon(child).stdout);
    let pairs = number(&stat["against"]["pairs"]);
    assert!(stat["interrupted"] == true && (3..1000).contains(&pairs), "{pairs} {stat}");
    assert_eq!(stat["runs"].as_array().map(Vec::len), Some(pairs as usize));
    assert!(stat["diff"].as_array().is_some_and(|figures| !figures.is_empty()), "{stat}");
}

fn what_does_not_start_is_an_error() {
    for program in ["/no/such/program", "/", "no-such-program-anywhere"] {
        let ran = ran(&["--json", "stat", "-e", "TotalCycles", "--", program]);
        let error = &json(&ran.stdout)["error"];
        assert_eq!((ran.status.code(), &error["code"]), (Some(5), &"file".into()), "{error}");
        assert!(error["message"].to_string().contains(program), "{error}");
    }
}

fn the_result_names_its_scope() {
    let ran = ran(&with_script("--json stat -e TotalCycles", "exit 7"));
    let expected = serde_json::json!({
        "processors": [0, 1],
        "process": null,
        "program": "sh",
        "pinned": false,
        "exit_status": 7,
        "workload": null,
        "left_running": []
    });
    assert_eq!(json(&ran.stdout)["scope"], expected);
    for (options, told) in [
        ("-- false", "2 processors, all programs, while `false` ran (exit 1)\n"),
        ("-C 1 -- false", "processors 1 of 2, all programs, while `false` ran (exit 1)\n"),
        ("-d 0.1 -- sleep 600", "2 processors, all programs, while `sleep` ran (ended by halprof)"),
        ("-d 0.1", "2 processors, all programs\n"),
    ] {
        let shown = shown(&format!("stat -e TotalCycles {options}"));
        assert!(shown.starts_with(told), "{options}: {shown}");
    }
}

fn what_it_prints_is_not_in_the_result() {
    let (_folder, file) = scratch();
    for (options, on_stdout) in [
        ("--json stat", false),
        ("stat --jsonl", false),
        ("stat --csv", false),
        ("stat", true),
        (&format!("stat --csv -o {file}"), true),
        (&format!("--json record -o {file}"), false),
    ] {
        let output = ran(&with_script(&format!("{options} -e TotalCycles"), "echo by the program"));
        let printed = |text: &[u8]| String::from_utf8_lossy(text).contains("by the program");
        let found = (printed(&output.stdout), printed(&output.stderr));
        assert_eq!(found, (on_stdout, !on_stdout), "{options}");
    }
}

fn what_dies_at_once_is_counted() {
    let stat = json(shown("--json stat -e TotalCycles -- true").as_bytes());
    // The modelled processors, both of them, take a cycle each nanosecond.
    let running = number(&stat["counts"][0]["running_ns"]);
    assert_eq!(number(&stat["counts"][0]["value"]), running, "{stat}");
    let elapsed = number(&stat["elapsed_ns"]);
    assert!(elapsed > 0 && running >= 2 * elapsed, "{stat}");
}

fn a_duration_ends_the_program() {
    let (_folder, file) = scratch();
    let script = format!("echo $$ > {file}; exec sleep 600");
    let ran = ran(&with_script("--json stat -e TotalCycles -d 0.3", &script));
    let stat = json(&ran.stdout);
    assert_eq!(ran.status.code(), Some(0), "{stat}");
    // It did not end by itself, which would take 600 s.
    let elapsed = number(&stat["elapsed_ns"]);
    assert!((300_000_000..600_000_000_000).contains(&elapsed), "{stat}");
    assert!(!is_alive(&read_when_written(&file)));
}

/// Ctrl-C on a terminal, where the signal goes to both the tool and the program, once the script has
/// written its file; what the file has, and how the tool ended.
fn interrupted(line: &str, script: &str) -> (String, Output) {
    let (_folder, file) = scratch();
    let script = script.replace("FILE", &file);
    let mut halprof = halprof(&with_script(line, &script));
    let child = halprof.stdout(Stdio::piped()).process_group(0).spawn().expect("it runs");
    let written = read_when_written(&file);
    signal("INT", &format!("-{}", child.id()));
    (written, ended_soon(child))
}

fn ctrl_c_ends_both() {
    let script = "trap 'exit 3' INT; echo > FILE; while :; do sleep 0.02; done";
    let (_, ran) = interrupted("--json stat -e TotalCycles", script);
    let stat = json(&ran.stdout);
    assert_eq!((ran.status.code(), ran.status.signal()), (Some(3), None), "{stat}");
    assert_eq!(stat["interrupted"], true);
    assert!(number(&stat["counts"][0]["value"]) > 0, "{stat}");
}

fn ctrl_c_leaves_no_program_behind() {
    let script = "trap '' INT; echo $$ > FILE; while :; do sleep 0.02; done";
    let (program, ran) = interrupted("stat -e TotalCycles", script);
    let text = String::from_utf8_lossy(&ran.stdout);
    assert_eq!(ran.status.code(), Some(0), "{text}");
    assert!(text.contains(", interrupted"), "{text}");
    assert!(!is_alive(&program));
}

fn intervals_tell_their_own_lengths() {
    let lines = shown("stat -e TotalCycles -I 1 -d 0.5 --jsonl");
    let lines: Vec<Value> = lines.lines().map(|line| json(line.as_bytes())).collect();
    let (whole, intervals) = lines.split_last().expect("lines");
    assert!(intervals.len() > 10, "{}", intervals.len());
    // The last one may be cut short, and is then not of the requested length.
    let is_whole = |interval: &&Value| {
        interval["time_ns"] != whole["elapsed_ns"] || number(&interval["length_ns"]) >= 1_000_000
    };
    let lengths = intervals.iter().filter(is_whole).map(|interval| number(&interval["length_ns"]));
    let deviations: Vec<u64> = lengths.map(|length| length.abs_diff(1_000_000)).collect();
    let jitter = ["intervals", "mean_ns", "max_ns"].map(|name| number(&whole["jitter"][name]));
    let most = *deviations.iter().max().expect("intervals");
    let all = deviations.len() as u64;
    assert_eq!(jitter, [all, deviations.iter().sum::<u64>() / all, most]);
    // No machine keeps time to the nanosecond.
    assert!(most > 0);
}

fn repeats_have_a_spread() {
    let stat = json(shown("--json stat -e TotalCycles -r 5 -- true").as_bytes());
    let runs = stat["runs"].as_array().expect("runs").iter();
    let runs: Vec<u64> = runs.map(|run| number(&run["counts"][0]["value"])).collect();
    let repeats = &stat["counts"][0]["repeats"];
    let summary = ["runs", "min", "max"].map(|name| repeats[name].as_u64());
    let expected = [Some(5), runs.iter().copied().min(), runs.iter().copied().max()];
    assert_eq!(summary, expected, "{repeats}");
    assert!(repeats["deviation"].as_f64() > Some(0.0), "{repeats}");
    assert_eq!(stat["elapsed_repeats"]["runs"], 5);
}
