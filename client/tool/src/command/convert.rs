//! `halprof convert`: a trace of Windows' own tracing becomes a recording.

use crate::cli::args;
use crate::output::Output;
use crate::output::error::{Error, Result};
use crate::output::number::thousands;
use crate::output::table::Width;
use crate::results::output_file::size;
use crate::results::recording_warnings;
use crate::select::branches::dropped_of_trace;
use halprof_profile::file::{self, DroppedBranches, StackCounts, TraceContents};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

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
    /// The branch records of its samples; null if the trace has none.
    branches: Option<u64>,
    /// What the trace has of them besides.
    dropped_branches: Option<DroppedBranches>,
    processes: usize,
    modules: usize,
    /// The events of the trace, and the context switches among them: neither are kept.
    events: u64,
    switches: u64,
    /// Whether the counts of threads are kept: the sums of the whole trace.
    has_counts: bool,
    /// Null if the trace is damaged: `damaged` says how.
    lost: Option<BTreeMap<String, u64>>,
    /// Why this is not the whole trace.
    damaged: Option<String>,
}

pub(crate) fn run(options: &args::Convert, output: &Output) -> Result<u32> {
    let target = &options.output;
    if target.as_os_str() == "-" {
        return Err(Error::usage("a recording is a file", "Name it: `-o FILE.rec`."));
    }
    // A pipe can be read only once.
    let is_recording =
        |file: &&PathBuf| file.is_file() && file::is_recording(file).unwrap_or(false);
    if let Some(recording) = options.files.iter().find(is_recording) {
        return Err(halprof_measure::Error::bad_file(
            recording,
            "is a recording already",
            "`report`, `annotate`, `script` and `export` read it as it is.",
        )
        .into());
    }
    let sessions = file::sessions(&options.files)?;
    let [session] = sessions.as_slice() else {
        return Err(Error::usage(
            "the traces are not of one session",
            "Convert each by itself: `report` takes several recordings.",
        ));
    };
    file::convert_session(session, target, None, |_| {}, None, None)?;
    let recording = file::read(target, |_| {})?;
    let without_samples = recording_warnings::without_samples(&recording, &options.files);
    let status =
        recording_warnings::print_warnings(&recording, without_samples.as_slice(), &[], output);
    let contents = recording.statistics.as_ref().and_then(|statistics| statistics.trace);
    let TraceContents { events, switches, .. } = contents.unwrap_or_default();
    let result = ConvertResult {
        file: target.display().to_string(),
        bytes: size(target),
        trace_bytes: options.files.iter().map(|trace| size(trace)).sum(),
        samples: recording.samples,
        idle: recording.idle_samples(),
        stacks: recording.stack_counts(),
        branches: recording.metadata.branches.as_ref().map(|_| recording.branches),
        dropped_branches: recording.statistics.as_ref().and_then(|known| known.dropped_branches),
        processes: recording.processes.len(),
        modules: recording.modules.len(),
        lost: recording.losses_are_known().then(|| recording.lost()),
        damaged: recording.damaged(),
        events,
        switches,
        has_counts: recording.counts.is_some(),
    };
    output.warn_all(&result.dropped_branches.and_then(|of_trace| dropped_of_trace(&of_trace)));
    output.result("convert", &result, |result| text(result, output.width()))?;
    Ok(status)
}

fn text(result: &ConvertResult, width: Width) -> String {
    let branches = result
        .branches
        .map_or_else(String::new, |records| format!(" with {} branch records", thousands(records)));
    let written = format!(
        "{}: {} samples{branches} of {} processes; {} bytes of {}",
        result.file,
        thousands(result.samples),
        thousands(result.processes as u64),
        thousands(result.bytes),
        thousands(result.trace_bytes)
    );
    let switches = match (result.switches, result.has_counts) {
        (0, _) => String::new(),
        (n, true) => format!(
            ", {} context switches except for the counts of threads (`report --off-cpu` and \
             parts of counts need the trace)",
            thousands(n)
        ),
        (n, false) => {
            format!(", {} context switches (`report --off-cpu` needs the trace)", thousands(n))
        }
    };
    let left_out = format!(
        "Left out: {} samples of idle threads{switches}, and all events except those of samples, \
         stacks, branch records, processes, modules and methods; the trace has {} events.",
        thousands(result.idle),
        thousands(result.events)
    );
    format!("{written}\n{}\n", width.prose(0, &left_out))
}
