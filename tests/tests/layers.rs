//! Does any text of a library name an option of the tool? A program that calls a library has no
//! `--time` to leave out.

use std::fs;
use std::path::{Path, PathBuf};

/// The libraries that others than the tool use.
const LIBRARIES: [&str; 2] = ["client/measure/src", "client/profile/src"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Whether a line of code names an option: `--long`, or `-s` in quotation marks of its own. No code
/// of Rust looks like one, so it is in a string.
fn names_an_option(line: &str) -> bool {
    let is_letter = |rest: &str, at: usize| {
        let letter = rest.as_bytes().get(at);
        letter.is_some_and(u8::is_ascii_alphabetic)
    };
    let mut long = line.match_indices("--");
    let mut short = line.match_indices("`-");
    long.any(|(at, _)| is_letter(line, at + 2)) || short.any(|(at, _)| is_letter(line, at + 2))
}

#[test]
fn an_option_is_recognized() {
    for line in [
        "\"Leave out `--time`.\"",
        "\"use --calibrate\"",
        "\"Name one with `-C`.\"",
    ] {
        assert!(names_an_option(line), "{line}");
    }
    for line in [
        "\"0-3\" -> \"---\"",
        "\"as in `0.5-1.25`, `2-` or `-0.1`\"",
        "a - b",
    ] {
        assert!(!names_an_option(line), "{line}");
    }
}

#[test]
fn no_text_of_a_library_names_an_option_of_the_tool() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for library in LIBRARIES {
        let mut files = Vec::new();
        sources(&repository.join(library), &mut files);
        assert!(files.len() > 20, "{library} has sources");
        for file in files {
            let text = fs::read_to_string(&file).expect("a source");
            let code = text
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"));
            let naming: Vec<&str> = code.filter(|line| names_an_option(line)).collect();
            assert_eq!(naming, [""; 0], "{}", file.display());
        }
    }
}
