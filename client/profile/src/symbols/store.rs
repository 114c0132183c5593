//! Symbol stores: folders with one place for each build of a file, in the layout of Microsoft's
//! symbol servers. Missing files are fetched from a server only if the user asked for that.

use super::identity::file_name;
use super::image;
use super::search::SymbolPath;
use crate::recording::{Identity, Module};
use cab::Cabinet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use tempfile::{NamedTempFile, TempPath};

/// Fetches a URL into the file; returns `false` if the server does not have it, or a message if
/// neither could be determined.
pub type Fetch = fn(url: &str, file: &mut File) -> Result<bool, String>;

/// A file in a store that stands for another and contains its path.
const POINTER: &str = "file.ptr";
/// The longest pointer that is read.
const POINTER_BYTES_MAX: u64 = 4096;
/// The longest expanded file: no PDB is larger than 4 GiB.
const EXPANDED_BYTES_MAX: u64 = 1 << 32;

/// A file and its build: a store has it at `name/build/name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key<'a> {
    name: &'a str,
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
    /// For a PDB: its GUID and age.
    pub(super) fn of_pdb(identity: &'a Identity) -> Option<Self> {
        let (name, build) = identity.pdb_name().zip(identity.folder())?;
        Some(Self { name, build })
    }

    /// For a PE file: its link time, and its size in memory.
    pub(super) fn of_image(module: &'a Module) -> Option<Self> {
        let stamp = module.stamp?;
        let name = file_name(module.path.as_deref().unwrap_or(&module.name))?;
        let build = format!("{:08X}{:x}", stamp.time, stamp.size);
        Some(Self { name, build })
    }

    /// Where a store may have it: plain, compressed, or by a pointer. In a two-tier store these are
    /// below a folder named after the first two letters.
    pub(super) fn places(&self, store: &Path) -> Vec<PathBuf> {
        let tiers = [Some(""), self.name.get(..2)].into_iter().flatten();
        let folders = tiers.map(|letters| store.join(letters).join(self.name).join(&self.build));
        let names = [
            self.name.to_owned(),
            compressed(self.name),
            POINTER.to_owned(),
        ];
        folders
            .flat_map(|folder| names.clone().map(|name| folder.join(name)))
            .collect()
    }

    /// Asks a server for it, plain and compressed, and puts it into the server's store.
    fn fetch(&self, fetch: Fetch, server: &Server) -> Result<Option<PathBuf>, String> {
        let Some(store) = &server.store else {
            return Err(
                "no store is named to put it into: write `srv*FOLDER*URL` in the symbol path"
                    .to_owned(),
            );
        };
        let folder = store.join(self.name).join(&self.build);
        let told = |error: io::Error| format!("{}: {error}", folder.display());
        for name in [self.name.to_owned(), compressed(self.name)] {
            let parts = [self.name, &self.build, &name].map(encoded);
            let url = format!("{}/{}", server.url.trim_end_matches('/'), parts.join("/"));
            fs::create_dir_all(store).map_err(told)?;
            let mut file = NamedTempFile::new_in(store).map_err(told)?;
            if fetch(&url, file.as_file_mut())? {
                fs::create_dir_all(&folder).map_err(told)?;
                let place = folder.join(&name);
                file.persist(&place).map_err(|error| told(error.error))?;
                return Ok(Some(place));
            }
        }
        Ok(None)
    }
}

/// Asks the servers of the symbol path in their order, if the user wants that: the file that came,
/// and why others did not.
pub(super) fn fetched(path: &SymbolPath, key: &Key<'_>) -> (Option<PathBuf>, Vec<String>) {
    let mut notes = Vec::new();
    for server in path.servers().iter().filter(|_| path.fetch().is_some()) {
        let answer = path.fetch().map(|fetch| key.fetch(fetch, server));
        match answer.unwrap_or(Ok(None)) {
            Ok(Some(place)) => return (Some(place), notes),
            Ok(None) => notes.push(format!("{} does not have {}", server.url, key.name)),
            Err(why) => notes.push(format!(
                "{} was not fetched from {}: {why}",
                key.name, server.url
            )),
        }
    }
    (None, notes)
}

/// A readable file of a store: itself, what it points to, or what is compressed in it.
#[derive(Debug)]
pub(super) struct Readable {
    pub(super) path: PathBuf,
    /// The expanded file exists for as long as this does.
    pub(super) expanded: Option<TempPath>,
}

impl Readable {
    /// # Errors
    /// A message that says why it cannot be read.
    pub(super) fn of(place: &Path, path: &SymbolPath) -> Result<Self, String> {
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        let plain = |path: PathBuf| Self {
            path,
            expanded: None,
        };
        if name == POINTER {
            return pointed_to(place, path).map(plain);
        }
        if !name.ends_with('_') {
            return Ok(plain(place.to_owned()));
        }
        let expanded =
            expanded(place).map_err(|error| format!("it cannot be expanded: {error}"))?;
        Ok(Self {
            path: expanded.to_path_buf(),
            expanded: Some(expanded),
        })
    }
}

/// A pointer comes from the store's owner, but still opens nothing outside the folders that the
/// user named.
fn pointed_to(place: &Path, path: &SymbolPath) -> Result<PathBuf, String> {
    let mut text = String::new();
    image::open(place)?
        .take(POINTER_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(|error| error.to_string())?;
    let named = text.trim().strip_prefix("PATH:").map(str::trim);
    let named = named.ok_or("it points to no file")?;
    path.below(named).ok_or_else(|| {
        format!("it points to {named}, which lies below no folder of the symbol path")
    })
}

fn expanded(place: &Path) -> io::Result<TempPath> {
    let mut cabinet = Cabinet::new(File::open(place)?)?;
    let first = cabinet
        .folder_entries()
        .find_map(|folder| Some(folder.file_entries().next()?.name().to_owned()));
    let first = first.ok_or_else(|| io::Error::other("it has no file in it"))?;
    let mut reader = cabinet.read_file(&first)?.take(EXPANDED_BYTES_MAX);
    let mut file = NamedTempFile::new()?;
    io::copy(&mut reader, &mut file)?;
    Ok(file.into_temp_path())
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
    use crate::recording::Stamp;
    use std::io::Write;

    fn pdb() -> Identity {
        Identity::pdb([0x11; 16], 0x2A, b"C:\\build\\my app.pdb")
    }

    #[test]
    fn a_store_has_a_place_for_each_build() {
        let identity = pdb();
        let key = Key::of_pdb(&identity).expect("a key");
        let folder = "my app.pdb/111111111111111111111111111111112A";
        let places = key.places(Path::new("/s"));
        let wanted = ["my app.pdb", "my app.pd_", "file.ptr"];
        let plain = wanted.map(|name| PathBuf::from(format!("/s/{folder}/{name}")));
        let tiers = wanted.map(|name| PathBuf::from(format!("/s/my/{folder}/{name}")));
        assert_eq!(places, [plain, tiers].concat());
        let module = Module {
            name: "ntdll.dll".to_owned(),
            stamp: Some(Stamp {
                time: 0x0ABC_DEF1,
                size: 0x1E_0000,
            }),
            ..Module::default()
        };
        let key = Key::of_image(&module).expect("a key");
        assert_eq!(
            key.places(Path::new("/s"))[1],
            Path::new("/s/ntdll.dll/0ABCDEF11e0000/ntdll.dl_")
        );
        assert_eq!(Key::of_image(&Module::default()), None);
    }

    /// Compresses the requested file, as a server would return it.
    fn answers_compressed(url: &str, file: &mut File) -> Result<bool, String> {
        file.write_all(url.as_bytes())
            .map_err(|error| error.to_string())?;
        Ok(url.ends_with('_'))
    }

    /// One server does not have the file, and the other cannot be reached.
    fn answers_nothing(url: &str, _: &mut File) -> Result<bool, String> {
        if url.starts_with("http://dead") {
            return Err("the line is dead".to_owned());
        }
        Ok(false)
    }

    #[test]
    fn what_a_server_has_is_put_into_its_store() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = folder.path().display();
        let text = format!("srv*{store}*http://a/b/");
        let identity = pdb();
        let key = Key::of_pdb(&identity).expect("a key");
        // Nothing is requested unless the user asked for it.
        assert_eq!(fetched(&SymbolPath::parse(&text), &key), (None, Vec::new()));
        let path = |fetch| SymbolPath::parse(&text).downloading(fetch);
        let (place, notes) = fetched(&path(answers_compressed), &key);
        let place = place.expect("it came");
        assert_eq!(notes, Vec::<String>::new());
        assert!(key.places(folder.path()).contains(&place));
        assert_eq!(
            fs::read_to_string(place).expect("it is there"),
            "http://a/b/my%20app.pdb/111111111111111111111111111111112A/my%20app.pd_"
        );
        let (_, notes) = fetched(&path(answers_nothing), &key);
        assert_eq!(notes, ["http://a/b/ does not have my app.pdb"]);
        let dead = text.replace("http://a", "http://dead");
        let dead = SymbolPath::parse(&dead).downloading(answers_nothing);
        let (_, notes) = fetched(&dead, &key);
        assert!(notes[0].ends_with("the line is dead"), "{notes:?}");
        // Only complete files are left behind.
        let left = fs::read_dir(folder.path()).expect("a store");
        assert_eq!(left.count(), 1);
        let nowhere = SymbolPath::parse("srv*http://a/b").downloading(answers_compressed);
        let (_, notes) = fetched(&nowhere, &key);
        assert!(notes[0].contains("srv*FOLDER*URL"), "{notes:?}");
    }

    fn cabinet(bytes: &[u8]) -> Vec<u8> {
        let mut builder = cab::CabinetBuilder::new();
        builder
            .add_folder(cab::CompressionType::MsZip)
            .add_file("a.pdb");
        let mut writer = builder
            .build(io::Cursor::new(Vec::new()))
            .expect("a cabinet");
        while let Some(mut file) = writer.next_file().expect("a file") {
            file.write_all(bytes).expect("written");
        }
        writer.finish().expect("whole").into_inner()
    }

    #[test]
    fn compressed_files_and_pointers_are_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let path = SymbolPath::parse(folder.path().to_str().expect("UTF-8"));
        let bytes: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
        fs::write(at("a.pd_"), cabinet(&bytes)).expect("written");
        let readable = Readable::of(&at("a.pd_"), &path).expect("it expands");
        assert_eq!(fs::read(&readable.path).expect("a file"), bytes);
        let expanded = readable.path.clone();
        drop(readable);
        assert!(!expanded.exists(), "it is cleared away");
        fs::write(at("b.pd_"), "no cabinet").expect("written");
        assert!(Readable::of(&at("b.pd_"), &path).is_err());

        fs::write(at("real.pdb"), "real").expect("written");
        let real = at("real.pdb");
        let pointer = |text: String| {
            fs::write(at(POINTER), text).expect("written");
            Readable::of(&at(POINTER), &path).map(|readable| readable.path)
        };
        assert_eq!(pointer(format!("PATH:{}\r\n", real.display())), Ok(real));
        for text in [r"PATH:\\host\share\a.pdb", "PATH:/etc/passwd", "MSG: gone"] {
            assert!(pointer(text.to_owned()).is_err(), "{text}");
        }
    }
}
