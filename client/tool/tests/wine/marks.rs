//! Do programs on Windows find the recorder by the handle that they inherit?

use crate::cli::support::skipped_unless;
use crate::wine::prefix::{Wine, compile};
use std::path::Path;

const C: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../c");
/// Built by `cargo xtask exe`.
const DLL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/exe/halprof_c.dll");

#[test]
fn a_program_marks_as_elsewhere() {
    let Some(wine) = Wine::new() else {
        return;
    };
    if !Path::new(DLL).is_file() {
        return skipped_unless("HALPROF_REQUIRE_DRIVER", &format!("{DLL} is absent"));
    }
    std::fs::copy(DLL, wine.folder().join("halprof_c.dll")).expect("the library");
    let program = wine.folder().join("marks.exe");
    compile(&program, &[&format!("-I{C}/include"), &format!("{C}/examples/marks.c"), DLL]);
    let timeline = ["timeline", "-o", "marks.rec", "--between", "begin,end"];
    let (status, value) = wine.halprof(&[&timeline[..], &["--", "marks.exe"]].concat(), &[]);
    assert_eq!((status, &value["recorded"]), (0, &2000.into()), "{value}");
    assert_eq!((&value["processes"], &value["invalid_entries"]), (&1.into(), &0.into()));
    assert_eq!(value["between"]["lengths"]["n"], 1000);
    assert_eq!(value["cost"]["distances"], 255);
    // A program that makes no marks, and one that nobody records.
    let (status, value) = wine.halprof(&["timeline", "--", "program.exe", "exit", "7"], &[]);
    assert_eq!((status, &value["processes"]), (7, &0.into()), "{value}");
    let mut alone = wine.command(&crate::wine::prefix::program("wine64"));
    assert!(alone.arg("marks.exe").status().expect("Wine runs").success());
}
