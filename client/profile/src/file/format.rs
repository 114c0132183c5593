//! What a file is, by its first bytes.

use super::MAGIC;
use halprof_etw::buffer::{BufferHeader, HEADER_LENGTH, TYPE_HEADER};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// What a file begins as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Recording,
    /// Of Windows' tracing.
    Trace,
    /// ZIP, in which PerfView puts traces.
    Archive,
    Gzip,
    Cabinet,
    /// perf.data of Linux.
    LinuxPerf,
    Program,
    Json,
}

/// What a regular file is; `None` for others, of which each byte can be read only once.
pub(super) fn of_file(path: &Path) -> Option<Format> {
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut head = Vec::new();
    File::open(path).ok()?.take(HEADER_LENGTH as u64).read_to_end(&mut head).ok()?;
    Format::of(&head)
}

impl Format {
    pub(super) fn of(head: &[u8]) -> Option<Self> {
        let known: [(&[u8], Self); 9] = [
            (&MAGIC, Self::Recording),
            // PKWARE's APPNOTE.TXT, local file header.
            (b"PK\x03\x04", Self::Archive),
            // RFC 1952.
            (b"\x1F\x8B", Self::Gzip),
            // [MS-CAB].
            (b"MSCF", Self::Cabinet),
            // Linux, tools/perf/Documentation/perf.data-file-format.txt.
            (b"PERFILE2", Self::LinuxPerf),
            (b"\x7FELF", Self::Program),
            (b"MZ", Self::Program),
            (b"{", Self::Json),
            (b"[", Self::Json),
        ];
        let known = known.iter().find(|(magic, _)| head.starts_with(magic));
        known.map(|(_, format)| *format).or_else(|| {
            let buffer = BufferHeader::parse(head)?;
            let is_first = buffer.buffer_type == TYPE_HEADER && buffer.has_valid_size();
            is_first.then_some(Self::Trace)
        })
    }

    /// Why a file of this format is no recording, and what to do with it.
    pub(super) const fn unread(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Self::Recording | Self::Trace | Self::Archive => return None,
            Self::Gzip => (
                "is compressed with gzip",
                "Decompress it first. If it is a profile for pprof, open it with pprof.",
            ),
            Self::Cabinet => (
                "is a cabinet",
                "Take the trace (.etl) out of it: `expand -F:* FILE FOLDER` on Windows.",
            ),
            Self::LinuxPerf => ("is a recording of Linux perf", "`perf report` reads it."),
            Self::Program => (
                "is a program",
                "`halprof record -- PROGRAM` records it on Windows; the workload `image=FILE` runs its code on a model.",
            ),
            Self::Json => ("is JSON", "Name the recording or the trace that it was made from."),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_its_first_bytes() {
        for (head, format) in [
            (&MAGIC[..], Some(Format::Recording)),
            (b"PK\x03\x04....", Some(Format::Archive)),
            (b"\x1F\x8B\x08", Some(Format::Gzip)),
            (b"MSCF\0\0\0\0", Some(Format::Cabinet)),
            (b"PERFILE2", Some(Format::LinuxPerf)),
            (b"\x7FELF\x02", Some(Format::Program)),
            (b"MZ\x90", Some(Format::Program)),
            (b"{\"schema\"", Some(Format::Json)),
            (b"", None),
            (&[0; 100], None),
            (b"time,cpu,process", None),
        ] {
            assert_eq!(Format::of(head), format, "{head:?}");
        }
    }
}
