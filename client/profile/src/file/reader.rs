//! Reads a recording. Memory grows with what is actually there, not with claimed lengths, and not
//! with the number of samples.

use super::branches::{Records, decode_raw};
use super::counts::{COUNTS, THREADS, ThreadSums};
use super::format::Format;
use super::known_rows::KnownRows;
use super::marks::{CHANNELS, MARKS};
use super::methods::METHODS;
use super::source::{BranchVisitor, SampleSource, SampleVisitor};
use super::stacks::{FRAMES, STACKS};
use super::{
    BRANCHES, Damage, END, EVENTS, HEAD_BYTES, MAGIC, META, MODULES, Mark, Metadata, Method,
    Module, NamedThread, PAYLOAD_MAX, PROCESSES, Process, ProcessIds, RAW_BRANCHES,
    RecordedBranches, RecordedEvent, Recording, SAMPLES, STATISTICS, Sample, StackFrame, StackId,
    Statistics, THREAD_NAMES, VERSION,
};
use crc32fast::Hasher;
use halprof_measure::{Error, Hint, Remedy, Result};
use serde::de::{DeserializeSeed, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::marker::PhantomData;
use std::mem::size_of;
use std::path::{Path, PathBuf};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// How many samples are read at a time: more memory is allocated only after that many were read.
const PIECE_SAMPLES: usize = 1 << 13;

/// Whether a file is a recording, of whatever version.
pub fn is_recording(path: &Path) -> Result<bool> {
    let mut magic = Vec::new();
    let file = File::open(path).map_err(|error| Error::reading(path, error))?;
    let read = file.take(MAGIC.len() as u64).read_to_end(&mut magic);
    read.map_err(|error| Error::reading(path, error))?;
    Ok(magic == MAGIC)
}

/// The fewest bytes of a row in a file: every version of halprof writes the names of all fields.
const ROW_BYTES: usize = 32;

/// A list of at most this many rows.
struct Rows<T>(usize, PhantomData<T>);

impl<'a, T: Deserialize<'a>> DeserializeSeed<'a> for Rows<T> {
    type Value = Vec<T>;

    fn deserialize<D: Deserializer<'a>>(
        self,
        deserializer: D,
    ) -> std::result::Result<Vec<T>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'a, T: Deserialize<'a>> Visitor<'a> for Rows<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {} rows", self.0)
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut rows: A) -> std::result::Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(row) = rows.next_element()? {
            if all.len() == self.0 {
                return Err(A::Error::invalid_length(all.len() + 1, &self));
            }
            all.push(row);
        }
        Ok(all)
    }
}

/// A recording whose head has been read.
#[derive(Debug)]
pub struct Reader<R = File> {
    path: PathBuf,
    file: R,
    /// The offset in the file of the next block.
    offset: u64,
    recording: Recording,
    /// The samples of the block being read.
    buffer: Vec<Sample>,
    /// How many samples in `buffer` have just been read and wait for the branch records that
    /// follow.
    awaiting_branches: usize,
    /// The undocumented values of the branch records of these samples, and of those in the next block.
    raw: Vec<u64>,
    next_raw: Vec<u64>,
    /// The stacks of the samples in the next block.
    stacks: Vec<StackId>,
    /// Whether frames are missing, so that the numbers of stacks mean others.
    lacks_frames: bool,
    /// Whether marks are kept, and not only counted.
    keeps_marks: bool,
    known_rows: KnownRows,
}

#[derive(Clone, Copy)]
struct Head {
    tag: [u8; 4],
    length: u32,
    sum: u32,
}

/// Why a block cannot be read.
enum Bad {
    Io(io::Error),
    /// The block is skipped; what follows can be read.
    Block(&'static str),
    /// Nothing more can be read.
    Rest(&'static str),
}

const CUT: Bad = Bad::Rest("it is cut within a block");

impl Reader<File> {
    /// Opens a recording: reads its head, and which processes shared an identifier.
    pub fn open(path: &Path) -> Result<Self> {
        let mut file = File::open(path).map_err(|error| Error::reading(path, error))?;
        let mut process_ids = ProcessIds::default();
        // A pipe or device can be read only once, so its processes cannot be read ahead.
        if path.is_file() {
            // Both handles have one position, so it is put back before and after the first reading.
            let mut rewind = || {
                file.rewind()?;
                file.try_clone()
            };
            let copy = rewind().map_err(|error| Error::reading(path, error))?;
            process_ids = Self::new(path, copy)?.process_ids();
            file.rewind().map_err(|error| Error::reading(path, error))?;
        }
        let mut reader = Self::new(path, file)?;
        reader.recording.process_ids = process_ids;
        Ok(reader)
    }

    /// The times of identifiers, as its processes, modules and methods give them, as far as the
    /// file can be read.
    fn process_ids(mut self) -> ProcessIds {
        while let Ok(true) | Err(Bad::Block(_)) = self.look_ahead() {}
        ProcessIds::of(&self.recording)
    }

    /// Reads a block of processes, modules or methods, and skips any other block; returns whether
    /// there was a block.
    fn look_ahead(&mut self) -> std::result::Result<bool, Bad> {
        let Some(head) = self.head()? else {
            return Ok(false);
        };
        match head.tag {
            PROCESSES => self.process_block(head)?,
            MODULES => self.module_block(head)?,
            METHODS => self.method_block(head)?,
            _ => {
                let past = SeekFrom::Current(head.length.into());
                self.file.seek(past).map_err(Bad::Io)?;
            }
        }
        Ok(true)
    }
}

impl<R: Read> Reader<R> {
    /// Reads the head of the recording called `path` from any source of bytes.
    pub fn new(path: &Path, file: R) -> Result<Self> {
        let mut reader = Self {
            path: path.to_owned(),
            file,
            offset: 0,
            recording: Recording { file: path.to_owned(), ..Recording::default() },
            buffer: Vec::new(),
            awaiting_branches: 0,
            raw: Vec::new(),
            next_raw: Vec::new(),
            stacks: Vec::new(),
            lacks_frames: false,
            keeps_marks: false,
            known_rows: KnownRows::default(),
        };
        reader.version()?;
        match reader.metadata_block() {
            Ok(metadata) => reader.recording.metadata = metadata,
            Err(Bad::Io(error)) => return Err(Error::reading(path, error)),
            Err(Bad::Block(why) | Bad::Rest(why)) => {
                return Err(reader.refused(
                    format!("has no usable head: {why}; nothing of it can be read"),
                    "Record again, or get an undamaged copy of the file.",
                ));
            }
        }
        Ok(reader)
    }

    /// What was recorded, and where.
    pub const fn metadata(&self) -> &Metadata {
        &self.recording.metadata
    }

    /// Calls `visit` with the samples in the order of the file, and returns the rest of the
    /// contents.
    pub fn samples(self, mut visit: impl FnMut(&[Sample])) -> Result<Recording> {
        self.pass(&mut |samples, _| visit(samples), &mut |_, _| {})
    }

    /// Calls the visitors with the samples and their stacks, and with the samples that have branch
    /// records and these records. Returns the rest of the contents.
    pub(super) fn pass(
        mut self,
        samples: &mut SampleVisitor<'_>,
        branches: &mut BranchVisitor<'_>,
    ) -> Result<Recording> {
        loop {
            let begin = self.offset;
            match self.next(samples, branches) {
                Ok(true) => {}
                Ok(false) => break,
                Err(Bad::Io(error)) => return Err(Error::reading(&self.path, error)),
                Err(Bad::Block(why)) => self.damaged(begin, why),
                Err(Bad::Rest(why)) => {
                    self.damaged(begin, why);
                    break;
                }
            }
        }
        let ending = self.recording.ending.as_ref();
        let counts = ending.map(|ending| (ending.samples, ending.marks));
        let (samples, marks) = (self.recording.samples, self.recording.marked.count);
        if counts.is_some_and(|(written, _)| written != samples) {
            self.damaged(self.offset, "its end gives another number of samples");
        }
        if counts.is_some_and(|(_, written)| written != marks) {
            self.damaged(self.offset, "its end gives another number of marks");
        }
        Ok(self.recording)
    }

    fn damaged(&mut self, offset: u64, why: &'static str) {
        self.recording.damage.get_or_insert(Damage { offset, why });
    }

    fn version(&mut self) -> Result<()> {
        let mut head = [0; MAGIC.len() + size_of::<u32>()];
        let got = self.fill(&mut head).map_err(|error| Error::reading(&self.path, error))?;
        let (magic, version) = head.split_at(MAGIC.len());
        if got != head.len() || magic != MAGIC {
            let format = Format::of(head.get(..got).unwrap_or_default());
            return Err(match format.and_then(Format::unread) {
                Some((why, hint)) => self.refused(why.to_owned(), hint),
                None => self.refused("is not a halprof recording".to_owned(), Remedy::Record),
            });
        }
        match number(version) {
            VERSION => Ok(()),
            version => Err(self.refused(
                format!(
                    "is a recording of version {version}; this halprof reads version {VERSION}"
                ),
                "Read it with the halprof that wrote it.",
            )),
        }
    }

    fn refused(&self, why: String, hint: impl Into<Hint>) -> Error {
        Error::BadFile { path: self.path.clone(), why, hint: hint.into() }
    }

    fn metadata_block(&mut self) -> std::result::Result<Metadata, Bad> {
        match self.head()? {
            Some(head) if head.tag == META => self.json(head),
            Some(_) => Err(Bad::Rest("it does not begin with its description")),
            None => Err(CUT),
        }
    }

    /// Reads a block; returns whether there was one.
    fn next(
        &mut self,
        samples: &mut SampleVisitor<'_>,
        branches: &mut BranchVisitor<'_>,
    ) -> std::result::Result<bool, Bad> {
        let begin = self.offset;
        let awaiting_branches = std::mem::take(&mut self.awaiting_branches);
        let head = self.head()?;
        if awaiting_branches != 0 && head.is_none_or(|head| head.tag != BRANCHES) {
            self.damaged(begin, "the branches of samples are missing");
        }
        let Some(head) = head else {
            return Ok(false);
        };
        if self.recording.ending.is_some() {
            return Err(Bad::Rest("something follows its end"));
        }
        match head.tag {
            SAMPLES => self.sample_block(head, samples)?,
            BRANCHES => self.branch_block(head, awaiting_branches, branches)?,
            RAW_BRANCHES => {
                let payload = self.bytes(head)?;
                let raw = decode_raw(&payload);
                self.next_raw = raw.ok_or(Bad::Block("the values of branches make no sense"))?;
            }
            PROCESSES => self.process_block(head)?,
            MODULES => self.module_block(head)?,
            METHODS => self.method_block(head)?,
            STATISTICS => {
                let statistics: Statistics = self.json(head)?;
                self.recording.damaged_parts.clone_from(&statistics.damage);
                self.recording.statistics = Some(statistics);
            }
            EVENTS => {
                let events = self.rows::<RecordedEvent>(head)?;
                self.recording.events.extend(events);
            }
            COUNTS => self.recording.counts = Some(self.json(head)?),
            THREADS => self.thread_block(head)?,
            THREAD_NAMES => {
                let threads = self.rows::<NamedThread>(head)?;
                self.recording.threads.extend(threads);
            }
            END => self.recording.ending = Some(self.json(head)?),
            MARKS => self.mark_block(head)?,
            FRAMES => self.frame_block(head)?,
            STACKS => self.stack_block(head)?,
            CHANNELS => self.recording.marked.channels = Some(self.json(head)?),
            tag => {
                self.bytes(head)?;
                let tag = tag.escape_ascii().to_string();
                *self.recording.skipped.entry(tag).or_default() += 1;
            }
        }
        Ok(true)
    }

    /// Reads the head of a block; `None` if the file ends before it.
    fn head(&mut self) -> std::result::Result<Option<Head>, Bad> {
        let mut bytes = [0; HEAD_BYTES];
        match self.fill(&mut bytes).map_err(Bad::Io)? {
            0 => return Ok(None),
            HEAD_BYTES => {}
            _ => return Err(CUT),
        }
        let (fields, sum) = bytes.split_at(HEAD_BYTES - size_of::<u32>());
        if crc32fast::hash(fields) != number(sum) {
            return Err(Bad::Rest("the checksum of a block's head is wrong"));
        }
        let mut fields = fields.chunks_exact(size_of::<u32>()).map(number);
        let mut next = || fields.next().unwrap_or_default();
        let (tag, length, sum) = (next().to_le_bytes(), next(), next());
        if length > PAYLOAD_MAX {
            return Err(Bad::Rest("a block claims to be longer than the format allows"));
        }
        Ok(Some(Head { tag, length, sum }))
    }

    fn sample_block(
        &mut self,
        head: Head,
        visit: &mut SampleVisitor<'_>,
    ) -> std::result::Result<(), Bad> {
        let mut stacks = std::mem::take(&mut self.stacks);
        self.raw = std::mem::take(&mut self.next_raw);
        let length = head.length as usize;
        if !length.is_multiple_of(size_of::<Sample>()) {
            self.bytes(head)?;
            return Err(Bad::Block("a block does not hold whole samples"));
        }
        let count = length / size_of::<Sample>();
        let mut hasher = Hasher::new();
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut have = 0;
        while have < count {
            let want = (have + PIECE_SAMPLES).min(count);
            if buffer.len() < want {
                buffer.resize(want, Sample::new_zeroed());
            }
            let piece = buffer.get_mut(have..want).unwrap_or_default();
            let bytes = piece.as_mut_bytes();
            if self.fill(bytes).map_err(Bad::Io)? != bytes.len() {
                return Err(CUT);
            }
            hasher.update(bytes);
            have = want;
        }
        checked(head, hasher.finalize())?;
        let samples = buffer.get_mut(..count).unwrap_or_default();
        self.recording.process_ids.renumber(samples);
        if !stacks.is_empty() && stacks.len() != count {
            self.damaged(self.offset, "a block of samples has more or fewer stacks than samples");
        }
        stacks.resize(count, StackId::NONE);
        visit(samples, &stacks);
        stacks.clear();
        self.stacks = stacks;
        self.recording.samples += count as u64;
        if samples.iter().any(|sample| sample.branches != 0) {
            self.awaiting_branches = count;
        }
        self.buffer = buffer;
        Ok(())
    }

    /// The branches of the samples that have just been read.
    fn branch_block(
        &mut self,
        head: Head,
        awaiting_branches: usize,
        visit: &mut BranchVisitor<'_>,
    ) -> std::result::Result<(), Bad> {
        const BAD: Bad = Bad::Block("the branches of samples make no sense");
        let payload = self.bytes(head)?;
        let mut records = Records::new(&payload).filter(|_| awaiting_branches != 0).ok_or(BAD)?;
        let (mut branches, mut raw) = (Vec::new(), self.raw.as_slice());
        let samples = self.buffer.iter().take(awaiting_branches);
        // All records have such a value, or none.
        let all = samples.clone().map(|sample| usize::from(sample.branches)).sum();
        if ![0, all].contains(&raw.len()) {
            return Err(BAD);
        }
        for sample in samples.filter(|sample| sample.branches != 0) {
            records.of_sample(sample, &mut branches).ok_or(BAD)?;
            self.recording.branches += branches.len() as u64;
            let mut rest = RecordedBranches { branches: &branches, raw };
            visit(sample, rest.split_off(branches.len()).ok_or(BAD)?);
            raw = raw.get(branches.len()..).unwrap_or(&[]);
        }
        if records.is_empty() && raw.is_empty() { Ok(()) } else { Err(BAD) }
    }

    /// The frames of stacks, each after its caller.
    fn frame_block(&mut self, head: Head) -> std::result::Result<(), Bad> {
        const BAD: Bad = Bad::Block("the frames of stacks make no sense");
        // Set until the block is known to be whole: the numbers of later stacks count its frames.
        let lacked_frames = std::mem::replace(&mut self.lacks_frames, true);
        let payload = self.bytes(head)?;
        let table = &mut self.recording.stacks;
        let mut frames = values::<StackFrame>(&payload).ok_or(BAD)?;
        if !frames.all(|frame| table.push(frame).is_some()) {
            return Err(BAD);
        }
        self.lacks_frames = lacked_frames;
        Ok(())
    }

    /// The stacks of the samples in the next block.
    fn stack_block(&mut self, head: Head) -> std::result::Result<(), Bad> {
        let payload = self.bytes(head)?;
        let stacks =
            values::<StackId>(&payload).ok_or(Bad::Block("a block does not hold whole stacks"))?;
        self.stacks.clear();
        if !self.lacks_frames {
            self.stacks.extend(stacks.map(StackId::unmarked));
        }
        Ok(())
    }

    /// The threads of a trace; the block with everything else of the trace comes before.
    fn thread_block(&mut self, head: Head) -> std::result::Result<(), Bad> {
        let rows = self.rows::<ThreadSums>(head)?;
        let Some(counts) = &mut self.recording.counts else {
            return Err(Bad::Block("the trace of threads is missing"));
        };
        for row in rows {
            if !row.add_to(counts) {
                self.recording.counts = None;
                return Err(Bad::Block("threads are of no process"));
            }
        }
        Ok(())
    }

    fn mark_block(&mut self, head: Head) -> std::result::Result<(), Bad> {
        let payload = self.bytes(head)?;
        let marks =
            values::<Mark>(&payload).ok_or(Bad::Block("a block does not hold whole marks"))?;
        let marked = &mut self.recording.marked;
        marked.count += (payload.len() / size_of::<Mark>()) as u64;
        if self.keeps_marks {
            marked.marks.extend(marks);
        }
        Ok(())
    }

    fn process_block(&mut self, head: Head) -> std::result::Result<(), Bad> {
        for process in self.rows::<Process>(head)? {
            self.known_rows.add_process(&mut self.recording, process);
        }
        Ok(())
    }

    fn module_block(&mut self, head: Head) -> std::result::Result<(), Bad> {
        for module in self.rows::<Module>(head)? {
            self.known_rows.add_module(&mut self.recording, module);
        }
        Ok(())
    }

    fn method_block(&mut self, head: Head) -> std::result::Result<(), Bad> {
        let methods = self.rows::<Method>(head)?;
        self.recording.methods.extend(methods);
        Ok(())
    }

    fn json<T: for<'a> Deserialize<'a>>(&mut self, head: Head) -> std::result::Result<T, Bad> {
        let payload = self.bytes(head)?;
        serde_json::from_slice(&payload).map_err(|_| Bad::Block("a description makes no sense"))
    }

    /// The rows of a block, at most one for each [`ROW_BYTES`] of it. This bounds the memory by the
    /// length of the file: a row without fields takes only three bytes of JSON, and many times that
    /// in memory.
    fn rows<T: for<'a> Deserialize<'a>>(&mut self, head: Head) -> std::result::Result<Vec<T>, Bad> {
        let payload = self.bytes(head)?;
        let most = payload.len() / ROW_BYTES + 1;
        let mut json = serde_json::Deserializer::from_slice(&payload);
        let rows = Rows(most, PhantomData).deserialize(&mut json);
        let rows = rows.and_then(|rows| json.end().map(|()| rows));
        rows.map_err(|_| Bad::Block("a description makes no sense"))
    }

    /// The payload of a block.
    fn bytes(&mut self, head: Head) -> std::result::Result<Vec<u8>, Bad> {
        let mut bytes = Vec::new();
        // Room is made for what comes, not for what a damaged head may claim.
        let mut block = (&mut self.file).take(head.length.into());
        let got = block.read_to_end(&mut bytes).map_err(Bad::Io)?;
        self.offset += got as u64;
        if got != head.length as usize {
            return Err(CUT);
        }
        checked(head, crc32fast::hash(&bytes))?;
        Ok(bytes)
    }

    /// Reads until `room` is full or the file ends; returns how many bytes were read.
    fn fill(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let mut got = 0;
        while let Some(rest) = room.get_mut(got..).filter(|rest| !rest.is_empty()) {
            match self.file.read(rest) {
                Ok(0) => break,
                Ok(n) => got += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.offset += got as u64;
        Ok(got)
    }
}

/// The values that a payload holds one after the other; `None` if the last one is incomplete.
fn values<T: FromBytes>(payload: &[u8]) -> Option<impl Iterator<Item = T>> {
    let values = payload.chunks_exact(size_of::<T>());
    let is_whole = values.remainder().is_empty();
    is_whole.then(|| values.filter_map(|bytes| T::read_from_bytes(bytes).ok()))
}

const fn checked(head: Head, sum: u32) -> std::result::Result<(), Bad> {
    if head.sum == sum { Ok(()) } else { Err(Bad::Block("the checksum of a block is wrong")) }
}

/// A 32-bit number; 0 if the length is not four bytes.
fn number(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(0, u32::from_le_bytes)
}

/// A recording as a source of samples: each pass reads the file.
pub(super) struct RecordingFile {
    path: PathBuf,
    metadata: Metadata,
    /// The reader of the first pass. A pipe has no second pass.
    unread: Option<Reader>,
    recording: Option<Recording>,
    keeps_marks: bool,
}

impl RecordingFile {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let reader = Reader::open(path)?;
        Ok(Self {
            path: path.to_owned(),
            metadata: reader.metadata().clone(),
            unread: Some(reader),
            recording: None,
            keeps_marks: false,
        })
    }

    fn pass(
        &mut self,
        samples: &mut SampleVisitor<'_>,
        branches: &mut BranchVisitor<'_>,
    ) -> Result<()> {
        let Some(mut reader) = self.unread.take() else {
            return Reader::open(&self.path)?.pass(samples, branches).map(drop);
        };
        reader.keeps_marks = self.keeps_marks;
        self.recording = Some(reader.pass(samples, branches)?);
        Ok(())
    }
}

impl SampleSource for RecordingFile {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn keep_marks(&mut self) {
        self.keeps_marks = true;
    }

    fn samples(&mut self, visit: &mut SampleVisitor<'_>) -> Result<()> {
        self.pass(visit, &mut |_, _| {})
    }

    fn branches(&mut self, visit: &mut BranchVisitor<'_>) -> Result<()> {
        self.pass(&mut |_, _| {}, visit)
    }

    fn take_recording(&mut self) -> Recording {
        self.recording.take().unwrap_or_default()
    }
}
