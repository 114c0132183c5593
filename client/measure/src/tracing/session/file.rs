//! The file of a session.

use crate::error::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The file that a session wrote. It is deleted when this is dropped.
#[derive(Debug)]
pub struct TraceFile(PathBuf);

impl TraceFile {
    /// Takes over the file at this path, which may not exist yet.
    pub const fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Makes a copy at `destination`. A copy gets the access rights of its new folder; moving the
    /// file would keep those of the session's folder, which are mostly administrators' alone.
    pub fn copy_to(&self, destination: &Path) -> Result<()> {
        fs::copy(&self.0, destination).map_err(|error| Error::writing(destination, error))?;
        Ok(())
    }
}

impl Drop for TraceFile {
    fn drop(&mut self) {
        // Ignored: the file may never have been written, and the next session removes one that
        // stays.
        let _ = fs::remove_file(&self.0);
    }
}
