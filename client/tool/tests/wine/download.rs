//! Does `--download` fetch missing files, by Windows' own HTTP, and nothing without being asked to?

use crate::cli::binaries;
use crate::wine::prefix::Wine;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

/// The requests, in order.
type Asked = Arc<Mutex<Vec<String>>>;

/// A server on 127.0.0.1 with these files; it lives as long as the test.
fn serve(files: BTreeMap<String, Vec<u8>>) -> (u16, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let asked = Asked::default();
    let told = Arc::clone(&asked);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut lines = BufReader::new(&stream).lines();
            let first = lines.next().expect("a request").expect("a line");
            let path = first.split(' ').nth(1).expect("a path").to_owned();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let (status, body) = match files.get(&path) {
                Some(body) => ("200 OK", body.as_slice()),
                None => ("404 Not Found", &[][..]),
            };
            told.lock().expect("no panic").push(path);
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            stream.write_all(head.as_bytes()).expect("sent");
            stream.write_all(body).expect("sent");
        }
    });
    (port, asked)
}

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
    let (port, asked) = serve(BTreeMap::from([(place.clone(), pdb.clone())]));
    let path = format!("srv*store*http://127.0.0.1:{port}/symbols");
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
    assert!(asked.lock().expect("no panic").is_empty());
    let with = report(&["--download"]);
    assert_eq!(named_by(&with), ["pdb"], "{with}");
    assert!(asked.lock().expect("no panic").contains(&place));
    let stored = place.replace("/symbols", "store");
    let stored = std::fs::read(wine.folder().join(stored)).expect("it is in the store");
    assert!(stored == pdb);
}
