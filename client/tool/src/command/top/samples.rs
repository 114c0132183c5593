//! The picture of samples: the rows of the report on the last interval that fit.

use super::look::Look;
use super::view::{help, keys_line, title_line};
use crate::command::report;
use crate::command::report::head::head;
use crate::filters;
use crate::output::Told;
use crate::style::plain;
use crate::table::Width;
use halprof_profile::report::{Part, Report, Table};
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use std::time::Duration;

const KEYS: &[(&str, &str)] = &[
    ("q", "quit"),
    ("space", "pause"),
    ("up, down", "other rows"),
    ("left, right", "other source"),
    ("?", "help"),
];

const HELP: &[&str] = &[
    "q, Esc, Ctrl-C  quit",
    "space, p        stop the picture; sampling goes on",
    "up, down        other rows; PgUp, PgDn, Home, End too",
    "left, right     another source",
    "?, h            this",
];

/// The rows that a page has, and that stay at the end.
const PAGE: usize = 10;

/// What is shown.
pub(super) struct State {
    machine: String,
    modelled: bool,
    pub(super) every: Duration,
    elapsed: Duration,
    report: Option<Report>,
    paused: bool,
    help: bool,
    /// The source, as an index among those with samples.
    source: usize,
    /// The first row.
    first: usize,
}

impl State {
    pub(super) fn new(told: &Told, every: Duration) -> Self {
        Self {
            machine: told.machine.clone(),
            modelled: told.modelled,
            every,
            elapsed: Duration::ZERO,
            report: None,
            paused: false,
            help: false,
            source: 0,
            first: 0,
        }
    }

    /// Shows the next interval, unless the picture is paused.
    pub(super) fn take(&mut self, elapsed: Duration, report: Report) {
        if self.paused {
            return;
        }
        // The source and the first row are kept: this interval may have fewer, and the next more.
        (self.elapsed, self.report) = (elapsed, Some(report));
    }

    /// Handles a key; returns whether the user quits.
    pub(super) fn key(&mut self, key: KeyEvent) -> bool {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return key.code == KeyCode::Char('c');
        }
        if std::mem::take(&mut self.help) {
            return false;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char(' ' | 'p') => self.paused = !self.paused,
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::PageUp => self.step(-PAGE.cast_signed()),
            KeyCode::PageDown => self.step(PAGE.cast_signed()),
            KeyCode::Home => self.step(isize::MIN),
            KeyCode::End => self.step(isize::MAX),
            KeyCode::Left => self.source = self.source.min(self.last_source()).saturating_sub(1),
            KeyCode::Right => self.source = (self.source + 1).min(self.last_source()),
            _ => {}
        }
        false
    }

    /// Moves on from the first row that is shown.
    fn step(&mut self, rows: isize) {
        if let Some((_, part)) = self.part() {
            let shown = at_most(self.first, part);
            self.first = at_most(shown.saturating_add_signed(rows), part);
        }
    }

    fn parts(&self) -> impl Iterator<Item = (&Table, &Part)> {
        let tables = self.report.iter().flat_map(|report| &report.tables);
        tables.flat_map(|table| table.parts.iter().map(move |part| (table, part)))
    }

    fn last_source(&self) -> usize {
        self.parts().count().saturating_sub(1)
    }

    /// That of the source that is shown.
    fn part(&self) -> Option<(&Table, &Part)> {
        self.parts().take(self.source + 1).last()
    }

    /// Losses, warnings and the rows, in at most `height` lines.
    fn lines(&self, width: u16, height: u16, look: &Look) -> Vec<Line<'static>> {
        let Some(report) = &self.report else {
            return Vec::new();
        };
        let width = Width::of(Some(width.max(1).into()));
        let head = head(&report.recording, report.total.samples, width);
        let mut lines: Vec<Line<'_>> = owned(&head).collect();
        for warning in filters::disturbances(report) {
            let warning = width.fitted(&warning);
            lines.extend(owned(&warning).map(|line| line.style(look.warning)));
        }
        lines.push(Line::default());
        let Some((table, part)) = self.part() else {
            return lines;
        };
        // Around the rows are the source, the columns' names, what has no room, and what is left out.
        let room = usize::from(height).saturating_sub(lines.len() + 4).max(1);
        let first = at_most(self.first, part);
        let rows = first..first + room;
        let several = report.sources.len() > 1;
        let section = report::section(table, part, several, rows.clone(), width);
        let shown = section.lines().map(|line| {
            let is_head = line.contains('\u{1b}');
            let line = Line::from(plain(line));
            if is_head {
                line.style(look.strong)
            } else {
                line
            }
        });
        lines.extend(shown);
        lines.extend(report::left_out(part, &rows).map(Line::from));
        lines
    }
}

/// A first row behind which a page is left.
fn at_most(first: usize, part: &Part) -> usize {
    first.min(part.rows.len().saturating_sub(PAGE))
}

fn owned(text: &str) -> impl Iterator<Item = Line<'static>> {
    text.lines().map(|line| Line::from(line.to_owned()))
}

/// Draws all of it.
pub(super) fn draw(frame: &mut Frame<'_>, state: &State, look: &Look) {
    let area = frame.area();
    let heights = [
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(u16::from(area.height >= 3)),
    ];
    let [title, body, keys] = Layout::vertical(heights).areas(area);
    let machine = (state.modelled, state.machine.as_str());
    let times = (state.elapsed, state.every);
    frame.render_widget(title_line(machine, state.paused, times, look), title);
    let lines = state.lines(body.width, body.height, look);
    frame.render_widget(Paragraph::new(lines), body);
    frame.render_widget(keys_line(KEYS, look), keys);
    if state.help {
        help(frame, HELP, look);
    }
}

#[cfg(test)]
mod tests;
