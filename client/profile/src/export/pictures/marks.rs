//! The marks of a recording: a track for each channel, with a line for each mark.

use super::units::fitting;
use super::{Drawing, RIGHT, WIDTH, escaped, inline};
use crate::aggregate::marks::{Marks, Summary};
use crate::export::selection::Export;
use crate::number::{duration, thousands};
use std::fmt::Write;

/// The margin at the left for the channels' names.
const LEFT: f64 = 164.0;
/// The height of a track, including the gap below it.
const TRACK: f64 = 22.0;
/// The height of a line in it.
const LINE: f64 = 14.0;
/// The largest number of channels that one picture can show.
const TRACKS_MAX: usize = 32;
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
    let mut drawing = Drawing::default();
    let mut y = 4.0;
    for track in strip.tracks.iter().take(TRACKS_MAX) {
        drawing.track(LEFT, y + LINE - 2.0, y + LINE, &fitting(&track.channel, 20));
        let _ = writeln!(drawing.svg, "<path class=\"mark\" d=\"{}\"/>", lines(&track.marks, y));
        y += TRACK;
    }
    if let Some(more) = strip.tracks.len().checked_sub(TRACKS_MAX).filter(|&n| n != 0) {
        drawing.text("about", 16.0, y + 10.0, &format!("{more} more channels"));
        y += TRACK;
    }
    let base = y - (TRACK - LINE);
    drawing.time_axis(base, range as f64, "mark", |time| x(time / strip.tick_ns as f64));
    drawing
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

/// The distances between marks on each channel.
fn table(summaries: &[Summary]) -> String {
    const HEADS: [&str; 6] = ["Marks", "Apart: min", "median", "mean", "deviation", "max"];
    let mut table =
        "<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">Channel</th>".to_owned();
    for head in HEADS {
        let _ = write!(table, "<th scope=\"col\" class=\"number\">{head}</th>");
    }
    table += "</tr></thead>\n<tbody>\n";
    for summary in summaries.iter().take(TRACKS_MAX) {
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
