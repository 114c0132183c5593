//! Each sample of a recording by itself, with the code at its address and its call stack.

use crate::aggregate::aggregator::stacked;
use crate::aggregate::filter::Filter;
use crate::aggregate::filtered::{BoundFilter, TimeRange};
use crate::file::{Recording, StackId, mode_of, open};
use crate::symbols::{Frame, SymbolPath, Symbols};
use halprof_measure::Result;
use shared_types::Sample;
use std::path::Path;
use std::sync::Arc;

/// One sample with names.
#[derive(Clone, Debug)]
pub struct ScriptLine {
    /// Nanoseconds since the first sample; 0 if the recording does not give its clock's rate.
    pub time_ns: u64,
    /// The sample as in the file.
    pub sample: Sample,
    /// The events that it stands for: its period, scaled if its source was multiplexed.
    pub events: u64,
    /// The name of its source, with its filter if it has one.
    pub source: Arc<str>,
    /// The name of its process, if the recording has it.
    pub process: Option<Arc<str>>,
    /// The code at its address.
    pub frame: Frame,
    /// Its callers, innermost first: the address that each returns to, and the code of the call. Empty
    /// if the recording has no call stacks, or if they are not looked up.
    pub callers: Vec<(u64, Frame)>,
}

/// What is asked of each sample.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Which samples count.
    pub filter: Filter,
    /// Whether their callers are looked up.
    pub callers: bool,
}

/// Passes the samples that count to `visit`, in the order of the file, until it returns `false`.
/// Samples of one processor are in order of time.
pub fn each_sample(
    path: &Path,
    Query { filter, callers }: &Query,
    symbol_path: &SymbolPath,
    mut visit: impl FnMut(&Recording, ScriptLine) -> bool,
) -> Result<Recording> {
    let mut source = open(path)?;
    let time = TimeRange::since_first(source.as_mut(), filter)?;
    let recording = source.take_recording();
    let bound = BoundFilter::new(filter, &recording)?;
    let slices = recording.slices();
    let mut symbols = Symbols::open(&recording, symbol_path);
    let mut going = true;
    source.samples(&mut |samples, stacks| {
        for (sample, stack) in stacked(samples, stacks) {
            if !going {
                return;
            }
            if !time.contains(sample.timestamp) || !bound.passes_sample(sample) {
                continue;
            }
            let frame = symbols.frame(sample.process, sample.ip, mode_of(sample.mode));
            if !filter.passes_frame(&frame) {
                continue;
            }
            let stack = if *callers { stack } else { StackId::NONE };
            let callers = recording.stacks.callers(stack).map(|(_, caller)| {
                let code = symbols.frame(sample.process, caller.call_site(), caller.mode());
                (caller.address, code)
            });
            let callers = callers.collect();
            let scaled = slices.get(&sample.source).map(|slices| slices.scale(sample.period));
            let line = ScriptLine {
                time_ns: time.nanoseconds(sample.timestamp),
                sample: Sample { process: recording.process_ids.id(sample.process), ..*sample },
                events: scaled.unwrap_or(sample.period),
                source: bound.source(sample.source),
                process: bound.process(sample.process),
                frame,
                callers,
            };
            going = visit(&recording, line);
        }
    })?;
    Ok(recording)
}
