//! Every reading in a file, as comma-separated values that a spreadsheet opens.

use super::state::Row;
use crate::cli::measure::nanoseconds;
use crate::estimate::Estimate;
use crate::rates::Interval;
use crate::{Error, Result};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

const HEAD: [&str; 11] = [
    "time_ns",
    "source",
    "processor",
    "value",
    "counted",
    "enabled_ns",
    "running_ns",
    "scaled",
    "error",
    "per_second",
    "modelled",
];

/// A log that is being written. One that fails is closed; what was written before stays.
pub(super) struct Log {
    path: PathBuf,
    writer: Option<csv::Writer<File>>,
    modelled: bool,
    frequency: u64,
}

impl Log {
    /// Makes the file, or empties it.
    pub(super) fn create(path: &Path, modelled: bool, frequency: u64) -> Result<Self> {
        let file = File::create(path).map_err(|error| failed(path, error))?;
        let mut log = Self {
            path: path.to_owned(),
            writer: Some(csv::Writer::from_writer(file)),
            modelled,
            frequency,
        };
        log.write(|writer| writer.write_record(HEAD))?;
        Ok(log)
    }

    /// Writes one line for each source and processor, and hands them to the system.
    pub(super) fn take(
        &mut self,
        time: Duration,
        sources: &[String],
        processors: &[Row],
        interval: &Interval,
    ) -> Result<()> {
        let (modelled, frequency) = (self.modelled, self.frequency);
        let line = |source: usize, name: &str, processor: usize| {
            let count = interval.counts().get(processor)?.get(source)?;
            let estimate = Estimate::new(count);
            let rate = interval.rate(processor, source);
            let error = estimate.error.map(|error| format!("{error:.0}"));
            Some([
                time.as_nanos().to_string(),
                name.to_owned(),
                processor.to_string(),
                estimate.value.to_string(),
                estimate.counted.to_string(),
                nanoseconds(estimate.enabled, frequency).to_string(),
                nanoseconds(estimate.running, frequency).to_string(),
                estimate.scaled.to_string(),
                error.unwrap_or_default(),
                rate.map(|rate| format!("{:.3}", rate.per_second))
                    .unwrap_or_default(),
                modelled.to_string(),
            ])
        };
        self.write(|writer| {
            for (source, name) in sources.iter().enumerate() {
                let lines = processors.iter();
                let mut lines = lines.filter_map(|row| line(source, name, row.index));
                lines.try_for_each(|line| writer.write_record(line))?;
            }
            Ok(())
        })
    }

    fn write(
        &mut self,
        write: impl FnOnce(&mut csv::Writer<File>) -> csv::Result<()>,
    ) -> Result<()> {
        let Some(writer) = &mut self.writer else {
            return Ok(());
        };
        let written = write(writer).map_err(io::Error::from);
        let Err(error) = written.and_then(|()| writer.flush()) else {
            return Ok(());
        };
        self.writer = None;
        Err(failed(&self.path, error))
    }
}

fn failed(path: &Path, error: io::Error) -> Error {
    Error::File {
        path: path.to_owned(),
        doing: "written",
        error,
    }
}
