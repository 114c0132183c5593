//! Writes a recording.

use super::counts::{COUNTS, THREADS, thread_sums};
use super::marks::{CHANNELS, MARKS};
use super::methods::METHODS;
use super::origin::seal;
use super::stacks::{FRAMES, STACKS};
use super::{
    BRANCHES, Channels, END, EVENTS, Ending, HEAD_BYTES, MAGIC, META, MODULES, Mark, Metadata,
    Method, Module, NamedThread, PAYLOAD_MAX, PROCESSES, Process, RAW_BRANCHES, RecordedBranches,
    RecordedEvent, SAMPLES, STATISTICS, Sample, StackId, StackTable, Statistics, THREAD_NAMES,
    VERSION,
};
use halprof_measure::tracing::analysis::counts::TraceCounts;
use halprof_measure::{Error, Result};
use serde::Serialize;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::mem::size_of;
use std::path::{Path, PathBuf};
use zerocopy::IntoBytes;

/// Samples in a block: 640 KiB, so that damage to one block loses little.
const BLOCK_SAMPLES: usize = 1 << 14;
/// Marks in a block, which then takes no more bytes than a block of samples.
const BLOCK_MARKS: usize = 1 << 14;
/// Frames in a block: 1 MiB.
const BLOCK_FRAMES: usize = 1 << 16;
/// Rows in a block: few enough that a block is not too long even with Windows' longest paths.
const BLOCK_ROWS: usize = 64;
/// How many unfinished recordings of one name may exist.
const PARTIALS_MAX: u32 = 100;

/// A recording being written. Unless it is [finished](Self::finish), what was written stays in
/// [`Self::partial`], if it contains any sample or mark.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    /// Where it is written until it is finished; `None` if `path` is not a regular file, but a pipe
    /// or a device.
    partial: Option<PathBuf>,
    file: File,
    /// The block being assembled.
    block: Vec<u8>,
    samples: u64,
    marks: u64,
    /// What only this user, or the administrators of this machine, know.
    key: Option<Vec<u8>>,
    origin: String,
}

impl Writer {
    /// Starts a recording that will be `path` once it is [finished](Self::finish).
    pub fn create(path: &Path, metadata: &Metadata) -> Result<Self> {
        let (file, partial, path) = open(path).map_err(|error| written(path, error))?;
        let mut writer = Self {
            path,
            partial,
            file,
            block: Vec::new(),
            samples: 0,
            marks: 0,
            key: None,
            origin: metadata.origin.clone(),
        };
        // The head is written in one piece with the first block: a recorder that is killed then
        // leaves a file that can be read.
        let head = [MAGIC.as_slice(), &VERSION.to_le_bytes()].concat();
        let put = writer.assemble(META, |block| json(block, metadata));
        let put = put.and_then(|()| {
            writer.block.splice(..0, head);
            writer.file.write_all(&writer.block)
        });
        put.map_err(|error| writer.failed(&error))?;
        Ok(writer)
    }

    /// Seals each module: whoever has the key can tell that nobody changed it.
    #[must_use]
    pub fn sealing(mut self, key: Option<Vec<u8>>) -> Self {
        self.key = key;
        self
    }

    /// Appends samples that have no branch records.
    pub fn samples(&mut self, samples: &[Sample]) -> Result<()> {
        self.branched(samples, RecordedBranches::default())
    }

    /// Appends samples with their branch records: as many for each sample as it says it has, newest
    /// first.
    pub fn branched<'a>(
        &mut self,
        samples: &[Sample],
        branches: impl Into<RecordedBranches<'a>>,
    ) -> Result<()> {
        self.in_blocks(samples, &[], branches.into())
    }

    /// Appends samples in blocks, with their stacks and branch records if they have any.
    fn in_blocks(
        &mut self,
        samples: &[Sample],
        mut stacks: &[StackId],
        mut branches: RecordedBranches<'_>,
    ) -> Result<()> {
        for chunk in samples.chunks(BLOCK_SAMPLES) {
            let own = chunk.iter().map(|sample| usize::from(sample.branches)).sum();
            let own = branches.split_off(own).ok_or_else(|| {
                Error::Internal("samples have fewer branches than they say".to_owned())
            })?;
            // A reader takes raw values and stacks for the samples that follow, and branches for
            // those before.
            if own.raw.iter().any(|&value| value != 0) {
                self.block(RAW_BRANCHES, |block| {
                    super::branches::encode_raw(own.raw, block);
                    Ok(())
                })?;
            }
            if !stacks.is_empty() {
                let (of_chunk, rest) = stacks.split_at(chunk.len().min(stacks.len()));
                self.block_of_bytes(STACKS, of_chunk.as_bytes())?;
                stacks = rest;
            }
            self.block_of_bytes(SAMPLES, chunk.as_bytes())?;
            self.samples += chunk.len() as u64;
            if !own.branches.is_empty() {
                self.block(BRANCHES, |block| {
                    super::branches::encode(own.branches, block);
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    /// Appends the frames of all stacks that samples after it have.
    pub fn frames(&mut self, stacks: &StackTable) -> Result<()> {
        let mut blocks = stacks.frames().chunks(BLOCK_FRAMES);
        blocks.try_for_each(|block| self.block_of_bytes(FRAMES, block.as_bytes()))
    }

    /// Appends samples, each with its stack, and their branch records.
    pub fn stacked<'a>(
        &mut self,
        samples: &[Sample],
        stacks: &[StackId],
        branches: impl Into<RecordedBranches<'a>>,
    ) -> Result<()> {
        self.in_blocks(samples, stacks, branches.into())
    }

    pub fn marks(&mut self, marks: &[Mark]) -> Result<()> {
        for chunk in marks.chunks(BLOCK_MARKS) {
            self.block_of_bytes(MARKS, chunk.as_bytes())?;
            self.marks += chunk.len() as u64;
        }
        Ok(())
    }

    /// Records the channels and the clock of the marks so far.
    pub fn channels(&mut self, channels: &Channels) -> Result<()> {
        self.block_of_json(CHANNELS, channels)
    }

    /// Records processes: new ones, or updates of known ones.
    pub fn processes(&mut self, processes: &[Process]) -> Result<()> {
        self.rows(PROCESSES, processes)
    }

    /// Records threads that have names.
    pub fn threads(&mut self, threads: &[NamedThread]) -> Result<()> {
        self.rows(THREAD_NAMES, threads)
    }

    /// Records modules: new ones, or updates of known ones.
    pub fn modules(&mut self, modules: &[Module]) -> Result<()> {
        let Some(key) = &self.key else {
            return self.rows(MODULES, modules);
        };
        let sealed = modules
            .iter()
            .map(|module| Module { seal: Some(seal(key, &self.origin, module)), ..module.clone() });
        self.rows(MODULES, &sealed.collect::<Vec<_>>())
    }

    /// Records code that runtimes made.
    pub fn methods(&mut self, methods: &[Method]) -> Result<()> {
        self.rows(METHODS, methods)
    }

    pub fn events(&mut self, events: &[RecordedEvent]) -> Result<()> {
        self.rows(EVENTS, events)
    }

    /// Records the counts of a trace's threads.
    pub(super) fn counts(&mut self, counts: &TraceCounts) -> Result<()> {
        self.block_of_json(COUNTS, counts)?;
        self.rows(THREADS, &thread_sums(counts))
    }

    /// Records the statistics of the samples so far.
    pub fn statistics(&mut self, statistics: &Statistics) -> Result<()> {
        self.block_of_json(STATISTICS, statistics)
    }

    /// How many samples it contains.
    pub const fn len(&self) -> u64 {
        self.samples
    }

    /// Whether it contains neither a sample nor a mark.
    pub const fn is_empty(&self) -> bool {
        self.samples == 0 && self.marks == 0
    }

    /// The file that holds it until it is finished.
    pub fn partial(&self) -> Option<&Path> {
        self.partial.as_deref()
    }

    /// Writes the end and gives the file its final name. A file of this name is kept: see [`backup_path`].
    pub fn finish(mut self, statistics: &Statistics, interrupted: bool) -> Result<()> {
        self.statistics(statistics)?;
        let ending = Ending { samples: self.samples, marks: self.marks, interrupted };
        self.block_of_json(END, &ending)?;
        let Some(partial) = &self.partial else {
            return Ok(());
        };
        let keep = || match backup_path(&self.path) {
            Some(backup_path) => fs::rename(&self.path, backup_path),
            None => Ok(()),
        };
        // Its contents are on the disk before its name is, so that a crash leaves no empty file of
        // that name.
        let named = self
            .file
            .sync_all()
            .and_then(|()| keep())
            .and_then(|()| fs::rename(partial, &self.path));
        named.map_err(|error| self.failed(&error))?;
        self.partial = None;
        Ok(())
    }

    fn rows(&mut self, tag: [u8; 4], rows: &[impl Serialize]) -> Result<()> {
        rows.chunks(BLOCK_ROWS).try_for_each(|block| self.block_of_json(tag, &block))
    }

    fn block_of_json(&mut self, tag: [u8; 4], value: &impl Serialize) -> Result<()> {
        self.block(tag, |block| json(block, value))
    }

    fn block_of_bytes(&mut self, tag: [u8; 4], bytes: &[u8]) -> Result<()> {
        self.block(tag, |block| {
            block.extend_from_slice(bytes);
            Ok(())
        })
    }

    /// Assembles a block and hands it to the system whole.
    fn block(
        &mut self,
        tag: [u8; 4],
        payload: impl FnOnce(&mut Vec<u8>) -> io::Result<()>,
    ) -> Result<()> {
        let put = self.assemble(tag, payload).and_then(|()| self.file.write_all(&self.block));
        put.map_err(|error| self.failed(&error))
    }

    fn assemble(
        &mut self,
        tag: [u8; 4],
        payload: impl FnOnce(&mut Vec<u8>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.block.clear();
        self.block.extend([0; HEAD_BYTES]);
        payload(&mut self.block)?;
        let head = head(tag, self.block.get(HEAD_BYTES..).unwrap_or_default())?;
        self.block.splice(..HEAD_BYTES, head);
        Ok(())
    }

    /// An error that says where to find what has been written.
    fn failed(&self, error: &io::Error) -> Error {
        let error = match &self.partial {
            Some(partial) if !self.is_empty() => io::Error::new(
                error.kind(),
                format!(
                    "{error}; {} samples and {} marks are in {}",
                    self.samples,
                    self.marks,
                    partial.display()
                ),
            ),
            _ => io::Error::new(error.kind(), error.to_string()),
        };
        written(&self.path, error)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let (Some(partial), true) = (&self.partial, self.is_empty()) {
            let _ = fs::remove_file(partial);
        }
    }
}

fn json(block: &mut Vec<u8>, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(block, value).map_err(io::Error::from)
}

/// The head of a block with this payload.
pub(super) fn head(tag: [u8; 4], payload: &[u8]) -> io::Result<[u8; HEAD_BYTES]> {
    let length = u32::try_from(payload.len())
        .ok()
        .filter(|&length| length <= PAYLOAD_MAX)
        .ok_or(io::ErrorKind::FileTooLarge)?;
    let mut head = [0; HEAD_BYTES];
    let fields = [u32::from_le_bytes(tag), length, crc32fast::hash(payload), 0];
    for (bytes, field) in head.chunks_exact_mut(size_of::<u32>()).zip(fields) {
        bytes.copy_from_slice(&field.to_le_bytes());
    }
    let (fields, sum) = head.split_at_mut(HEAD_BYTES - size_of::<u32>());
    sum.copy_from_slice(&crc32fast::hash(fields).to_le_bytes());
    Ok(head)
}

/// Opens `FILE.partial`, or the path itself if that is a pipe or a device. Returns the name that is
/// written to, and the one it will get.
fn open(path: &Path) -> io::Result<(File, Option<PathBuf>, PathBuf)> {
    let Some(path) = file_at(path)? else {
        let device = OpenOptions::new().write(true).open(path)?;
        return Ok((device, None, path.to_owned()));
    };
    let mut number = 1;
    loop {
        let partial = partial(&path, number);
        match File::create_new(&partial) {
            Ok(file) => return Ok((file, Some(partial), path)),
            // Another recorder is writing this file, or one that died left it. Its contents are not
            // ours to overwrite.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < PARTIALS_MAX => {
                number += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

/// The file that a path names, existing or not, with all links followed; `None` for a pipe or a
/// device.
fn file_at(path: &Path) -> io::Result<Option<PathBuf>> {
    match fs::metadata(path) {
        Ok(there) if there.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(there) if !there.is_file() => return Ok(None),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut path = path.to_owned();
    // This ends, because a circle of links was an error above.
    while let Ok(target) = fs::read_link(&path) {
        path = folder(&path).join(target);
    }
    Ok(Some(path))
}

/// Where what is at a path now will be when a recording has taken its name: `FILE.old`, in place of an
/// earlier one. `None` if nothing is there, or a pipe or a device.
pub fn backup_path(path: &Path) -> Option<PathBuf> {
    let path = file_at(path).ok()??;
    let mut old = OsString::from(&path);
    old.push(".old");
    path.is_file().then(|| old.into())
}

/// `FILE.partial`, `FILE.2.partial` and so on.
fn partial(path: &Path, number: u32) -> PathBuf {
    let mut name = OsString::from(path);
    if number > 1 {
        name.push(format!(".{number}"));
    }
    name.push(".partial");
    name.into()
}

/// Writes a whole file atomically, as [`replace`] does.
pub fn write_whole(path: &Path, content: &[u8]) -> Result<()> {
    replace(path, |file| file.write_all(content)).map_err(|error| written(path, error))
}

/// Writes a file atomically: its name refers to the old file or the new one, never to a part. If it
/// is a link, the file it points to is replaced. A device or a pipe is written to.
pub fn replace<T>(path: &Path, put: impl FnOnce(&mut File) -> io::Result<T>) -> io::Result<T> {
    replaced(path, None, put)
}

/// Writes a file as [`replace`] does, and keeps what has its name now as `FILE.old`. Returns that path if
/// there was a file.
pub fn replace_keeping_old(
    path: &Path,
    put: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<Option<PathBuf>> {
    let old = backup_path(path);
    replaced(path, old.as_deref(), put)?;
    Ok(old)
}

fn replaced<T>(
    path: &Path,
    old: Option<&Path>,
    put: impl FnOnce(&mut File) -> io::Result<T>,
) -> io::Result<T> {
    let Some(path) = file_at(path)? else {
        return put(&mut OpenOptions::new().write(true).open(path)?);
    };
    let folder = folder(&path);
    // A missing folder is an error of its own, not one of a temporary file.
    fs::metadata(folder)?;
    let mut file = unnamed_in(folder)?;
    let done = put(file.as_file_mut())?;
    if let Some(old) = old {
        fs::rename(&path, old)?;
    }
    file.persist(&path).map_err(|error| error.error)?;
    Ok(done)
}

/// A temporary file with the usual permissions, so that others may read it as any other file of the
/// user; on Windows its folder gives them. An error is the system's, without the name of the file, which
/// means nothing to the user.
fn unnamed_in(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut of_system = None;
    let create = |path: &Path| {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(path);
        file.inspect_err(|error| of_system = error.raw_os_error())
    };
    let file = tempfile::Builder::new().make_in(folder, create);
    file.map_err(|error| of_system.map_or(error, io::Error::from_raw_os_error))
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn written(path: &Path, error: io::Error) -> Error {
    Error::File { path: path.to_owned(), doing: "written", error }
}
