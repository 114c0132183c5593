//! What a run has counted, and which processors are a row of it.

use crate::select::periods::Period;
use halprof_measure::describe;
use halprof_measure::event_counts::EventCounts;
use shared_types::request::machine::Processor;

/// What one run has counted, in one pass or in several.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) passes: Vec<Pass>,
    /// In the order of the request.
    pub(crate) events: Vec<EventCounts>,
    /// It was ended early, and is in no mean unless there is no other run.
    pub(crate) interrupted: bool,
}

/// The events that ran together.
pub(crate) struct Pass {
    /// Their indexes in the event set.
    pub(crate) events: Vec<usize>,
    pub(crate) elapsed_ns: u64,
    /// Slices of multiplexing that the busiest processor needs.
    pub(crate) slices: u32,
    pub(crate) periods: Vec<Period>,
}

/// Processors whose counts are added up.
pub(crate) struct CpuGroup {
    /// The only one of them, if each processor has a row of its own.
    pub(crate) processor: Option<u32>,
    pub(crate) core_type: Option<&'static str>,
    pub(crate) members: Vec<u32>,
}

/// What has a row of its own for each event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Machine,
    CoreType,
    Processor,
}

impl Counts {
    pub(crate) fn add(&mut self, pass: Pass, events: Vec<EventCounts>) {
        self.passes.push(pass);
        self.events.extend(events);
        self.events.sort_by_key(|counts| counts.event);
    }

    /// The length of a run: the mean over passes.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        let elapsed = self.passes.iter().map(|pass| pass.elapsed_ns);
        elapsed.fold(0, u64::saturating_add) / self.passes.len().max(1) as u64
    }
}

impl CpuGroup {
    /// The processors that count an event, in the groups that have rows of their own.
    pub(crate) fn of(counts: &EventCounts, processors: &[Processor], by: By) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for processor in processors {
            if !counts.by_processor.contains_key(&processor.index) {
                continue;
            }
            let core_type = describe::core_type(processor).filter(|_| by != By::Machine);
            let last = groups.iter_mut().find(|group| group.core_type == core_type);
            match last.filter(|_| by != By::Processor) {
                Some(group) => group.members.push(processor.index),
                None => groups.push(Self {
                    processor: (by == By::Processor).then_some(processor.index),
                    core_type,
                    members: vec![processor.index],
                }),
            }
        }
        if groups.is_empty() && by == By::Machine {
            groups.push(Self { processor: None, core_type: None, members: Vec::new() });
        }
        groups
    }
}
