//! Is a result written to a path that is no text? `tests/cases/outputs.txt` has all others.
#![cfg(unix)]

use crate::cli::support::{Ran, command};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

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
