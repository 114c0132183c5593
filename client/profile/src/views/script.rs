//! Each sample of a recording by itself, with the code at its address.

use crate::aggregate::filter::Filter;
use crate::file::{Reader, Recording};
use crate::symbols::{Frame, SymbolPath, Symbols};
use crate::views::report::Names;
use halprof_measure::{Error, Result};
use shared_types::{Mode, Sample};
use std::path::Path;
use std::sync::Arc;

/// One sample with names.
#[derive(Clone, Debug)]
pub struct ScriptLine {
    /// Nanoseconds since the first sample; 0 if the recording does not give its clock's rate.
    pub time_ns: u64,
    /// The sample as in the file.
    pub sample: Sample,
    /// The events that it stands for: its period, scaled if its source took turns on the counters.
    pub events: u64,
    /// The name of its source, with its filter if it has one.
    pub source: Arc<str>,
    /// The name of its process, if the recording has it.
    pub process: Option<Arc<str>>,
    /// The code at its address.
    pub frame: Frame,
}

/// Passes the samples that count to `visit`, in the order of the file, until it returns `false`.
/// Samples of one processor are in order of time.
pub fn each_sample(
    path: &Path,
    filter: &Filter,
    symbol_path: &SymbolPath,
    mut visit: impl FnMut(&Recording, ScriptLine) -> bool,
) -> Result<Recording> {
    let mut first = u64::MAX;
    let recording = Reader::open(path)?.samples(|samples| {
        let earliest = samples.iter().map(|sample| sample.timestamp).min();
        first = first.min(earliest.unwrap_or(u64::MAX));
    })?;
    let frequency = recording.metadata.timestamp_frequency;
    if filter.time.is_some() && frequency == 0 {
        return Err(Error::Unavailable {
            message: "the recording does not give the rate of its clock".to_owned(),
            hint: "Give no time range.".to_owned(),
        });
    }
    let names = Names::of(&recording, filter)?;
    let slices = recording.slices();
    let mut symbols = Symbols::open(&recording, symbol_path);
    let mut going = true;
    Reader::open(path)?.samples(|samples| {
        for sample in samples {
            if !going {
                return;
            }
            let ticks = u128::from(sample.timestamp.saturating_sub(first));
            let time = (ticks * 1_000_000_000).checked_div(frequency.into());
            let time_ns = u64::try_from(time.unwrap_or(0)).unwrap_or(u64::MAX);
            let within = filter.time.is_none_or(|(from, to)| (from..to).contains(&time_ns));
            if !within || !names.passes(sample, filter) {
                continue;
            }
            let mode = Mode::from_wire(sample.mode.into()).unwrap_or(Mode::Unknown);
            let frame = symbols.frame(sample.process, sample.ip, mode);
            if !filter.passes_frame(&frame) {
                continue;
            }
            let script_line = ScriptLine {
                time_ns,
                sample: Sample { process: names.id(sample.process), ..*sample },
                events: slices
                    .get(&sample.source)
                    .map_or(sample.period, |slices| slices.scale(sample.period)),
                source: names.source(sample.source),
                process: names.process(sample.process),
                frame,
            };
            going = visit(&recording, script_line);
        }
    })?;
    Ok(recording)
}
