//! `halprof report --diff`: what has increased and decreased from one recording to another.

use super::row::{Keys, ShareBody, described};
use crate::cli::args;
use crate::metrics::significance::{by_chance, clear_of_chance};
use crate::output::Output;
use crate::output::error::Error;
use crate::output::error::Result;
use crate::output::escape::Shown;
use crate::output::number::thousands;
use crate::output::table::{Column, Width, csv, table};
use crate::select::filters;
use halprof_profile::aggregate::key::Value;
use halprof_profile::views::report::share::Share;
use halprof_profile::views::report::{Report, SourceSection, Table, Totals};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(JsonSchema, Serialize)]
pub(crate) struct Body {
    before: String,
    after: String,
    samples: [u64; 2],
    tables: Vec<TableBody>,
}

#[derive(JsonSchema, Serialize)]
struct TableBody {
    by: Vec<&'static str>,
    parts: Vec<PartBody>,
}

#[derive(JsonSchema, Serialize)]
struct PartBody {
    /// Null if `source` is one of the keys.
    source: Option<String>,
    rows: Vec<RowBody>,
}

#[derive(JsonSchema, Serialize)]
struct RowBody {
    #[serde(flatten)]
    #[schemars(with = "Keys")]
    keys: Map<String, Json>,
    before: Side,
    after: Side,
    /// The change of its share, in percentage points.
    change: f64,
    /// Chance alone does not explain the change, given the number of rows.
    clear: bool,
}

#[derive(JsonSchema, Serialize)]
struct Side {
    samples: u64,
    events: u64,
    share: ShareBody,
}

/// A row and its source, for CSV.
#[derive(JsonSchema, Serialize)]
struct Line {
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(flatten)]
    row: RowBody,
}

/// The sums of one row before and after.
#[derive(Clone, Copy, Default)]
struct Change {
    before: Totals,
    after: Totals,
}

/// The rows of one source in both recordings.
struct Compared<'a> {
    source: Option<&'a str>,
    all: Change,
    rows: Vec<Row<'a>>,
}

struct Row<'a> {
    names: Vec<String>,
    values: &'a [Value],
    change: Change,
    /// Chance alone does not explain the change, given the number of rows.
    clear: bool,
}

pub(super) fn run(
    options: &args::Report,
    (before, after): (&Report, &Report),
    asked: usize,
    output: &Output,
) -> Result<()> {
    let common = common(before, after)?;
    for (report, other) in [(before, after), (after, before)] {
        for source in report.sources.iter().map(|source| &source.name) {
            if !other.sources.iter().any(|other| other.name == *source) {
                output.warn(&format!("only one of the recordings has {source}: it is left out"));
            }
        }
    }
    let tables = before.tables.iter().zip(&after.tables).take(asked);
    if tables.clone().any(|(a, b)| mixed(a) || mixed(b)) {
        return Err(Error::usage(
            "`--diff` compares shares, and there are none across several sources",
            "Leave `source` out of `--by`: each source has a table of its own.",
        ));
    }
    let tables: Vec<_> = tables.map(|(a, b)| (a, compare(a, b, &common))).collect();
    let modelled = before.recording.metadata.modelled || after.recording.metadata.modelled;
    if output.is_csv() {
        let rows = tables.iter().flat_map(|(_, parts)| lines(parts));
        return output.print_data(&csv(&rows.collect::<Vec<_>>(), modelled)?);
    }
    if !output.is_json() {
        let several = before.sources.len() > 1;
        let texts = tables.iter().flat_map(|(table, parts)| {
            let parts = parts.iter();
            parts.map(move |part| text(table, part, several, (options.most_rows(), output.width())))
        });
        return output.print(&texts.collect::<Vec<_>>().join("\n"));
    }
    let files = filters::names(&options.files);
    let other = options.diff.as_deref();
    let body = Body {
        after: other.map_or_else(|| files.clone(), |file| file.display().to_string()),
        before: files,
        samples: [before.total.samples, after.total.samples],
        tables: tables.iter().map(|(table, parts)| json_of(table, parts)).collect(),
    };
    output.print(&Output::object("diff", modelled, body)?)
}

/// The sources that are in both recordings.
fn common(before: &Report, after: &Report) -> Result<Vec<Arc<str>>> {
    let names = |report: &Report| {
        let sources = report.sources.iter();
        sources.map(|one| Arc::clone(&one.name)).collect::<Vec<_>>()
    };
    let (mut common, others) = (names(before), names(after));
    common.retain(|name| others.contains(name));
    if common.is_empty() {
        let listed = |names: Vec<Arc<str>>| names.join(", ");
        return Err(Error::usage(
            format!(
                "the recordings have no source in common: {} and {}",
                listed(names(before)),
                listed(others)
            ),
            "Compare recordings of the same source.",
        ));
    }
    Ok(common)
}

fn mixed(table: &Table) -> bool {
    table.sections.iter().any(|part| part.mixed)
}

/// Pairs rows with the same text. Process identifiers differ from run to run, so a process is
/// matched by name.
fn compare<'a>(before: &'a Table, after: &'a Table, common: &[Arc<str>]) -> Vec<Compared<'a>> {
    let mut sources: Vec<Option<&str>> = Vec::new();
    for part in before.sections.iter().chain(&after.sections) {
        let source = part.source.as_ref();
        let both = source.is_none_or(|source| common.contains(source));
        if both && !sources.contains(&part.source.as_deref()) {
            sources.push(part.source.as_deref());
        }
    }
    let of = |table: &'a Table, source| -> Option<&'a SourceSection> {
        let mut parts = table.sections.iter();
        parts.find(|part| part.source.as_deref() == source)
    };
    let compared = |source| {
        let (a, b) = (of(before, source), of(after, source));
        let mut rows: BTreeMap<Vec<String>, (Change, &'a [Value])> = BTreeMap::new();
        for row in a.into_iter().flat_map(|part| &part.rows) {
            let entry = rows.entry(names(&row.values)).or_insert((Change::default(), &row.values));
            entry.0.before.add(row.totals);
        }
        for row in b.into_iter().flat_map(|part| &part.rows) {
            let entry = rows.entry(names(&row.values)).or_insert((Change::default(), &row.values));
            entry.0.after.add(row.totals);
        }
        let all = Change {
            before: a.map(|part| part.all).unwrap_or_default(),
            after: b.map(|part| part.all).unwrap_or_default(),
        };
        let by_chance: Vec<f64> = rows.values().map(|(change, _)| change.by_chance(all)).collect();
        let rows = rows.into_iter().zip(clear_of_chance(&by_chance));
        let rows =
            rows.map(|((names, (change, values)), clear)| Row { names, values, change, clear });
        let mut rows: Vec<_> = rows.collect();
        let size = |row: &Row<'_>| points(row.change, all).abs();
        rows.sort_by(|a, b| size(b).total_cmp(&size(a)));
        Compared { source, all, rows }
    };
    sources.into_iter().map(compared).collect()
}

fn names(values: &[Value]) -> Vec<String> {
    let name = |value: &Value| match value {
        Value::Process { name: Some(name), .. } => name.to_string(),
        other => other.to_string(),
    };
    values.iter().map(name).collect()
}

/// By how many percentage points its share has grown.
fn points(change: Change, all: Change) -> f64 {
    let share = |part: Totals, whole: Totals| Share::weighted(part, whole).value;
    share(change.after, all.after) - share(change.before, all.before)
}

impl Change {
    /// How likely chance alone is to cause at least this difference.
    fn by_chance(self, all: Self) -> f64 {
        by_chance(
            Share::weighted(self.before, all.before).alike(),
            Share::weighted(self.after, all.after).alike(),
        )
    }
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
    let rows = part.rows.iter().take(keep).map(|row| {
        let (names, change) = (&row.names, row.change);
        let percent = |part: Totals, whole: Totals| Share::weighted(part, whole).value * 100.0;
        let mut cells = vec![
            format!("{:+.2}", points(change, part.all) * 100.0),
            format!("{:.2} %", percent(change.before, part.all.before)),
            format!("{:.2} %", percent(change.after, part.all.after)),
            thousands(change.before.events),
            thousands(change.after.events),
            if row.clear { "clear".to_owned() } else { "chance".to_owned() },
        ];
        cells.extend(names.iter().map(|name| Shown(name).to_string()));
        cells
    });
    let source = part.source.filter(|_| several);
    let title = source.map_or_else(String::new, |source| format!("{}\n", Shown(source)));
    title + &table(width, &columns, rows)
}

fn row_body(part: &Compared<'_>, row: &Row<'_>) -> RowBody {
    let change = row.change;
    let side = |sum: Totals, all: Totals| Side {
        samples: sum.samples,
        events: sum.events,
        share: Share::weighted(sum, all).into(),
    };
    RowBody {
        keys: described(row.values),
        before: side(change.before, part.all.before),
        after: side(change.after, part.all.after),
        change: points(change, part.all),
        clear: row.clear,
    }
}

fn lines(parts: &[Compared<'_>]) -> Vec<Line> {
    let of_part = |part: &Compared<'_>| {
        let line = |row| Line { source: part.source.map(str::to_owned), row: row_body(part, row) };
        part.rows.iter().map(line).collect::<Vec<_>>()
    };
    parts.iter().flat_map(of_part).collect()
}

fn json_of(table: &Table, parts: &[Compared<'_>]) -> TableBody {
    let parts = parts.iter().map(|part| PartBody {
        source: part.source.map(str::to_owned),
        rows: part.rows.iter().map(|row| row_body(part, row)).collect(),
    });
    let keys: Vec<_> = table.by.iter().map(|key| key.name()).collect();
    TableBody { by: keys, parts: parts.collect() }
}
