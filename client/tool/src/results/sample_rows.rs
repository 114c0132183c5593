//! Tables of samples: their text, and their rows as comma-separated values have them.

use crate::output::number::{events, percent, processor_time, thousands};
use crate::output::table::{Column, Section};
use halprof_profile::aggregate::key::{Key, has_totals};
use halprof_profile::aggregate::share::Share;
use halprof_profile::views::report::{GroupTotals, SourceSection, Table};
use schemars::JsonSchema;
use serde::Serialize;

/// A row with its source; none if the row names it among its keys.
#[derive(JsonSchema, Serialize)]
pub(crate) struct SourceRow<'a, R> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<&'a str>,
    #[serde(flatten)]
    pub(crate) row: R,
}

pub(crate) fn source_rows(tables: &[Table]) -> Vec<SourceRow<'_, &GroupTotals>> {
    let parts = tables.iter().flat_map(|table| &table.sections);
    let rows = parts.flat_map(|part| {
        part.rows.iter().map(|row| SourceRow { source: part.source.as_deref(), row })
    });
    rows.collect()
}

/// The fields that rows by these keys do not have: those of other keys, and what their code called.
pub(crate) fn absent_fields(by: &[Key]) -> Vec<&'static str> {
    let is_requested = |field: &&str| by.iter().any(|key| key.fields().contains(field));
    let others = Key::ALL.iter().flat_map(|key| key.fields());
    let others = others.filter(|field| !is_requested(field)).copied();
    let callees = ["self", "total"].into_iter().filter(|_| !has_totals(by));
    others.chain(callees).collect()
}

/// The same where each row has its source.
pub(crate) fn absent_beside_source(by: &[Key]) -> Vec<&'static str> {
    absent_fields(&[by, &[Key::Source]].concat())
}

pub(crate) fn key_columns(by: &[Key]) -> impl Iterator<Item = Column> {
    by.iter().map(|key| Column::name(key.name()))
}

/// The first rows of a part, and how many more there are; `all` is the option that prints all rows.
/// With `several` sources, its source is the title.
pub(crate) fn section(
    by: &[Key],
    part: &SourceSection,
    several: bool,
    keep: usize,
    all: &str,
) -> Section {
    let mut columns = Vec::new();
    if !part.is_mixed() {
        columns.extend([Column::number("share"), Column::number("95 %")]);
    }
    let has_totals = part.rows.iter().any(|row| row.with_callees.is_some());
    if has_totals && !part.is_mixed() {
        columns.push(Column::number("total"));
    }
    columns.push(Column::number("samples"));
    columns.extend(["events", "time"].map(|head| Column::number(head).extra()));
    columns.extend(key_columns(by));
    let source = part.source.as_deref().filter(|_| several);
    Section {
        title: source.unwrap_or_default().to_owned(),
        columns,
        rows: part.rows.iter().take(keep).map(|row| cells(part, row)).collect(),
        more: more(part, keep)
            .map_or_else(String::new, |more| format!("{more}: `{all}` prints all")),
    }
}

fn cells(part: &SourceSection, row: &GroupTotals) -> Vec<String> {
    let mut cells = Vec::new();
    if let Some(share) = row.share {
        cells.extend([percent(share.value), format!("±{:.2}", share.bound() * 100.0)]);
        let total = row.with_callees.map(|both| Share::of(both.total, part.all.events).value);
        cells.extend(total.map(percent));
    }
    cells.push(thousands(row.totals.samples));
    cells.extend([events(row.totals.events, row.seconds), processor_time(row.seconds)]);
    cells.extend(row.values.iter().map(ToString::to_string));
    cells
}

/// What a part has beside its first rows, in words; `None` if these are all.
fn more(part: &SourceSection, keep: usize) -> Option<String> {
    let (mut more, mut sum) = part.more;
    for row in part.rows.iter().skip(keep) {
        more += 1;
        sum.add(row.totals);
    }
    (more != 0).then(|| {
        format!("{} more rows with {} samples", thousands(more as u64), thousands(sum.samples))
    })
}
