//! Do files depend only on those below them?
//!
//! No file depends on itself by way of others; in the core not even by way of its parent. No text of
//! a library names an option of the tool: a program that calls a library has no `--time` to leave
//! out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemUse, UseName, UseRename, UseTree};

/// The packages whose files are looked at, and how many each has at least.
const PACKAGES: [(&str, usize); 14] = [
    ("hal-profile", 40),
    ("shared-types", 10),
    ("driver", 15),
    ("sim", 30),
    ("sim/etw", 3),
    ("client/c", 2),
    ("client/etw", 20),
    ("client/events", 1),
    ("client/measure", 25),
    ("client/profile", 40),
    ("client/setup", 15),
    ("client/simulate", 5),
    ("client/tool", 80),
    ("xtask", 15),
];

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
    for line in ["\"Leave out `--time`.\"", "\"use --calibrate\"", "\"Name one with `-C`.\""] {
        assert!(names_an_option(line), "{line}");
    }
    for line in ["\"0-3\" -> \"---\"", "\"as in `0.5-1.25`, `2-` or `-0.1`\"", "a - b"] {
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
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            let naming: Vec<&str> = code.filter(|line| names_an_option(line)).collect();
            assert_eq!(naming, [""; 0], "{}", file.display());
        }
    }
}

/// What stands for processors and for Windows: no library that measures links it by itself.
const TEST_EQUIPMENT: [&str; 3] = ["sim", "sim-etw", "nt-model"];

#[test]
fn no_library_that_measures_links_test_equipment() {
    for library in ["halprof-etw", "halprof-measure", "halprof-profile", "halprof-c"] {
        let tree = Command::new(env!("CARGO"))
            .args(["tree", "--offline", "--edges", "normal", "--prefix", "none"])
            .args(["--target", "all", "--format", "{lib}", "--package", library])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("cargo runs");
        let text = String::from_utf8_lossy(&tree.stdout);
        assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
        let linked: Vec<&str> = text
            .lines()
            .filter(|name| TEST_EQUIPMENT.iter().any(|one| one.replace('-', "_") == *name))
            .collect();
        assert_eq!(linked, [""; 0], "{library}");
    }
}

/// A module of a crate by its path, such as `["service", "exchange"]`; the root's is empty.
type Module = Vec<String>;

/// The modules that one file names, by `use` or in a path, with what it names in them.
struct Named<'a> {
    module: &'a Module,
    paths: Vec<Module>,
}

impl Named<'_> {
    /// Keeps a path of the crate, from its root; other crates' are of no interest.
    fn keep(&mut self, path: &[String]) {
        let mut base = self.module.clone();
        let mut rest = path;
        match path.first().map(String::as_str) {
            Some("crate") => (base, rest) = (Vec::new(), &path[1..]),
            Some("self") => rest = &path[1..],
            // `super`, or a child by its name: whether there is one is seen later.
            _ => {}
        }
        while rest.first().is_some_and(|first| first == "super") {
            base.pop();
            rest = &rest[1..];
        }
        base.extend_from_slice(rest);
        self.paths.push(base);
    }

    fn keep_tree(&mut self, tree: &UseTree, before: &mut Module) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.keep_tree(&path.tree, before);
                before.pop();
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.keep_tree(tree, before);
                }
            }
            UseTree::Name(UseName { ident, .. }) | UseTree::Rename(UseRename { ident, .. }) => {
                before.push(ident.to_string());
                self.keep(before);
                before.pop();
            }
            UseTree::Glob(_) => self.keep(before),
        }
    }
}

impl<'a> Visit<'a> for Named<'_> {
    fn visit_item(&mut self, item: &'a Item) {
        let of_tests = match item {
            Item::Mod(item) => is_for_tests(&item.attrs),
            Item::Use(item) => is_for_tests(&item.attrs),
            Item::Fn(item) => is_for_tests(&item.attrs),
            Item::Impl(item) => is_for_tests(&item.attrs),
            _ => false,
        };
        if !of_tests {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        self.keep_tree(&item.tree, &mut Vec::new());
    }

    // `pub(super)` uses nothing.
    fn visit_visibility(&mut self, _: &'a syn::Visibility) {}

    fn visit_path(&mut self, path: &'a syn::Path) {
        let segments: Module = path.segments.iter().map(|one| one.ident.to_string()).collect();
        if matches!(segments[0].as_str(), "crate" | "self" | "super") {
            self.keep(&segments);
        }
        visit::visit_path(self, path);
    }
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let list = attribute.meta.require_list();
        attribute.path().is_ident("cfg") && list.is_ok_and(|list| list.tokens.to_string() == "test")
    })
}

/// The modules of a crate, without its root and its tests, each with the modules that it names.
fn modules(folder: &Path) -> BTreeMap<Module, BTreeSet<Module>> {
    let mut files = Vec::new();
    sources(folder, &mut files);
    let parsed: BTreeMap<Module, syn::File> = files
        .into_iter()
        .filter_map(|file| {
            let path = file.strip_prefix(folder).expect("a file below");
            let parts = path.with_extension("");
            let parts = parts.iter().map(|part| part.to_string_lossy().into_owned());
            let module: Module = parts.collect();
            let root = module == ["lib"] || module == ["main"];
            let text = fs::read_to_string(&file).expect("a source");
            let of_tests = module.iter().any(|part| part == "tests");
            (!root && !of_tests).then(|| (module, syn::parse_file(&text).expect("Rust")))
        })
        .collect();
    let named_by = |module: &Module, file: &syn::File| {
        let mut named = Named { module, paths: Vec::new() };
        named.visit_file(file);
        let longest = |path: &Module| {
            let ends = (1..=path.len()).rev();
            let mut starts = ends.map(|end| path[..end].to_vec());
            starts.find(|start| parsed.contains_key(start))
        };
        let mut found: BTreeSet<Module> = named.paths.iter().filter_map(longest).collect();
        found.remove(module);
        found
    };
    parsed.iter().map(|(module, file)| (module.clone(), named_by(module, file))).collect()
}

/// The modules that depend on themselves by way of others.
fn circles(mut left: BTreeMap<Module, BTreeSet<Module>>) -> BTreeMap<Module, BTreeSet<Module>> {
    loop {
        let waiting: BTreeSet<Module> = left.keys().cloned().collect();
        let before = left.len();
        left.retain(|_, needs| !needs.is_disjoint(&waiting));
        if left.len() == before {
            return left;
        }
    }
}

/// A module's children may use what it defines for them.
fn without_parents(modules: &mut BTreeMap<Module, BTreeSet<Module>>) {
    for (module, needs) in modules {
        needs.retain(|needed| !module.starts_with(needed));
    }
}

#[test]
fn a_circle_is_recognized() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, code: &str| {
        fs::write(folder.path().join(name), code).expect("a file");
    };
    write("lib.rs", "mod a; mod b; mod c;");
    write("a.rs", "use crate::{c::Deep, Other}; fn f() {}");
    write("b.rs", "#[cfg(test)] mod tests { use crate::c::Deep; } fn g() { super::a::f() }");
    write("c.rs", "#[cfg(test)] use crate::b; use std::fmt; struct Deep;");
    assert!(circles(modules(folder.path())).is_empty());
    write("c.rs", "use super::b::{self as other, *}; struct Deep;");
    let found = circles(modules(folder.path()));
    let found: Vec<&str> = found.keys().map(|module| module[0].as_str()).collect();
    assert_eq!(found, ["a", "b", "c"]);
}

/// The modules of the table in `driver/src/lib.rs`, from the top.
fn driver_table(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("lib.rs")).expect("lib.rs");
    let rows = text.lines().filter_map(|line| line.strip_prefix("//! | `"));
    let names = rows.filter_map(|row| row.split(" |").next());
    let each = names.flat_map(|names| names.split(", "));
    each.map(|name| name.trim_matches('`').to_owned()).collect()
}

#[test]
fn the_drivers_modules_depend_on_those_below_them_in_its_table() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../driver/src");
    let table = driver_table(&folder);
    let place = |module: &str| {
        let place = table.iter().position(|name| name == module);
        place.unwrap_or_else(|| panic!("{module} is not in the table"))
    };
    for (module, needs) in modules(&folder) {
        for needed in needs {
            let (own, below) = (place(&module[0]), place(&needed[0]));
            assert!(own < below, "{module:?} names {needed:?}, above it");
        }
    }
}

/// The rooms of each crate, from the bottom: a room uses those before it. A room with `/*` has
/// modules that do not use one another. A module that stands in no room is not judged, such as
/// `historic`, which the core has beside all of its rooms.
const ROOMS: &[(&str, &[&str])] = &[
    ("hal-profile", &["cpu", "source", "plan", "run", "service"]),
    ("client/profile", &["number", "file", "symbols", "aggregate", "views", "export"]),
    (
        "client/measure",
        &[
            "error",
            "float",
            "source",
            "suggest",
            "profile_source",
            "live_tracing",
            "transport",
            "events",
            "describe",
            "selection",
            "connection",
            "catalog",
            "errata",
            "statistics",
            "estimate",
            "rates",
            "rdpmc",
            "platform",
            "processes",
            "tracing",
            "windows",
            "session",
            "count",
            "passes",
            "in_process",
            "machine",
            "marks",
            "regions",
        ],
    ),
    (
        "client/tool",
        &[
            "output",
            "target",
            "cli",
            "metrics",
            "select",
            "model",
            "run",
            "results",
            "command/*",
            "documents",
        ],
    ),
];

/// Whether `needed` stands above `module`, or beside it in a room whose modules stand apart.
fn is_arrow_up(rooms: &[&str], module: &Module, needed: &Module) -> bool {
    let place =
        |module: &Module| rooms.iter().position(|room| room.trim_end_matches("/*") == module[0]);
    match (place(module), place(needed)) {
        (Some(own), Some(other)) if own == other => {
            rooms[own].ends_with("/*") && module.get(1) != needed.get(1)
        }
        (Some(own), Some(other)) => other > own,
        _ => false,
    }
}

#[test]
fn an_arrow_up_is_recognized() {
    let rooms = ["low", "high/*"];
    let module = |path: &str| path.split('/').map(str::to_owned).collect::<Module>();
    for (from, to, up) in [
        ("low/a", "high", true),
        ("high/a", "low/b", false),
        ("low/a", "low/b", false),
        ("high/a", "high/b", true),
        ("high/a/c", "high/a", false),
        ("elsewhere", "high", false),
    ] {
        assert_eq!(is_arrow_up(&rooms, &module(from), &module(to)), up, "{from} -> {to}");
    }
}

#[test]
fn no_room_uses_one_above_it() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut all = 0;
    for &(package, rooms) in ROOMS {
        let modules = modules(&repository.join(package).join("src"));
        for room in rooms.iter().map(|room| room.trim_end_matches("/*")) {
            assert!(modules.keys().any(|module| module[0] == room), "{package} has no {room}");
        }
        let pairs =
            modules.iter().flat_map(|(module, needs)| needs.iter().map(move |to| (module, to)));
        let arrows: Vec<String> = pairs
            .filter(|(module, needed)| is_arrow_up(rooms, module, needed))
            .map(|(module, needed)| format!("{} -> {}", module.join("/"), needed.join("/")))
            .collect();
        println!("{package}: {} arrows up {arrows:#?}", arrows.len());
        all += arrows.len();
    }
    assert_eq!(all, 0, "a room uses one above it");
}

#[test]
fn no_file_depends_on_itself() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (package, least) in PACKAGES {
        let mut modules = modules(&repository.join(package).join("src"));
        assert!(modules.len() >= least, "{package} has {}", modules.len());
        if package != "hal-profile" {
            without_parents(&mut modules);
        }
        let found = circles(modules);
        assert!(found.is_empty(), "{package}: {found:#?}");
    }
}
