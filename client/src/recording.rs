//! The file that `record` writes and `report` reads.
//!
//! All numbers are little-endian. The file begins with [`MAGIC`] and a 32-bit [`VERSION`]; blocks
//! follow, each with
//!
//! | bytes | meaning |
//! |---|---|
//! | 4 | tag: `META`, `SAMP` or `END ` |
//! | 4 | length of the payload, at most [`PAYLOAD_MAX`] |
//! | 4 | CRC-32 (IEEE 802.3) of tag, length and payload |
//! | length | payload |
//!
//! `META` comes first and once: [`Metadata`] as JSON. `SAMP` holds whole [`Sample`]s as they stand
//! on the wire. `END ` comes last and once: [`Ending`] as JSON. A file without its end is cut, and
//! said to be; it appears under its name only when the end has been written.

use crate::{Error, Result};
use crc32fast::Hasher;
use serde::{Deserialize, Serialize};
use shared_types::Sample;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::mem::size_of;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use zerocopy::{FromBytes, IntoBytes};

/// The first eight bytes of every recording.
pub const MAGIC: [u8; 8] = *b"HALPROF\x1A";
/// The version of this format.
pub const VERSION: u32 = 1;
/// The longest payload of a block in bytes.
pub const PAYLOAD_MAX: u32 = 1 << 24;

const META: [u8; 4] = *b"META";
const SAMPLES: [u8; 4] = *b"SAMP";
const END: [u8; 4] = *b"END ";

/// What was recorded, where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// Who answered: the driver, or what it is a model of.
    pub machine: String,
    /// Whether the machine was modelled, and no silicon.
    pub modelled: bool,
    /// The interface in use.
    pub interface: String,
    /// Ticks of the time-stamp counter in a second.
    pub timestamp_frequency: u64,
    /// How many processors the machine has.
    pub processors: u32,
    /// The sources by the index that samples have, with their filters.
    pub sources: Vec<String>,
    /// What was loaded where.
    pub modules: Vec<Module>,
}

/// A range of addresses that belongs together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// Its name.
    pub name: String,
    /// Its first address.
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
}

/// What became of the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// How long it took in nanoseconds; modelled ones on a modelled machine.
    pub elapsed_ns: u64,
    /// Samples in the file.
    pub samples: u64,
    /// Samples lost, by cause.
    pub lost: BTreeMap<String, u64>,
    /// The period of each source.
    pub periods: Vec<Period>,
    /// How often the interrupt-time guard lengthened the periods.
    pub throttled: u64,
}

/// How often one source was sampled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Period {
    /// The source, with its filter if one was given.
    pub source: String,
    /// Events between samples that were asked for, or the default.
    pub requested: u64,
    /// Events between samples at the beginning.
    pub used: u64,
}

/// A recording being written.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    file: BufWriter<NamedTempFile>,
    samples: u64,
}

impl Writer {
    /// Begins a recording that will be `path` once it is [finished](Self::finish).
    pub fn create(path: &Path, metadata: &Metadata) -> Result<Self> {
        let file = NamedTempFile::new_in(folder(path)).map_err(|error| written(path, error))?;
        let mut writer = Self {
            path: path.to_owned(),
            file: BufWriter::new(file),
            samples: 0,
        };
        writer.put(&MAGIC)?;
        writer.put(&VERSION.to_le_bytes())?;
        writer.block_of_json(META, metadata)?;
        Ok(writer)
    }

    /// Appends samples.
    pub fn samples(&mut self, samples: &[Sample]) -> Result<()> {
        for part in samples.chunks(PAYLOAD_MAX as usize / size_of::<Sample>()) {
            self.block(SAMPLES, part.as_bytes())?;
            self.samples += part.len() as u64;
        }
        Ok(())
    }

    /// How many samples are in it.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.samples
    }

    /// Whether no sample is in it.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.samples == 0
    }

    /// Writes the end and gives the file its name.
    pub fn finish(mut self, ending: &Ending) -> Result<()> {
        self.block_of_json(END, ending)?;
        let path = self.path;
        let file = self
            .file
            .into_inner()
            .map_err(|error| written(&path, error.into_error()))?;
        file.persist(&path)
            .map(drop)
            .map_err(|error| written(&path, error.error))
    }

    fn block_of_json(&mut self, tag: [u8; 4], value: &impl Serialize) -> Result<()> {
        let json = serde_json::to_vec(value).map_err(|error| written(&self.path, error.into()))?;
        self.block(tag, &json)
    }

    fn block(&mut self, tag: [u8; 4], payload: &[u8]) -> Result<()> {
        let length = u32::try_from(payload.len())
            .ok()
            .filter(|&length| length <= PAYLOAD_MAX)
            .ok_or_else(|| written(&self.path, io::ErrorKind::FileTooLarge.into()))?;
        self.put(&tag)?;
        self.put(&length.to_le_bytes())?;
        self.put(&checksum(tag, length, payload).to_le_bytes())?;
        self.put(payload)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all(bytes)
            .map_err(|error| written(&self.path, error))
    }
}

/// The folder a file stands in.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Writes a whole file at once: under its name stands the old one or the new one.
pub fn write_whole(path: &Path, content: &[u8]) -> Result<()> {
    let mut file = NamedTempFile::new_in(folder(path)).map_err(|error| written(path, error))?;
    file.write_all(content)
        .map_err(|error| written(path, error))?;
    file.persist(path)
        .map(drop)
        .map_err(|error| written(path, error.error))
}

fn written(path: &Path, error: io::Error) -> Error {
    Error::File {
        path: path.to_owned(),
        doing: "written",
        error,
    }
}

fn checksum(tag: [u8; 4], length: u32, payload: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&tag);
    hasher.update(&length.to_le_bytes());
    hasher.update(payload);
    hasher.finalize()
}

/// Reads a recording, gives each sample to `visit`, and answers what stands before and behind them.
///
/// Memory grows with the longest block that is really there, never with a length that is claimed.
pub fn read(path: &Path, mut visit: impl FnMut(&Metadata, &Sample)) -> Result<(Metadata, Ending)> {
    let file = File::open(path).map_err(|error| Error::File {
        path: path.to_owned(),
        doing: "read",
        error,
    })?;
    read_from(BufReader::new(file), &mut visit).map_err(|damage| damage.of(path))
}

/// What is wrong with a recording.
#[derive(Debug)]
enum Damage {
    Io(io::Error),
    Foreign,
    Version(u32),
    /// Damaged behind so many whole samples.
    At {
        samples: u64,
        why: &'static str,
    },
}

impl Damage {
    fn of(self, path: &Path) -> Error {
        let (why, hint) = match self {
            Self::Io(error) => {
                return Error::File {
                    path: path.to_owned(),
                    doing: "read",
                    error,
                };
            }
            Self::Foreign => (
                "is no recording".to_owned(),
                "`halprof record -o FILE` makes one.",
            ),
            Self::Version(version) => (
                format!(
                    "is a recording of version {version}; this halprof reads version {VERSION}"
                ),
                "Read it with the halprof that wrote it.",
            ),
            Self::At { samples, why } => (
                format!("is damaged: {why}; {samples} samples before that are whole"),
                "Record again, or get an undamaged copy of the file.",
            ),
        };
        Error::BadFile {
            path: path.to_owned(),
            why,
            hint: hint.to_owned(),
        }
    }
}

fn read_from(
    mut file: impl Read,
    visit: &mut impl FnMut(&Metadata, &Sample),
) -> std::result::Result<(Metadata, Ending), Damage> {
    let head = take(&mut file, 12)?;
    let (magic, version) = head.split_at(head.len().min(8));
    if magic != MAGIC {
        return Err(Damage::Foreign);
    }
    let cut = |samples| Damage::At {
        samples,
        why: "it is cut",
    };
    let version = version
        .try_into()
        .map(u32::from_le_bytes)
        .map_err(|_| cut(0))?;
    if version != VERSION {
        return Err(Damage::Version(version));
    }
    let metadata: Metadata = match next_block(&mut file, 0)? {
        Some((META, payload)) => json(&payload, 0)?,
        Some(_) => return Err(at(0, "it does not begin with its description")),
        None => return Err(cut(0)),
    };
    let mut samples = 0;
    loop {
        match next_block(&mut file, samples)? {
            Some((SAMPLES, payload)) => {
                let whole = <[Sample]>::ref_from_bytes(&payload)
                    .map_err(|_| at(samples, "a block does not hold whole samples"))?;
                for sample in whole {
                    visit(&metadata, sample);
                }
                samples += whole.len() as u64;
            }
            Some((END, payload)) => return finish(file, &payload, samples, metadata),
            Some(_) => return Err(at(samples, "a block is of an unknown kind")),
            None => return Err(cut(samples)),
        }
    }
}

fn finish(
    mut file: impl Read,
    payload: &[u8],
    samples: u64,
    metadata: Metadata,
) -> std::result::Result<(Metadata, Ending), Damage> {
    let ending: Ending = json(payload, samples)?;
    if ending.samples != samples {
        return Err(at(samples, "its end tells another number of samples"));
    }
    if !take(&mut file, 1)?.is_empty() {
        return Err(at(samples, "something follows its end"));
    }
    Ok((metadata, ending))
}

const fn at(samples: u64, why: &'static str) -> Damage {
    Damage::At { samples, why }
}

fn json<'a, T: Deserialize<'a>>(payload: &'a [u8], samples: u64) -> std::result::Result<T, Damage> {
    serde_json::from_slice(payload).map_err(|_| at(samples, "a description makes no sense"))
}

type Block = ([u8; 4], Vec<u8>);

/// The next block; `None` where the file ends before it begins.
fn next_block(file: &mut impl Read, samples: u64) -> std::result::Result<Option<Block>, Damage> {
    let head = take(file, 12)?;
    if head.is_empty() {
        return Ok(None);
    }
    let cut = || at(samples, "it is cut within a block");
    let (tag, rest) = head.split_first_chunk::<4>().ok_or_else(cut)?;
    let (length, sum) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
    let length = u32::from_le_bytes(*length);
    let sum = sum.try_into().map(u32::from_le_bytes).map_err(|_| cut())?;
    if length > PAYLOAD_MAX {
        return Err(at(samples, "a block claims to be longer than any"));
    }
    let payload = take(file, u64::from(length))?;
    if payload.len() != length as usize {
        return Err(cut());
    }
    if checksum(*tag, length, &payload) != sum {
        return Err(at(samples, "the checksum of a block is wrong"));
    }
    Ok(Some((*tag, payload)))
}

/// At most `length` bytes; fewer where the file ends.
fn take(file: &mut impl Read, length: u64) -> std::result::Result<Vec<u8>, Damage> {
    let mut bytes = Vec::new();
    file.take(length)
        .read_to_end(&mut bytes)
        .map_err(Damage::Io)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
