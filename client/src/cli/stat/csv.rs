//! Counts as comma-separated values: one line for each, those of intervals with their time, and
//! where metrics were asked for one line for each of those.

use super::body::{Body, Figure, Interval, Row};
use crate::{Error, Result};

const COLUMNS: usize = 24;
/// The columns; new ones come last.
const HEAD: [&str; COLUMNS] = [
    "time_ns",
    "source",
    "processor",
    "value",
    "counted",
    "enabled_ns",
    "running_ns",
    "scaled",
    "error",
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
];

/// What the lines have.
#[derive(Clone, Copy)]
pub(super) struct Lines {
    /// The names of the columns above them.
    pub(super) head: bool,
    /// Metrics below counts.
    pub(super) metrics: bool,
    /// The machine is no silicon.
    pub(super) modelled: bool,
}

/// When and in which run the count of a line was.
#[derive(Clone, Copy, Default)]
struct Place {
    time_ns: Option<u64>,
    start_ns: Option<u64>,
    run: Option<u32>,
    pass: Option<u32>,
}

/// The lines of an interval.
pub(super) fn interval(interval: &Interval, has: Lines) -> Result<String> {
    let place = Place {
        time_ns: Some(interval.time_ns),
        start_ns: Some(interval.start_ns),
        run: interval.run,
        pass: interval.pass,
    };
    lines(place, &interval.counts, &interval.derived, has)
}

/// The lines of the whole.
pub(super) fn whole(body: &Body, has: Lines) -> Result<String> {
    lines(Place::default(), &body.counts, &body.derived, has)
}

fn lines(place: Place, rows: &[Row], figures: &[Figure], has: Lines) -> Result<String> {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    let failed = |error: ::csv::Error| Error::Internal(error.to_string());
    if has.head {
        writer.write_record(HEAD).map_err(failed)?;
    }
    let counts = rows.iter().map(|row| count(place, row));
    let figures = figures.iter().filter(|_| has.metrics);
    for mut record in counts.chain(figures.map(|figure| metric(place, figure))) {
        record[COLUMNS - 1] = has.modelled.to_string();
        writer.write_record(record).map_err(failed)?;
    }
    let bytes = writer
        .into_inner()
        .map_err(|error| Error::Internal(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| Error::Internal(error.to_string()))
}

fn optional(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn count(place: Place, row: &Row) -> [String; COLUMNS] {
    let repeats = row.repeats.as_ref();
    let outliers = repeats.map(|repeats| {
        let runs = repeats.outliers.iter().map(|one| one.run.to_string());
        runs.collect::<Vec<_>>().join(" ")
    });
    [
        optional(place.time_ns),
        row.source.clone(),
        optional(row.processor),
        row.value.to_string(),
        row.counted.to_string(),
        row.enabled_ns.to_string(),
        row.running_ns.to_string(),
        row.scaled.to_string(),
        optional(row.error.map(|error| format!("{error:.0}"))),
        optional(place.start_ns),
        optional(place.run),
        optional(row.pass),
        optional(row.core_type),
        optional(row.group),
        optional(repeats.map(|repeats| format!("{:.3}", repeats.deviation))),
        optional(repeats.map(|repeats| format!("{:.3}", repeats.confidence))),
        optional(repeats.map(|repeats| repeats.min)),
        optional(repeats.map(|repeats| repeats.median)),
        optional(repeats.map(|repeats| repeats.max)),
        optional(outliers),
        String::new(),
        String::new(),
        String::new(),
        String::new(),
    ]
}

fn metric(place: Place, figure: &Figure) -> [String; COLUMNS] {
    let filter = match figure.filter {
        "" => String::new(),
        filter => format!(":{filter}"),
    };
    let mut record: [String; COLUMNS] = Default::default();
    let columns = [
        (0, optional(place.time_ns)),
        (7, figure.scaled.to_string()),
        (8, optional(figure.error)),
        (9, optional(place.start_ns)),
        (10, optional(place.run)),
        (11, optional(place.pass)),
        (12, optional(figure.core_type)),
        (20, format!("{}{filter}", figure.metric)),
        (21, figure.value.to_string()),
        (22, figure.unit.clone()),
    ];
    for (column, value) in columns {
        if let Some(place) = record.get_mut(column) {
            *place = value;
        }
    }
    record
}
