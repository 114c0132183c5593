//! The loop counted by Windows' own tracing: by the context switches of the thread that runs it.

use super::{Counted, Looped, looped};
use crate::cli::args::Selection;
use crate::output::error::{Error, Result};
use crate::select::trace_plan::TraceSources;
use crate::target::backend::Model;
use halprof_measure::tracing::analysis::counts::{Cell, Query, TraceCounts};
use halprof_measure::tracing::session::plan::find;
use halprof_measure::tracing::session::{TraceRequest, Tracing};
use shared_types::request::machine::Processor;
use std::thread::sleep;
use std::time::Duration;

/// How long the thread waits before the loop and behind it, so that it is switched off the processor:
/// as long as a session may take to trace on every processor.
const WAITS: Duration = Duration::from_millis(50);

/// What Windows lists of instructions and cycles.
pub(super) struct Sources {
    instructions: u32,
    cycles: Option<u32>,
}

impl Sources {
    pub(super) fn of(tracing: &mut dyn Tracing) -> Result<Self> {
        let offer = TraceSources::of(tracing)?;
        let events = vec!["instructions".to_owned()];
        let named = offer.named(&Selection { events, ..Selection::default() })?;
        let instructions = named.unwrap_or_default().into_iter().next();
        let instructions = instructions.ok_or_else(|| Error::internal("one name is one event"))?;
        let cycles = find("cycles", &offer.sources).map(|source| source.id);
        Ok(Self { instructions: instructions.source, cycles })
    }
}

/// Counts one run in a session.
pub(super) fn run(
    processor: &Processor,
    sources: &Sources,
    tracing: &mut dyn Tracing,
    model: Option<&Model>,
) -> Result<Counted> {
    let counted = std::iter::once(sources.instructions).chain(sources.cycles).collect();
    tracing.start(&TraceRequest { counted, ..TraceRequest::default() })?;
    let wait = || {
        if model.is_none() {
            sleep(WAITS);
        }
    };
    let ran = looped(processor, model, &mut || {
        wait();
        Ok(())
    });
    wait();
    let stopped = tracing.stop();
    let (Looped { known, elapsed_ns, ticks }, (trace, _)) = (ran?, stopped?);
    let counts = TraceCounts::read(trace.path(), &Query::default())?;
    let own = |cell: &&Cell| {
        if model.is_some() {
            // A model's programs run nothing else.
            return u32::from(cell.processor) == processor.index;
        }
        let process = counts.threads.get(cell.thread).map(|thread| thread.thread.process);
        let process = process.and_then(|process| counts.processes.get(process));
        process.is_some_and(|process| process.id == Some(std::process::id()))
    };
    let cells: Vec<&Cell> = counts.cells.iter().filter(own).collect();
    let is_whole = |cell: &&Cell| cell.sums.counted_ns == cell.sums.time_ns;
    let is_lost = counts.lost_events + counts.lost_buffers + counts.unknown.lost_switches != 0;
    if is_lost || !cells.iter().all(is_whole) {
        return Err(Error::unavailable(
            "the trace lacks context switches or their counts, so what it has is too little",
            "Try again when less runs.",
        ));
    }
    let sum = |source: usize| -> u64 {
        let counts = cells.iter().filter_map(|cell| cell.sums.counts.get(source));
        u64::try_from(counts.sum::<u128>()).unwrap_or(u64::MAX)
    };
    Ok(Counted {
        known,
        instructions: sum(0),
        cycles: sources.cycles.map(|_| sum(1)),
        elapsed_ns,
        ticks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::Proved;
    use crate::command::doctor::prove::{Proof, Question, Verdict};
    use crate::output::table::Width;
    use crate::output::{Form, Output};
    use crate::target::backend::Backend;
    use crate::target::context::Context;
    use halprof_measure::tracing::live::Consumer;
    use halprof_measure::tracing::session::{
        DeliverEvents, Flushed, ProfileSource, SampledSource, Started, TraceFile, TraceState,
    };
    use std::sync::Arc;

    /// Tracing that takes two sources for each other.
    struct Lying {
        honest: Box<dyn Tracing>,
        confused: [u32; 2],
    }

    impl Tracing for Lying {
        fn sources(&mut self) -> halprof_measure::Result<Vec<ProfileSource>> {
            self.honest.sources()
        }

        fn counters(&mut self) -> halprof_measure::Result<Option<u32>> {
            self.honest.counters()
        }

        fn start(&mut self, request: &TraceRequest) -> halprof_measure::Result<Vec<SampledSource>> {
            let [one, other] = self.confused;
            let lie = |&source: &u32| match source {
                _ if source == one => other,
                _ if source == other => one,
                _ => source,
            };
            let counted = request.counted.iter().map(lie).collect();
            self.honest.start(&TraceRequest { counted, ..request.clone() })
        }

        fn state(&mut self) -> halprof_measure::Result<TraceState> {
            self.honest.state()
        }

        fn stop(&mut self) -> halprof_measure::Result<(TraceFile, TraceState)> {
            self.honest.stop()
        }
    }

    impl DeliverEvents for Lying {
        fn start_delivery(
            &mut self,
            request: &TraceRequest,
            consumer: Arc<dyn Consumer>,
        ) -> halprof_measure::Result<Started> {
            self.honest.start_delivery(request, consumer)
        }

        fn flush_delivery(&mut self) -> halprof_measure::Result<Flushed> {
            self.honest.flush_delivery()
        }

        fn stop_delivery(&mut self) -> halprof_measure::Result<TraceState> {
            self.honest.stop_delivery()
        }
    }

    #[test]
    fn a_counter_of_something_else_disagrees() {
        for (counted, verdict) in [
            ("TotalIssues", Verdict::Agrees),
            ("BranchInstructions", Verdict::Disagrees),
            ("TotalCycles", Verdict::Disagrees),
        ] {
            let backend = Backend::open("skylake,processors=2,backend=etw").expect("a model");
            let mut ctx = Context::open(backend).expect("a machine");
            let mut honest = ctx.tracing.take().expect("tracing");
            let sources = honest.sources().expect("sources");
            let number = |name: &str| {
                sources.iter().find(|source| source.name == name).expect("it is listed").id
            };
            let confused = [number("TotalIssues"), number(counted)];
            ctx.tracing = Some(Box::new(Lying { honest, confused }));
            let output = Output::new(Form::Json, true, Width::UNLIMITED);
            let proof = Proof::new(Proved::All, &mut ctx, &output);
            assert_eq!(proof.answers.len(), 6);
            for answer in &proof.answers {
                let is_of_it = answer.question == Question::Instructions;
                let right = if is_of_it { verdict } else { Verdict::Agrees };
                assert_eq!(answer.verdict, right, "{counted}: {}", answer.found);
            }
        }
    }
}
