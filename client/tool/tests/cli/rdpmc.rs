//! Is RDPMC allowed while something runs, and only then?

use crate::cli::support::{halprof, json, refused};
use serde_json::{Value, json};

const MACHINE: [&str; 2] = ["--machine", "skylake,processors=3"];

fn on_machine(arguments: &[&str]) -> Value {
    json(&[&MACHINE, arguments].concat())
}

#[test]
fn status_tells_and_changes_nothing() {
    let told = on_machine(&["rdpmc", "status"]);
    assert_eq!(
        [&told["holders"], &told["processors"], &told["enabled"], &told["enabled_before"]],
        [&json!(0), &json!(3), &json!(0), &json!(0)]
    );
    let text = halprof(&[&MACHINE[..], &["rdpmc", "status"]].concat()).stdout;
    assert!(text.contains("allowed on   0 of 3 processors"), "{text}");
    assert!(text.contains("no halprof session"), "{text}");
    let before = "already allowed before halprof: 0 of 3\n";
    assert!(text.contains(before), "{text}");
}

#[cfg(unix)]
#[test]
fn a_program_runs_meanwhile_and_its_status_is_passed_on() {
    let program = ["rdpmc", "--", "sh", "-c", "echo it ran; exit 7"];
    let ran = halprof(&[&MACHINE[..], &program].concat());
    assert_eq!((ran.status, ran.stdout.as_str()), (7, "it ran\n"));
    // On a model nothing changes for other programs.
    assert!(!ran.stderr.contains("every program on this machine"), "{}", ran.stderr);
    let ran = halprof(&[&MACHINE[..], &["--json"], &program].concat());
    let told = ran.json();
    assert_eq!((ran.status, &told["exit_status"]), (7, &json!(7)));
    assert_eq!([&told["holders"], &told["enabled"]], [&json!(1), &json!(3)]);
    assert!(ran.stderr.contains("it ran"), "{}", ran.stderr);
    let missing = [&MACHINE[..], &["rdpmc", "--", "/no/such/program"]].concat();
    refused(&missing, 5, "file");
}

#[cfg(unix)]
#[test]
fn it_is_held_until_ctrl_c() {
    use std::io::{BufRead, BufReader, Read};
    use std::process::{Command, Stdio};
    let mut holding = Command::new(env!("CARGO_BIN_EXE_halprof"))
        .args(MACHINE)
        .args(["rdpmc", "hold"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the tool runs");
    let mut stdout = BufReader::new(holding.stdout.take().expect("a pipe"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("it tells when it holds");
    assert_eq!(line, "allowed on   3 of 3 processors\n");
    assert!(holding.try_wait().expect("a status").is_none());
    let interrupted = Command::new("kill").args(["-INT", &holding.id().to_string()]).status();
    assert!(interrupted.expect("kill").success());
    stdout.read_to_string(&mut line).expect("it ends");
    assert_eq!(holding.wait().expect("a status").code(), Some(0));
}

#[test]
fn under_a_hypervisor_it_is_refused() {
    let hold = ["--machine", "hyperv-root-intel", "rdpmc", "hold"];
    refused(&hold, 4, "hypervisor");
}

#[test]
fn it_takes_one_thing_to_do() {
    for arguments in [&["rdpmc"][..], &["rdpmc", "allow"], &["rdpmc", "hold", "--", "true"]] {
        refused(arguments, 2, "usage");
    }
}
