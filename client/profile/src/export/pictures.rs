//! Pictures of a recording: a flame graph, and a page with it and the rates over time.
//!
//! Everything in a recording is untrusted data: [`escaped`] stands between it and the markup.

mod flamegraph;
mod marks;
mod page;
mod timeline;
mod units;

pub use flamegraph::flamegraph;
pub use page::page;

use crate::number::{short, time_unit};
use std::fmt::Write;
use units::{fitting, step};

/// The width of a picture, which scales to the space available.
const WIDTH: f64 = 1200.0;
/// The margin at the right.
const RIGHT: f64 = 16.0;

/// How many characters of a title, and of a line of the caption, fit into the width.
const TITLE: usize = 110;
const CAPTION: usize = 170;

/// The margin at the left in which the longest of these names fits whole if there is room, and the
/// number of letters that fit.
fn room_for<'a>(names: impl Iterator<Item = &'a str>) -> (f64, usize) {
    const LETTER: f64 = 7.0;
    let letters = names.map(|name| name.chars().count()).max().unwrap_or(0).clamp(14, 40);
    (24.0 + LETTER * letters as f64, letters)
}

/// The style of all pictures, in light and dark mode.
const STYLE: &str = include_str!("pictures/picture.css");
/// Zooms into frames on a click.
const ZOOM: &str = include_str!("pictures/zoom.js");

/// Escapes text for SVG and HTML, in elements and in attributes. Characters that XML cannot contain
/// are replaced.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' | '\r' => escaped.push(' '),
            '\u{FFFE}' | '\u{FFFF}' => escaped.push('\u{FFFD}'),
            c if c.is_control() => escaped.push('\u{FFFD}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A drawing without a frame around it, which grows downwards.
#[derive(Default)]
struct Drawing {
    height: f64,
    /// Whether there are parts in it that can be chosen.
    has_parts: bool,
    /// What it does not show, in words.
    note: Option<String>,
    svg: String,
}

impl Drawing {
    fn text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        let text = escaped(text);
        let _ =
            writeln!(self.svg, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>");
    }

    /// The line below a track, and the name of the track.
    fn track(&mut self, left: f64, top: f64, base: f64, name: &str) {
        self.text("track", 16.0, top, name);
        let right = WIDTH - RIGHT;
        let _ = writeln!(self.svg, "<path class=\"axis\" d=\"M{left} {base:.1}H{right}\"/>");
    }

    /// An axis of `range` nanoseconds below the last track, which ends at `base`; `x` says where a
    /// time is drawn.
    fn time_axis(&mut self, base: f64, range: f64, since: &str, x: impl Fn(f64) -> f64) {
        let (unit, size) = time_unit(range);
        let tick = step(range, 10.0);
        let mut time = 0.0;
        while time <= range {
            let _ = writeln!(self.svg, "<path class=\"axis\" d=\"M{:.1} {base:.1}v5\"/>", x(time));
            self.text("tick mid", x(time), base + 18.0, &short(time / size));
            time += tick;
        }
        let about = format!("time since the first {since}, {unit}");
        self.text("about mid", f64::midpoint(x(0.0), x(range)), base + 36.0, &about);
        self.height = base + 42.0;
    }
}

/// A picture as a file of its own, in which a click zooms. The title and the lines below it are also
/// there for screen readers.
fn standalone(title: &str, lines: &[String], drawing: &Drawing) -> String {
    const LINE: f64 = 18.0;
    let head = 40.0 + LINE * lines.len() as f64;
    let height = head + drawing.height + 8.0;
    let (whole_title, about) = (escaped(title), escaped(&lines.join("; ")));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"group\" aria-labelledby=\"title about\">\n\
         <title id=\"title\">{whole_title}</title>\n<desc id=\"about\">{about}</desc>\n\
         <style>{STYLE}</style>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n\
         <text class=\"title\" x=\"16\" y=\"28\">{}</text>\n",
        escaped(&fitting(title, TITLE))
    );
    for (n, line) in lines.iter().enumerate() {
        let y = 48.0 + LINE * n as f64;
        let _ = writeln!(
            svg,
            "<text class=\"about\" x=\"16\" y=\"{y}\">{}</text>",
            escaped(&fitting(line, CAPTION))
        );
    }
    let _ = write!(
        svg,
        "<g transform=\"translate(0 {head})\">\n{}</g>\n<script><![CDATA[\n{ZOOM}]]></script>\n</svg>\n",
        drawing.svg
    );
    svg
}

/// A picture inside a page, as wide as the page where that is legible.
fn inline(label: &str, drawing: &Drawing) -> String {
    let role = if drawing.has_parts { "group" } else { "img" };
    let note = drawing.note.as_ref();
    let note = note.map_or_else(String::new, |note| format!("<p>{}</p>\n", escaped(note)));
    format!(
        "<div class=\"scroll\"><svg class=\"picture\" viewBox=\"0 0 {WIDTH} {}\" role=\"{role}\" aria-label=\"{}\">\n{}</svg></div>\n{note}",
        drawing.height,
        escaped(label),
        drawing.svg
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_name_is_markup() {
        assert_eq!(
            escaped("<a b='c'>&amp;\"\n\u{1}\u{FFFF}é"),
            "&lt;a b=&#39;c&#39;&gt;&amp;amp;&quot; \u{FFFD}\u{FFFD}é"
        );
    }
}
