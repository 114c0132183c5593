//! Do programs on Windows find the recorder by the handle that they inherit?

use crate::wine::prefix::Wine;
use std::path::Path;
use std::process::Command;

const C: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../c");
/// Built by `cargo xtask exe`.
const DLL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/exe/halprof_c.dll");

#[test]
fn a_program_marks_as_elsewhere() {
    let Some(wine) = Wine::new() else {
        return;
    };
    if !Path::new(DLL).is_file() {
        let required = std::env::var_os("HALPROF_REQUIRE_DRIVER").is_some_and(|one| one == "1");
        assert!(!required, "{DLL} is absent");
        println!("skipped: {DLL} is absent");
        return;
    }
    std::fs::copy(DLL, wine.folder().join("halprof_c.dll")).expect("the library");
    let mut gcc = Command::new("x86_64-w64-mingw32-gcc");
    gcc.args(["-Wall", "-Werror", "-o"])
        .arg(wine.folder().join("marks.exe"))
        .arg(format!("-I{C}/include"))
        .args([format!("{C}/examples/marks.c"), DLL.to_owned()]);
    assert!(gcc.status().expect("gcc-mingw-w64-x86-64").success());
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
