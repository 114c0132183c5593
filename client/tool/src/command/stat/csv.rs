//! Counts as comma-separated values: one line for each, those of intervals with their time; if
//! metrics were requested, also one line for each metric.

use super::body::{Body, Figure, Interval, ProcessPart, Row, SlotsPart};
use crate::output::error::Error;
use crate::output::error::Result;
use crate::output::table::cell_text;

/// The first columns of every line of counts, in other files too.
pub(crate) const COUNT: [&str; 9] = [
    "time_ns",
    "source",
    "processor",
    "value",
    "counted",
    "enabled_ns",
    "running_ns",
    "scaled",
    "error",
];
/// The columns after those; new ones are added at the end.
const MORE: [&str; 24] = [
    "start_ns",
    "run",
    "pass",
    "core_type",
    "group",
    "deviation",
    "confidence",
    "min",
    "median",
    "max",
    "outliers",
    "metric",
    "figure",
    "unit",
    "modelled",
    "process",
    "process_id",
    "requested",
    "left_out",
    "note",
    "without_turn",
    "cpu_type",
    "level",
    "reason",
];

/// The values of a line by column name; the first one counts if a name occurs twice, and columns
/// without a value are empty.
type Line = Vec<(&'static str, String)>;

/// What the lines contain.
#[derive(Clone, Copy)]
pub(super) struct Lines {
    /// Whether the names of the columns come first.
    pub(super) head: bool,
    /// Whether metrics follow the counts.
    pub(super) metrics: bool,
    /// Whether the machine is modelled.
    pub(super) modelled: bool,
}

/// When a line's count was taken, and in which run.
#[derive(Clone, Copy, Default)]
struct Backend {
    time_ns: Option<u64>,
    start_ns: Option<u64>,
    run: Option<u32>,
    pass: Option<u32>,
}

/// The lines of an interval.
pub(super) fn interval(interval: &Interval, has: Lines) -> Result<String> {
    let place = Backend {
        time_ns: Some(interval.time_ns),
        start_ns: Some(interval.start_ns),
        run: interval.run,
        pass: interval.pass,
    };
    let slots = interval.topdown.iter().map(slots);
    lines(place, &interval.counts, &interval.derived, slots, has)
}

/// The lines of the whole measurement.
pub(super) fn whole(body: &Body, has: Lines) -> Result<String> {
    let parts = body.topdown.iter().map(slots);
    let parts = parts.chain(body.by_process.iter().map(part));
    lines(Backend::default(), &body.counts, &body.derived, parts, has)
}

fn lines(
    place: Backend,
    rows: &[Row],
    figures: &[Figure],
    parts: impl Iterator<Item = Line>,
    has: Lines,
) -> Result<String> {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    let failed = |error: ::csv::Error| Error::internal(error);
    let head = || COUNT.iter().chain(&MORE);
    if has.head {
        writer.write_record(head()).map_err(failed)?;
    }
    let counts = rows.iter().map(count);
    let figures = figures.iter().filter(|_| has.metrics);
    for mut line in counts.chain(figures.map(metric)).chain(parts) {
        line.extend(place.columns());
        line.push(("modelled", has.modelled.to_string()));
        let value = |name: &&str| {
            let column = line.iter().find(|(column, _)| column == name);
            column.map_or("", |(_, value)| value.as_str())
        };
        writer.write_record(head().map(value)).map_err(failed)?;
    }
    let bytes = writer.into_inner().map_err(Error::internal)?;
    String::from_utf8(bytes).map_err(Error::internal)
}

fn optional(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

impl Backend {
    fn columns(self) -> [(&'static str, String); 4] {
        [
            ("time_ns", optional(self.time_ns)),
            ("start_ns", optional(self.start_ns)),
            ("run", optional(self.run)),
            ("pass", optional(self.pass)),
        ]
    }
}

fn count(row: &Row) -> Line {
    let mut line = vec![
        ("source", row.source.clone()),
        ("processor", optional(row.processor)),
        ("value", optional(row.value)),
        ("counted", row.counted.to_string()),
        ("enabled_ns", row.enabled_ns.to_string()),
        ("running_ns", row.running_ns.to_string()),
        ("scaled", row.scaled.to_string()),
        ("error", optional(row.error.map(|error| format!("{error:.0}")))),
        ("pass", optional(row.pass)),
        ("core_type", optional(row.core_type)),
        ("group", optional(row.group)),
        ("requested", optional(row.requested.as_ref())),
        ("left_out", optional(row.left_out.as_ref())),
        ("note", optional(row.note.as_ref())),
        ("without_turn", optional(row.without_turn.as_ref())),
    ];
    if let Some(repeats) = &row.repeats {
        let outliers = repeats.outliers.iter().map(|one| one.run.to_string());
        line.extend([
            ("deviation", format!("{:.3}", repeats.deviation)),
            ("confidence", format!("{:.3}", repeats.confidence)),
            ("min", repeats.min.to_string()),
            ("median", repeats.median.to_string()),
            ("max", repeats.max.to_string()),
            ("outliers", outliers.collect::<Vec<_>>().join(" ")),
        ]);
    }
    line
}

/// One process's part of a count; a part without samples names no process.
fn part(row: &ProcessPart) -> Line {
    vec![
        ("source", row.source.clone()),
        ("value", row.value.to_string()),
        ("error", optional(row.error.map(|error| format!("{error:.0}")))),
        ("process", optional(row.process.as_deref().map(cell_text))),
        ("process_id", row.id.map_or_else(|| "none".to_owned(), |id| id.to_string())),
    ]
}

/// A part of the slots of a kind of processor.
fn slots(row: &SlotsPart) -> Line {
    vec![
        ("scaled", row.error.is_some().to_string()),
        ("error", optional(row.error)),
        ("metric", row.metric.clone()),
        ("figure", optional(row.value)),
        ("unit", "%".to_owned()),
        ("cpu_type", row.kind.clone()),
        ("level", row.level.to_string()),
        ("reason", optional(row.reason.as_ref())),
    ]
}

fn metric(figure: &Figure) -> Line {
    let filter = match figure.filter {
        "" => String::new(),
        filter => format!(":{filter}"),
    };
    vec![
        ("scaled", figure.scaled.to_string()),
        ("error", optional(figure.error)),
        ("processor", optional(figure.processor)),
        ("core_type", optional(figure.core_type)),
        ("metric", format!("{}{filter}", figure.metric)),
        ("figure", optional(figure.value)),
        ("unit", figure.unit.clone()),
        ("reason", optional(figure.reason.as_ref())),
    ]
}
