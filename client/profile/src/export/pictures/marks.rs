//! The marks of a recording: a track for each channel, with a line for each mark.

use super::units::fitting;
use super::{Drawing, RIGHT, WIDTH, escaped, inline, room_for};
use crate::aggregate::marks::{Marks, Summary};
use crate::export::selection::Export;
use crate::number::{duration, thousands};
use std::fmt::Write;

/// The height of a track, including the gap below it.
const TRACK: f64 = 22.0;
/// The height of a line in it.
const LINE: f64 = 14.0;
/// The largest number of channels that one picture can show.
const TRACKS_MAX: usize = 32;
/// The number of columns, one pixel each.
const COLUMNS: usize = 1020;

/// A section of the page; empty if no program made marks.
pub(super) fn section(export: &Export<'_>) -> String {
    let marks = &export.samples.marks;
    if !marks.has_programs() {
        return String::new();
    }
    let summaries = marks.summaries();
    let channels = &marks.channels;
    let about = format!(
        "{} marks on {} channels in {}",
        thousands(marks.len() as u64),
        thousands(summaries.len() as u64),
        duration(marks.elapsed_ns() as f64),
    );
    let each = "`halprof timeline` has each of them";
    let parts = [&about, channels.clock.as_str(), each];
    let about = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
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
    let tracks = strip.tracks.iter().take(TRACKS_MAX);
    let (left, letters) = room_for(tracks.clone().map(|track| track.channel.as_str()));
    let x = |column: f64| left + column * (WIDTH - left - RIGHT) / (COLUMNS + 2) as f64;
    for track in tracks {
        drawing.track(left, y + LINE - 2.0, y + LINE, &fitting(&track.channel, letters));
        let _ = writeln!(drawing.svg, "<path class=\"mark\" d=\"{}\"/>", lines(&track.marks, y, x));
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

/// A line in each column that has a mark.
fn lines(cells: &[u64], y: f64, x: impl Fn(f64) -> f64) -> String {
    let marked = (0..).zip(cells).filter(|&(_, &marks)| marks != 0);
    marked.fold(String::new(), |mut path, (column, _)| {
        let _ = write!(path, "M{:.1} {y:.1}v{LINE}", x(f64::from(column)));
        path
    })
}

/// The distances between marks on each channel, without empty columns.
fn table(summaries: &[Summary]) -> String {
    const HEADS: [&str; 6] = ["Marks", "Apart: min", "median", "mean", "deviation", "max"];
    let row = |summary: &Summary| {
        let times = summary.gaps.as_ref().map_or_else(Default::default, |gaps| {
            [
                duration(gaps.min_ns as f64),
                duration(gaps.median_ns as f64),
                duration(gaps.mean_ns),
                gaps.deviation_ns.map(duration).unwrap_or_default(),
                duration(gaps.max_ns as f64),
            ]
        });
        let [min, median, mean, deviation, max] = times;
        [thousands(summary.marks), min, median, mean, deviation, max]
    };
    let rows: Vec<_> = summaries.iter().take(TRACKS_MAX).map(row).collect();
    let is_shown: [bool; HEADS.len()] = std::array::from_fn(|n| {
        rows.iter().any(|row| row.get(n).is_some_and(|cell| !cell.is_empty()))
    });
    let cells = |tag: &str, scope: &str, cells: &[&str]| {
        let shown = cells.iter().zip(is_shown).filter(|&(_, is_shown)| is_shown);
        shown.fold(String::new(), |mut row, (cell, _)| {
            let _ = write!(row, "<{tag}{scope} class=\"number\">{cell}</{tag}>");
            row
        })
    };
    let mut table =
        "<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">Channel</th>".to_owned();
    table += &cells("th", " scope=\"col\"", &HEADS);
    table += "</tr></thead>\n<tbody>\n";
    for (summary, row) in summaries.iter().zip(&rows) {
        let row = cells("td", "", &row.each_ref().map(String::as_str));
        let _ = writeln!(table, "<tr><td>{}</td>{row}</tr>", escaped(&summary.channel));
    }
    table + "</tbody>\n</table></div>\n"
}
