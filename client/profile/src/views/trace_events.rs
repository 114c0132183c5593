//! What kinds of events a trace of Windows' own tracing has, whether halprof reads them or not.

use crate::file::is_recording;
use halprof_etw::names::{self, SelfDescription};
use halprof_etw::{Event, EventId, EventKind};
use halprof_measure::tracing::etl;
use halprof_measure::{Error, Result};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;
use std::path::Path;

/// How many kinds are told apart. Each event of a stranger's file may be of another kind.
const MOST_KINDS: usize = 1 << 16;

/// The events of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct EventRow {
    /// The GUID of the provider or class; null for the kernel's events, which have a group.
    pub provider: Option<String>,
    /// The group of a kernel event.
    pub group: Option<u8>,
    /// What the provider, class or group is called; null if halprof does not know it.
    pub provider_name: Option<String>,
    /// The type of a classic or kernel event in its class or group.
    #[serde(rename = "type")]
    pub opcode: Option<u8>,
    /// The number of an event of a manifest; 0 for each TraceLogging event.
    pub id: Option<u16>,
    /// The version of the payload.
    pub version: Option<u16>,
    /// The type of the header of an event that says nothing more, such as a WPP message.
    pub header: Option<u8>,
    /// What the event is called; null if halprof does not know it.
    pub name: Option<String>,
    /// How many there are.
    pub events: u64,
    /// When the first was, since the trace began.
    pub first_ns: i64,
    /// When the last was.
    pub last_ns: i64,
    /// Whether halprof reads what it says.
    pub read: bool,
}

/// The kinds of a trace.
#[derive(Clone, Debug)]
pub struct TraceEvents {
    /// The system that wrote the trace, such as `Windows 11 (10.0.22631)`.
    pub system: String,
    /// Whether a model wrote the trace.
    pub is_modelled: bool,
    /// The most events first.
    pub rows: Vec<EventRow>,
    /// All events.
    pub events: u64,
    /// Events of further kinds, beyond those that are told apart.
    pub others: u64,
    /// At least so many events were lost, besides those in lost buffers.
    pub lost_events: u64,
    /// At least so many buffers were lost.
    pub lost_buffers: u64,
    /// What could not be read, each as the end of a sentence.
    pub damage: Vec<String>,
    /// Remarks on what looks like a loss but is not, each a sentence.
    pub remarks: Vec<String>,
}

#[derive(Clone, Copy)]
struct Occurrence {
    events: u64,
    first_ns: i64,
    last_ns: i64,
    read: bool,
}

impl TraceEvents {
    /// Reads the traces of one session.
    pub fn read(paths: &[&Path]) -> Result<Self> {
        for &path in paths {
            refuse_recording(path)?;
        }
        let mut trace = etl::open_all(paths)?;
        let path = paths.first().copied().unwrap_or(Path::new(""));
        let mut kinds: IndexMap<(EventId, SelfDescription), Occurrence, FxBuildHasher> =
            IndexMap::default();
        let mut others = 0;
        while let Some(event) = trace.next_event().map_err(|error| Error::reading(path, error))? {
            let key = (event.id, description(&event));
            let read = !matches!(event.kind, EventKind::Unknown | EventKind::Damaged);
            let is_full = kinds.len() == MOST_KINDS;
            if let Some(known) = kinds.get_mut(&key) {
                known.events += 1;
                known.last_ns = event.ns;
                known.read |= read;
            } else if is_full {
                others += 1;
            } else {
                let (first_ns, last_ns) = (event.ns, event.ns);
                kinds.insert(key, Occurrence { events: 1, first_ns, last_ns, read });
            }
        }
        let mut rows: Vec<EventRow> = kinds.into_iter().map(|(key, seen)| row(key, seen)).collect();
        rows.sort_by_key(|row| Reverse(row.events));
        let losses = trace.losses();
        Ok(Self {
            system: etl::system(trace.header()),
            is_modelled: etl::is_modelled(trace.header()),
            rows,
            events: trace.events(),
            others,
            lost_events: losses.lost_events(),
            lost_buffers: losses.lost_buffers(),
            damage: etl::damage(&trace),
            remarks: etl::remarks(&trace),
        })
    }
}

/// A recording has kept none of the other events.
fn refuse_recording(path: &Path) -> Result<()> {
    if !is_recording(path)? {
        return Ok(());
    }
    let why = "is a recording, which has no events other than samples";
    Err(Error::bad_file(path, why, "Name a trace of Windows' own tracing (.etl)."))
}

/// What a TraceLogging event, whose number is always 0, says of itself.
fn description(event: &Event<'_>) -> SelfDescription {
    match event.id {
        EventId::Manifest { id: 0, .. } => SelfDescription::of(event.items.clone()),
        _ => SelfDescription::default(),
    }
}

fn row((id, own): (EventId, SelfDescription), seen: Occurrence) -> EventRow {
    let Occurrence { events, first_ns, last_ns, read } = seen;
    let known = EventRow {
        provider_name: own.provider.or_else(|| names::provider(id).map(str::to_owned)),
        name: own.event.or_else(|| names::event(id).map(str::to_owned)),
        events,
        first_ns,
        last_ns,
        read,
        ..EventRow::default()
    };
    match id {
        EventId::Kernel { group, opcode, version } => {
            EventRow { group: Some(group), opcode: Some(opcode), version: Some(version), ..known }
        }
        EventId::Classic { guid, opcode, version } => EventRow {
            provider: Some(guid.to_string()),
            opcode: Some(opcode),
            version: Some(version),
            ..known
        },
        EventId::Manifest { guid, id, version } => EventRow {
            provider: Some(guid.to_string()),
            id: Some(id),
            version: Some(version.into()),
            ..known
        },
        EventId::Other { header } => EventRow { header: Some(header), ..known },
    }
}
