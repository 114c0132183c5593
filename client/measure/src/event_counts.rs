//! What an event has counted, whatever counted it: a session's snapshot and the context switches of a
//! trace give the same.

use crate::estimate::Estimate;
use shared_types::request::counts::Count;
use shared_types::request::machine::Processor;
use std::collections::BTreeMap;

/// What one event has counted: an estimate for each processor that can count it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventCounts {
    /// Its index among the events that are counted.
    pub event: usize,
    /// The pass in which it was counted, from 1, if there are several.
    pub pass: Option<u32>,
    /// The processors that can count it.
    pub by_processor: BTreeMap<u32, Estimate>,
    /// The selected processors that cannot count it.
    pub excluded_cpus: Vec<u32>,
}

impl EventCounts {
    /// What an event has counted on the selected processors. `count_on` gives each processor's count, or
    /// `None` if the processor cannot count the event.
    pub fn new<'a>(
        event: usize,
        pass: Option<u32>,
        selected: impl IntoIterator<Item = &'a Processor>,
        count_on: impl Fn(&Processor) -> Option<Count>,
    ) -> Self {
        let mut counted = Self { event, pass, ..Self::default() };
        for processor in selected {
            match count_on(processor) {
                Some(count) => {
                    counted.by_processor.insert(processor.index, Estimate::new(&count));
                }
                None => counted.excluded_cpus.push(processor.index),
            }
        }
        counted
    }

    /// The sum over some processors.
    pub fn sum(&self, members: &[u32]) -> Estimate {
        Estimate::sum(members.iter().filter_map(|member| self.by_processor.get(member).copied()))
    }

    /// The members on which the source was never on a counter.
    pub fn never_scheduled(&self, members: &[u32]) -> impl Iterator<Item = u32> {
        let estimates = members.iter().filter_map(|member| self.by_processor.get_key_value(member));
        estimates.filter(|(_, one)| one.never_scheduled_cpus != 0).map(|(&member, _)| member)
    }
}
