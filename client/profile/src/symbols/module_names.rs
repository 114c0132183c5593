//! Names the modules of a recording. Different builds with the same name get names that tell them
//! apart, and one build has one name, however its loads spell it.

use super::identity::builds;
use crate::file::{Identity, Module};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// A shown name has at most so many parts of the module's path. The number of the build is shorter than
/// more of them.
const PARTS_MAX: usize = 4;

/// The names under which the modules of a recording are shown.
#[derive(Debug, Default)]
pub(crate) struct ModuleNames {
    /// The name of each module.
    shown: Vec<Arc<str>>,
    /// Where the modules of a name were loaded from.
    paths: FxHashMap<Arc<str>, Vec<Arc<str>>>,
}

impl ModuleNames {
    pub(crate) fn of(modules: &[Module]) -> Self {
        let builds = builds(modules);
        let mut by_name: FxHashMap<String, Vec<usize>> = FxHashMap::default();
        for (index, module) in modules.iter().enumerate() {
            by_name.entry(module.name.to_lowercase()).or_default().push(index);
        }
        let mut shown = vec![Arc::from(""); modules.len()];
        for same_name in by_name.into_values() {
            // One module stands for each build: the first.
            let mut known = FxHashMap::default();
            let mut firsts = Vec::new();
            for &index in &same_name {
                known.entry(&builds[index]).or_insert_with(|| {
                    firsts.push(index);
                    firsts.len() - 1
                });
            }
            let all: Vec<&Module> = firsts.iter().map(|&first| &modules[first]).collect();
            let names: Vec<Arc<str>> = names(&all).into_iter().map(Arc::from).collect();
            for index in same_name {
                shown[index] = Arc::clone(&names[known[&builds[index]]]);
            }
        }
        let mut paths: FxHashMap<Arc<str>, Vec<Arc<str>>> = FxHashMap::default();
        let mut seen = FxHashSet::default();
        for (module, name) in modules.iter().zip(&shown) {
            if let Some(path) = module.path.as_deref().filter(|path| seen.insert((name, *path))) {
                paths.entry(Arc::clone(name)).or_default().push(path.into());
            }
        }
        Self { shown, paths }
    }

    /// What a module is called.
    pub(crate) fn shown(&self, module: usize) -> Arc<str> {
        self.shown.get(module).cloned().unwrap_or_default()
    }

    /// Where the modules of a name were loaded from.
    pub(crate) fn paths(&self, shown: &str) -> &[Arc<str>] {
        self.paths.get(shown).map_or(&[], Vec::as_slice)
    }
}

/// Names for modules of different builds that have one name: the shortest ends of their paths that
/// differ, and the number of the build where no path tells it.
fn names(builds: &[&Module]) -> Vec<String> {
    if let [only] = builds {
        return vec![only.name.clone()];
    }
    let mut names: Vec<Option<String>> = vec![None; builds.len()];
    // The last part alone is the name that they share.
    for parts in 2..=PARTS_MAX {
        let ends: Vec<Option<&str>> =
            builds.iter().map(|build| end_of_path(build.path.as_deref()?, parts)).collect();
        let mut count: FxHashMap<String, usize> = FxHashMap::default();
        for end in ends.iter().flatten() {
            *count.entry(end.to_lowercase()).or_default() += 1;
        }
        for (name, end) in names.iter_mut().zip(&ends).filter(|(name, _)| name.is_none()) {
            *name = end.filter(|end| count[&end.to_lowercase()] == 1).map(str::to_owned);
        }
    }
    let named = names.into_iter().zip(builds);
    named.map(|(name, build)| name.unwrap_or_else(|| by_number(build))).collect()
}

/// A module's name with the first digits of what tells its build.
fn by_number(build: &Module) -> String {
    let first = |id: &str| id.chars().take(8).collect::<String>();
    let number = match (&build.identity, build.stamp) {
        // An incremental link keeps the GUID and raises the age.
        (Some(Identity::Pdb { guid, age, .. }), _) => format!("{}-{age}", first(guid)),
        (Some(Identity::BuildId(id)), _) => first(id),
        (None, Some(stamp)) => format!("{:08X}", stamp.time),
        (None, None) => format!("{:x}", build.end.saturating_sub(build.start)),
    };
    format!("{}#{number}", build.name)
}

/// The last parts of a path, if it has so many.
fn end_of_path(path: &str, parts: usize) -> Option<&str> {
    let mut separators = path.rmatch_indices(['/', '\\']);
    let (at, _) = separators.nth(parts - 1)?;
    path.get(at + 1..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::identity::tests::{module, with_identity};

    fn shown(modules: &[Module]) -> Vec<String> {
        let names = ModuleNames::of(modules);
        (0..modules.len()).map(|index| names.shown(index).to_string()).collect()
    }

    #[test]
    fn modules_of_one_name_are_told_apart() {
        let app = |folder: &str, time| module(&format!(r"C:\app\{folder}\plugin.dll"), time);
        let linked = |age| {
            let identity = Some(Identity::pdb([1; 16], age, b"x.pdb"));
            Module { identity, ..module(r"C:\a\x.dll", 0) }
        };
        for (modules, expected) in [
            (vec![app("A", 3), app("A", 3)], vec!["plugin.dll", "plugin.dll"]),
            (vec![app("A", 3), app("B", 5)], vec![r"A\plugin.dll", r"B\plugin.dll"]),
            (vec![app(r"A\x", 3), app(r"B\x", 5)], vec![r"A\x\plugin.dll", r"B\x\plugin.dll"]),
            // It was replaced and loaded again.
            (vec![app("A", 3), app("A", 5)], vec!["plugin.dll#00000003", "plugin.dll#00000005"]),
            (
                vec![app("A", 3), module("PLUGIN.DLL", 9)],
                vec![r"A\plugin.dll", "PLUGIN.DLL#00000009"],
            ),
            // One spelling for one file.
            (vec![module(r"C:\W\N.DLL", 1), module(r"C:\w\n.dll", 1)], vec!["N.DLL", "N.DLL"]),
            // One build in two folders is one module.
            (
                vec![with_identity(r"C:\a\x.dll", 1), with_identity(r"C:\b\x.dll", 1)],
                vec!["x.dll", "x.dll"],
            ),
            // It was linked again, incrementally.
            (vec![linked(1), linked(2)], vec!["x.dll#01010101-1", "x.dll#01010101-2"]),
            // A load whose identity the trace lacks.
            (
                vec![with_identity(r"C:\a\x.dll", 1), module(r"C:\a\x.dll", 0)],
                vec!["x.dll", "x.dll"],
            ),
            (
                vec![with_identity(r"C:\a\x.dll", 1), with_identity(r"C:\a\x.dll", 2)],
                vec!["x.dll#01010101", "x.dll#02020202"],
            ),
        ] {
            assert_eq!(shown(&modules), expected);
        }
    }
}
