//! Is every test file compiled? A file that main.rs does not name would be silently left out.

use std::collections::BTreeSet;
use std::path::Path;

/// The packages whose tests are one program.
const PACKAGES: [&str; 4] = ["client/tool", "sim", "tests", "tests/nt-model"];

/// The Rust files in a folder that `main` does not name as modules.
fn unnamed(folder: &Path, main: &str) -> Vec<String> {
    let named: BTreeSet<&str> =
        main.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';')).collect();
    let entries = std::fs::read_dir(folder).expect("a folder");
    entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .filter(|name| name != "main" && !named.contains(name.as_str()))
        .collect()
}

#[test]
fn every_file_of_tests_is_compiled() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for package in PACKAGES {
        let folder = repository.join(package).join("tests");
        let main = std::fs::read_to_string(folder.join("main.rs")).expect("main.rs");
        assert_eq!(unnamed(&folder, &main), [""; 0], "{package}/tests/main.rs");
        assert_ne!(unnamed(&folder, ""), [""; 0], "{package} has tests");
    }
}
