//! The first lines of a report: what was recorded, and what happened meanwhile.

use crate::output::escape::Shown;
use crate::output::number::{seconds, thousands, times};
use crate::output::table::Width;
use halprof_profile::file::Recording;
use halprof_profile::views::report::events::EventSummary;
use shared_types::EventKind;

/// How many samples there are, what was lost, and what happened meanwhile.
pub(crate) fn head(recording: &Recording, counted: u64, width: Width) -> String {
    let lost = recording.lost();
    let mut text = format!(
        "{} samples in {}, {}",
        thousands(recording.samples),
        seconds(recording.elapsed_ns()),
        recording.losses()
    );
    for (cause, n) in lost.iter().filter(|&(_, &n)| n != 0) {
        text += &format!(", {} {}", Shown(cause), thousands(*n));
    }
    if counted != recording.samples {
        text += &format!("; {} pass the filters", thousands(counted));
    }
    width.prose(0, &text) + "\n" + &events(recording, width)
}

/// A line on other events; empty if there were none.
fn events(recording: &Recording, width: Width) -> String {
    let happened: Vec<String> = recording.event_summaries().iter().map(in_words).collect();
    if happened.is_empty() {
        return String::new();
    }
    width.prose(0, &format!("Meanwhile: {}.", happened.join("; "))) + "\n"
}

fn in_words(happening: &EventSummary) -> String {
    let (times, often) = (thousands(happening.times), times(happening.times));
    let mut text = match happening.kind {
        EventKind::Throttled => format!("periods lengthened {often}"),
        EventKind::SamplesLost => format!("{times} samples found a full ring"),
        EventKind::Storm => format!("interrupt storm {often}"),
        EventKind::Asleep => format!("asleep {often}"),
        EventKind::Awake => format!("awake again {often}"),
        EventKind::ProcessorAdded => format!("processor added {often}"),
        other => format!("{} {often}", other.name()),
    };
    match (happening.kind, happening.processors) {
        (EventKind::ProcessorAdded, _) | (_, 0) => {}
        (_, 1) => text += " on 1 processor",
        (_, processors) => text += &format!(" on {} processors", thousands(processors as u64)),
    }
    if let Some(first_ns) = happening.first_ns {
        text += &format!(", first after {}", seconds(first_ns));
    }
    text
}
