//! Does `--download` fetch symbols by curl, and only what is whole? `wine/download.rs` has Windows' way.

use crate::cli::binaries;
use crate::cli::support::{folder, json, skipped, text};
use std::io::{BufRead, BufReader, Cursor, Write};
use std::net::TcpListener;
use std::process::Command;
use std::thread;

/// What a server answers for the PDB, for the compressed PDB, and elsewhere.
#[derive(Clone, Copy, PartialEq)]
enum Server {
    HasPdb,
    HasCompressed,
    HasNothing,
    Redirects,
    /// The connection ends before the length that the head states.
    IsCut,
    Fails,
}

/// A server on 127.0.0.1 that lives as long as the test.
fn serve(server: Server, pdb: Vec<u8>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut lines = BufReader::new(&stream).lines();
            let first = lines.next().expect("a request").expect("a line");
            let path = first.split(' ').nth(1).expect("a path").to_owned();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let is_plain = path.ends_with("work.pdb");
            let cabinet = cabinet(&pdb);
            let (status, head, body, length): (_, String, &[u8], _) = match server {
                Server::HasPdb if is_plain => ("200 OK", String::new(), &pdb, pdb.len()),
                Server::HasCompressed if path.ends_with("work.pd_") => {
                    ("200 OK", String::new(), &cabinet, cabinet.len())
                }
                Server::Redirects if path == "/elsewhere" => {
                    ("200 OK", String::new(), &pdb, pdb.len())
                }
                Server::Redirects if is_plain => {
                    ("302 Found", "Location: /elsewhere\r\n".to_owned(), &[], 0)
                }
                Server::IsCut if is_plain => {
                    ("200 OK", String::new(), &pdb[..pdb.len() / 2], pdb.len())
                }
                Server::Fails => ("500 Internal Server Error", String::new(), &[], 0),
                _ => ("404 Not Found", String::new(), b"not here", 8),
            };
            let head = format!(
                "HTTP/1.1 {status}\r\n{head}Content-Length: {length}\r\nConnection: close\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).expect("sent");
            stream.write_all(body).expect("sent");
        }
    });
    port
}

fn cabinet(bytes: &[u8]) -> Vec<u8> {
    let mut builder = cab::CabinetBuilder::new();
    builder.add_folder(cab::CompressionType::MsZip).add_file("work.pdb");
    let mut writer = builder.build(Cursor::new(Vec::new())).expect("a cabinet");
    while let Some(mut file) = writer.next_file().expect("a file") {
        file.write_all(bytes).expect("written");
    }
    writer.finish().expect("whole").into_inner()
}

#[test]
fn what_a_server_has_is_fetched_whole_or_not_at_all() {
    if !Command::new("curl").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return skipped("curl");
    }
    let Some(built) = binaries::pe() else { return };
    let pdb = built.folder.path().join("work.pdb");
    let bytes = std::fs::read(&pdb).expect("its PDB");
    std::fs::remove_file(&pdb).expect("removed");
    let (folder, recording) = folder();
    let work = format!("instructions=1000000,cycles=1000000,image={}", built.path());
    json(&format!("record -e cycles:10000 -o {} --workload {work}", text(&recording)));
    for (number, (server, stored, note)) in [
        (Server::HasPdb, Some("work.pdb"), ""),
        (Server::HasCompressed, Some("work.pd_"), ""),
        (Server::Redirects, Some("work.pdb"), ""),
        (Server::HasNothing, None, "does not have work.pdb"),
        (Server::IsCut, None, "work.pdb was not fetched from"),
        (Server::Fails, None, "the server answered with status 500"),
    ]
    .into_iter()
    .enumerate()
    {
        let port = serve(server, bytes.clone());
        let store = folder.path().join(number.to_string());
        let path = format!("srv*{}*http://127.0.0.1:{port}/s", store.display());
        let line = format!("report {} --symbol-path {path}", text(&recording));
        let kind = |line: &str| {
            let report = json(line);
            let module = &report["symbols"][0];
            (module["kind"].as_str().expect("a kind").to_owned(), module["notes"].to_string())
        };
        assert_eq!(kind(&line).0, "exports", "nothing is asked");
        let (named_by, notes) = kind(&format!("{line} --download"));
        assert_eq!(named_by, if stored.is_some() { "pdb" } else { "exports" }, "{notes}");
        assert!(notes.contains(note), "{notes}");
        let files: Vec<String> = files_below(&store);
        assert_eq!(files.iter().map(String::as_str).collect::<Vec<_>>(), Vec::from_iter(stored));
        // The store has it, so no server is needed.
        assert_eq!(kind(&line).0, named_by);
    }
}

/// The names of all files below a folder.
fn files_below(folder: &std::path::Path) -> Vec<String> {
    let entries =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    let below = |entry: std::fs::DirEntry| match entry.path() {
        path if path.is_dir() => files_below(&path),
        path => vec![path.file_name().expect("a name").to_string_lossy().into_owned()],
    };
    entries.flat_map(below).collect()
}
