//! The files of a store as they can be read: what a pointer names, and what is compressed.

use super::image;
use super::search::SymbolPath;
use super::store::POINTER;
use cab::Cabinet;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use tempfile::{NamedTempFile, TempPath};

/// The longest pointer that is read.
const POINTER_BYTES_MAX: u64 = 4096;
/// The longest expanded file: no PDB is larger than 4 GiB.
const EXPANDED_BYTES_MAX: u64 = 1 << 32;

/// A readable file of a store: itself, what it points to, or what is compressed in it.
#[derive(Debug)]
pub(super) struct StoreFile {
    pub(super) path: PathBuf,
    /// The expanded file exists for as long as this does.
    pub(super) expanded: Option<TempPath>,
}

impl StoreFile {
    /// # Errors
    /// A message that says why it cannot be read.
    pub(super) fn of(stored: &Path, path: &SymbolPath) -> Result<Self, String> {
        let name = stored.file_name().unwrap_or_default().to_string_lossy();
        let plain = |path: PathBuf| Self { path, expanded: None };
        if name == POINTER {
            return pointed_to(stored, path).map(plain);
        }
        if !name.ends_with('_') {
            return Ok(plain(stored.to_owned()));
        }
        let file = image::open(stored)?;
        let expanded = expanded(file).map_err(|error| format!("it cannot be expanded: {error}"))?;
        Ok(Self { path: expanded.to_path_buf(), expanded: Some(expanded) })
    }
}

/// A pointer comes from the store's owner, but still opens nothing outside the folders that the
/// user named.
fn pointed_to(stored: &Path, path: &SymbolPath) -> Result<PathBuf, String> {
    let mut text = String::new();
    image::open(stored)?
        .take(POINTER_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(|error| error.to_string())?;
    let named = text.trim().strip_prefix("PATH:").map(str::trim);
    let named = named.ok_or("it points to no file")?;
    path.below(named).ok_or_else(|| {
        format!("it points to {named}, which lies below no folder of the symbol path")
    })
}

fn expanded(file: File) -> io::Result<TempPath> {
    let mut cabinet = Cabinet::new(file)?;
    let first = cabinet
        .folder_entries()
        .find_map(|folder| Some(folder.file_entries().next()?.name().to_owned()));
    let first = first.ok_or_else(|| io::Error::other("it has no file in it"))?;
    let mut reader = cabinet.read_file(&first)?.take(EXPANDED_BYTES_MAX);
    let mut file = NamedTempFile::new()?;
    io::copy(&mut reader, &mut file)?;
    Ok(file.into_temp_path())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;

    fn cabinet(bytes: &[u8]) -> Vec<u8> {
        let mut builder = cab::CabinetBuilder::new();
        builder.add_folder(cab::CompressionType::MsZip).add_file("a.pdb");
        let mut writer = builder.build(io::Cursor::new(Vec::new())).expect("a cabinet");
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
        let readable = StoreFile::of(&at("a.pd_"), &path).expect("it expands");
        assert_eq!(fs::read(&readable.path).expect("a file"), bytes);
        let expanded = readable.path.clone();
        drop(readable);
        assert!(!expanded.exists(), "it is cleared away");
        fs::write(at("b.pd_"), "no cabinet").expect("written");
        assert!(StoreFile::of(&at("b.pd_"), &path).is_err());

        fs::write(at("real.pdb"), "real").expect("written");
        let real = at("real.pdb");
        let pointer = |text: String| {
            fs::write(at(POINTER), text).expect("written");
            StoreFile::of(&at(POINTER), &path).map(|readable| readable.path)
        };
        assert_eq!(pointer(format!("PATH:{}\r\n", real.display())), Ok(real));
        for text in [r"PATH:\\host\share\a.pdb", "PATH:/etc/passwd", "MSG: gone"] {
            assert!(pointer(text.to_owned()).is_err(), "{text}");
        }
    }
}
