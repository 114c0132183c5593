//! The timeline as text.

use super::{Apart, Between, Body, Bucket, Marked, Ticks};
use crate::number::{seconds, thousands};
use crate::shown::Shown;
use crate::table::{Column, Width, cut, table};

/// The largest width of a channel's name beside its ticks.
pub(super) const NAME: usize = 24;
/// The gap between the two.
pub(super) const GAP: usize = 2;
/// The smallest width of the ticks.
pub(super) const LEAST: usize = 20;

/// The largest number of channels; a note says how many more there are.
const CHANNELS: usize = 32;
/// The length of the longest bar of a histogram.
const BAR: u64 = 30;

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
        if let [channel] = body.channels.as_slice() {
            let bars = channel.apart.as_ref().map(|apart| bars(&apart.histogram));
            text += &bars.unwrap_or_default();
        }
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
    format!(
        "{} more channels: `--channel` chooses",
        thousands(more as u64)
    )
}

fn head(body: &Body, width: Width) -> String {
    let dropped: u64 = body
        .dropped
        .values()
        .fold(0, |sum, &n| sum.saturating_add(n));
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
    let columns = [
        &[Column::name("channel"), Column::number("marks")],
        STRETCHES.as_slice(),
        &[Column::word("apart").extra()],
    ];
    let shown = body.channels.iter().take(CHANNELS);
    let histograms = shown
        .clone()
        .filter_map(|channel| Some(&channel.apart.as_ref()?.histogram));
    let buckets = || histograms.clone().flatten();
    let first = buckets().map(|bucket| bucket.from_ns).min().unwrap_or(0);
    let last = buckets().map(|bucket| bucket.to_ns).max().unwrap_or(0);
    let rows = shown.map(|channel| {
        let apart = channel.apart.as_ref();
        let name = [
            Shown(&channel.channel).to_string(),
            thousands(channel.marks),
        ];
        let spark = apart.map(|apart| spark(&apart.histogram, first));
        let cells = name.into_iter().chain(stretches(apart));
        cells.chain([spark.unwrap_or_default()]).collect::<Vec<_>>()
    });
    let mut text = table(width, &columns.concat(), rows);
    if last != 0 {
        let told = format!(
            "Times are from a mark to the next on its channel. `apart` is their histogram from {} ns \
             to {} ns; each column is twice as wide as the one before.",
            thousands(first),
            thousands(last)
        );
        text += &format!("{}\n", width.prose(0, &told));
    }
    if let Some(more) = body
        .channels
        .len()
        .checked_sub(CHANNELS)
        .filter(|&n| n != 0)
    {
        text += &line(width, &more_channels(more));
    }
    text
}

/// A histogram on one line, whose columns start at `first` nanoseconds.
fn spark(histogram: &[Bucket], first: u64) -> String {
    const LEVELS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let place = |ns: u64| u64::BITS - ns.leading_zeros();
    let begin = histogram.first().map_or(0, |bucket| place(bucket.from_ns));
    let most = histogram
        .iter()
        .map(|bucket| bucket.count)
        .max()
        .unwrap_or(0);
    let level = |bucket: &Bucket| {
        let level = scaled(bucket.count, most, LEVELS.len() as u64 - 1);
        LEVELS.get(level as usize).copied().unwrap_or(' ')
    };
    let before = " ".repeat((begin - place(first)) as usize);
    before + &histogram.iter().map(level).collect::<String>()
}

/// `part` on a scale from 0 to `top`, where `most` is `top`; anything but 0 is at least 1.
fn scaled(part: u64, most: u64, top: u64) -> u64 {
    let scaled = (u128::from(part) * u128::from(top)).div_ceil(u128::from(most.max(1)));
    u64::try_from(scaled).unwrap_or(top)
}

/// A histogram with one bar per line.
fn bars(histogram: &[Bucket]) -> String {
    let most = histogram
        .iter()
        .map(|bucket| bucket.count)
        .max()
        .unwrap_or(0);
    let numbers = histogram
        .iter()
        .map(|bucket| (thousands(bucket.from_ns), thousands(bucket.count)));
    let numbers: Vec<(String, String)> = numbers.collect();
    let widest = |of: fn(&(String, String)) -> &String| {
        numbers.iter().map(|one| of(one).len()).max().unwrap_or(0)
    };
    let (from, count) = (widest(|one| &one.0), widest(|one| &one.1));
    let lines = histogram
        .iter()
        .zip(&numbers)
        .map(|(bucket, (at_least, many))| {
            let bar = "#".repeat(scaled(bucket.count, most, BAR) as usize);
            format!("from {at_least:>from$} ns  {many:>count$}  {bar}")
                .trim_end()
                .to_owned()
                + "\n"
        });
    lines.collect()
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
    let wide = names
        .iter()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0);
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
    let by = match between.pair {
        "any" => "in the order of time".to_owned(),
        same => format!("of the same {same}"),
    };
    let mut text = line(
        width,
        &format!(
            "{} intervals from {from} to the next {to}, {by}",
            thousands(n)
        ),
    );
    let alone = format!(
        "{} marks on {from} without {to} behind them, {} on {to} without {from} before them",
        thousands(between.without_end),
        thousands(between.without_begin)
    );
    text += &line(width, &alone);
    let Some(lengths) = &between.lengths else {
        return text;
    };
    text += "\n";
    text += &table(width, &STRETCHES, [stretches(Some(lengths))]);
    text += &bars(&lengths.histogram);
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
