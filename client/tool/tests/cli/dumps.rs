//! Is every command's output valid by its schema, errors included, for every available dump of a
//! real processor?

use crate::cli::support::{halprof, json, refused};
use std::path::PathBuf;

/// The dumps in `../shared/cpuid`, relative to the workspace; none if they are missing, which
/// `HALPROF_REQUIRE_DUMPS=1` makes an error.
fn dumps() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cpuid");
    let required = std::env::var_os("HALPROF_REQUIRE_DUMPS").is_some_and(|value| value == "1");
    match std::fs::read_dir(&folder) {
        Ok(files) => files.map(|file| file.expect("a file").path()).collect(),
        Err(error) if required => panic!("{}: {error}", folder.display()),
        Err(error) => {
            eprintln!("skipped, no dumps: {}: {error}", folder.display());
            Vec::new()
        }
    }
}

#[test]
fn every_dump_is_described_and_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let recording = folder.path().join("a.rec");
    let file = recording.to_str().expect("UTF-8");
    for dump in dumps() {
        let machine = dump.to_str().expect("UTF-8");
        for command in ["info", "list", "check", "registers", "stat"] {
            json(&["--machine", machine, command]);
        }
        json(&["--machine", machine, "list", "--all", "--approximate"]);
        let doctor = halprof(&["--json", "--machine", machine, "doctor"]);
        let ready = doctor.json()["ready"].as_bool().expect("a bool");
        assert_eq!(doctor.status, if ready { 0 } else { 4 }, "{machine}");
        // Sources that can be sampled are; for the others the refusal says that they cannot.
        let record = halprof(&["--json", "--machine", machine, "record", "-o", file]);
        record.json();
        assert!(
            matches!(record.status, 0 | 4),
            "{machine}: {}",
            record.stdout
        );
        refused(
            &["--machine", machine, "stat", "-e", "Nonsense"],
            4,
            "source-unknown",
        );
        refused(
            &["--machine", machine, "stat", "-C", "2047"],
            4,
            "processor-unknown",
        );
    }
}

#[test]
fn every_explanation_is_whole_sentences() {
    for dump in dumps() {
        let machine = dump.to_str().expect("UTF-8");
        let info = json(&["--machine", machine, "info"]);
        let text = info["explanation"].as_str().expect("text");
        assert!(text.len() > 60 && text.ends_with('.'), "{machine}: {text}");
        assert!(!text.contains(" 0 counters"), "{machine}: {text}");
        let differs = info["interface"] != info["hal_interface"];
        assert_eq!(
            text.contains("HAL would choose"),
            differs,
            "{machine}: {text}"
        );
    }
}
