//! The files of a store as they can be read: what a pointer names, and what is compressed.

use super::bytes;
use super::search::SymbolPath;
use super::store::POINTER;
use crate::budget;
use cab::Cabinet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use tempfile::{NamedTempFile, TempPath};

/// The longest pointer that is read.
const POINTER_BYTES_MAX: u64 = 4096;
/// The longest expanded file: no PDB is larger than 4 GiB.
const EXPANDED_BYTES_MAX: u64 = 1 << 32;
/// What a block of a cabinet expands to at most (MS-CAB, CFDATA.cbUncomp).
const BLOCK_BYTES_MAX: u64 = 1 << 15;

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
        Self::named(stored, &stored.file_name().unwrap_or_default().to_string_lossy(), path)
    }

    /// A file that has this name in a store.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub(super) fn named(stored: &Path, name: &str, path: &SymbolPath) -> Result<Self, String> {
        let plain = |path: PathBuf| Self { path, expanded: None };
        if name.eq_ignore_ascii_case(POINTER) {
            return pointed_to(stored, path).map(plain);
        }
        if !name.ends_with('_') {
            return Ok(plain(stored.to_owned()));
        }
        let file = bytes::open(stored)?;
        let expanded = expanded(file).map_err(|error| format!("it cannot be expanded: {error}"))?;
        Ok(Self { path: expanded.to_path_buf(), expanded: Some(expanded) })
    }
}

/// A pointer comes from the store's owner, but still opens nothing outside the folders that the
/// user named.
fn pointed_to(stored: &Path, path: &SymbolPath) -> Result<PathBuf, String> {
    let mut text = String::new();
    bytes::open(stored)?
        .take(POINTER_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(|error| error.to_string())?;
    let named = text.trim().strip_prefix("PATH:").map(str::trim).ok_or("it points to no file")?;
    path.below(named).ok_or_else(|| {
        format!("it points to {named}, which lies below no folder of the symbol path")
    })
}

/// The file in a cabinet of a store, which has no other: it begins where its folder begins. The budget
/// is checked before anything is expanded, and again as it is.
fn expanded(mut file: File) -> io::Result<TempPath> {
    let most = budget::expanded(file.metadata()?.len()).min(EXPANDED_BYTES_MAX);
    let too_long = || {
        let why = format!("it would have more than {} MiB", most >> 20);
        io::Error::other(why)
    };
    let First { folder, offset } = First::read(&mut file)?;
    if offset != 0 {
        return Err(io::Error::other("its first file does not begin where its data do"));
    }
    let mut cabinet = Cabinet::new(file)?;
    let folder = cabinet.folder_entries().nth(folder.into());
    let folder = folder.ok_or_else(|| io::Error::other("its first file is in no folder"))?;
    // The last block may expand to less than the others.
    if u64::from(folder.num_data_blocks()) * BLOCK_BYTES_MAX >= most + BLOCK_BYTES_MAX {
        return Err(too_long());
    }
    let first = folder.file_entries().next().map(|file| file.name().to_owned());
    let first = first.ok_or_else(|| io::Error::other("it has no file in it"))?;
    // Reading one byte beyond the limit shows whether the file is longer.
    let mut reader = cabinet.read_file(&first)?.take(most + 1);
    let mut file = NamedTempFile::new()?;
    if io::copy(&mut reader, &mut file)? > most {
        return Err(too_long());
    }
    Ok(file.into_temp_path())
}

/// Where the first file of a cabinet is, which the crate that reads it does not say: it trusts that the
/// offset lies within the folder.
struct First {
    folder: u16,
    offset: u32,
}

impl First {
    /// From MS-CAB's CFHEADER.coffFiles, then CFFILE.uoffFolderStart and iFolder.
    fn read(file: &mut File) -> io::Result<Self> {
        let (mut at, mut offset, mut folder) = ([0; 4], [0; 4], [0; 2]);
        file.seek(SeekFrom::Start(16))?;
        file.read_exact(&mut at)?;
        file.seek(SeekFrom::Start(u64::from(u32::from_le_bytes(at)) + 4))?;
        file.read_exact(&mut offset)?;
        file.read_exact(&mut folder)?;
        file.rewind()?;
        Ok(Self { folder: u16::from_le_bytes(folder), offset: u32::from_le_bytes(offset) })
    }
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

    /// A cabinet whose file has so many blocks of zeros: each is the one that the writer makes.
    fn zeros(blocks: u16) -> Vec<u8> {
        const FOLDER: usize = 36;
        let one = cabinet(&vec![0; BLOCK_BYTES_MAX as usize]);
        let start = one[FOLDER..FOLDER + 4].try_into().expect("four bytes");
        let (head, block) = one.split_at(u32::from_le_bytes(start) as usize);
        let mut bytes = head.to_vec();
        bytes.extend(block.repeat(blocks.into()));
        bytes[FOLDER + 4..FOLDER + 6].copy_from_slice(&blocks.to_le_bytes());
        edited(bytes, SIZE, u32::from(blocks) << 15)
    }

    /// Offsets within CFFILE.
    const SIZE: usize = 0;
    const OFFSET: usize = 4;
    const IN_FOLDER: usize = 8;

    /// The cabinet with another value in a field of its first CFFILE.
    fn edited(mut bytes: Vec<u8>, field: usize, value: u32) -> Vec<u8> {
        let files = bytes[16..20].try_into().expect("four bytes");
        let at = u32::from_le_bytes(files) as usize + field;
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        bytes
    }

    /// Nothing is written for a cabinet that could not become a file of this length, and little for one
    /// that lies about it.
    #[test]
    fn a_compressed_file_has_the_size_that_its_own_is_worth() {
        let folder = tempfile::tempdir().expect("a folder");
        let stored = folder.path().join("a.pd_");
        let path = SymbolPath::default();
        for (what, bytes, word) in [
            ("8 MiB of zeros", zeros(256), None),
            ("80 MiB of zeros", zeros(2560), Some("more than 64 MiB")),
            ("2 GiB of zeros", zeros(u16::MAX), Some("more than")),
            ("a small size said", edited(zeros(2560), SIZE, 1), Some("more than 64 MiB")),
            ("data before the file", edited(zeros(256), OFFSET, 8 << 20), Some("begin")),
            ("a file after the data", edited(zeros(1), OFFSET, 1 << 20), Some("begin")),
            ("an offset beyond all", edited(zeros(1), OFFSET, u32::MAX), Some("begin")),
            ("a folder that is none", edited(zeros(1), IN_FOLDER, 7), Some("older")),
            ("a size beyond the data", edited(zeros(1), SIZE, u32::MAX), None),
            ("no data", zeros(0), None),
            ("cut", zeros(1)[..60].to_vec(), Some("")),
            ("cut in its head", zeros(1)[..18].to_vec(), Some("")),
        ] {
            fs::write(&stored, bytes).expect("written");
            let expanded = StoreFile::of(&stored, &path);
            match (&expanded, word) {
                (Ok(readable), None) => {
                    let length = fs::metadata(&readable.path).expect("a file").len();
                    assert!(length <= 64 << 20, "{what}: {length}");
                }
                (Err(why), Some(word)) => assert!(why.contains(word), "{what}: {why}"),
                (expanded, _) => panic!("{what}: {expanded:?}"),
            }
        }
    }
}
