//! Symbol stores: folders with one place for each build of a file, in the layout of Microsoft's
//! symbol servers; and the servers that fill them.

use super::identity::file_name;
use crate::file::{Identity, Module};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Fetches a URL into the file; returns `false` if the server does not have it, or a message if
/// neither could be determined.
pub type Fetch = fn(url: &str, file: &mut File) -> Result<bool, String>;

/// Whether a file is what was asked for; a message says why not.
pub(super) type Check<'a> = &'a dyn Fn(&Path, &str) -> Result<(), String>;

/// Told, in one line, what of a module could not be fetched and why.
pub type TellFailure = fn(line: &str);

/// A file in a store that stands for another and contains its path.
pub(super) const POINTER: &str = "file.ptr";

/// A file and its build: a store has it at `name/build/name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key<'a> {
    pub(super) name: &'a str,
    build: String,
}

/// A symbol server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its URL, e.g. `https://msdl.microsoft.com/download/symbols`.
    pub url: String,
    /// The store for files from this server; without one it is not asked.
    pub store: Option<PathBuf>,
}

impl<'a> Key<'a> {
    /// A name that begins with a point has no place: the folder of its first two letters could be
    /// the one above the store.
    fn new(name: &'a str, build: String) -> Option<Self> {
        (!name.starts_with('.')).then_some(Self { name, build })
    }

    /// For a PDB: its GUID and age.
    pub(super) fn of_pdb(identity: &'a Identity) -> Option<Self> {
        Self::new(identity.pdb_name()?, identity.folder()?)
    }

    /// For a PE file: its link time, and its size in memory.
    pub(super) fn of_image(module: &'a Module) -> Option<Self> {
        let stamp = module.stamp?;
        let name = file_name(module.path.as_deref().unwrap_or(&module.name))?;
        let build = format!("{:08X}{:x}", stamp.time, stamp.size);
        Self::new(name, build)
    }

    /// Where a store may have it: plain, compressed, or by a pointer. In a two-tier store these are
    /// below a folder named after the first two letters.
    pub(super) fn locations(&self, store: &Path) -> Vec<PathBuf> {
        let tiers = [Some(""), self.name.get(..2)].into_iter().flatten();
        let folders = tiers.map(|letters| store.join(letters).join(self.name).join(&self.build));
        let names = [self.name.to_owned(), compressed(self.name), POINTER.to_owned()];
        folders.flat_map(|folder| names.clone().map(|name| folder.join(name))).collect()
    }

    /// Asks a server for it, plain and compressed, and puts it into the server's store: if `check`, which
    /// gets the file and the name that it would have there, finds that it is what was asked for. Other
    /// debuggers look there too.
    pub(super) fn fetch(
        &self,
        fetch: Fetch,
        server: &Server,
        check: Check<'_>,
    ) -> Result<Option<PathBuf>, String> {
        let Some(store) = &server.store else {
            return Err(
                "no store is named to put it into: write `srv*FOLDER*URL` in the symbol path"
                    .to_owned(),
            );
        };
        let folder = store.join(self.name).join(&self.build);
        let text = |error: io::Error| format!("{}: {error}", folder.display());
        for name in [self.name.to_owned(), compressed(self.name)] {
            let parts = [self.name, &self.build, &name].map(encoded);
            let url = format!("{}/{}", server.url.trim_end_matches('/'), parts.join("/"));
            fs::create_dir_all(store).map_err(text)?;
            // A file of the store's own disk is only renamed in the end, so that nobody finds half
            // of it.
            let mut file = NamedTempFile::new_in(store).map_err(text)?;
            if fetch(&url, file.as_file_mut())? {
                check(file.path(), &name)?;
                fs::create_dir_all(&folder).map_err(text)?;
                let path = folder.join(&name);
                file.persist(&path).map_err(|error| text(error.error))?;
                return Ok(Some(path));
            }
        }
        Ok(None)
    }
}

/// The name of a compressed file: its last letter becomes `_`.
fn compressed(name: &str) -> String {
    let mut letters: Vec<char> = name.chars().collect();
    letters.pop();
    letters.push('_');
    letters.into_iter().collect()
}

/// Encodes a part of a URL's path (RFC 3986, "Unreserved Characters").
fn encoded(part: &str) -> String {
    part.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Stamp;

    #[test]
    fn a_store_has_a_place_for_each_build() {
        let identity = Identity::pdb([0x11; 16], 0x2A, b"C:\\build\\my app.pdb");
        let key = Key::of_pdb(&identity).expect("a key");
        let folder = "my app.pdb/111111111111111111111111111111112A";
        let locations = key.locations(Path::new("/s"));
        let wanted = ["my app.pdb", "my app.pd_", "file.ptr"];
        let plain = wanted.map(|name| PathBuf::from(format!("/s/{folder}/{name}")));
        let tiers = wanted.map(|name| PathBuf::from(format!("/s/my/{folder}/{name}")));
        assert_eq!(locations, [plain, tiers].concat());
        let module = Module {
            name: "ntdll.dll".to_owned(),
            stamp: Some(Stamp { time: 0x0ABC_DEF1, size: 0x1E_0000 }),
            ..Module::default()
        };
        let key = Key::of_image(&module).expect("a key");
        assert_eq!(
            key.locations(Path::new("/s"))[1],
            Path::new("/s/ntdll.dll/0ABCDEF11e0000/ntdll.dl_")
        );
        assert_eq!(Key::of_image(&Module::default()), None);
    }

    #[test]
    fn no_place_is_outside_the_store() {
        for name in ["..x.pdb", ".x.pdb", ". x.pdb", "...", "..", "."] {
            assert_eq!(Key::of_pdb(&Identity::pdb([0x11; 16], 1, name.as_bytes())), None, "{name}");
            let module = Module {
                name: name.to_owned(),
                stamp: Some(Stamp { time: 1, size: 2 }),
                ..Module::default()
            };
            assert_eq!(Key::of_image(&module), None, "{name}");
        }
    }
}
