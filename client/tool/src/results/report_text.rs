//! The text of a report's tables, and the rows of its sources.

use super::head::head;
use super::sample_rows::section;
use crate::output::escape::Escaped;
use crate::output::number::{bound, events, percent, processor_time, thousands};
use crate::output::table::{Column, Field, Record, Width, records};
use crate::results::errata;
use halprof_measure::errata::Erratum;
use halprof_measure::float::float;
use halprof_profile::aggregate::processor_time::UNIT_NS;
use halprof_profile::aggregate::source_totals::SourceTotals;
use halprof_profile::aggregate::totals::Totals;
use halprof_profile::file::Metadata;
use halprof_profile::number::duration;
use halprof_profile::views::report::skid::Skid;
use halprof_profile::views::report::{Call, Report};
use schemars::JsonSchema;
use serde::Serialize;

/// The option that prints all rows.
pub(crate) const ALL: &str = "--rows 0";

#[derive(JsonSchema, Serialize)]
pub(crate) struct SourceSummary {
    source: String,
    /// In events; that of `Timer` in units of 100 ns.
    period: Option<u64>,
    samples: u64,
    events: u64,
    /// The processor time of the events; absent if the source does not sample time.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    /// Whether the source was multiplexed, so that `events` is scaled to the whole time.
    scaled: bool,
    /// The 95 % bound of scaled events, if known.
    error: Option<u64>,
    /// The vendor's errata that concern it.
    errata: Vec<Erratum>,
    skid: SkidSummary,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct SkidSummary {
    direction: &'static str,
    explanation: &'static str,
}

impl SourceSummary {
    /// The rows of sources of a recording.
    pub(crate) fn of_all<'a>(
        metadata: &Metadata,
        sources: impl Iterator<Item = &'a SourceTotals>,
    ) -> Vec<Self> {
        let errata = metadata.errata();
        let row = |source: &SourceTotals| {
            let own = errata.get(&*source.name).into_iter().flatten();
            Self::new(metadata, source, own.copied().cloned().collect())
        };
        sources.map(row).collect()
    }

    fn new(metadata: &Metadata, source: &SourceTotals, errata: Vec<Erratum>) -> Self {
        let Totals { samples, events, .. } = source.totals;
        let Skid { direction, explanation } =
            Skid::of(&metadata.interface, samples, source.addressed);
        Self {
            source: source.name.to_string(),
            period: source.period,
            samples,
            events,
            seconds: source.time.map(|time| time.seconds(events)),
            scaled: source.slices.is_some(),
            error: source.error(),
            errata,
            skid: SkidSummary { direction, explanation },
        }
    }
}

/// The call trees and tables that were requested, each with the most rows that a table and a tree have;
/// `all` is the option that prints all rows.
pub(crate) fn tables(
    report: &Report,
    (rows, calls): (usize, usize),
    all: &str,
    width: Width,
) -> String {
    let mut text = head(&report.recording, report.total.samples, width);
    text += &format!("\n{}", sources(report, usize::MAX, width));
    let several = report.sources.len() > 1;
    for tree in &report.call_trees {
        if several {
            text += &format!("\n{}", Escaped(&tree.source));
        }
        let (shown, more, omitted) = tree.first_calls(calls);
        text += &format!("\n{}", records(width, &shown));
        if more != 0 {
            text += &format!("{} more calls: {all}\n", thousands(more as u64));
        }
        if omitted != 0 {
            let of = if tree.time.is_some() { "time" } else { "events" };
            text +=
                &format!("{} calls with less than 1 % of the {of}\n", thousands(omitted as u64));
        }
    }
    for table in &report.tables {
        for part in &table.sections {
            text += "\n";
            text += &section(&table.by, part, several, rows, all).text(width);
        }
    }
    text
}

impl Record for SourceSummary {
    const COLUMNS: &'static [Field<Self>] = &[
        Field::new(Column::name("source"), |row| row.source.clone()),
        Field::new(Column::number("period"), |row| {
            period(row.period, row.seconds.is_some()).unwrap_or_default()
        }),
        Field::new(Column::number("samples"), |row| thousands(row.samples)),
        Field::new(Column::number("events, estimated"), |row| match row.error {
            Some(error) if row.seconds.is_none() => {
                let bound = bound(row.events.into(), float(error));
                format!("{} {bound}", thousands(row.events))
            }
            _ => events(row.events, row.seconds),
        }),
        Field::new(Column::number("processor time"), |row| match row.error {
            Some(error) if row.seconds.is_some() => {
                let bound = row.seconds.map(|time| time * float(error) / float(row.events.max(1)));
                format!("{} ±{}", processor_time(row.seconds), processor_time(bound))
            }
            _ => processor_time(row.seconds),
        }),
    ];
}

/// A source's period, if it is known: events, or a time.
pub(crate) fn period(period: Option<u64>, is_time: bool) -> Option<String> {
    let time = |period: u64| duration(float(period.saturating_mul(UNIT_NS)));
    Some(if is_time { time(period?) } else { thousands(period?) })
}

impl Record for Call {
    const COLUMNS: &'static [Field<Self>] = &[
        Field::new(Column::number("total"), |call| percent(call.share.value)),
        Field::new(Column::number("self"), |call| {
            percent(call.share.value * float(call.own) / float(call.total.max(1)))
        }),
        Field::new(Column::number("events").extra(), |call| events(call.total, call.seconds)),
        Field::new(Column::number("time").extra(), |call| processor_time(call.seconds)),
        Field::new(Column::name("process, function"), |call| {
            " ".repeat(call.depth as usize) + &call.to_string()
        }),
    ];
}

/// A line for each source, and what is true of several of them.
pub(crate) fn sources(report: &Report, keep: usize, width: Width) -> String {
    let metadata = &report.recording.metadata;
    let all = SourceSummary::of_all(metadata, report.sources.iter());
    let mut text = records(width, all.iter().take(keep));
    if keep < all.len() {
        text += &format!("{} more sources: `--by source` shows all\n", all.len() - keep);
    }
    let rows = all.iter().take(keep);
    text +=
        &width.fitted(&errata::text(rows.map(|row| (row.source.as_str(), row.errata.as_slice()))));
    let mut explanations = Vec::new();
    for source in all.iter().filter(|source| source.samples != 0) {
        if !explanations.contains(&source.skid.explanation) {
            explanations.push(source.skid.explanation);
        }
    }
    for explanation in explanations {
        text += &format!("{}\n", width.prose(0, explanation));
    }
    text
}
