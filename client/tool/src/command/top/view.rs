//! The picture: a title, a table, a chart, and the keys; fewer of these on a smaller terminal.

use super::figures::{self, Format};
use super::look::Look;
use super::state::{Party, State, View};
use super::tables;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Chart, Clear, Dataset, GraphType, Paragraph, Wrap};
use std::time::Duration;

const KEYS: &[(&str, &str)] = &[
    ("q", "quit"),
    ("space", "pause"),
    ("v", "view"),
    ("s", "sort"),
    ("r", "reverse"),
    ("c", "choose"),
    ("?", "help"),
];

const HELP: &[&str] = &[
    "q, Esc, Ctrl-C  quit",
    "space, p        stop the picture; counting and the log go on",
    "v, Tab          sources, or processors",
    "up, down        choose a row; PgUp, PgDn, Home, End too",
    "left, right     choose a source",
    "s               sort by the next column",
    "r               the other way round",
    "c               choose what is counted",
    "?, h            this",
    "",
    "k M G T P E: 10^3, 10^6, 10^9, 10^12, 10^15, 10^18",
    "~: an estimate, where sources take turns on the counters",
];

/// The smallest number of rows with a chart.
const CHART_FROM: u16 = 16;
/// One row in this many is for metrics.
const METRICS_SHARE: u16 = 8;

/// Draws all of it.
pub(super) fn draw(frame: &mut Frame<'_>, state: &State, look: &Look) {
    let area = frame.area();
    let metrics = metrics(state, area.width, area.height / METRICS_SHARE);
    let is_tall = area.height >= CHART_FROM;
    let heights = [
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(if is_tall { area.height / 3 } else { 0 }),
        Constraint::Length(metrics.len() as u16),
        Constraint::Length(u16::from(area.height >= 3)),
    ];
    let [title, table, chart, figures, keys] = Layout::vertical(heights).areas(area);
    let elapsed = (state.shown().elapsed, state.every);
    let machine = (state.modelled, state.machine.as_str());
    frame.render_widget(title_line(machine, state.is_paused(), elapsed, look), title);
    match state.view {
        View::Sources => tables::sources(frame, table, state, look),
        View::Processors => tables::processors(frame, table, state, look),
    }
    trace(frame, chart, state, look);
    frame.render_widget(Paragraph::new(metrics.join("\n")), figures);
    let last = match &state.message {
        Some(message) => Line::styled(message.as_str(), look.warning),
        None => keys_line(KEYS, look),
    };
    frame.render_widget(last, keys);
    if state.help {
        help(frame, HELP, look);
    }
    choosing(frame, state, look);
}

/// The most important items come first: a narrow terminal cuts off the rest.
pub(super) fn title_line<'a>(
    (modelled, machine): (bool, &'a str),
    paused: bool,
    (elapsed, every): (Duration, Duration),
    look: &Look,
) -> Line<'a> {
    let mut spans = Vec::new();
    if modelled {
        spans.push(Span::styled("MODELLED ", look.warning));
    }
    if paused {
        spans.push(Span::styled("PAUSED ", look.warning));
    }
    let (elapsed, every) = (elapsed.as_secs(), every.as_secs_f64());
    spans.push(Span::styled(format!("{elapsed} s"), look.strong));
    spans.push(Span::styled(format!(", every {every} s, "), look.quiet));
    spans.push(Span::raw(machine));
    Line::from(spans)
}

/// What the keys do.
pub(super) fn keys_line<'a>(keys: &[(&'a str, &'a str)], look: &Look) -> Line<'a> {
    let key = |&(key, does): &(&'a str, &'a str)| {
        let key = Span::styled(key, look.strong);
        [key, Span::styled(format!(" {does}  "), look.quiet)]
    };
    Line::from(keys.iter().flat_map(key).collect::<Vec<_>>())
}

/// The metrics, in at most `lines` lines.
fn metrics(state: &State, width: u16, lines: u16) -> Vec<String> {
    let shown = state.shown();
    let metrics = figures::metrics(
        &state.sources,
        &shown.interval,
        &state.processors,
        state.party,
    );
    let mut all: Vec<String> = Vec::new();
    for (name, value) in metrics {
        let metric = format!("{value} {name}");
        match all.last_mut() {
            Some(line) if line.len() + metric.len() + 2 <= width.into() => {
                *line += "; ";
                *line += &metric;
            }
            _ => all.push(metric),
        }
    }
    all.truncate(lines.into());
    all
}

/// The marked rate over time, like an oscilloscope trace.
fn trace(frame: &mut Frame<'_>, area: Rect, state: &State, look: &Look) {
    if area.height < 4 {
        return;
    }
    let history = &state.shown().history;
    // A braille cell has two columns of dots.
    let points = u32::from(area.width) * 2;
    let rates: Vec<Option<f32>> = match (state.view, state.lines.get(state.line)) {
        (View::Sources, Some(line)) => history.rates_on(&line.processors, line.source).collect(),
        _ => history
            .rates_on(&state.members(state.party), state.source())
            .collect(),
    };
    let rates = rates.into_iter().rev().take(points as usize);
    let ago = |intervals: u32| state.every.saturating_mul(intervals).as_secs_f64();
    let point = |(age, rate): (u32, Option<f32>)| Some((-ago(age), f64::from(rate?)));
    let points_shown: Vec<(f64, f64)> = (0..).zip(rates).filter_map(point).collect();
    let most = points_shown.iter().map(|point| point.1).fold(0.0, f64::max);
    let most = if most > 0.0 { most * 1.1 } else { 1.0 };
    // A short history is not stretched over the whole width.
    let span = ago((history.len() as u32).clamp(20, points.max(20)) - 1);
    let source = state.name(state.line);
    let place = match (state.view, state.core(state.line), state.party) {
        (_, _, Party::One(processor)) => format!("processor {processor}"),
        (_, _, Party::Core(core)) | (View::Sources, core, Party::All) if !core.is_empty() => {
            format!("{core} cores")
        }
        _ => "all processors".to_owned(),
    };
    let data = Dataset::default()
        .marker(look.marker)
        .graph_type(GraphType::Line)
        .style(look.trace)
        .data(&points_shown);
    let x = Axis::default()
        .bounds([-span, 0.0])
        .labels([format!("-{span:.1} s"), "now".to_owned()])
        .style(look.quiet);
    let y = Axis::default()
        .bounds([0.0, most])
        .labels(["0".to_owned(), most.short()])
        .style(look.quiet);
    let chart = Chart::new(vec![data])
        .block(Block::new().title(Line::styled(
            format!("{source}, {place}, events a second"),
            look.strong,
        )))
        .x_axis(x)
        .y_axis(y);
    frame.render_widget(chart, area);
}

/// A box in the middle, as large as its text but no larger than the terminal.
fn popup(frame: &mut Frame<'_>, columns: u16, rows: u16, title: &str, look: &Look) -> Rect {
    let area = frame.area();
    let area = area.centered(
        Constraint::Length(columns.saturating_add(2).min(area.width)),
        Constraint::Length(rows.saturating_add(2).min(area.height)),
    );
    let block = Block::bordered().title(title).border_style(look.quiet);
    let inner = block.inner(area);
    frame.render_widget(Clear, area);
    frame.render_widget(block, area);
    inner
}

pub(super) fn help(frame: &mut Frame<'_>, lines: &[&str], look: &Look) {
    let columns = lines.iter().map(|line| line.len()).max().unwrap_or(0) as u16;
    let inner = popup(frame, columns, lines.len() as u16, "keys", look);
    frame.render_widget(
        Paragraph::new(lines.join("\n")).wrap(Wrap { trim: false }),
        inner,
    );
}

fn choosing(frame: &mut Frame<'_>, state: &State, look: &Look) {
    let Some(choosing) = &state.choosing else {
        return;
    };
    let columns = choosing
        .rows
        .iter()
        .map(|row| row.label.chars().count())
        .max();
    let columns = u16::try_from(columns.unwrap_or(0))
        .unwrap_or(u16::MAX)
        .saturating_add(4)
        .max(30);
    let rows = u16::try_from(choosing.rows.len()).unwrap_or(u16::MAX);
    let inner = popup(frame, columns, rows, "space: choose, Enter: count", look);
    let shown = tables::window(choosing.rows.len(), choosing.at, inner.height);
    let line = |index: usize| {
        let row = choosing.rows.get(index)?;
        let sign = if row.chosen { "[x]" } else { "[ ]" };
        let style = if index == choosing.at {
            look.marked
        } else {
            Style::new()
        };
        Some(Line::styled(format!("{sign} {}", row.label), style))
    };
    let lines: Vec<Line<'_>> = shown.filter_map(line).collect();
    frame.render_widget(Paragraph::new(lines), inner);
}

#[cfg(test)]
mod tests;
