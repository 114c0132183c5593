//! What must be undone if the owner of a session dies: intervals belong to the machine, and a session
//! goes on without its owner.

use super::layout::ProfileInterval;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The note's name in the folder of sessions. Only accounts that may start a session can open that
/// folder, so an elevated process reads only what an administrator's halprof wrote.
const NAME: &str = "session.json";

/// Written before a session starts, and removed after everything is as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Note {
    /// The process that owns the session.
    pub(super) process: u32,
    /// When Windows had started, in seconds since 1601.
    pub(super) boot_time: u64,
    /// The session's file; empty if its events are delivered.
    pub(super) file: PathBuf,
    /// The intervals before the session.
    pub(super) intervals: Vec<ProfileInterval>,
}

impl Note {
    /// The note of a session that has not ended; `None` if there is none.
    pub(super) fn read(folder: &Path) -> Option<Self> {
        let text = fs::read_to_string(folder.join(NAME)).ok()?;
        serde_json::from_str(&text).ok()
    }

    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        let text = serde_json::to_string(self)?;
        fs::write(folder.join(NAME), text)
    }

    pub(super) fn remove(folder: &Path) {
        // Ignored: if the note stays, the next session restores the same intervals once more.
        let _ = fs::remove_file(folder.join(NAME));
    }
}
