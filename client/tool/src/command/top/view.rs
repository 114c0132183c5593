//! The picture: a title, a table, and the keys; fewer of these on a smaller terminal.

use super::look::Look;
use super::state::State;
use crate::output::style::plain;
use crate::output::table::Width;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

const KEYS: &[(&str, &str)] = &[
    ("q", "quit"),
    ("space", "pause"),
    ("s", "sort"),
    ("r", "reverse"),
    ("up, down", "other rows"),
    ("?", "help"),
];

const HELP: &[&str] = &[
    "q, Esc, Ctrl-C  quit",
    "space, p        freeze the display; measuring goes on",
    "s               sort by the next column",
    "r               reverse the order",
    "up, down        other rows; PgUp, PgDn, Home, End too",
    "left, right     another source that was sampled",
    "?, h            this help",
    "",
    "k M G T P E: 10^3, 10^6, 10^9, 10^12, 10^15, 10^18",
    "~: an estimate, where sources are multiplexed",
    "trend: the last 16 intervals",
];

pub(super) fn draw(frame: &mut Frame<'_>, state: &State, look: &Look) {
    let area = frame.area();
    let heights = [
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(u16::from(area.height >= 3)),
    ];
    let [title, body, keys] = Layout::vertical(heights).areas(area);
    frame.render_widget(title_line(state, look), title);
    let lines = lines(state, body.width, body.height, look);
    frame.render_widget(Paragraph::new(lines), body);
    frame.render_widget(keys_line(look), keys);
    if state.help {
        help(frame, look);
    }
}

/// The most important items come first: a narrow terminal cuts off the rest.
fn title_line<'a>(state: &'a State, look: &Look) -> Line<'a> {
    let mut spans = Vec::new();
    if state.modelled {
        spans.push(Span::styled("MODELLED ", look.warning));
    }
    if state.is_paused() {
        spans.push(Span::styled("PAUSED ", look.warning));
    }
    let (elapsed, every) = (state.shown().elapsed.as_secs(), state.every.as_secs_f64());
    spans.push(Span::styled(format!("{elapsed} s"), look.strong));
    spans.push(Span::styled(format!(", every {every} s, "), look.quiet));
    if let Some((column, reversed)) = state.sorting() {
        let reversed = if reversed { " reversed" } else { "" };
        let sorting = format!("by {column}{reversed}, ");
        spans.push(Span::styled(sorting, look.quiet));
    }
    spans.push(Span::raw(&state.machine));
    Line::from(spans)
}

fn keys_line(look: &Look) -> Line<'static> {
    let key = |&(key, does): &(&'static str, &str)| {
        let key = Span::styled(key, look.strong);
        [key, Span::styled(format!(" {does}  "), look.quiet)]
    };
    Line::from(KEYS.iter().flat_map(key).collect::<Vec<_>>())
}

/// What is said above the table, its rows, and what is said below, in at most `height` lines.
fn lines(state: &State, width: u16, height: u16, look: &Look) -> Vec<Line<'static>> {
    let width = Width::of(Some(width.max(1).into()));
    let picture = state.shown();
    let fitted = |texts: &[String]| -> Vec<Line<'static>> {
        let texts = texts.iter().map(|text| width.fitted(text));
        texts.flat_map(|text| owned(&text)).collect()
    };
    let warnings = fitted(&picture.warnings).into_iter();
    let warnings = warnings.map(|line| line.style(look.warning));
    let mut lines: Vec<Line<'_>> = fitted(&picture.notes).into_iter().chain(warnings).collect();
    if !lines.is_empty() {
        lines.push(Line::default());
    }
    let below = fitted(&picture.below);
    let room = usize::from(height).saturating_sub(lines.len() + below.len());
    let rows = state.rows(room, width, look);
    lines.extend(rows.lines().map(|line| {
        let is_head = line.contains('\u{1b}');
        let line = Line::from(plain(line));
        if is_head { line.style(look.strong) } else { line }
    }));
    lines.extend(below);
    lines
}

fn owned(text: &str) -> Vec<Line<'static>> {
    text.lines().map(|line| Line::from(line.to_owned())).collect()
}

/// A box in the middle, as large as its text but no larger than the terminal.
fn help(frame: &mut Frame<'_>, look: &Look) {
    let columns = HELP.iter().map(|line| line.len()).max().unwrap_or(0) as u16;
    let area = frame.area();
    let area = area.centered(
        Constraint::Length(columns.saturating_add(2).min(area.width)),
        Constraint::Length((HELP.len() as u16 + 2).min(area.height)),
    );
    let block = Block::bordered().title("keys").border_style(look.quiet);
    let inner = block.inner(area);
    frame.render_widget(Clear, area);
    frame.render_widget(block, area);
    let text = Paragraph::new(HELP.join("\n")).wrap(Wrap { trim: false });
    frame.render_widget(text, inner);
}

#[cfg(test)]
mod tests;
