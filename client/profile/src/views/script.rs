//! Each sample of a recording by itself, with the code at its address and its call stack.

use crate::aggregate::aggregator::stacked;
use crate::aggregate::filter::Filter;
use crate::aggregate::filtered::{BoundFilter, TimeRange};
use crate::aggregate::locations::LocatedCode;
use crate::aggregate::thread_names::ThreadNames;
use crate::file::{Recording, StackId, mode_of, open};
use crate::symbols::code_location::CodeLocation;
use crate::symbols::{Frame, SymbolPath, Symbols};
use halprof_measure::Result;
use shared_types::Sample;
use std::path::Path;
use std::sync::Arc;

/// One sample with names.
#[derive(Clone, Debug)]
pub struct ScriptLine<'a> {
    /// Nanoseconds since the first sample; 0 if the recording does not give its clock's rate.
    pub time_ns: u64,
    /// The sample as in the file.
    pub sample: Sample,
    /// The events that it stands for: its period, scaled if its source was multiplexed.
    pub events: u64,
    /// The name of its source, with its filter if it has one.
    pub source: Arc<str>,
    /// The name of its process, if the recording has it.
    pub process: Option<&'a str>,
    /// The name that its program gave its thread, if the recording has it.
    pub thread: Option<&'a str>,
    /// The code at its address.
    pub frame: &'a Frame,
    /// Its callers, innermost first. Empty if the recording has no call stacks, or if they are not
    /// looked up.
    pub callers: Vec<Caller<'a>>,
}

/// A caller of a sample.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// The address that it is returned to.
    pub address: u64,
    /// The address within the call, whose code it is.
    pub at: u64,
    /// The code of the call.
    pub frame: &'a Frame,
    /// The number of its code: callers with the same one and the same address are alike in all samples.
    pub code: usize,
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
    mut visit: impl FnMut(&Recording, &ScriptLine<'_>) -> bool,
) -> Result<Recording> {
    let mut source = open(path)?;
    let time = TimeRange::since_first(source.as_mut(), filter)?;
    let recording = source.take_recording();
    let bound = BoundFilter::new(filter, &recording)?;
    let slices = recording.slices();
    let symbols = Symbols::open(&recording, symbol_path);
    let mut code = LocatedCode::new(filter, symbols);
    let thread_names = ThreadNames::of(&recording);
    let mut callers_of_sample = Vec::new();
    let mut going = true;
    source.samples(&mut |samples, stacks| {
        for (sample, stack) in stacked(samples, stacks) {
            // The source passes all of its samples, and cannot be told to stop.
            if !going {
                return;
            }
            if !time.contains(sample.timestamp) || !bound.passes_sample(sample) {
                continue;
            }
            let location = CodeLocation::new(sample.process, sample.ip, mode_of(sample.mode));
            let (index, passes) = code.at(location);
            if !passes {
                continue;
            }
            let stack = if *callers { stack } else { StackId::NONE };
            callers_of_sample.clear();
            callers_of_sample.extend(recording.stacks.callers(stack).map(|(_, caller)| {
                let location = CodeLocation::new(sample.process, caller.call_site(), caller.mode());
                (caller.address, location.ip, code.at(location).0)
            }));
            // All were looked up before any frame is borrowed: looking one up may add to `code`.
            let callers = callers_of_sample.iter();
            let scaled = slices.get(&sample.source).map(|slices| slices.scale(sample.period));
            let line = ScriptLine {
                time_ns: time.nanoseconds(sample.timestamp),
                sample: Sample { process: recording.process_ids.id(sample.process), ..*sample },
                events: scaled.unwrap_or(sample.period),
                source: bound.source(sample.source),
                process: bound.process(sample.process).map(AsRef::as_ref),
                thread: thread_names
                    .name(&recording.process_ids, sample.process, sample.thread)
                    .map(AsRef::as_ref),
                frame: code.frame(index),
                callers: callers
                    .map(|&(address, at, code_at)| Caller {
                        address,
                        at,
                        frame: code.frame(code_at),
                        code: code_at,
                    })
                    .collect(),
            };
            going = visit(&recording, &line);
        }
    })?;
    Ok(recording)
}
