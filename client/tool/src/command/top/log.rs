//! Writes every reading to a file, as comma-separated values that spreadsheets open.

use super::state::{Row, State};
use crate::choice::nanoseconds;
use crate::command::stat::csv::COUNT;
use crate::{Error, Result};
use halprof_measure::estimate::Estimate;
use halprof_measure::rates::{Interval, Rate};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The columns after those of every count.
const MORE: [&str; 3] = ["per_second", "modelled", "core_type"];

/// A line of what one source has counted.
struct Line<'a> {
    time: Duration,
    source: &'a str,
    /// `None` for those of a type of core together.
    processor: Option<usize>,
    core: &'a str,
    estimate: &'a Estimate,
    rate: Option<Rate>,
}

impl Line<'_> {
    fn cells(&self, modelled: bool, frequency: u64) -> [String; COUNT.len() + MORE.len()] {
        let Self { estimate, rate, .. } = self;
        let error = estimate.error.map(|error| format!("{error:.0}"));
        let processor = self.processor.map(|processor| processor.to_string());
        [
            self.time.as_nanos().to_string(),
            self.source.to_owned(),
            processor.unwrap_or_default(),
            estimate.value.to_string(),
            estimate.counted.to_string(),
            nanoseconds(estimate.enabled, frequency).to_string(),
            nanoseconds(estimate.running, frequency).to_string(),
            estimate.scaled.to_string(),
            error.unwrap_or_default(),
            rate.map(|rate| format!("{:.3}", rate.per_second))
                .unwrap_or_default(),
            modelled.to_string(),
            self.core.to_owned(),
        ]
    }
}

/// The reading that is shown, in the same columns: one line for each source and type of core.
pub(super) fn reading(state: &State, frequency: u64) -> Result<String> {
    let shown = state.shown();
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer
        .write_record(COUNT.iter().chain(&MORE))
        .map_err(Error::internal)?;
    for (line, estimate) in shown.totals.iter().enumerate() {
        let line = Line {
            time: shown.elapsed,
            source: state.name(line),
            processor: None,
            core: state.core(line),
            estimate,
            rate: state.rate(line),
        };
        writer
            .write_record(line.cells(state.modelled, frequency))
            .map_err(Error::internal)?;
    }
    let bytes = writer.into_inner().map_err(Error::internal)?;
    String::from_utf8(bytes).map_err(Error::internal)
}

/// A log being written. If writing fails it is closed; what was written before stays.
pub(super) struct Log {
    path: PathBuf,
    writer: Option<csv::Writer<File>>,
    modelled: bool,
    frequency: u64,
}

impl Log {
    /// Creates the file, or empties it.
    pub(super) fn create(path: &Path, modelled: bool, frequency: u64) -> Result<Self> {
        let file = File::create(path).map_err(|error| failed(path, error))?;
        let mut log = Self {
            path: path.to_owned(),
            writer: Some(csv::Writer::from_writer(file)),
            modelled,
            frequency,
        };
        log.write(|writer| writer.write_record(COUNT.iter().chain(&MORE)))?;
        Ok(log)
    }

    /// Writes one line for each source and processor, and flushes them.
    pub(super) fn take(
        &mut self,
        time: Duration,
        sources: &[String],
        processors: &[Row],
        interval: &Interval,
    ) -> Result<()> {
        let (modelled, frequency) = (self.modelled, self.frequency);
        let line = |source: usize, name: &str, row: &Row| {
            let count = interval.counts().get(row.index)?.get(source)?;
            let line = Line {
                time,
                source: name,
                processor: Some(row.index),
                core: row.core,
                estimate: &Estimate::new(count),
                rate: interval.rate(row.index, source),
            };
            Some(line.cells(modelled, frequency))
        };
        self.write(|writer| {
            for (source, name) in sources.iter().enumerate() {
                let lines = processors.iter();
                let mut lines = lines.filter_map(|row| line(source, name, row));
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
    Error::writing(path, error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use halprof_measure::rates::Rates;
    use shared_types::request::counts::Count;

    /// A file that was opened for reading simulates a full disk.
    #[test]
    fn a_log_that_fails_says_so_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log.csv");
        let mut log = Log::create(&path, false, 1).expect("a log");
        let count = Count {
            counted: 7,
            enabled: 2,
            running: 2,
            ..Count::default()
        };
        let interval = Rates::new(1).take(vec![vec![count]]);
        let rows = [Row { index: 0, core: "" }];
        let second = Duration::from_secs(1);
        let take = |log: &mut Log| log.take(second, &["A".to_owned()], &rows, &interval);
        take(&mut log).expect("written");
        let file = File::open(&path).expect("a file");
        log.writer = Some(csv::Writer::from_writer(file));
        let error = take(&mut log).expect_err("it cannot be written");
        assert_eq!((error.code(), error.exit_status()), ("file", 5));
        take(&mut log).expect("the log is closed");
        drop(log);
        let text = std::fs::read_to_string(&path).expect("a log");
        let line = "1000000000,A,0,7,7,2000000000,2000000000,false,,3.500,false,\n";
        let head = "time_ns,source,processor,value,counted,enabled_ns,running_ns,scaled,error,\
            per_second,modelled,core_type\n";
        assert_eq!(text, head.to_owned() + line);
    }
}
