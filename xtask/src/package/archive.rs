//! The zip to copy to the Windows machine, and the list of its files.

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::io::{Cursor, Write as _};
use std::path::Path;
use xshell::Shell;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// One file: its path in the zip, and its contents.
pub(super) struct File {
    pub(super) name: String,
    pub(super) contents: Vec<u8>,
}

impl File {
    /// The file at a path, to be put into the zip under this name.
    pub(super) fn read(shell: &Shell, path: impl AsRef<Path>, name: &str) -> Result<Self> {
        Ok(Self { name: name.to_owned(), contents: shell.read_binary_file(path)? })
    }

    /// The hash as `sha256sum` prints it.
    pub(super) fn sha256(&self) -> String {
        format!("{:x}", Sha256::digest(&self.contents))
    }
}

/// The list that `sha256sum --check` reads.
pub(super) fn list(files: &[File]) -> String {
    files.iter().fold(String::new(), |mut text, file| {
        let _ = writeln!(text, "{}  {}", file.sha256(), file.name);
        text
    })
}

/// A zip of `files`, in their order and without dates, so that the same files give the same zip.
pub(super) fn zip(files: &[File]) -> Result<Vec<u8>> {
    let options = SimpleFileOptions::DEFAULT
        .compression_method(CompressionMethod::Deflated)
        .unix_permissions(0o644);
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for file in files {
        ensure!(!file.contents.is_empty(), "{} is empty", file.name);
        zip.start_file(file.name.as_str(), options).with_context(|| file.name.clone())?;
        zip.write_all(&file.contents)?;
    }
    Ok(zip.finish()?.into_inner())
}
