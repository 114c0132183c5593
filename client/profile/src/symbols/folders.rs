//! Finds files by names from Windows, which does not distinguish capital letters from small ones, on
//! systems that do.

use rustc_hash::FxHashMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The most entries of a folder that are read: a store has one for each file name.
const ENTRIES_MAX: usize = 1 << 17;

/// The entries of a folder, by their names in small letters.
type Entries = FxHashMap<String, OsString>;

/// The folders that were looked through, each read once: a search asks for many files of few folders.
#[derive(Debug, Default)]
pub(super) struct Folders(Mutex<FxHashMap<PathBuf, Entries>>);

impl Clone for Folders {
    /// A copy reads its folders anew: they may have changed.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Folders {
    /// The file at a path; if there is none, one whose path differs only in capital and small letters.
    pub(super) fn file(&self, path: &Path) -> Option<PathBuf> {
        if path.is_file() {
            return Some(path.to_owned());
        }
        if cfg!(windows) {
            return None;
        }
        self.entry(path).filter(|found| found.is_file())
    }

    fn entry(&self, path: &Path) -> Option<PathBuf> {
        if path.exists() {
            return Some(path.to_owned());
        }
        let name = path.file_name()?.to_str()?.to_lowercase();
        let parent = path.parent()?;
        let folder =
            if parent.as_os_str().is_empty() { PathBuf::from(".") } else { self.entry(parent)? };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = known.entry(folder.clone()).or_insert_with(|| entries(&folder));
        Some(folder.join(entries.get(&name)?))
    }
}

/// Lists a folder. If names differ only in capital and small letters, the first in the order of their
/// letters is kept.
fn entries(folder: &Path) -> Entries {
    let listed = fs::read_dir(folder).into_iter().flatten().flatten().take(ENTRIES_MAX);
    let mut names: Vec<OsString> = listed.map(|entry| entry.file_name()).collect();
    // In reverse, because of equal keys the map keeps the last.
    names.sort_unstable_by(|a, b| b.cmp(a));
    let known = names.into_iter().filter_map(|name| Some((name.to_str()?.to_lowercase(), name)));
    known.collect()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_whatever_the_case_of_its_letters() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        for file in ["Store/Work.pdb/0A1b2/WORK.pd_", "Work.exe", "twice", "TWICE", "Größe.dll"] {
            let file = folder.join(file);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            fs::write(file, "").expect("written");
        }
        let folders = Folders::default();
        for (asked, found) in [
            ("WORK.EXE", Some("Work.exe")),
            ("Work.exe", Some("Work.exe")),
            ("store/WORK.PDB/0a1B2/work.PD_", Some("Store/Work.pdb/0A1b2/WORK.pd_")),
            ("twice", Some("twice")),
            ("Twice", Some("TWICE")),
            ("GRÖSSE.DLL", None),
            ("GRÖßE.DLL", Some("Größe.dll")),
            // A folder is no file.
            ("STORE", None),
            ("Work.ex", None),
            ("../x/Work.exe", None),
        ] {
            let found = found.map(|found| folder.join(found));
            assert_eq!(folders.file(&folder.join(asked)), found, "{asked}");
        }
    }
}
