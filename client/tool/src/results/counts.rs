//! What was counted: an estimate for each event on each processor that can count it.

use crate::select::event_set::EventSet;
use crate::select::periods::Period;
use halprof_measure::describe;
use halprof_measure::estimate::Estimate;
use shared_types::request::counts::Count;
use shared_types::request::machine::Processor;
use std::collections::BTreeMap;

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

/// What one event has counted.
pub(crate) struct EventCounts {
    /// Its index in the event set.
    pub(crate) event: usize,
    /// The pass in which it was counted, from 1, if there are several.
    pub(crate) pass: Option<u32>,
    /// The processors that can count it.
    pub(crate) by_processor: BTreeMap<u32, Estimate>,
    /// The selected processors that cannot count it.
    pub(crate) excluded_cpus: Vec<u32>,
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

impl EventCounts {
    /// What the events at these indexes have counted: `counts` has for each processor one count for
    /// each of them.
    pub(crate) fn new(
        event_set: &EventSet,
        indexes: &[usize],
        pass: Option<u32>,
        counts: &[Vec<Count>],
    ) -> Vec<Self> {
        let mut all = Vec::new();
        for (column, &index) in indexes.iter().enumerate() {
            let Some(event) = event_set.events.get(index) else {
                continue;
            };
            let count_on = |processor: &Processor| {
                let able = event_set.counts_on(event, processor);
                counts.get(processor.index as usize)?.get(column).filter(|_| able)
            };
            let mut counted = Self {
                event: index,
                pass,
                by_processor: BTreeMap::new(),
                excluded_cpus: Vec::new(),
            };
            for processor in event_set.selected() {
                match count_on(processor) {
                    Some(count) => {
                        counted.by_processor.insert(processor.index, Estimate::new(count));
                    }
                    None => counted.excluded_cpus.push(processor.index),
                }
            }
            all.push(counted);
        }
        all
    }

    /// The sum over some processors.
    pub(crate) fn sum(&self, members: &[u32]) -> Estimate {
        Estimate::sum(members.iter().filter_map(|member| self.by_processor.get(member).copied()))
    }

    /// The processors that count it, in the groups that have rows of their own.
    pub(crate) fn groups(&self, processors: &[Processor], by: By) -> Vec<CpuGroup> {
        let mut groups: Vec<CpuGroup> = Vec::new();
        for processor in processors {
            if !self.by_processor.contains_key(&processor.index) {
                continue;
            }
            let core_type = describe::core_type(processor).filter(|_| by != By::Machine);
            let last = groups.iter_mut().find(|group| group.core_type == core_type);
            match last.filter(|_| by != By::Processor) {
                Some(group) => group.members.push(processor.index),
                None => groups.push(CpuGroup {
                    processor: (by == By::Processor).then_some(processor.index),
                    core_type,
                    members: vec![processor.index],
                }),
            }
        }
        if groups.is_empty() && by == By::Machine {
            groups.push(CpuGroup { processor: None, core_type: None, members: Vec::new() });
        }
        groups
    }

    /// The members on which the source was never on a counter.
    pub(crate) fn never_scheduled(&self, members: &[u32]) -> impl Iterator<Item = u32> {
        let estimates = members.iter().filter_map(|member| self.by_processor.get_key_value(member));
        estimates.filter(|(_, one)| one.never_scheduled_cpus != 0).map(|(&member, _)| member)
    }
}
