//! What a report begins with: which recordings it is of, what was lost, and what happened meanwhile.

use crate::output::escape::Escaped;
use crate::output::number::{seconds, thousands, times};
use crate::output::table::Width;
use crate::select::filters;
use halprof_profile::file::{ContextCounts, Recording, StackCounts};
use halprof_profile::views::report::events::EventSummary;
use schemars::JsonSchema;
use serde::Serialize;
use shared_types::EventKind;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The recordings that a result is of.
#[derive(JsonSchema, Serialize)]
pub(crate) struct Header {
    file: String,
    machine: String,
    /// Samples in the file.
    samples: u64,
    /// Those of idle threads among them, which are in no share and no row.
    idle: u64,
    /// Null if the file is truncated or damaged: `damaged` says how.
    lost: Option<BTreeMap<String, u64>>,
    /// Why this is not the whole recording.
    damaged: Option<String>,
}

impl Header {
    pub(crate) fn new(files: &[PathBuf], recording: &Recording) -> Self {
        Self {
            file: filters::names(files),
            machine: recording.metadata.machine.clone(),
            samples: recording.samples.saturating_add(recording.idle_samples()),
            idle: recording.idle_samples(),
            lost: recording.losses_are_known().then(|| recording.lost()),
            damaged: recording.damaged(),
        }
    }
}

/// How many samples there are, what was lost, and what happened meanwhile.
pub(crate) fn head(recording: &Recording, counted: u64, width: Width) -> String {
    let lost = recording.lost();
    let idle = recording.idle_samples();
    let mut text = format!(
        "{} samples in {}, {}",
        thousands(recording.samples.saturating_add(idle)),
        seconds(recording.elapsed_ns()),
        recording.losses()
    );
    for (cause, n) in lost.iter().filter(|&(_, &n)| n != 0) {
        text += &format!(", {} {}", Escaped(cause), thousands(*n));
    }
    if idle != 0 {
        text += &format!("; {} idle, left out of all shares", thousands(idle));
    }
    if counted != recording.samples {
        text += &format!("; {} pass the filters", thousands(counted));
    }
    if let Some(stacks) = recording.stack_counts() {
        text += &stacks_in_words(stacks);
        if idle != 0 && stacks.none != 0 {
            text += ", idle ones included";
        }
    }
    text += &recording.contexts().map_or_else(String::new, contexts_in_words);
    width.prose(0, &text) + "\n" + &events(recording, width)
}

/// How many samples are of no thread's own work, as a sentence; empty if none are known to be.
fn contexts_in_words(contexts: ContextCounts) -> String {
    let ContextCounts { thread, dpc, interrupt } = contexts;
    if dpc == 0 && interrupt == 0 {
        return String::new();
    }
    format!(
        ". On the time of threads, {} of {} samples of the timer ran in interrupts and {} in DPCs \
         (`--by context`)",
        thousands(interrupt),
        thousands(thread + dpc + interrupt),
        thousands(dpc)
    )
}

/// Which halves of their stacks samples have, as a sentence.
fn stacks_in_words(stacks: StackCounts) -> String {
    let StackCounts { kernel, user, both, none, shared, .. } = stacks;
    let shared = match shared {
        0 => String::new(),
        n => format!(" ({} with the user half of another sample)", thousands(n)),
    };
    format!(
        ". Call stacks: {} of user code alone, {} of kernel code alone, {} of both{shared}; {} samples without",
        thousands(user),
        thousands(kernel),
        thousands(both),
        thousands(none)
    )
}

/// A line on other events; empty if there were none.
fn events(recording: &Recording, width: Width) -> String {
    let happened: Vec<String> = recording.event_summaries().iter().map(in_words).collect();
    if happened.is_empty() {
        return String::new();
    }
    width.prose(0, &format!("Meanwhile: {}.", happened.join("; "))) + "\n"
}

fn in_words(event: &EventSummary) -> String {
    let (times, often) = (thousands(event.times), times(event.times));
    let mut text = match event.kind {
        EventKind::Throttled => format!("periods lengthened {often}"),
        EventKind::SamplesLost => format!("{times} samples found a full ring"),
        EventKind::Storm => format!("interrupt storm {often}"),
        EventKind::Asleep => format!("asleep {often}"),
        EventKind::Awake => format!("awake again {often}"),
        EventKind::ProcessorAdded => format!("processor added {often}"),
        other => format!("{} {often}", other.name()),
    };
    match (event.kind, event.processors) {
        (EventKind::ProcessorAdded, _) | (_, 0) => {}
        (_, 1) => text += " on 1 processor",
        (_, processors) => text += &format!(" on {} processors", thousands(processors as u64)),
    }
    if let Some(first_ns) = event.first_ns {
        text += &format!(", first after {}", seconds(first_ns));
    }
    text
}
