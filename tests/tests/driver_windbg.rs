//! WinDbg's script and visualizers, against the driver's own PDB.
//!
//! The script's tests are in JavaScript, in `tests/windbg`: they run it in Node, on memory that is
//! laid out according to `target/driver/halprof.pdb`, and on the memory of a run of the driver
//! (`memory-image` of nt-model).

use halprof_tests::{driver, package};
use roxmltree::Document;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs that the tests need, and the Debian packages that contain them.
const PROGRAMS: [(&str, &str); 2] = [("node", "nodejs"), ("llvm-pdbutil-19", "llvm-19")];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs a file of tests in Node, if the driver and the programs that it needs are there.
fn node(tests: &str) {
    let is_installed = |&(name, of): &(&str, &str)| package::tool(name, of).is_some();
    let all_installed = PROGRAMS.iter().all(is_installed);
    if driver::folder().is_none() || !all_installed {
        return;
    }
    let output = Command::new("node")
        .args(["--test", tests])
        .current_dir(repository())
        .output()
        .expect("node runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let passed = text.lines().find_map(|line| line.strip_prefix("# pass "));
    assert_ne!(passed, Some("0"), "{text}");
    assert!(passed.is_some(), "{text}");
}

#[test]
fn the_script_shows_what_memory_holds() {
    node("tests/windbg/halprof.test.js");
}

#[test]
fn the_script_shows_what_a_run_left() {
    let found = repository().join("target/memory-image/known.json").exists();
    if found {
        node("tests/windbg/recorded.test.js");
    } else {
        let make = "cargo run --profile suite -p nt-model --bin memory-image";
        driver::skip(&format!("no memory image: {make}"));
    }
}

#[test]
fn the_visualizers_are_natvis() {
    let path = repository().join("driver/windbg/halprof.natvis");
    let text = std::fs::read_to_string(path).expect("the visualizers");
    let document = Document::parse(&text).expect("well-formed XML");
    let root = document.root_element();
    let namespace = "http://schemas.microsoft.com/vstudio/debugger/natvis/2010";
    assert!(root.has_tag_name((namespace, "AutoVisualizer")));
    let types: Vec<_> = root.children().filter(roxmltree::Node::is_element).collect();
    assert!(!types.is_empty());
    for one in types {
        assert!(one.has_tag_name((namespace, "Type")), "{one:?}");
        assert!(one.attribute("Name").is_some(), "{one:?}");
        let shown = one.children().filter(|part| part.has_tag_name((namespace, "DisplayString")));
        assert_ne!(shown.count(), 0, "{one:?}");
    }
}
