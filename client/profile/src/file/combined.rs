//! Several recordings as one.

use super::{ProcessIds, Recording, StackCounts, Statistics};
use halprof_measure::Error;

/// What recordings of several machines have in place of the machine's name.
const DIFFERENT: &str = "different machines";

pub(crate) fn no_recording() -> Error {
    Error::usage("no recording is named", "Name at least one recording.")
}

impl Recording {
    /// Merges several recordings: sums, and whatever is the same in all; `None` if there are none.
    pub(crate) fn combined(recordings: Vec<Self>) -> Option<Self> {
        let count = recordings.len();
        let damaged_parts = recordings.iter().filter_map(|one| {
            let damaged = one.damaged()?;
            Some(format!("{}: {damaged}", one.file.display()))
        });
        let damaged_parts = damaged_parts.collect();
        let stacks = StackCounts::of_all(&recordings);
        let mut all = recordings.into_iter();
        let mut totals = all.next()?;
        if count == 1 {
            return Some(totals);
        }
        // Threads of several machines do not make one list.
        totals.counts = None;
        for one in all {
            for (name, worth) in one.in_step {
                let most = totals.in_step.entry(name).or_default();
                *most = worth.max(*most);
            }
            let (own, other) = (&mut totals.metadata, one.metadata);
            own.modelled |= other.modelled;
            own.processors = own.processors.saturating_add(other.processors);
            own.began = own.began.min(other.began);
            if own.interface != other.interface {
                own.interface = String::new();
            }
            if own.command != other.command {
                own.command = Vec::new();
            }
            if own.halprof != other.halprof {
                "of several versions".clone_into(&mut own.halprof);
            }
            if own.machine != other.machine {
                DIFFERENT.clone_into(&mut own.machine);
            }
            own.sources.extend(other.sources);
            totals.samples = totals.samples.saturating_add(one.samples);
            totals.branches = totals.branches.saturating_add(one.branches);
            let statistics = totals.statistics.get_or_insert_default();
            add(statistics, one.statistics.unwrap_or_default());
            // One incomplete recording makes the sum incomplete.
            totals.damage = totals.damage.or(one.damage);
            totals.ending = totals.ending.zip(one.ending).map(|(mut own, other)| {
                own.samples = own.samples.saturating_add(other.samples);
                own.interrupted |= other.interrupted;
                own
            });
            for (tag, number) in one.skipped {
                *totals.skipped.entry(tag).or_default() += number;
            }
        }
        totals.damaged_parts = damaged_parts;
        totals.statistics.get_or_insert_default().stacks = stacks;
        let machine = &totals.metadata.machine;
        let of = if machine == DIFFERENT { " of" } else { ":" };
        totals.metadata.machine = format!("{count} recordings{of} {machine}");
        totals.processes.clear();
        totals.threads.clear();
        totals.modules.clear();
        totals.methods.clear();
        totals.process_ids = ProcessIds::default();
        totals.events.clear();
        Some(totals)
    }
}

fn add(totals: &mut Statistics, other: Statistics) {
    totals.elapsed_ns = totals.elapsed_ns.max(other.elapsed_ns);
    totals.generated = totals.generated.saturating_add(other.generated);
    totals.spurious = totals.spurious.saturating_add(other.spurious);
    totals.throttled = totals.throttled.saturating_add(other.throttled);
    totals.longest_period = totals.longest_period.max(other.longest_period);
    totals.handler_ticks = totals.handler_ticks.saturating_add(other.handler_ticks);
    totals.branches_cleared = totals.branches_cleared.saturating_add(other.branches_cleared);
    totals.events_lost = totals.events_lost.saturating_add(other.events_lost);
    totals.idle_samples = totals.idle_samples.saturating_add(other.idle_samples);
    totals.ended = totals.ended.take().or(other.ended);
    totals.trace = match (totals.trace, other.trace) {
        (Some(own), Some(other)) => Some(own.sum(other)),
        _ => None,
    };
    totals.dropped_branches = match (totals.dropped_branches, other.dropped_branches) {
        (Some(own), Some(other)) => Some(own.sum(other)),
        (own, other) => own.or(other),
    };
    // Their indexes mean sources of one recording; `source_totals` merges them by name.
    totals.contexts = match (totals.contexts, other.contexts) {
        (Some(own), Some(other)) => Some(own.sum(other)),
        (own, other) => own.or(other),
    };
    totals.slices.clear();
    for (lost, more) in
        [(&mut totals.lost, other.lost), (&mut totals.lost_events, other.lost_events)]
    {
        for (cause, number) in more {
            let all = lost.entry(cause).or_default();
            *all = all.saturating_add(number);
        }
    }
}
