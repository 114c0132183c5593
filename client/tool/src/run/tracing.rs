//! What runs while Windows' own tracing writes a trace.

#[cfg(test)]
pub(crate) mod fake;

use crate::output::error::Result;
use crate::output::number::{seconds, thousands};
use crate::run::runner::{Every, Runner};
use halprof_measure::tracing::session::{
    SampledSource, TraceEnd, TraceFile, TraceRequest, TraceState, Tracing,
};
use indicatif::ProgressBar;
use std::ops::ControlFlow;
use std::time::Duration;

/// How often the session is asked for its state.
const STATE_NS: u64 = 1_000_000_000;

/// How long a session that has started may take until it traces on every processor. No document says
/// how long; others wait as long.
const SETTLES: Duration = Duration::from_millis(50);

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
    if !runner.is_modelled() {
        std::thread::sleep(SETTLES);
    }
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
