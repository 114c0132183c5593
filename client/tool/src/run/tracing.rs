//! What runs while Windows' own tracing writes a trace.

#[cfg(test)]
pub(crate) mod fake;

use crate::output::Output;
use crate::output::error::{Error, Result};
use crate::output::number::{seconds, thousands};
use crate::run::runner::{Every, Runner};
use halprof_measure::tracing::session::{
    SampledSource, TraceEnd, TraceFile, TraceRequest, TraceState, Tracing,
};
use indicatif::ProgressBar;
use std::ops::ControlFlow;

/// How often the session is asked for its state.
const STATE_NS: u64 = 1_000_000_000;

/// The shortest interval on a real machine, in nanoseconds: each flush takes a buffer of each processor
/// out of the pool, and without a free buffer events are lost (microsoft/perfview#1600).
const SHORTEST_NS: u64 = 50_000_000;
/// The shortest that is advised: deliveries after a flush took others up to 101 ms.
const ADVISED_NS: u64 = 100_000_000;

/// Refuses intervals in which Windows does not deliver, or warns about them.
pub(crate) fn check_interval(interval_ns: u64, output: &Output) -> Result<()> {
    if interval_ns < SHORTEST_NS {
        return Err(Error::usage(
            "`--interval` below 50 ms: Windows' own tracing does not deliver so often without losing events",
            "Give 100 or more; the driver reads each millisecond.",
        ));
    }
    if interval_ns < ADVISED_NS {
        output.warn("intervals below 100 ms may lose events; a warning then says so");
    }
    Ok(())
}

/// A trace, and what is known of it besides its events.
pub(crate) struct Traced {
    pub(crate) file: TraceFile,
    pub(crate) state: TraceState,
    /// The sampled sources with the intervals that were in force.
    pub(crate) sampled: Vec<SampledSource>,
    pub(crate) elapsed_ns: u64,
}

/// Runs once while a session traces. A program begins after the session, so that all of it is traced.
pub(crate) fn trace(
    tracing: &mut dyn Tracing,
    runner: &mut Runner,
    request: &TraceRequest,
    progress: &ProgressBar,
) -> Result<Traced> {
    let sampled = tracing.start(request)?;
    let ran = run(tracing, runner, progress);
    let stopped = tracing.stop();
    let (elapsed_ns, end) = ran?;
    let (file, mut state) = stopped?;
    state.ended = state.ended.or(end);
    Ok(Traced { file, state, sampled, elapsed_ns })
}

/// Returns how long it ran, and why the session ended before.
fn run(
    tracing: &mut dyn Tracing,
    runner: &mut Runner,
    progress: &ProgressBar,
) -> Result<(u64, Option<TraceEnd>)> {
    runner.settle();
    runner.prepare()?;
    runner.begin()?;
    let mut end = None;
    // A model's session has no end of its own, and a step of it may be any length.
    let every = Every::LOOK.reading((!runner.is_modelled()).then_some(STATE_NS));
    let elapsed_ns = runner.run(every, |tick| {
        progress.set_position(tick.elapsed_ns);
        progress.set_message(seconds(tick.elapsed_ns));
        if tick.is_due {
            end = tracing.state()?.ended;
        }
        Ok(if end.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    runner.end()?;
    Ok((elapsed_ns, end))
}

impl Traced {
    /// Why the session ended before it was stopped.
    pub(crate) fn ended_early(&self) -> Option<String> {
        Some(format!("measuring ended early: {}", self.state.ended?))
    }

    /// What is missing from the result, and why.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::from_iter(self.ended_early());
        let TraceState { events_lost, buffers_lost, .. } = self.state;
        if events_lost != 0 || buffers_lost != 0 {
            warnings.push(format!(
                "the session lost {} events and {} buffers: counts are at least what is shown",
                thousands(events_lost),
                thousands(buffers_lost)
            ));
        }
        if let Some(error) = self.state.methods_missing {
            warnings.push(format!(
                "methods that .NET and JavaScript compiled may have no names: the list of them is not \
                 complete (Win32 error {error})"
            ));
        }
        warnings
    }
}
