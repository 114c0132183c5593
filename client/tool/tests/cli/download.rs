//! Does `--download` fetch symbols by curl, and only what is whole? `wine/download.rs` has Windows' way.

use crate::cli::binaries;
use crate::cli::server::{Response, Server};
use crate::cli::support::{folder, halprof, json, skipped, text};
use std::io::{Cursor, Write};
use std::process::Command;

/// What a server answers for the PDB, for the compressed PDB, and elsewhere.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    HasPdb,
    HasCompressed,
    HasNothing,
    HadIt,
    Redirects,
    /// A file that is not the one that was asked for.
    HasOther,
    HasOtherCompressed,
    /// The connection ends before the length that the head states.
    IsCut,
    Fails,
}

fn serve(kind: Kind, pdb: Vec<u8>) -> Server {
    let cabinet = cabinet(&pdb);
    Server::start(move |path| {
        let is_plain = path.ends_with("work.pdb");
        match kind {
            Kind::HasPdb if is_plain => Response::found(pdb.clone()),
            Kind::HasCompressed if path.ends_with("work.pd_") => Response::found(cabinet.clone()),
            Kind::Redirects if path == "/elsewhere" => Response::found(pdb.clone()),
            Kind::Redirects if is_plain => Response {
                fields: "Location: /elsewhere\r\n",
                ..Response::new("302 Found", Vec::new())
            },
            Kind::IsCut if is_plain => {
                Response { length: pdb.len(), ..Response::found(pdb[..pdb.len() / 2].to_vec()) }
            }
            Kind::HadIt => Response::new("410 Gone", Vec::new()),
            Kind::HasOther if is_plain => Response::found(b"no PDB".to_vec()),
            Kind::HasOtherCompressed if path.ends_with("work.pd_") => {
                Response::found(self::cabinet(b"no PDB"))
            }
            Kind::Fails => Response::new("500 Internal Server Error", Vec::new()),
            _ => Response::not_found(),
        }
    })
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
    for (number, (kind_of_server, stored, note)) in [
        (Kind::HadIt, None, "does not have work.pdb"),
        (Kind::HasOther, None, "work.pdb was not fetched from"),
        (Kind::HasOtherCompressed, None, "work.pdb was not fetched from"),
        (Kind::HasPdb, Some("work.pdb"), ""),
        (Kind::HasCompressed, Some("work.pd_"), ""),
        (Kind::Redirects, Some("work.pdb"), ""),
        (Kind::HasNothing, None, "does not have work.pdb"),
        (Kind::IsCut, None, "work.pdb was not fetched from"),
        (Kind::Fails, None, "the server answered with status 500"),
    ]
    .into_iter()
    .enumerate()
    {
        let server = serve(kind_of_server, bytes.clone());
        let store = folder.path().join(number.to_string());
        let path = format!("srv*{}*http://127.0.0.1:{}/s", store.display(), server.port);
        let line = format!("report {} --symbol-path {path}", text(&recording));
        let kind = |line: &str| {
            let report = json(line);
            let module = &report["symbols"][0];
            (module["kind"].as_str().expect("a kind").to_owned(), module["notes"].to_string())
        };
        assert_eq!(kind(&line).0, "exports");
        assert_eq!(server.asked(), [""; 0]);
        let (named_by, notes) = kind(&format!("{line} --download"));
        assert_eq!(named_by, if stored.is_some() { "pdb" } else { "exports" }, "{notes}");
        assert!(notes.contains(note), "{notes}");
        // Whoever reads text is told in one line if that failed, even where little else is.
        let plain = halprof(&format!("--quiet {line} --download"));
        let told = plain.stderr.lines().filter(|line| line.contains("was not fetched from"));
        let fails = note.contains("was not fetched") || note.contains("status");
        assert_eq!(told.count(), usize::from(fails), "{}", plain.stderr);
        let files: Vec<String> = files_below(&store);
        assert_eq!(files.iter().map(String::as_str).collect::<Vec<_>>(), Vec::from_iter(stored));
        let asked = server.asked();
        assert_ne!(asked, [""; 0]);
        // The store has it.
        assert_eq!(kind(&line).0, named_by);
        assert_eq!(server.asked(), asked);
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
