//! The timeline as text.

use super::{Apart, Between, Body, Marked, Ticks};
use crate::output::escape::Shown;
use crate::output::number::{seconds, thousands};
use crate::output::table::{Column, Width, cut, table};

/// The largest width of a channel's name beside its ticks.
pub(super) const NAME: usize = 24;
/// The gap between the two.
pub(super) const GAP: usize = 2;
/// The smallest width of the ticks.
pub(super) const LEAST: usize = 20;

/// The largest number of channels; a note says how many more there are.
const CHANNELS: usize = 32;

pub(super) fn text(body: &Body, width: Width) -> String {
    let mut text = head(body, width);
    text += "\n";
    if body.marks == 0 {
        return text + "no marks\n";
    }
    text += &channels(body, width);
    if let Some(ticks) = &body.ticks {
        text += "\n";
        text += &strip(ticks, width);
    }
    if let Some(between) = &body.between {
        text += "\n";
        text += &from_mark_to_mark(between, width);
    }
    if body.ticks.is_none() && body.between.is_none() {
        text += "\n";
        text += &rows(&body.rows, width);
        if body.rows_left_out != 0 {
            let more = thousands(body.rows_left_out);
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

fn head(body: &Body, width: Width) -> String {
    let dropped: u64 = body.dropped.values().fold(0, |sum, &n| sum.saturating_add(n));
    let of = match body.marks {
        marks if marks == body.recorded => String::new(),
        _ => format!(" of {}", thousands(body.recorded)),
    };
    let channels = match body.channels.len() {
        1 => "1 channel".to_owned(),
        some => format!("{} channels", thousands(some as u64)),
    };
    let told = format!(
        "{}{of} marks on {channels} in {}, {} dropped",
        thousands(body.marks),
        seconds(body.elapsed_ns),
        thousands(dropped)
    );
    let mut text = line(width, &told);
    let clock = &body.clock;
    if !clock.name.is_empty() {
        let told = format!(
            "{}; {} ticks a second, ±{:.2} ppm against the system's clock over {}; \
             resolution {:.1} ns",
            Shown(&clock.name),
            thousands(clock.ticks_a_second),
            clock.rate_error_ppm,
            seconds(clock.rate_over_ns),
            clock.step_ns
        );
        text += &format!("time    {}\n", width.prose(8, &told));
    }
    if let Some(cost) = &body.cost {
        let told = format!(
            "takes at least {:.1} ns, median {:.1} ns, measured {} times in the program",
            cost.min_ns,
            cost.median_ns,
            thousands(cost.distances)
        );
        text += &format!("a mark  {}\n", width.prose(8, &told));
    }
    text
}

/// Statistics of stretches, in nanoseconds.
const STRETCHES: [Column; 6] = [
    Column::number("min ns"),
    Column::number("median"),
    Column::number("mean"),
    Column::number("mode").extra(),
    Column::number("deviation").extra(),
    Column::number("max"),
];

fn stretches(apart: Option<&Apart>) -> [String; 6] {
    let Some(apart) = apart else {
        return [const { String::new() }; 6];
    };
    let decimal = |value: f64| format!("{value:.1}");
    [
        thousands(apart.min_ns),
        thousands(apart.median_ns),
        decimal(apart.mean_ns),
        apart.mode_ns.map(thousands).unwrap_or_default(),
        apart.deviation_ns.map(decimal).unwrap_or_default(),
        thousands(apart.max_ns),
    ]
}

fn channels(body: &Body, width: Width) -> String {
    let columns = [&[Column::name("channel"), Column::number("marks")], STRETCHES.as_slice()];
    let shown = body.channels.iter().take(CHANNELS);
    let rows = shown.clone().map(|channel| {
        let name = [Shown(&channel.channel).to_string(), thousands(channel.marks)];
        let cells = name.into_iter().chain(stretches(channel.apart.as_ref()));
        cells.collect::<Vec<_>>()
    });
    let mut text = table(width, &columns.concat(), rows);
    if shown.clone().any(|channel| channel.apart.is_some()) {
        text += &line(width, "Times are from a mark to the next on its channel.");
    }
    if let Some(more) = body.channels.len().checked_sub(CHANNELS).filter(|&n| n != 0) {
        text += &line(width, &more_channels(more));
    }
    text
}

fn rows(rows: &[Marked], width: Width) -> String {
    let columns = [
        Column::number("n"),
        Column::number("time ns"),
        Column::name("channel"),
        Column::number("value"),
        Column::number("on channel"),
        Column::number("on any"),
        Column::number("process").extra(),
        Column::number("thread").extra(),
    ];
    let optional = |ns: Option<u64>| ns.map(thousands).unwrap_or_default();
    let rows = rows.iter().map(|row| {
        [
            thousands(row.number),
            thousands(row.time_ns),
            Shown(&row.channel).to_string(),
            row.value.to_string(),
            optional(row.on_channel_ns),
            optional(row.on_any_ns),
            row.process.to_string(),
            row.thread.to_string(),
        ]
    });
    table(width, &columns, rows)
}

/// One row per channel and one column per tick, as on a logic analyser.
fn strip(ticks: &Ticks, width: Width) -> String {
    let names = ticks.rows.iter().map(|row| Shown(&row.channel).to_string());
    let names: Vec<String> = names.map(|name| cut(NAME, &name).into_owned()).collect();
    let wide = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let columns = ticks.rows.first().map_or(0, |row| row.marks.len());
    let told = format!(
        "each column is {} ns, the first starts at {} ns; | is one mark, 2 to 9 that many, # more",
        thousands(ticks.tick_ns),
        thousands(ticks.from_ns)
    );
    let mut text = line(width, &told);
    let ruler = (0..columns).map(|column| if column % 10 == 0 { '+' } else { '-' });
    let gap = " ".repeat(GAP);
    text += &format!("{:wide$}{gap}{}\n", "", ruler.collect::<String>());
    for (name, row) in names.iter().zip(&ticks.rows).take(CHANNELS) {
        let cells: String = row.marks.iter().map(|&marks| sign(marks)).collect();
        let pad = " ".repeat(wide - name.chars().count());
        text += format!("{name}{pad}{gap}{cells}").trim_end();
        text += "\n";
    }
    if let Some(more) = ticks.rows.len().checked_sub(CHANNELS).filter(|&n| n != 0) {
        text += &line(width, &more_channels(more));
    }
    if ticks.left_out != 0 {
        let more = thousands(ticks.left_out);
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
    let (from, to) = (Shown(&between.from), Shown(&between.to));
    let n = between.lengths.as_ref().map_or(0, |lengths| lengths.n);
    let mut text = line(
        width,
        &format!("{} intervals from {from} to the next {to} of the same thread", thousands(n)),
    );
    if between.without_end != 0 || between.without_begin != 0 {
        text += &line(width, &alone(between));
    }
    let Some(lengths) = &between.lengths else {
        return text;
    };
    text += "\n";
    text += &table(width, &STRETCHES, [stretches(Some(lengths))]);
    let columns = [
        Column::number("longest ns"),
        Column::number("begins at ns"),
        Column::number("value"),
        Column::number("process"),
        Column::number("thread"),
    ];
    let rows = between.longest.iter().map(|one| {
        [
            thousands(one.length_ns),
            thousands(one.begin_ns),
            one.value.to_string(),
            one.process.to_string(),
            one.thread.to_string(),
        ]
    });
    text += "\n";
    text + &table(width, &columns, rows)
}

/// The marks that are at no end of an interval.
fn alone(between: &Between) -> String {
    let (from, to) = (Shown(&between.from), Shown(&between.to));
    let [end, begin] = [between.without_end, between.without_begin].map(|n| {
        let have = if n == 1 { "has" } else { "have" };
        (thousands(n), have)
    });
    let marks = match between.without_end {
        1 => "mark",
        _ => "marks",
    };
    let (on, before) = if between.from == between.to {
        (String::new(), "one".to_owned())
    } else {
        (format!(" on {to}"), from.to_string())
    };
    format!(
        "{} {marks} on {from} {} no later {to}, {}{on} {} no earlier {before}",
        end.0, end.1, begin.0, begin.1
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_without_an_end_or_a_begin_are_counted_in_words() {
        for ((from, to), (without_end, without_begin), said) in [
            (
                ("begin", "begin"),
                (1, 1),
                "1 mark on begin has no later begin, 1 has no earlier one",
            ),
            (
                ("begin", "end"),
                (1200, 0),
                "1,200 marks on begin have no later end, 0 on end have no earlier begin",
            ),
        ] {
            let between = Between {
                from: from.to_owned(),
                to: to.to_owned(),
                without_end,
                without_begin,
                lengths: None,
                longest: Vec::new(),
                all: Vec::new(),
            };
            assert_eq!(alone(&between), said);
        }
    }
}
