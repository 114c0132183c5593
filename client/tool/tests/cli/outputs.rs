//! Does a result that cannot be written end with 5, and leave what was there unchanged? `tests/cases`
//! has the refusals.
#![cfg(unix)]

use crate::cli::support::{Ran, command, folder, halprof, json, refused, text};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

#[test]
fn a_file_is_replaced_as_a_whole() {
    let (folder, path) = folder();
    std::fs::write(&path, "~".repeat(100_000)).expect("written");
    assert_eq!(halprof(&format!("stat -o {}", text(&path))).status, 0);
    let written = std::fs::read_to_string(&path).expect("written");
    assert!(written.contains("elapsed") && !written.contains('~'), "{written}");
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "").expect("written");
    let mode = |path| std::fs::metadata(path).expect("there").permissions().mode();
    assert_eq!(mode(path), mode(plain), "a file as any other");
}

#[test]
fn a_link_stays_a_link_and_what_it_leads_to_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let recording = at("a.rec");
    json(&format!("record -e TotalIssues -o {}", text(&recording)));
    let commands = [
        "stat -o".to_owned(),
        "record -e TotalIssues -o".to_owned(),
        format!("export {} -f folded -o", text(&recording)),
    ];
    let link = at("link");
    for (number, command) in commands.iter().enumerate() {
        for is_there in [true, false] {
            let target = format!("{number}-{is_there}");
            if is_there {
                std::fs::write(at(&target), "").expect("written");
            }
            symlink(&target, &link).expect("a link");
            assert_eq!(halprof(&format!("{command} {}", text(&link))).status, 0, "{command}");
            assert_eq!(std::fs::read_link(&link).expect("a link"), Path::new(&target), "{command}");
            assert!(std::fs::metadata(at(&target)).expect("there").len() > 20, "{command}");
            std::fs::remove_file(&link).expect("removed");
        }
    }
    // A recording, two targets for each command, and what `record` kept of one.
    assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 8);
    symlink("circle", at("circle")).expect("a link");
    for command in commands {
        refused(&format!("{command} {}", text(&at("circle"))), 5, "file");
    }
}

#[test]
fn a_full_standard_output_ends_with_5() {
    for line in ["stat", "stat --json", "stat -I 1 --jsonl", "help"] {
        let full = File::create("/dev/full").expect("a device");
        let status = command(line).stdout(full).status().expect("it runs");
        assert_eq!(status.code(), Some(5), "{line}");
    }
}

#[test]
fn a_path_may_be_of_any_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(OsStr::from_bytes(b"out-\xFF\xFE"));
    assert_eq!(Ran::of(command("stat -o").arg(&path)).status, 0);
    assert!(std::fs::read_to_string(&path).expect("written").contains("elapsed"));
    let ran = Ran::of(command("stat -o").arg(path.join("below")));
    assert_eq!(ran.status, 5);
    assert!(ran.stderr.contains("could not be written"), "{}", ran.stderr);
}

#[test]
fn a_dash_is_standard_output() {
    let plain = halprof("stat -e TotalIssues");
    assert_eq!(halprof("stat -e TotalIssues -o -").stdout, plain.stdout);
    let recorded = command("record -e TotalIssues -o -").output().expect("it runs");
    assert!(recorded.stdout.starts_with(b"HALPROF\x1a"));
    let (_folder, path) = folder();
    std::fs::write(&path, &recorded.stdout).expect("written");
    json(&format!("report {}", text(&path)));
}
