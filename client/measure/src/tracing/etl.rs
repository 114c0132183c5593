//! Opens a trace's file.

use crate::error::{Error, Result};
use halprof_etw::Trace;
use halprof_etw::payload::trace::TraceHeader;
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// A trace in a file.
pub type Etl = Trace<BufReader<File>>;

/// The name of a modelled machine's session: nothing else in its trace says that it is modelled.
pub const MODEL_SESSION: &str = "halprof model";

/// Whether a trace is of a modelled machine.
pub fn is_modelled(header: &TraceHeader) -> bool {
    header.session_name == MODEL_SESSION
}

/// The system that wrote a trace, such as `Windows 11 (10.0.22631)`. Windows 11 kept the version of
/// Windows 10, and began with build 22000; Server 2025 has the build of one of its releases
/// (Microsoft's release information of both).
pub fn system(header: &TraceHeader) -> String {
    let TraceHeader { major, minor, build, .. } = *header;
    match (major, minor, build) {
        (10, 0, 26_100) => format!("Windows 11 or Server 2025 ({major}.{minor}.{build})"),
        (10, 0, 22_000..) => format!("Windows 11 ({major}.{minor}.{build})"),
        _ => format!("Windows {major}.{minor}.{build}"),
    }
}

/// What could not be read of a trace, each as the end of a sentence. Losses of its session are not
/// damage: the trace reports them completely and correctly.
pub fn damage(trace: &Etl) -> Vec<String> {
    let damage = trace.damage().counts();
    damage.map(|(cause, count)| format!("{cause}: {count}")).collect()
}

/// Remarks on what looks like a loss but is not, each a sentence.
pub fn remarks(trace: &Etl) -> Vec<String> {
    let unused = trace.losses().unused_numbers;
    let remark = (unused != 0).then(|| {
        format!(
            "numbers of buffers that were not used: {unused}; no buffer that was written is missing"
        )
    });
    remark.into_iter().collect()
}

/// Opens a trace, or the one in an archive, as PerfView writes it (`.etl.zip`).
pub fn open(path: &Path) -> Result<Etl> {
    open_all(&[path])
}

/// Opens several files of one session as one trace.
pub fn open_all(paths: &[&Path]) -> Result<Etl> {
    let [first, ..] = *paths else {
        return Err(Error::usage("no trace is named", "Name at least one."));
    };
    let files = paths.iter().map(|path| opened(path).map(BufReader::new));
    let files = files.collect::<Result<Vec<_>>>()?;
    Trace::open_all(files).map_err(|error| match error {
        halprof_etw::Error::Io(error) => Error::reading(first, error),
        halprof_etw::Error::NotATrace(why) => Error::bad_file(
            first,
            format!("is not a trace: {why}"),
            "`xperf -merge` and WPR write traces that can be read.",
        ),
        halprof_etw::Error::Compression(compression) => Error::bad_file(
            first,
            format!("is compressed with {compression}; only XPRESS is read"),
            "Record it again without compression, or merge it with compression off.",
        ),
    })
}

/// Traces in the order in which they are named, those of one session together.
pub fn sessions<'a>(paths: &[&'a Path]) -> Result<Vec<Vec<&'a Path>>> {
    let mut sessions: Vec<(TraceHeader, Vec<&Path>)> = Vec::new();
    for &path in paths {
        let header = open(path)?.header().clone();
        match sessions.iter_mut().find(|(known, _)| known.is_of_same_session(&header)) {
            // A file that is named twice is not two files of one session.
            Some((_, files)) if !files.contains(&path) => files.push(path),
            _ => sessions.push((header, vec![path])),
        }
    }
    Ok(sessions.into_iter().map(|(_, files)| files).collect())
}

/// A trace's file, extracted if it is in an archive.
fn opened(path: &Path) -> Result<File> {
    let mut file = File::open(path).map_err(|error| Error::reading(path, error))?;
    if is_archive(&mut file).map_err(|error| Error::reading(path, error))? {
        return extracted(path, file);
    }
    Ok(file)
}

/// The first bytes of an archive (PKWARE's APPNOTE.TXT, local file header). A trace begins with the
/// size of its first buffer, which is a multiple of 8.
const ARCHIVE: [u8; 4] = *b"PK\x03\x04";

fn is_archive(file: &mut File) -> io::Result<bool> {
    let mut first = Vec::new();
    (&*file).take(ARCHIVE.len() as u64).read_to_end(&mut first)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(first == ARCHIVE)
}

/// A trace may be this many times as long as its archive, and in any case this long. Buffers that
/// are mostly empty compress well, but an archive made to expand without end would fill the disk.
const MOST_EXPANSION: u64 = 256;
const ALWAYS_EXPANDED: u64 = 64 << 20;

/// The only trace of an archive, extracted into a file without a name, which the system deletes
/// when it is closed.
fn extracted(path: &Path, archive: File) -> Result<File> {
    let bad = |why: &str| {
        Error::bad_file(path, format!("is an archive {why}"), "Extract the trace (.etl) from it.")
    };
    let length = archive.metadata().map_err(|error| Error::reading(path, error))?.len();
    let damaged = |error: zip::result::ZipError| bad(&format!("that could not be read: {error}"));
    let mut archive = zip::ZipArchive::new(BufReader::new(archive)).map_err(damaged)?;
    let names = archive.file_names().map(|name| name.map(Cow::into_owned));
    let mut traces = names.collect::<std::result::Result<Vec<String>, _>>().map_err(damaged)?;
    traces.retain(|name| name.to_ascii_lowercase().ends_with(".etl"));
    let [trace] = traces.as_slice() else {
        return Err(bad(match traces.len() {
            0 => "without a trace",
            _ => "of several traces",
        }));
    };
    let most = length.saturating_mul(MOST_EXPANSION).max(ALWAYS_EXPANDED);
    let mut trace = archive.by_name(trace).map_err(damaged)?.take(most);
    let mut file = tempfile::tempfile().map_err(|error| Error::writing(path, error))?;
    let copied = io::copy(&mut trace, &mut file);
    let copied = copied.map_err(|error| bad(&format!("that could not be extracted: {error}")))?;
    if copied == most {
        return Err(bad("that expands to more than its length justifies"));
    }
    file.seek(SeekFrom::Start(0)).map_err(|error| Error::reading(path, error))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_is_called_by_its_name() {
        for (major, minor, build, name) in [
            (6, 1, 7601, "Windows 6.1.7601"),
            (10, 0, 19_045, "Windows 10.0.19045"),
            (10, 0, 22_631, "Windows 11 (10.0.22631)"),
            (10, 0, 26_100, "Windows 11 or Server 2025 (10.0.26100)"),
            (10, 0, 26_200, "Windows 11 (10.0.26200)"),
        ] {
            let header = TraceHeader { major, minor, build, ..TraceHeader::default() };
            assert_eq!(system(&header), name);
        }
    }
}
