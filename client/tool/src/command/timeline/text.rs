//! The timeline as text.

use super::{Between, TimelineResult};
use crate::output::escape::Escaped;
use crate::output::number::{optional, seconds, thousands};
use crate::output::table::{Column, Field, Record, Width, cut, records, table};
use halprof_profile::aggregate::marks::{Interval, MarkRow, SpanStats, Strip, Summary};

/// The largest width of a channel's name beside its ticks.
pub(super) const NAME: usize = 24;
/// The gap between the two.
pub(super) const GAP: usize = 2;
/// The smallest width of the ticks.
pub(super) const LEAST: usize = 20;

/// The largest number of channels; a note says how many more there are.
const CHANNELS: usize = 32;

pub(super) fn text(result: &TimelineResult, width: Width) -> String {
    let mut text = head(result, width);
    text += "\n";
    if result.marks == 0 {
        return text + "no marks\n";
    }
    text += &channels(result, width);
    if let Some(ticks) = &result.ticks {
        text += "\n";
        text += &strip(ticks, width);
    }
    if let Some(between) = &result.between {
        text += "\n";
        text += &from_mark_to_mark(between, width);
    }
    if result.ticks.is_none() && result.between.is_none() {
        text += "\n";
        text += &records(width, &result.rows);
        if result.rows_omitted != 0 {
            let more = thousands(result.rows_omitted);
            text += &line(
                width,
                &format!(
                    "{more} more marks: `--rows 0` prints all, `--time` and `--channel` choose"
                ),
            );
        }
    }
    text
}

/// A sentence on a line of its own, or on several if it is too long.
fn line(width: Width, text: &str) -> String {
    width.fitted(text) + "\n"
}

fn more_channels(more: usize) -> String {
    format!("{} more channels: `--channel` chooses", thousands(more as u64))
}

fn head(result: &TimelineResult, width: Width) -> String {
    let dropped: u64 = result.dropped.values().fold(0, |sum, &n| sum.saturating_add(n));
    let all = result.recorded.saturating_add(result.driver_events);
    let of = match result.marks {
        marks if marks == all => String::new(),
        _ => format!(" of {}", thousands(all)),
    };
    let channels = match result.channels.len() {
        1 => "1 channel".to_owned(),
        some => format!("{} channels", thousands(some as u64)),
    };
    let summary = format!(
        "{}{of} marks on {channels} in {}, {} dropped",
        thousands(result.marks),
        seconds(result.elapsed_ns),
        thousands(dropped)
    );
    let mut text = line(width, &summary);
    let clock = &result.clock;
    if !clock.name.is_empty() {
        let inexact = if clock.step_ns > 1.0 { ", shorter times are not exact" } else { "" };
        let summary = format!(
            "{}; {} ticks a second, ±{:.2} ppm against the system's clock over {}; \
             resolution {:.1} ns{inexact}",
            Escaped(&clock.name),
            thousands(clock.ticks_a_second),
            clock.rate_error_ppm,
            seconds(clock.rate_over_ns),
            clock.step_ns
        );
        text += &format!("time    {}\n", width.prose(8, &summary));
    }
    if let Some(cost) = &result.cost {
        let summary = format!(
            "costs its thread at least {:.1} ns, median {:.1} ns, measured {} times in the program",
            cost.min_ns,
            cost.median_ns,
            thousands(cost.distances)
        );
        text += &format!("a mark  {}\n", width.prose(8, &summary));
    }
    text
}

/// The columns of statistics, in nanoseconds.
impl Record for SpanStats {
    const COLUMNS: &'static [Field<Self>] = &[
        Field::new(Column::number("min ns"), |spans| thousands(spans.min_ns)),
        Field::new(Column::number("median"), |spans| thousands(spans.median_ns)),
        Field::new(Column::number("mean"), |spans| format!("{:.1}", spans.mean_ns)),
        Field::new(Column::number("mode").extra(), |spans| optional(spans.mode_ns.map(thousands))),
        Field::new(Column::number("deviation").extra(), |spans| {
            spans.deviation_ns.map(|deviation| format!("{deviation:.1}")).unwrap_or_default()
        }),
        Field::new(Column::number("max"), |spans| thousands(spans.max_ns)),
    ];
}

impl Record for MarkRow {
    const COLUMNS: &'static [Field<Self>] = &[
        Field::new(Column::number("n"), |mark| thousands(mark.number)),
        Field::new(Column::number("time ns"), |mark| thousands(mark.time_ns)),
        Field::new(Column::name("channel"), |mark| mark.channel.clone()),
        Field::new(Column::number("value"), |mark| mark.value.to_string()),
        Field::new(Column::number("on channel"), |mark| {
            optional(mark.on_channel_ns.map(thousands))
        }),
        Field::new(Column::number("on any"), |mark| optional(mark.on_any_ns.map(thousands))),
        Field::new(Column::number("process").extra(), |mark| optional(mark.process)),
        Field::new(Column::number("thread").extra(), |mark| optional(mark.thread)),
        Field::new(Column::number("processor").extra(), |mark| optional(mark.processor)),
    ];
}

impl Record for Interval {
    const COLUMNS: &'static [Field<Self>] = &[
        Field::new(Column::number("longest ns"), |one| thousands(one.length_ns)),
        Field::new(Column::number("begins at ns"), |one| thousands(one.begin_ns)),
        Field::new(Column::number("value"), |one| one.value.to_string()),
        Field::new(Column::number("process"), |one| optional(one.process)),
        Field::new(Column::number("thread"), |one| optional(one.thread)),
    ];
}

/// A table of the channels, with the statistics of their gaps.
fn channels(result: &TimelineResult, width: Width) -> String {
    let mut columns = vec![Column::name("channel"), Column::number("marks")];
    columns.extend(SpanStats::COLUMNS.iter().map(|field| field.column));
    let listed = result.channels.iter().take(CHANNELS);
    let mut text = table(width, &columns, listed.clone().map(channel_cells));
    if listed.into_iter().any(|channel| channel.gaps.is_some()) {
        text += &line(width, "Times are from a mark to the next on its channel.");
    }
    if let Some(more) = result.channels.len().checked_sub(CHANNELS).filter(|&n| n != 0) {
        text += &line(width, &more_channels(more));
    }
    text
}

fn channel_cells(channel: &Summary) -> Vec<String> {
    let mut cells = vec![channel.channel.clone(), thousands(channel.marks)];
    if let Some(gaps) = &channel.gaps {
        cells.extend(SpanStats::COLUMNS.iter().map(|field| (field.cell)(gaps)));
    }
    cells
}

/// One row per channel and one column per tick, as on a logic analyser.
fn strip(ticks: &Strip, width: Width) -> String {
    let names = ticks.tracks.iter().map(|track| Escaped(&track.channel).to_string());
    let names: Vec<String> = names.map(|name| cut(NAME, &name).into_owned()).collect();
    let wide = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let columns = ticks.tracks.first().map_or(0, |track| track.marks.len());
    let summary = format!(
        "each column is {} ns, the first starts at {} ns; | is one mark, 2 to 9 that many, # more",
        thousands(ticks.tick_ns),
        thousands(ticks.from_ns)
    );
    let mut text = line(width, &summary);
    let ruler = (0..columns).map(|column| if column % 10 == 0 { '+' } else { '-' });
    let gap = " ".repeat(GAP);
    text += &format!("{:wide$}{gap}{}\n", "", ruler.collect::<String>());
    for (name, track) in names.iter().zip(&ticks.tracks).take(CHANNELS) {
        let cells: String = track.marks.iter().map(|&marks| sign(marks)).collect();
        let pad = " ".repeat(wide - name.chars().count());
        text += format!("{name}{pad}{gap}{cells}").trim_end();
        text += "\n";
    }
    if let Some(more) = ticks.tracks.len().checked_sub(CHANNELS).filter(|&n| n != 0) {
        text += &line(width, &more_channels(more));
    }
    if ticks.omitted_columns != 0 {
        let more = thousands(ticks.omitted_columns);
        text += &line(
            width,
            &format!(
                "{more} more columns: `--time FROM-TO` chooses which, a longer tick shows more"
            ),
        );
    }
    text
}

fn sign(marks: u64) -> char {
    match marks {
        0 => '.',
        1 => '|',
        2..=9 => char::from_digit(marks as u32, 10).unwrap_or('#'),
        _ => '#',
    }
}

fn from_mark_to_mark(between: &Between, width: Width) -> String {
    let (from, to) = (Escaped(&between.from), Escaped(&between.to));
    let n = between.lengths.as_ref().map_or(0, |lengths| lengths.n);
    let mut text = line(
        width,
        &format!("{} intervals from {from} to the next {to} of the same thread", thousands(n)),
    );
    if between.without_end != 0 || between.without_begin != 0 {
        let (without_end, without_begin) =
            (thousands(between.without_end), thousands(between.without_begin));
        text += &line(
            width,
            &format!(
                "without a later {to}: {without_end}; without an earlier {from}: {without_begin}"
            ),
        );
    }
    let Some(lengths) = &between.lengths else {
        return text;
    };
    text += "\n";
    text += &records(width, [lengths]);
    text += "\n";
    text + &records(width, &between.longest)
}
