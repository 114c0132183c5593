//! The tests, each of one run of the tool.

use libtest_mimic::{Failed, Trial};
use serde_json::Value;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

pub(crate) const SOON: Duration = Duration::from_secs(60);

pub(crate) fn all() -> Vec<Trial> {
    let mut all = of_programs();
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    all.extend(crate::marks::all());
    all
}

fn of_programs() -> Vec<Trial> {
    let trial = |name: &str, test: fn()| {
        Trial::test(name, move || {
            test();
            Ok::<(), Failed>(())
        })
    };
    vec![
        trial("statuses_are_passed_on", statuses_are_passed_on),
        trial(
            "statuses_are_passed_on_where_it_is_sampled",
            statuses_are_passed_on_where_it_is_sampled,
        ),
        trial("the_first_failure_of_several_runs", the_first_failure_of_several_runs),
        trial("what_does_not_start_is_an_error", what_does_not_start_is_an_error),
        trial("the_scope_is_told", the_scope_is_told),
        trial("what_it_prints_is_not_in_the_result", what_it_prints_is_not_in_the_result),
        trial("what_dies_at_once_is_counted", what_dies_at_once_is_counted),
        trial("a_duration_ends_the_program", a_duration_ends_the_program),
        trial(
            "calibration_lengthens_time_and_no_program",
            calibration_lengthens_time_and_no_program,
        ),
        trial("ctrl_c_ends_both", ctrl_c_ends_both),
        trial("ctrl_c_leaves_no_program_behind", ctrl_c_leaves_no_program_behind),
        trial("intervals_tell_their_own_lengths", intervals_tell_their_own_lengths),
        trial("repeats_have_a_spread", repeats_have_a_spread),
    ]
}

pub(crate) fn halprof(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this file"));
    command.arg("halprof").args(arguments);
    command
}

pub(crate) fn ran(arguments: &[&str]) -> Output {
    halprof(arguments).output().expect("it runs")
}

pub(crate) fn json(text: &[u8]) -> Value {
    let text = String::from_utf8_lossy(text);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn is_alive(process: &str) -> bool {
    let mut kill = Command::new("kill");
    let status = kill.args(["-0", process]).stderr(Stdio::null()).status();
    status.expect("kill").success()
}

fn interrupt(target: &str) {
    let status = Command::new("kill").args(["-INT", "--", target]).status();
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
        let ran = ran(&["--json", "stat", "-e", "TotalCycles", "--", "sh", "-c", script]);
        assert_eq!(ran.status.code(), Some(status), "{script}");
        let stat = json(&ran.stdout);
        assert_eq!(stat["schema"], "halprof/stat/2", "{script}");
        assert_eq!(stat["interrupted"], false, "{script}");
    }
}

fn statuses_are_passed_on_where_it_is_sampled() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.rec");
    let file = file.to_str().expect("UTF-8");
    let pid = folder.path().join("pid");
    let lasting = format!("echo $$ > {}; exec sleep 600", pid.display());
    for (more, script, status) in [
        (&[][..], "exit 0", 0),
        (&[], "sleep 0.1; exit 7", 7),
        (&["--calibrate=1"], "sleep 0.1; exit 7", 7),
        (&["-d", "0.2"], &lasting, 0),
    ] {
        let record = ["--json", "record", "-e", "TotalCycles", "-o", file];
        let program = ["--", "sh", "-c", script];
        let ran = ran(&[&record[..], more, &program].concat());
        let told = json(&ran.stdout);
        assert_eq!(ran.status.code(), Some(status), "{script}: {told}");
        assert_eq!(told["schema"], "halprof/record/2", "{script}");
    }
    let process = read_when_written(pid.to_str().expect("UTF-8"));
    assert!(!is_alive(&process));
}

fn the_first_failure_of_several_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("count");
    let script = format!("echo >> {0}; exit $(wc -l < {0})", file.display());
    let arguments = ["stat", "-e", "TotalCycles", "-r", "3", "--", "sh", "-c", &script];
    assert_eq!(ran(&arguments).status.code(), Some(1));
    let runs = std::fs::read(file).expect("written").len();
    assert_eq!(runs, 3);
}

fn what_does_not_start_is_an_error() {
    for program in ["/no/such/program", "/", "no-such-program-anywhere"] {
        let ran = ran(&["--json", "stat", "-e", "TotalCycles", "--", program]);
        let error = json(&ran.stdout);
        assert_eq!(
            (ran.status.code(), &error["error"]["code"]),
            (Some(5), &"file".into()),
            "{error}"
        );
        let message = error["error"]["message"].as_str().expect("a message");
        assert!(message.contains(program) && message.contains("started"), "{message}");
    }
}

fn the_scope_is_told() {
    let stat = ["stat", "-e", "TotalCycles"];
    let program = ["--", "sh", "-c", "exit 7"];
    let value = json(&ran(&[&["--json"], &stat[..], &program].concat()).stdout);
    let expected = serde_json::json!({
        "processors": [0, 1],
        "program": "sh",
        "pinned": false,
        "exit_status": 7,
        "left_running": []
    });
    assert_eq!(value["scope"], expected);
    for (options, told) in [
        (&[][..], "2 processors, all programs, while `sh` ran (exit 7)\n"),
        (&["-C", "1"], "processors 1 of 2, all programs, while `sh` ran (exit 7)\n"),
    ] {
        let text = ran(&[&stat[..], options, &program].concat()).stdout;
        let text = String::from_utf8_lossy(&text);
        assert!(text.starts_with(told), "{text}");
    }
    let ended = ran(&[&stat[..], &["-d", "0.1", "--", "sleep", "600"]].concat()).stdout;
    let ended = String::from_utf8_lossy(&ended);
    assert!(ended.contains("while `sleep` ran (ended by halprof)"), "{ended}");
    let alone = ran(&[&stat[..], &["-d", "0.1"]].concat()).stdout;
    let alone = String::from_utf8_lossy(&alone);
    assert!(alone.starts_with("2 processors, all programs\n"), "{alone}");
}

fn what_it_prints_is_not_in_the_result() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("result");
    let file = file.to_str().expect("UTF-8");
    let printing = ["--", "echo", "printed by the program"];
    let printed = |text: &[u8]| String::from_utf8_lossy(text).contains("printed by the program");
    let stat = ["stat", "-e", "TotalCycles"];
    for (options, on_stdout) in [
        (&["--json"][..], false),
        (&["--jsonl"], false),
        (&["--csv"], false),
        (&[], true),
        (&["--csv", "-o", file], true),
    ] {
        let output = ran(&[&stat[..], options, &printing].concat());
        assert_eq!(printed(&output.stdout), on_stdout, "{options:?}");
        assert_eq!(printed(&output.stderr), !on_stdout, "{options:?}");
    }
    let record = ["--json", "record", "-e", "TotalCycles", "-o", file];
    let output = ran(&[&record[..], &printing].concat());
    assert_eq!(json(&output.stdout)["schema"], "halprof/record/2");
    assert!(printed(&output.stderr));
}

fn what_dies_at_once_is_counted() {
    let ran = ran(&["--json", "stat", "-e", "TotalCycles", "--", "true"]);
    let stat = json(&ran.stdout);
    assert_eq!(ran.status.code(), Some(0), "{stat}");
    let number = |value: &Value| value.as_u64().expect("a number");
    let (elapsed, count) = (number(&stat["elapsed_ns"]), &stat["counts"][0]);
    // The modelled processors, both of them, take a cycle each nanosecond.
    let running = number(&count["running_ns"]);
    assert_eq!(number(&count["value"]), running, "{stat}");
    assert!(elapsed > 0 && running >= 2 * elapsed, "{stat}");
}

fn a_duration_ends_the_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("pid");
    let script = format!("echo $$ > {}; exec sleep 600", file.display());
    let ran = ran(&["--json", "stat", "-e", "TotalCycles", "-d", "0.3", "--", "sh", "-c", &script]);
    let stat = json(&ran.stdout);
    assert_eq!(ran.status.code(), Some(0), "{stat}");
    let elapsed = stat["elapsed_ns"].as_u64().expect("a time");
    // It did not end by itself, which would take 600 s.
    assert!((300_000_000..600_000_000_000).contains(&elapsed), "{stat}");
    assert!(!is_alive(&read_when_written(file.to_str().expect("UTF-8"))));
}

/// As from a terminal: the signal goes to both the tool and the program.
fn calibration_lengthens_time_and_no_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.rec");
    let file = file.to_str().expect("UTF-8");
    let record = ["--json", "record", "-e", "TotalCycles", "-C", "0", "-o"];
    let calibrated = [file, "--calibrate=1", "-d", "0.05"];
    for (program, lengthened_ns) in [(&[][..], Some(500_000_000)), (&["--", "sleep", "600"], None)]
    {
        let ran = ran(&[&record[..], &calibrated, program].concat());
        let told = json(&ran.stdout);
        let lengthened = told["calibration"]["lengthened_ns"].as_u64();
        assert_eq!(lengthened, lengthened_ns, "{program:?}: {told}");
        let elapsed_ns = told["elapsed_ns"].as_u64();
        assert!(elapsed_ns >= lengthened_ns, "{program:?}: {told}");
    }
}

fn ctrl_c_ends_both() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ready");
    let file = file.to_str().expect("UTF-8");
    let script = format!("trap 'exit 3' INT; echo > {file}; while :; do sleep 0.02; done");
    let arguments = ["--json", "stat", "-e", "TotalCycles", "--", "sh", "-c", &script];
    let child =
        halprof(&arguments).stdout(Stdio::piped()).process_group(0).spawn().expect("it runs");
    read_when_written_blank(file);
    interrupt(&format!("-{}", child.id()));
    let ran = ended_soon(child);
    let stat = json(&ran.stdout);
    assert_eq!((ran.status.code(), ran.status.signal()), (Some(3), None), "{stat}");
    assert_eq!(stat["interrupted"], true);
    assert!(stat["counts"][0]["value"].as_u64() > Some(0), "{stat}");
}

fn read_when_written_blank(path: &str) {
    assert_eq!(read_when_written(path), "");
}

fn ctrl_c_leaves_no_program_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("pid");
    let file = file.to_str().expect("UTF-8");
    let script = format!("trap '' INT; echo $$ > {file}; while :; do sleep 0.02; done");
    let arguments = ["stat", "-e", "TotalCycles", "--", "sh", "-c", &script];
    let child =
        halprof(&arguments).stdout(Stdio::piped()).process_group(0).spawn().expect("it runs");
    let program = read_when_written(file);
    interrupt(&format!("-{}", child.id()));
    let ran = ended_soon(child);
    let text = String::from_utf8_lossy(&ran.stdout);
    assert_eq!(ran.status.code(), Some(0), "{text}");
    assert!(text.contains(", interrupted"), "{text}");
    assert!(!is_alive(&program));
}

fn intervals_tell_their_own_lengths() {
    let ran = ran(&["stat", "-e", "TotalCycles", "-I", "1", "-d", "0.5", "--jsonl"]);
    assert_eq!(ran.status.code(), Some(0));
    let lines: Vec<Value> =
        ran.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).map(json).collect();
    let (whole, intervals) = lines.split_last().expect("lines");
    assert!(intervals.len() > 10, "{}", intervals.len());
    let number = |value: &Value| value.as_u64().expect("a number");
    let (mut end, mut sum, mut deviations) = (0, 0, Vec::new());
    for interval in intervals {
        assert_eq!(number(&interval["start_ns"]), end);
        end = number(&interval["time_ns"]);
        assert_eq!(number(&interval["length_ns"]), end - number(&interval["start_ns"]));
        sum += number(&interval["counts"][0]["value"]);
        deviations.push(number(&interval["length_ns"]).abs_diff(1_000_000));
    }
    assert_eq!((end, sum), (number(&whole["elapsed_ns"]), number(&whole["counts"][0]["value"])));
    let last = intervals.last().map(|last| number(&last["length_ns"]));
    if last.is_some_and(|length| length < 1_000_000) {
        // An interval that was cut short is not of the requested length.
        deviations.pop();
    }
    let (mean, most) = (
        deviations.iter().sum::<u64>() / deviations.len() as u64,
        deviations.iter().copied().max().expect("intervals"),
    );
    let jitter = &whole["jitter"];
    assert_eq!(number(&jitter["intervals"]), deviations.len() as u64);
    assert_eq!((number(&jitter["mean_ns"]), number(&jitter["max_ns"])), (mean, most));
    // No machine keeps time to the nanosecond.
    assert!(most > 0);
}

fn repeats_have_a_spread() {
    let ran = ran(&["--json", "stat", "-e", "TotalCycles", "-r", "5", "--", "true"]);
    let stat = json(&ran.stdout);
    let (count, elapsed) = (&stat["counts"][0], &stat["elapsed_repeats"]);
    let runs: Vec<u64> = stat["runs"]
        .as_array()
        .expect("runs")
        .iter()
        .map(|run| run["counts"][0]["value"].as_u64().expect("a count"))
        .collect();
    let repeats = &count["repeats"];
    assert_eq!(repeats["runs"], 5);
    assert_eq!(repeats["min"].as_u64(), runs.iter().copied().min());
    assert_eq!(repeats["max"].as_u64(), runs.iter().copied().max());
    let deviation = repeats["deviation"].as_f64().expect("a number");
    let confidence = repeats["confidence"].as_f64().expect("a number");
    assert!(deviation > 0.0, "{count}");
    // Student's t for four degrees of freedom, divided by the square root of five.
    assert!((confidence / deviation - 2.776 / 5f64.sqrt()).abs() < 1e-3, "{count}");
    assert_eq!(elapsed["runs"], 5);
}
