//! Does `--download` fetch missing files, by Windows' own HTTP, and nothing without being asked to?

use crate::cli::binaries;
use crate::cli::server::{Response, Server};
use crate::wine::prefix::Wine;
use serde_json::Value;
use std::process::Command;

pub(crate) fn what_is_missing_is_fetched(wine: &Wine) {
    let Some(built) = binaries::pe() else {
        return;
    };
    let image = format!("image={},instructions=1000000,cycles=1000000", built.path());
    let file = wine.folder().join("pe.rec");
    let recorded = Command::new(env!("CARGO_BIN_EXE_halprof"))
        .args(["--machine", "skylake", "record", "-e", "TotalIssues:1009"])
        .args(["--workload", &image, "-o"])
        .arg(&file)
        .status();
    assert!(recorded.expect("the tool runs").success());
    let identity = halprof_profile::symbols::identity_of(&built.file).expect("an executable");
    let Some(halprof_profile::file::Identity::Pdb { guid, age, .. }) = identity else {
        panic!("a PDB");
    };
    let pdb = std::fs::read(built.folder.path().join("work.pdb")).expect("its PDB");
    let place = format!("/symbols/work.pdb/{guid}{age:X}/work.pdb");
    let (found_at, bytes) = (place.clone(), pdb.clone());
    let server = Server::start(move |path| {
        if path == found_at { Response::found(bytes.clone()) } else { Response::not_found() }
    });
    let path = format!("srv*store*http://127.0.0.1:{}/symbols", server.port);
    let report = |more: &[&str]| -> Value {
        let options = ["--json", "report", "pe.rec", "--symbol-path", &path];
        let output = wine.tool(&[&options, more].concat()).output();
        let output = output.expect("Wine runs");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            let said = String::from_utf8_lossy(&output.stderr);
            panic!("{error}: {said}")
        })
    };
    let named_by = |report: &Value| {
        let modules = report["symbols"].as_array().expect("modules").iter();
        let kinds = modules.filter(|one| one["module"] == "work.exe");
        kinds.map(|one| one["kind"].clone()).collect::<Vec<_>>()
    };
    let without = report(&[]);
    assert!(!named_by(&without).contains(&"pdb".into()), "{without}");
    assert_eq!(server.asked(), [""; 0]);
    let with = report(&["--download"]);
    assert_eq!(named_by(&with), ["pdb"], "{with}");
    assert!(server.asked().contains(&place));
    let stored = place.replace("/symbols", "store");
    let stored = std::fs::read(wine.folder().join(stored)).expect("it is in the store");
    assert!(stored == pdb);
}
