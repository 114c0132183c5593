//! The marks of a recording: a lane for each channel, with a line for each mark.

use super::units::{duration, fitting, short, step, time_unit};
use super::{Drawing, RIGHT, WIDTH, escaped, inline};
use crate::export::selection::Export;
use crate::number::thousands;
use crate::views::marks::{Marks, Strip, Summary};
use std::fmt::Write;

/// The margin at the left for the channels' names.
const LEFT: f64 = 164.0;
/// The height of a lane, including the gap below it.
const LANE: f64 = 22.0;
/// The height of a line in it.
const LINE: f64 = 14.0;
/// The largest number of channels that one picture can show.
const LANES_MAX: usize = 32;
/// The number of columns, one pixel each.
const COLUMNS: usize = 1020;

/// A section of the page; empty if there are no marks.
pub(super) fn section(export: &Export<'_>) -> String {
    let marks = &export.samples.marks;
    if marks.is_empty() {
        return String::new();
    }
    let summaries = marks.summaries();
    let channels = &marks.channels;
    let about = format!(
        "{} marks on {} channels in {}; {}; `halprof timeline` has each of them",
        thousands(marks.len() as u64),
        thousands(summaries.len() as u64),
        duration(marks.elapsed_ns() as f64),
        channels.clock
    );
    let mut section = format!("<section>\n<h2>Marks</h2>\n<p>{}</p>\n", escaped(&about));
    section += &inline(&format!("Marks: {about}"), &drawing(marks));
    section += &table(&summaries);
    section + "</section>\n"
}

fn drawing(marks: &Marks) -> Drawing {
    let range = marks.elapsed_ns().max(1);
    let strip = marks.strip(range.div_ceil(COLUMNS as u64), COLUMNS + 2);
    let mut drawn = String::new();
    let mut y = 4.0;
    for track in strip.tracks.iter().take(LANES_MAX) {
        let _ = writeln!(
            drawn,
            "<text class=\"lane\" x=\"16\" y=\"{:.1}\">{}</text>\n<path class=\"mark\" d=\"{}\"/>\n\
             <path class=\"axis\" d=\"M{LEFT} {:.1}H{}\"/>",
            y + LINE - 2.0,
            escaped(&fitting(&track.channel, 20)),
            lines(&track.marks, y),
            y + LINE,
            WIDTH - RIGHT
        );
        y += LANE;
    }
    if let Some(more) = strip.tracks.len().checked_sub(LANES_MAX).filter(|&n| n != 0) {
        let _ = writeln!(
            drawn,
            "<text class=\"about\" x=\"16\" y=\"{:.1}\">{more} more channels</text>",
            y + 10.0
        );
        y += LANE;
    }
    drawn += &axis(&strip, range as f64, y);
    Drawing { height: y + 36.0, marks: drawn }
}

fn x(column: f64) -> f64 {
    LEFT + column * (WIDTH - LEFT - RIGHT) / (COLUMNS + 2) as f64
}

/// A line in each column that has a mark.
fn lines(cells: &[u64], y: f64) -> String {
    let marked = (0..).zip(cells).filter(|&(_, &marks)| marks != 0);
    marked.fold(String::new(), |mut path, (column, _)| {
        let _ = write!(path, "M{:.1} {y:.1}v{LINE}", x(f64::from(column)));
        path
    })
}

fn axis(strip: &Strip, range: f64, y: f64) -> String {
    let (unit, size) = time_unit(range);
    let tick = step(range, 10.0);
    let mut drawn = String::new();
    let mut time = 0.0;
    while time <= range {
        let at = x(time / strip.tick_ns as f64);
        let _ = writeln!(
            drawn,
            "<text class=\"tick mid\" x=\"{at:.1}\" y=\"{:.1}\">{}</text>",
            y + 8.0,
            short(time / size)
        );
        time += tick;
    }
    let _ = writeln!(
        drawn,
        "<text class=\"about mid\" x=\"{}\" y=\"{:.1}\">time since the first mark, {unit}</text>",
        f64::midpoint(LEFT, WIDTH - RIGHT),
        y + 26.0
    );
    drawn
}

/// The distances between marks on each channel.
fn table(summaries: &[Summary]) -> String {
    const HEADS: [&str; 6] = ["Marks", "Apart: min", "median", "mean", "deviation", "max"];
    let mut table =
        "<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">Channel</th>".to_owned();
    for head in HEADS {
        let _ = write!(table, "<th scope=\"col\" class=\"number\">{head}</th>");
    }
    table += "</tr></thead>\n<tbody>\n";
    for summary in summaries.iter().take(LANES_MAX) {
        let gaps = summary.gaps.as_ref();
        let times = gaps.map_or(const { [const { String::new() }; 5] }, |gaps| {
            [
                duration(gaps.min_ns as f64),
                duration(gaps.median_ns as f64),
                duration(gaps.mean_ns),
                gaps.deviation_ns.map(duration).unwrap_or_default(),
                duration(gaps.max_ns as f64),
            ]
        });
        let _ = write!(
            table,
            "<tr><td>{}</td><td class=\"number\">{}</td>",
            escaped(&summary.channel),
            thousands(summary.marks)
        );
        for time in times {
            let _ = write!(table, "<td class=\"number\">{time}</td>");
        }
        table += "</tr>\n";
    }
    table + "</tbody>\n</table></div>\n"
}
