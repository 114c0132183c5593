//! Opens recordings and traces alike, as a source of samples.

use super::etl::{TraceSamples, is_trace};
use super::reader::RecordingFile;
use super::source::SampleSource;
use super::{Recording, Sample, etl};
use halprof_measure::Result;
use std::path::Path;

/// Opens a recording, or a trace of Windows' own tracing.
pub fn open(path: &Path) -> Result<Box<dyn SampleSource>> {
    if is_trace(path) {
        return Ok(Box::new(TraceSamples::read(&[path])?));
    }
    Ok(Box::new(RecordingFile::open(path)?))
}

/// Opens the files of one of [`sessions`] as one source.
pub fn open_session(paths: &[&Path]) -> Result<Box<dyn SampleSource>> {
    match paths {
        [path] => open(path),
        _ => Ok(Box::new(TraceSamples::read(paths)?)),
    }
}

/// Files in the order in which they are named. The files of one session of Windows' own tracing
/// come together: one may be of the kernel and another of programs.
pub fn sessions<P: AsRef<Path>>(paths: &[P]) -> Result<Vec<Vec<&Path>>> {
    let paths: Vec<&Path> = paths.iter().map(AsRef::as_ref).collect();
    let traces: Vec<&Path> = paths.iter().copied().filter(|path| is_trace(path)).collect();
    if traces.len() < 2 {
        return Ok(paths.into_iter().map(|path| vec![path]).collect());
    }
    let mut of_traces = etl::sessions(&traces)?;
    let mut sessions = Vec::new();
    for path in paths {
        match of_traces.iter().position(|session| session.first() == Some(&path)) {
            Some(number) => sessions.push(of_traces.remove(number)),
            None if !is_trace(path) => sessions.push(vec![path]),
            None => {}
        }
    }
    Ok(sessions)
}

/// Opens the waits of a trace: each sample is where a thread went on after one, and its period the time
/// of the wait in nanoseconds.
pub(crate) fn open_waits(path: &Path) -> Result<Box<dyn SampleSource>> {
    Ok(Box::new(TraceSamples::read_waits(path)?))
}

/// Reads a recording or a trace, passes its samples to `visit`, and returns everything else. Of a
/// truncated or damaged recording the intact part is read: see [`Recording::damaged`].
pub fn read(path: &Path, mut visit: impl FnMut(&[Sample])) -> Result<Recording> {
    let mut source = open(path)?;
    source.samples(&mut |samples, _| visit(samples))?;
    Ok(source.take_recording())
}

/// How many processors the machine has that a recording or a trace is of.
pub fn processors(path: &Path) -> Result<u32> {
    if is_trace(path) {
        etl::processors(path)
    } else {
        Ok(RecordingFile::open(path)?.metadata().processors)
    }
}
