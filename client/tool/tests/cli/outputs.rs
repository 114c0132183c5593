//! Does a result that cannot be written end with 5, and leave the old file unchanged?

use crate::cli::support::{halprof, refused};
use std::path::Path;
use std::process::{Command, Stdio};

const STAT: [&str; 4] = ["--machine", "skylake", "stat", "-o"];

#[test]
fn what_cannot_be_written_ends_with_5() {
    let folder = tempfile::tempdir().expect("a folder");
    let nowhere = folder.path().join("no/such/folder/out");
    for path in [nowhere.as_path(), folder.path()] {
        let path = path.to_str().expect("UTF-8");
        refused(&[&STAT[..], &[path]].concat(), 5, "file");
    }
    let left = std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(left, 0);
}

#[test]
fn a_file_is_replaced_as_a_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out");
    std::fs::write(&path, "~".repeat(100_000)).expect("written");
    let name = path.to_str().expect("UTF-8");
    assert_eq!(halprof(&[&STAT[..], &[name]].concat()).status, 0);
    let text = std::fs::read_to_string(&path).expect("written");
    assert!(text.contains("elapsed") && !text.contains('~'), "{text}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let plain = folder.path().join("plain");
        std::fs::write(&plain, "").expect("written");
        let mode = |path| std::fs::metadata(path).expect("there").permissions().mode();
        assert_eq!(mode(path), mode(plain), "a file as any other");
    }
}

/// A device is written to, even though root could replace it with a file.
#[cfg(unix)]
#[test]
fn devices_and_links_stay_what_they_are() {
    use std::os::unix::fs::{FileTypeExt, symlink};
    for device in ["/dev/null", "/dev/full"] {
        let status = halprof(&[&STAT[..], &[device]].concat()).status;
        assert_eq!(status, if device == "/dev/full" { 5 } else { 0 });
        let kind = std::fs::metadata(device).expect("there").file_type();
        assert!(kind.is_char_device(), "{device}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let named = |name: &str| at(name).to_str().expect("UTF-8").to_owned();
    let recording = named("a.rec");
    let record = ["record", "-e", "TotalIssues", "-o"];
    assert_eq!(halprof(&[&record[..], &[&recording]].concat()).status, 0);
    let export = ["export", &recording, "-f", "folded", "-o"];
    for (number, command) in [&STAT[..], &record, &export].into_iter().enumerate() {
        for there in [true, false] {
            let (target, link) = (format!("{number}-{there}"), named("link"));
            if there {
                std::fs::write(at(&target), "").expect("written");
            }
            symlink(&target, &link).expect("a link");
            let ran = halprof(&[command, &[&link]].concat());
            assert_eq!(ran.status, 0, "{command:?}: {}", ran.stderr);
            let leads_to = std::fs::read_link(&link).expect("still a link");
            assert_eq!(leads_to, Path::new(&target), "{command:?}");
            let written = std::fs::metadata(at(&target)).expect("there");
            assert!(written.len() > 20, "{command:?}");
            std::fs::remove_file(&link).expect("removed");
        }
    }
    let left = std::fs::read_dir(folder.path()).expect("a folder").count();
    // A recording, two targets for each command, and what `record` kept of one.
    assert_eq!(left, 8);
    symlink("circle", at("circle")).expect("a link");
    for command in [&STAT[..], &record, &export] {
        refused(&[command, &[&named("circle")]].concat(), 5, "file");
    }
}

#[cfg(unix)]
#[test]
fn a_full_standard_output_ends_with_5() {
    let full = std::fs::File::create("/dev/full").expect("a device");
    for arguments in [&["stat"][..], &["stat", "--json"], &["stat", "-I", "1", "--jsonl"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_halprof"))
            .args(["--machine", "skylake"])
            .args(arguments)
            .stdout(Stdio::from(full.try_clone().expect("a handle")))
            .output()
            .expect("the tool runs");
        assert_eq!(output.status.code(), Some(5), "{arguments:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_path_may_be_of_any_bytes() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().expect("a folder");
    let name = OsStr::from_bytes(b"out-\xFF\xFE");
    let run = |path: &Path| {
        Command::new(env!("CARGO_BIN_EXE_halprof"))
            .args(STAT)
            .arg(path)
            .output()
            .expect("the tool runs")
    };
    let path = folder.path().join(name);
    assert!(run(&path).status.success());
    assert!(std::fs::read_to_string(&path).expect("written").contains("elapsed"));
    let output = run(&path.join("below"));
    assert_eq!(output.status.code(), Some(5));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("could not be written"), "{told}");
}

#[test]
fn a_dash_is_standard_output() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_halprof"))
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .expect("it runs")
    };
    let plain = run(&["stat", "-e", "TotalIssues"]);
    let dashed = run(&["stat", "-e", "TotalIssues", "-o", "-"]);
    assert_eq!(dashed.stdout, plain.stdout);
    let recorded = run(&["record", "-e", "TotalIssues", "-o", "-"]);
    assert!(recorded.stdout.starts_with(b"HALPROF\x1a"));
    let path = folder.path().join("a.rec");
    std::fs::write(&path, &recorded.stdout).expect("written");
    assert_eq!(run(&["report", "a.rec"]).status.code(), Some(0));
    let refused = run(&["--json", "record", "-e", "TotalIssues", "-o", "-"]);
    assert_eq!(refused.status.code(), Some(2));
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("the folder").collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

/// The advice matches the problem.
#[cfg(unix)]
#[test]
fn files_that_cannot_be_used_say_what_helps() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("bad.toml");
    std::fs::write(&file, [0xFF, 0xFE]).expect("written");
    let file = file.to_str().expect("UTF-8");
    let gone = folder.path().join("gone/counts.txt");
    let gone = gone.to_str().expect("UTF-8");
    for (arguments, helps) in [
        (["stat", "-o", "/dev/full"], "The disk is full"),
        (["stat", "--metric-file", file], "UTF-8"),
        (["stat", "-o", gone], "Check that the path exists"),
    ] {
        let ran = halprof(&arguments);
        assert_eq!(ran.status, 5, "{arguments:?}");
        assert!(ran.stderr.contains(helps), "{}", ran.stderr);
        assert!(!ran.stderr.contains("gone/.tmp"), "{}", ran.stderr);
    }
}

#[cfg(unix)]
#[test]
fn help_that_cannot_be_written_is_an_error() {
    let full = std::fs::File::create("/dev/full").expect("Linux has it");
    let mut help = Command::new(env!("CARGO_BIN_EXE_halprof"));
    let status = help.arg("help").stdout(full).status().expect("it runs");
    assert_eq!(status.code(), Some(5));
}
