//! `halprof convert`: a trace of Windows' own tracing becomes a recording.

use crate::cli::args;
use crate::output::Output;
use crate::output::error::{Error, Result};
use crate::output::number::thousands;
use crate::results::output_file::size;
use crate::select::filters;
use halprof_profile::file::{self, StackCounts};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(JsonSchema, Serialize)]
pub(crate) struct ConvertResult {
    /// The recording.
    file: String,
    /// Its size.
    bytes: u64,
    /// The size of the trace.
    trace_bytes: u64,
    /// Samples in the recording.
    samples: u64,
    /// Samples of idle threads, which are counted in it and not kept.
    idle: u64,
    /// How many samples have call stacks; null where none were recorded.
    stacks: Option<StackCounts>,
    processes: usize,
    modules: usize,
    /// Null if the trace is damaged: `damaged` says how.
    lost: Option<BTreeMap<String, u64>>,
    /// Why this is not the whole trace.
    damaged: Option<String>,
}

pub(crate) fn run(options: &args::Convert, output: &Output) -> Result<u32> {
    let (trace, target) = (&options.file, &options.output);
    if target.as_os_str() == "-" {
        return Err(Error::usage("a recording is a file", "Name it: `-o FILE.rec`."));
    }
    file::convert(trace, target, None, |_| {}, None, None)?;
    let recording = file::read(target, |_| {})?;
    let status = filters::introduce(&recording, &[], &[], output);
    let result = ConvertResult {
        file: target.display().to_string(),
        bytes: size(target),
        trace_bytes: size(trace),
        samples: recording.samples,
        idle: recording.idle_samples(),
        stacks: recording.stack_counts(),
        processes: recording.processes.len(),
        modules: recording.modules.len(),
        lost: recording.losses_are_known().then(|| recording.lost()),
        damaged: recording.damaged(),
    };
    output.result("convert", &result, text)?;
    Ok(status)
}

fn text(result: &ConvertResult) -> String {
    format!(
        "{}: {} samples of {} processes, {} idle ones left out; {} bytes of {}\n",
        result.file,
        thousands(result.samples),
        thousands(result.processes as u64),
        thousands(result.idle),
        thousands(result.bytes),
        thousands(result.trace_bytes)
    )
}
