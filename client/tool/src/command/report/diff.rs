//! `halprof report --diff`: what has increased and decreased from one recording to another.

use crate::cli::args;
use crate::output::Output;
use crate::output::error::{Error, Result};
use crate::output::number::{percent, thousands};
use crate::output::table::{Column, Section};
use crate::results::sample_rows::{SourceRow, absent_beside_source, key_columns};
use crate::select::filters;
use halprof_measure::statistics::proportion::{benjamini_hochberg, two_proportion_p_value};
use halprof_profile::aggregate::key::{Fields, Key, Value, fields};
use halprof_profile::aggregate::share::Share;
use halprof_profile::aggregate::totals::Totals;
use halprof_profile::views::report::{Report, SourceSection, Table};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(JsonSchema, Serialize)]
pub(crate) struct DiffResult<'a> {
    before: String,
    after: String,
    samples: [u64; 2],
    tables: Vec<ComparedTable<'a>>,
}

#[derive(JsonSchema, Serialize)]
struct ComparedTable<'a> {
    by: &'a [Key],
    parts: Vec<Compared<'a>>,
}

/// The rows of one source in both recordings.
#[derive(JsonSchema, Serialize)]
struct Compared<'a> {
    /// Null if `source` is one of the keys.
    source: Option<&'a str>,
    rows: Vec<DiffRow<'a>>,
}

#[derive(JsonSchema, Serialize)]
struct DiffRow<'a> {
    #[serde(flatten, serialize_with = "fields")]
    #[schemars(with = "Fields")]
    values: &'a [Value],
    before: Side,
    after: Side,
    /// The change of its share, in percentage points.
    change: f64,
    /// Chance alone does not explain the change, given the number of rows.
    clear: bool,
}

#[derive(JsonSchema, Serialize)]
struct Side {
    #[serde(flatten)]
    totals: Totals,
    share: Share,
}

pub(super) fn run(
    options: &args::Report,
    (before, after): (&Report, &Report),
    requested: usize,
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
    let mut tables = Vec::new();
    for (before, after) in before.tables.iter().zip(&after.tables).take(requested) {
        if before.sections.iter().chain(&after.sections).any(SourceSection::is_mixed) {
            return Err(Error::usage(
                "`--diff` compares shares, and there are none across several sources",
                "Leave `source` out of `--by`: each source has a table of its own.",
            ));
        }
        tables.push(ComparedTable { by: &before.by, parts: compare(before, after, &common) });
    }
    let files = filters::names(&options.files);
    let other = options.diff.as_deref();
    let result = DiffResult {
        after: other.map_or_else(|| files.clone(), |file| file.display().to_string()),
        before: files,
        samples: [before.total.samples, after.total.samples],
        tables,
    };
    let parts = result.tables.iter().flat_map(|table| &table.parts);
    let lines: Vec<SourceRow<'_, &DiffRow<'_>>> = parts
        .flat_map(|part| part.rows.iter().map(|row| SourceRow { source: part.source, row }))
        .collect();
    let several = before.sources.len() > 1;
    let absent =
        result.tables.first().map_or_else(Vec::new, |table| absent_beside_source(table.by));
    output.rows_without(&absent, "diff", (&result, &lines), |result| {
        let mut texts = Vec::new();
        for table in &result.tables {
            for part in &table.parts {
                let section = section(table.by, part, several, options.most_rows());
                texts.push(section.text(output.width()));
            }
        }
        texts.join("\n")
    })
}

/// The sources that are in both recordings.
fn common(before: &Report, after: &Report) -> Result<Vec<Arc<str>>> {
    let [before, after] = [before, after].map(|report| {
        let sources = report.sources.iter();
        sources.map(|source| Arc::clone(&source.name)).collect::<Vec<_>>()
    });
    if before.iter().any(|name| after.contains(name)) {
        return Ok(before.into_iter().filter(|name| after.contains(name)).collect());
    }
    Err(Error::usage(
        format!(
            "the recordings have no source in common: {} and {}",
            before.join(", "),
            after.join(", ")
        ),
        "Compare recordings of the same source.",
    ))
}

fn compare<'a>(before: &'a Table, after: &'a Table, common: &[Arc<str>]) -> Vec<Compared<'a>> {
    let mut sources: Vec<&Option<Arc<str>>> = Vec::new();
    for part in before.sections.iter().chain(&after.sections) {
        let in_both = part.source.as_ref().is_none_or(|source| common.contains(source));
        if in_both && !sources.contains(&&part.source) {
            sources.push(&part.source);
        }
    }
    let compared = sources.into_iter().map(|source| {
        let [before, after] =
            [before, after].map(|table| table.sections.iter().find(|part| part.source == *source));
        Compared { source: source.as_deref(), rows: changes(before, after) }
    });
    compared.collect()
}

/// Pairs rows with the same text, the largest changes first. Process identifiers differ from run to
/// run, so a process is matched by name.
fn changes<'a>(
    before: Option<&'a SourceSection>,
    after: Option<&'a SourceSection>,
) -> Vec<DiffRow<'a>> {
    let mut pairs: BTreeMap<Vec<String>, (&[Value], [Totals; 2])> = BTreeMap::new();
    for (side, part) in [before, after].into_iter().enumerate() {
        let rows = part.into_iter().flat_map(|part| &part.rows);
        // Code that only called what has samples has none of its own.
        for row in rows.filter(|row| row.totals.samples != 0) {
            let names = row.values.iter().map(name).collect();
            let pair = pairs.entry(names).or_insert((&row.values, Default::default()));
            pair.1[side].add(row.totals);
        }
    }
    let [all_before, all_after] =
        [before, after].map(|part| part.map(|part| part.all).unwrap_or_default());
    let changes = pairs.into_values().map(|(values, [before, after])| {
        let before = Side { totals: before, share: Share::weighted(before, all_before) };
        let after = Side { totals: after, share: Share::weighted(after, all_after) };
        let change = after.share.value - before.share.value;
        DiffRow { values, before, after, change, clear: false }
    });
    let mut changes: Vec<DiffRow<'_>> = changes.collect();
    let p_value = |change: &DiffRow<'_>| {
        two_proportion_p_value(change.before.share.alike(), change.after.share.alike())
    };
    let p_values: Vec<f64> = changes.iter().map(p_value).collect();
    for (change, clear) in changes.iter_mut().zip(benjamini_hochberg(&p_values)) {
        change.clear = clear;
    }
    changes.sort_by(|a, b| b.change.abs().total_cmp(&a.change.abs()));
    changes
}

fn name(value: &Value) -> String {
    match value {
        Value::Process { name: Some(name), .. } => name.to_string(),
        other => other.to_string(),
    }
}

fn section(by: &[Key], part: &Compared<'_>, several: bool, keep: usize) -> Section {
    let mut columns = vec![
        Column::number("change"),
        Column::number("before"),
        Column::number("after"),
        Column::number("events before").extra(),
        Column::number("events after").extra(),
        Column::word("verdict"),
    ];
    columns.extend(key_columns(by));
    let rows = part.rows.iter().take(keep).map(|row| {
        let mut cells = vec![
            format!("{:+.2}", row.change * 100.0),
            percent(row.before.share.value),
            percent(row.after.share.value),
            thousands(row.before.totals.events),
            thousands(row.after.totals.events),
            if row.clear { "clear" } else { "chance" }.to_owned(),
        ];
        cells.extend(row.values.iter().map(name));
        cells
    });
    let source = part.source.filter(|_| several);
    Section {
        title: source.unwrap_or_default().to_owned(),
        columns,
        rows: rows.collect(),
        more: String::new(),
    }
}
