//! Recordings that tests write.

use super::{Metadata, Module, Process, Sample, Source, StackId, StackTable, Statistics, Writer};
use shared_types::Branch;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// What a recording of a test has; the rest is empty.
#[derive(Default)]
pub(crate) struct TestRecording {
    pub(crate) metadata: Metadata,
    pub(crate) processes: Vec<Process>,
    pub(crate) modules: Vec<Module>,
    pub(crate) samples: Vec<Sample>,
    /// The branch records of all samples.
    pub(crate) branches: Vec<Branch>,
    /// The frames of `sample_stacks`.
    pub(crate) stacks: StackTable,
    /// The stack of each sample; none if none of them has one.
    pub(crate) sample_stacks: Vec<StackId>,
    pub(crate) statistics: Statistics,
}

impl TestRecording {
    /// A recording of sources with these names.
    pub(crate) fn of_sources(names: &[&str]) -> Self {
        let source = |name: &&str| Source { name: (*name).to_owned(), ..Source::default() };
        let sources = names.iter().map(source).collect();
        Self { metadata: Metadata { sources, ..Metadata::default() }, ..Self::default() }
    }

    /// Writes it into a new folder.
    pub(crate) fn write(&self) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.rec");
        self.write_to(&path);
        (folder, path)
    }

    /// Writes it to a file. Samples come before their processes, and before their modules, as in the
    /// file of a recorder.
    pub(crate) fn write_to(&self, path: &Path) {
        let mut writer = Writer::create(path, &self.metadata).expect("created");
        let samples = if self.sample_stacks.is_empty() {
            writer.branched(&self.samples, &self.branches)
        } else {
            writer.frames(&self.stacks).expect("written");
            writer.stacked(&self.samples, &self.sample_stacks, &self.branches)
        };
        samples.expect("written");
        writer.processes(&self.processes).expect("written");
        writer.modules(&self.modules).expect("written");
        writer.finish(&self.statistics, false).expect("finished");
    }
}

impl Process {
    /// A process that runs all the time.
    pub(crate) fn named(id: u32, name: &str) -> Self {
        Self { id, name: name.to_owned(), ..Self::default() }
    }
}

impl Module {
    /// A module that is there all the time.
    pub(crate) fn named(process: Option<u32>, name: &str, start: u64, length: u64) -> Self {
        Self { process, name: name.to_owned(), start, end: start + length, ..Self::default() }
    }
}
