//! Where a recording goes.

use crate::output::Output;
use crate::output::error::{Error, Result};
use halprof_measure::Error as Cause;
use halprof_profile::file::backup_path;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Where a recording goes. Even for standard output a file is written first and then sent, because
/// the beginning of a recording is known last.
pub(crate) struct OutputFile {
    path: PathBuf,
    /// Holds the file until it is sent to standard output.
    folder: Option<TempDir>,
    /// Where the file that is there now will be kept.
    backup_path: Option<PathBuf>,
}

impl OutputFile {
    pub(crate) fn of(path: &Path, output: &Output) -> Result<Self> {
        if path.as_os_str() != "-" {
            return Ok(Self {
                path: path.to_owned(),
                folder: None,
                backup_path: backup_path(path),
            });
        }
        output.check_takes_file()?;
        let folder = tempfile::tempdir().map_err(|error| Cause::writing("-", error))?;
        let path = folder.path().join("halprof.rec");
        Ok(Self { path, folder: Some(folder), backup_path: None })
    }

    /// Whether standard output is reserved for the recording or the result, which a program's own
    /// output would spoil.
    pub(crate) fn owns_output(path: &Path, output: &Output) -> bool {
        !output.is_text() || path.as_os_str() == "-"
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Says what the existing file is called now.
    pub(crate) fn note_kept(&self, output: &Output) {
        if let Some(backup_path) = &self.backup_path {
            output.note(&renamed(&self.path, backup_path));
        }
    }

    /// Sends the file to standard output, if that is where it goes.
    pub(crate) fn send(self) -> Result<bool> {
        if self.folder.is_none() {
            return Ok(false);
        }
        let mut file = File::open(&self.path).map_err(Error::Output)?;
        match io::copy(&mut file, &mut io::stdout().lock()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(true),
            sent => sent.map(|_| true).map_err(Error::Output),
        }
    }
}

/// What became of a file whose name another has now.
pub(crate) fn renamed(path: &Path, old: &Path) -> String {
    format!("existing {} renamed to {}", path.display(), old.display())
}

/// The size of a file in bytes.
pub(crate) fn size(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}
