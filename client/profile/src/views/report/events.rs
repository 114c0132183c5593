//! What the system and the driver did during the recording, summed up by kind.

use crate::file::Recording;
use crate::number::nanoseconds;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use shared_types::EventKind;
use std::collections::BTreeSet;

/// The events of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct EventSummary {
    /// Which kind.
    #[serde(serialize_with = "by_name")]
    #[schemars(with = "String")]
    pub kind: EventKind,
    /// How often it happened; for samples lost and periods raised, the sum of their amounts.
    pub times: u64,
    /// On how many processors; 0 if the kind is not tied to a processor.
    pub processors: usize,
    /// When it first happened, in nanoseconds since the first session was started; `None` if the
    /// clock's rate or that start is not known.
    pub first_ns: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn by_name<S: Serializer>(kind: &EventKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.name())
}

/// The kinds in the order shown, without the starts and stops of sessions.
const KINDS: [EventKind; 6] = [
    EventKind::Throttled,
    EventKind::SamplesLost,
    EventKind::Storm,
    EventKind::Asleep,
    EventKind::Awake,
    EventKind::ProcessorAdded,
];

impl Recording {
    /// What happened besides sampling, by kind.
    pub fn event_summaries(&self) -> Vec<EventSummary> {
        let kinds = KINDS.into_iter();
        kinds.filter_map(|kind| self.event_summary(kind)).collect()
    }

    fn event_summary(&self, kind: EventKind) -> Option<EventSummary> {
        let of = |kind: EventKind| {
            let events = self.events.iter();
            events.filter(move |event| event.kind == kind.name())
        };
        let first = of(kind).map(|event| event.timestamp).min()?;
        let began = of(EventKind::SessionStarted).map(|event| event.timestamp);
        let processors: BTreeSet<u32> = of(kind).filter_map(|event| event.processor).collect();
        Some(EventSummary {
            kind,
            times: of(kind).map(|event| event.amount.max(1)).fold(0, u64::saturating_add),
            processors: processors.len(),
            first_ns: began.min().and_then(|began| {
                nanoseconds(first.saturating_sub(began), self.metadata.timestamp_frequency)
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{Metadata, RecordedEvent};

    fn event(
        timestamp: u64,
        kind: EventKind,
        processor: Option<u32>,
        amount: u64,
    ) -> RecordedEvent {
        RecordedEvent { timestamp, kind: kind.name().to_owned(), processor, amount }
    }

    #[test]
    fn each_kind_is_summed_up() {
        use EventKind::{Asleep, SamplesLost, SessionStarted, SessionStopped};
        let unknown = RecordedEvent { kind: "of-tomorrow".to_owned(), ..RecordedEvent::default() };
        let recording = Recording {
            metadata: Metadata { timestamp_frequency: 2_000_000_000, ..Metadata::default() },
            events: vec![
                event(1_000, SessionStarted, None, 0),
                event(5_000, SamplesLost, Some(1), 30),
                event(3_000, SamplesLost, Some(0), 12),
                event(4_000, SamplesLost, Some(1), 1),
                event(9_000, Asleep, None, 0),
                unknown,
                event(9_999, SessionStopped, None, 0),
            ],
            ..Recording::default()
        };
        let of = |kind, times, processors, first_ns| EventSummary {
            kind,
            times,
            processors,
            first_ns: Some(first_ns),
        };
        assert_eq!(
            recording.event_summaries(),
            [of(SamplesLost, 43, 2, 1_000), of(Asleep, 1, 0, 4_000)]
        );
        assert_eq!(Recording::default().event_summaries(), []);
    }

    /// A file may contain anything.
    #[test]
    fn what_makes_no_sense_does_no_harm() {
        let recording = Recording {
            events: vec![
                event(u64::MAX, EventKind::Storm, Some(u32::MAX), u64::MAX),
                event(0, EventKind::Storm, None, u64::MAX),
                event(u64::MAX, EventKind::SessionStarted, None, 0),
            ],
            ..Recording::default()
        };
        let [storm] = recording.event_summaries()[..] else {
            panic!("one kind");
        };
        assert_eq!((storm.times, storm.first_ns), (u64::MAX, None));
    }
}
