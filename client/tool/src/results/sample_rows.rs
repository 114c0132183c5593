//! Tables of samples: their text, and their rows as comma-separated values have them.

use crate::output::number::{events, percent, processor_time, thousands};
use crate::output::table::{Column, Section};
use crate::results::count_row::UNKNOWN;
use halprof_profile::aggregate::key::{Key, has_totals};
use halprof_profile::aggregate::share::Share;
use halprof_profile::views::report::{GroupTotals, RowMetric, SourceSection, Table};
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
    // Metrics have columns of their own, by their names.
    others.chain(callees).chain(["metrics"]).collect()
}

/// The same where each row has its source.
pub(crate) fn absent_beside_source(by: &[Key]) -> Vec<&'static str> {
    absent_fields(&[by, &[Key::Source]].concat())
}

pub(crate) fn key_columns<'a>(by: &[Key]) -> impl Iterator<Item = Column<'a>> {
    by.iter().map(|key| Column::name(key.name()))
}

/// The first rows of a part, and how many more there are; `all` is the option that prints all rows.
/// With `several` sources, its source is the title.
pub(crate) fn section<'a>(
    by: &[Key],
    part: &'a SourceSection,
    several: bool,
    keep: usize,
    all: &str,
) -> Section<'a> {
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
    let metrics = part.rows.first().into_iter().flat_map(|row| &row.metrics);
    columns.extend(metrics.flat_map(|metric| metric_columns(&metric.metric)));
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
    cells.extend(row.metrics.iter().flat_map(metric_cells));
    cells.extend(row.values.iter().map(ToString::to_string));
    cells
}

/// The columns of a metric: its value, and its interval.
pub(crate) fn metric_columns(name: &str) -> [Column<'_>; 2] {
    [Column::number(name), Column::word("95 %")]
}

/// A value with its interval, of which the ends are rounded outwards; without a value, what it is below
/// or above.
pub(crate) fn metric_cells(metric: &RowMetric) -> [String; 2] {
    let &RowMetric { value, low, high, .. } = metric;
    match (value, low, high) {
        (Some(value), Some(low), Some(high)) => {
            let digits = digits(value);
            let (low, high) =
                (outwards(low, digits, f64::floor), outwards(high, digits, f64::ceil));
            [format!("{value:.digits$}"), format!("{low}..{high}")]
        }
        (Some(value), ..) => [format!("{value:.*}", digits(value)), UNKNOWN.to_owned()],
        (None, _, Some(high)) => {
            [format!("< {}", outwards(high, digits(high), f64::ceil)), String::new()]
        }
        (None, Some(low), _) => {
            [format!("> {}", outwards(low, digits(low), f64::floor)), String::new()]
        }
        (None, None, None) => ["-".to_owned(), String::new()],
    }
}

/// How many digits after the point are shown: three significant ones of a number from 1 on, and thousandths
/// of a smaller one.
fn digits(value: f64) -> usize {
    match value.abs() {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "three digits at most"
)]
fn outwards(value: f64, digits: usize, round: fn(f64) -> f64) -> String {
    let scale = 10_f64.powi(digits as i32);
    format!("{:.digits$}", round(value * scale) / scale)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_shows_what_is_known_of_it() {
        let metric = |value, low, high| RowMetric { value, low, high, ..RowMetric::default() };
        for (metric, cells) in [
            (metric(Some(1.234), Some(1.181), Some(1.281)), ["1.23", "1.18..1.29"]),
            (metric(Some(0.031_62), Some(0.0305), Some(0.0321)), ["0.032", "0.030..0.033"]),
            (metric(Some(123.4), Some(99.9), Some(150.1)), ["123", "99..151"]),
            (metric(Some(12.34), Some(11.11), Some(13.0)), ["12.3", "11.1..13.0"]),
            (metric(Some(1.5), None, None), ["1.50", UNKNOWN]),
            (metric(None, None, Some(0.3101)), ["< 0.311", ""]),
            (metric(None, Some(2.009), None), ["> 2.00", ""]),
            (metric(None, None, None), ["-", ""]),
        ] {
            assert_eq!(metric_cells(&metric), cells, "{metric:?}");
        }
    }
}
