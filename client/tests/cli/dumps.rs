//! Is every command right by its schema for every dump of a real processor at hand?

use crate::support::{halprof, json};
use std::path::PathBuf;

/// The dumps in `../shared/cpuid`, relative to the workspace; none where they are absent, which
/// `HALPROF_REQUIRE_DUMPS=1` forbids.
fn dumps() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/cpuid");
    let required = std::env::var_os("HALPROF_REQUIRE_DUMPS").is_some_and(|value| value == "1");
    match std::fs::read_dir(&folder) {
        Ok(files) => files.map(|file| file.expect("a file").path()).collect(),
        Err(_) if !required => Vec::new(),
        Err(error) => panic!("{}: {error}", folder.display()),
    }
}

#[test]
fn every_dump_is_described_and_measured() {
    for dump in dumps() {
        let machine = dump.to_str().expect("UTF-8");
        for command in ["info", "list", "check", "registers", "stat"] {
            json(&["--machine", machine, command]);
        }
        json(&["--machine", machine, "list", "--all", "--approximate"]);
        assert!(
            matches!(halprof(&["--machine", machine, "doctor"]).status, 0 | 4),
            "{machine}"
        );
    }
}
