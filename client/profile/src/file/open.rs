//! Opens recordings and traces as the same: a source of samples.

use super::etl::{TraceSamples, is_trace};
use super::reader::RecordingFile;
use super::source::SampleSource;
use super::{Recording, Sample, etl};
use halprof_measure::Result;
use std::path::Path;

/// Opens a recording, or a trace of Windows' own tracing.
pub fn open(path: &Path) -> Result<Box<dyn SampleSource>> {
    if is_trace(path) {
        return Ok(Box::new(TraceSamples::read(path)?));
    }
    Ok(Box::new(RecordingFile::open(path)?))
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
