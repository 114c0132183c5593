//! `halprof report --diff`: what has become more and less from one recording to another.

use crate::Result;
use crate::args;
use crate::output::{Output, thousands};
use crate::shown::Shown;
use crate::table::{Column, Width, table};
use halprof_profile::report::key::Value;
use halprof_profile::report::share::{Share, differ};
use halprof_profile::report::{Part, Report, Sum, Table};
use serde::Serialize;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

#[derive(Serialize)]
struct Body {
    before: String,
    after: String,
    samples: [u64; 2],
    tables: Vec<Json>,
}

/// What one row was and is.
#[derive(Clone, Copy, Default)]
struct Change {
    before: Sum,
    after: Sum,
}

/// The rows of one source in both recordings.
struct Compared<'a> {
    source: Option<&'a str>,
    all: Change,
    rows: Vec<(Vec<String>, Change, &'a [Value])>,
}

pub(super) fn run(
    options: &args::Report,
    (before, after): (&Report, &Report),
    asked: usize,
    output: &Output,
) -> Result<()> {
    let tables = before.tables.iter().zip(&after.tables).take(asked);
    let tables: Vec<_> = tables.map(|(a, b)| (a, compare(a, b))).collect();
    if !output.is_json() {
        let several = before.sources.len() > 1;
        let texts = tables.iter().flat_map(|(table, parts)| {
            let parts = parts.iter();
            parts.map(move |part| text(table, part, several, (options.rows(), output.width())))
        });
        return output.print(&texts.collect::<Vec<_>>().join("\n"));
    }
    let other = options.diff.as_deref().unwrap_or(&options.file);
    let body = Body {
        before: options.file.display().to_string(),
        after: other.display().to_string(),
        samples: [before.total.samples, after.total.samples],
        tables: tables
            .iter()
            .map(|(table, parts)| json_of(table, parts))
            .collect(),
    };
    let modelled = before.recording.metadata.modelled || after.recording.metadata.modelled;
    output.print(&Output::object("diff", modelled, body)?)
}

/// Puts rows side by side that read alike; identifiers of processes differ from run to run, so a
/// process is known by its name.
fn compare<'a>(before: &'a Table, after: &'a Table) -> Vec<Compared<'a>> {
    let mut sources: Vec<Option<&str>> = Vec::new();
    for part in before.parts.iter().chain(&after.parts) {
        if !sources.contains(&part.source.as_deref()) {
            sources.push(part.source.as_deref());
        }
    }
    let of = |table: &'a Table, source| -> Option<&'a Part> {
        let mut parts = table.parts.iter();
        parts.find(|part| part.source.as_deref() == source)
    };
    let compared = |source| {
        let (a, b) = (of(before, source), of(after, source));
        let mut rows: BTreeMap<Vec<String>, (Change, &'a [Value])> = BTreeMap::new();
        for row in a.into_iter().flat_map(|part| &part.rows) {
            let entry = rows
                .entry(names(&row.values))
                .or_insert((Change::default(), &row.values));
            entry.0.before.add(row.sum);
        }
        for row in b.into_iter().flat_map(|part| &part.rows) {
            let entry = rows
                .entry(names(&row.values))
                .or_insert((Change::default(), &row.values));
            entry.0.after.add(row.sum);
        }
        let all = Change {
            before: a.map(|part| part.all).unwrap_or_default(),
            after: b.map(|part| part.all).unwrap_or_default(),
        };
        let rows = rows
            .into_iter()
            .map(|(names, (change, values))| (names, change, values));
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by(|a, b| points(b.1, all).abs().total_cmp(&points(a.1, all).abs()));
        Compared { source, all, rows }
    };
    sources.into_iter().map(compared).collect()
}

fn names(values: &[Value]) -> Vec<String> {
    let name = |value: &Value| match value {
        Value::Process {
            name: Some(name), ..
        } => name.to_string(),
        other => other.to_string(),
    };
    values.iter().map(name).collect()
}

/// By how much its share has grown.
fn points(change: Change, all: Change) -> f64 {
    let share = |part: Sum, whole: Sum| Share::of(part.samples, whole.samples).value;
    share(change.after, all.after) - share(change.before, all.before)
}

fn is_clear(change: Change, all: Change) -> bool {
    differ(
        (change.before.samples, all.before.samples),
        (change.after.samples, all.after.samples),
    )
}

fn text(of: &Table, part: &Compared<'_>, several: bool, (keep, width): (usize, Width)) -> String {
    let mut columns = vec![
        Column::number("change"),
        Column::number("before"),
        Column::number("after"),
        Column::number("events before").extra(),
        Column::number("events after").extra(),
        Column::word("verdict"),
    ];
    columns.extend(of.by.iter().map(|key| Column::name(key.name())));
    let rows = part.rows.iter().take(keep).map(|(names, change, _)| {
        let percent = |part: Sum, whole: Sum| Share::of(part.samples, whole.samples).value * 100.0;
        let mut cells = vec![
            format!("{:+.2}", points(*change, part.all) * 100.0),
            format!("{:.2} %", percent(change.before, part.all.before)),
            format!("{:.2} %", percent(change.after, part.all.after)),
            thousands(change.before.events),
            thousands(change.after.events),
            if is_clear(*change, part.all) {
                "clear".to_owned()
            } else {
                "chance".to_owned()
            },
        ];
        cells.extend(names.iter().map(|name| Shown(name).to_string()));
        cells
    });
    let source = part.source.filter(|_| several);
    let title = source.map_or_else(String::new, |source| format!("{}\n", Shown(source)));
    title + &table(width, &columns, rows)
}

fn json_of(table: &Table, parts: &[Compared<'_>]) -> Json {
    let row = |part: &Compared<'_>, change: Change, values: &[Value]| {
        let mut object = Map::new();
        for value in values {
            value.describe(&mut object);
        }
        let side = |sum: Sum, all: Sum| {
            let share = Share::of(sum.samples, all.samples);
            json!({
                "samples": sum.samples,
                "events": sum.events,
                "share": {"value": share.value, "low": share.low, "high": share.high},
            })
        };
        object.insert("before".to_owned(), side(change.before, part.all.before));
        object.insert("after".to_owned(), side(change.after, part.all.after));
        object.insert("change".to_owned(), json!(points(change, part.all)));
        object.insert("clear".to_owned(), json!(is_clear(change, part.all)));
        Json::Object(object)
    };
    let parts = parts.iter().map(|part| {
        let rows = part.rows.iter();
        let rows: Vec<_> = rows
            .map(|(_, change, values)| row(part, *change, values))
            .collect();
        json!({"source": part.source, "rows": rows})
    });
    let keys: Vec<_> = table.by.iter().map(|key| key.name()).collect();
    json!({"by": keys, "parts": parts.collect::<Vec<_>>()})
}
