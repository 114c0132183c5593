//! The file of a session.

use crate::error::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The file that a session wrote. It is deleted when this is dropped.
#[derive(Debug)]
pub struct TraceFile(PathBuf);

impl TraceFile {
    /// The file at this path, from now on.
    pub const fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Keeps a copy. It belongs to whom the destination's folder says: the file itself is for whom its
    /// own folder says, mostly administrators, and moving it would keep that.
    pub fn copy_to(&self, destination: &Path) -> Result<()> {
        fs::copy(&self.0, destination).map_err(|error| Error::writing(destination, error))?;
        Ok(())
    }
}

impl Drop for TraceFile {
    fn drop(&mut self) {
        // A file that stays is found by the next session, or was never written.
        let _ = fs::remove_file(&self.0);
    }
}
