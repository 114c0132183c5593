//! Do files depend only on those below them?
//!
//! No file of the core depends on itself by way of others. No text of a library names an option of
//! the tool: a program that calls a library has no `--time` to leave out.

use std::collections::{BTreeMap, BTreeSet};
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

/// The modules of a crate by their paths, such as `service::exchange`, with their code.
fn modules(folder: &Path) -> BTreeMap<String, String> {
    let mut files = Vec::new();
    sources(folder, &mut files);
    let named = files.into_iter().map(|file| {
        let path = file.strip_prefix(folder).expect("a file below");
        let path = path.with_extension("");
        let path: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
        let text = fs::read_to_string(&file).expect("a source");
        let code = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        (path.join("::"), code.collect::<Vec<_>>().join("\n"))
    });
    named.collect()
}

/// The modules that `name` refers to: as `crate::`, as `super::`, and by `use` of a child.
fn references(name: &str, modules: &BTreeMap<String, String>) -> BTreeSet<String> {
    let code = &modules[name];
    let parent = name.rsplit_once("::").map_or("", |(parent, _)| parent);
    let starts = [("crate::", ""), ("super::", parent), ("use ", name)];
    let paths = starts.iter().flat_map(|&(start, root)| {
        code.split(start).skip(1).map(move |rest| {
            let end = rest.find(|letter: char| {
                !(letter.is_ascii_lowercase() || letter == '_' || letter == ':')
            });
            format!("{root}::{}", &rest[..end.unwrap_or(rest.len())])
        })
    });
    paths
        .filter_map(|path| {
            let mut path = path.trim_matches(':');
            while !path.is_empty() && !modules.contains_key(path) {
                path = path.rsplit_once("::").map_or("", |(path, _)| path);
            }
            (!path.is_empty() && path != name).then(|| path.to_owned())
        })
        .collect()
}

#[test]
fn no_file_of_the_core_depends_on_itself() {
    let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hal-profile/src");
    let modules = modules(&core);
    assert!(modules.len() > 40);
    // What names several modules in one path would not be seen.
    assert!(modules.values().all(|code| !code.contains("crate::{")));
    let mut left: BTreeMap<_, _> = modules
        .keys()
        .map(|name| (name, references(name, &modules)))
        .collect();
    loop {
        let waiting: BTreeSet<String> = left.keys().map(|name| (*name).clone()).collect();
        let before = left.len();
        left.retain(|_, needs| !needs.is_disjoint(&waiting));
        if left.len() == before {
            break;
        }
    }
    assert!(left.is_empty(), "these depend on each other: {left:#?}");
}
