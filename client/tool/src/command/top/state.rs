//! What is shown, and how each key changes it: a table that is refreshed, with the last intervals of
//! each row.

use super::look::Look;
use crate::output::MachineInfo;
use crate::output::table::{self, Width};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

/// How many intervals a trace has.
const INTERVALS: usize = 16;
/// How many rows are remembered with their traces, beyond those of the last interval.
const REMEMBERED: usize = 1 << 14;
/// The rows that a page has, and that stay at the end.
const PAGE: usize = 10;

/// What an unknown number is sorted by: it comes after all others.
pub(super) const UNKNOWN: f64 = f64::NEG_INFINITY;

/// One interval.
#[derive(Clone, Default)]
pub(super) struct Picture {
    pub(super) elapsed: Duration,
    /// What is said above the table.
    pub(super) notes: Vec<String>,
    pub(super) warnings: Vec<String>,
    /// One of counts, or one of each source that was sampled.
    pub(super) tables: Vec<Table>,
    /// What is said below it.
    pub(super) below: Vec<String>,
}

#[derive(Clone)]
pub(super) struct Table {
    /// What stands above it; empty for nothing.
    pub(super) title: String,
    pub(super) columns: Vec<table::Column<'static>>,
    /// The column before which the trace stands.
    pub(super) trace_at: usize,
    pub(super) rows: Vec<PictureRow>,
}

#[derive(Clone)]
pub(super) struct PictureRow {
    /// What it is known by from one interval to the next.
    pub(super) key: String,
    /// The next value of its trace.
    pub(super) value: f32,
    pub(super) cells: Vec<Cell>,
    /// The last values, filled in by [`State::take`].
    pub(super) trace: Vec<f32>,
}

#[derive(Clone)]
pub(super) enum Cell {
    /// A number as text, and the value that it is sorted by.
    Number(String, f64),
    Name(String),
}

impl Cell {
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Number(text, _) | Self::Name(text) => text,
        }
    }

    /// Large numbers first, and unknown ones last; names in their order.
    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(_, a), Self::Number(_, b)) => b.total_cmp(a),
            _ => self.text().cmp(other.text()),
        }
    }
}

impl Table {
    /// Its rows in plain text.
    pub(super) fn text(&self, width: Width) -> String {
        let cells =
            |row: &PictureRow| row.cells.iter().map(|cell| cell.text().to_owned()).collect();
        let rows = self.rows.iter().map(cells);
        table::table(width, &self.columns, rows.collect::<Vec<Vec<String>>>())
    }

    /// The same of these rows, each with its trace.
    fn traced(&self, rows: &[&PictureRow], width: Width, look: &Look) -> String {
        let at = self.trace_at.min(self.columns.len());
        let mut columns = self.columns.clone();
        columns.insert(at, table::Column::word("trend").extra());
        let cells = rows.iter().map(|row| {
            let cells = row.cells.iter().map(|cell| cell.text().to_owned());
            let mut cells: Vec<String> = cells.collect();
            cells.insert(at.min(cells.len()), spark(&row.trace, look.bars));
            cells
        });
        table::table(width, &columns, cells.collect::<Vec<_>>())
    }
}

/// A bar for each value, the latest at the right; the highest is that of the largest value.
fn spark(trace: &[f32], bars: &[char]) -> String {
    let most = trace.iter().copied().fold(0.0, f32::max);
    let levels = f32::from(bars.len().saturating_sub(1) as u16);
    let bar = |&value: &f32| {
        let level = if value > 0.0 && most > 0.0 { (value / most * levels).ceil() } else { 0.0 };
        #[expect(clippy::cast_sign_loss, reason = "nothing happens less than 0 times")]
        bars.get(level as usize).copied().unwrap_or(' ')
    };
    let bars: String = trace.iter().map(bar).collect();
    format!("{bars:>INTERVALS$}")
}

/// The last values of each row.
#[derive(Default)]
struct TraceMeasurement(HashMap<String, Vec<f32>>);

impl TraceMeasurement {
    /// Adds an interval's values, and gives each row its own.
    fn take(&mut self, picture: &mut Picture) {
        for trace in self.0.values_mut() {
            trace.push(0.0);
            let old = trace.len().saturating_sub(INTERVALS);
            trace.drain(..old);
        }
        for row in picture.tables.iter_mut().flat_map(|table| &mut table.rows) {
            let trace = match self.0.entry(row.key.clone()) {
                Entry::Occupied(known) => {
                    let known = known.into_mut();
                    if let Some(last) = known.last_mut() {
                        *last = row.value;
                    }
                    known
                }
                Entry::Vacant(new) => new.insert(vec![row.value]),
            };
            row.trace.clone_from(trace);
        }
        let is_crowded = self.0.len() > REMEMBERED;
        self.0.retain(|_, trace| {
            let mut last = trace.iter().rev();
            if is_crowded { last.next() != Some(&0.0) } else { last.any(|&value| value != 0.0) }
        });
    }
}

/// Everything that is on the screen.
#[derive(Default)]
pub(super) struct State {
    pub(super) machine: String,
    pub(super) modelled: bool,
    pub(super) every: Duration,
    latest: Picture,
    /// What was shown when the picture was paused.
    paused: Option<Box<Picture>>,
    traces: TraceMeasurement,
    /// Which of the tables is shown.
    table: usize,
    /// The first row that is shown.
    first: usize,
    /// The column by which the rows are sorted; `None` for the order in which they came.
    by: Option<usize>,
    reversed: bool,
    pub(super) help: bool,
}

impl State {
    pub(super) fn new(machine_info: &MachineInfo, every: Duration) -> Self {
        Self {
            machine: machine_info.description.clone(),
            modelled: machine_info.modelled,
            every,
            ..Self::default()
        }
    }

    /// Takes the next interval, also while the picture is paused.
    pub(super) fn take(&mut self, mut picture: Picture) {
        self.traces.take(&mut picture);
        self.latest = picture;
    }

    /// What is on the screen: the latest interval or, while paused, the one at that time.
    pub(super) fn shown(&self) -> &Picture {
        self.paused.as_deref().unwrap_or(&self.latest)
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// By which column the rows are sorted, and whether the other way round.
    pub(super) fn sorting(&self) -> Option<(&'static str, bool)> {
        let column = self.table()?.columns.get(self.by?)?;
        Some((column.head(), self.reversed))
    }

    /// The table that is shown. An interval may have fewer tables than the one before.
    fn table(&self) -> Option<&Table> {
        self.shown().tables.iter().take(self.table + 1).next_back()
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
            KeyCode::Char(' ' | 'p') => self.pause(),
            KeyCode::Char('s') => self.sort(),
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::PageUp => self.step(-PAGE.cast_signed()),
            KeyCode::PageDown => self.step(PAGE.cast_signed()),
            KeyCode::Home => self.step(isize::MIN),
            KeyCode::End => self.step(isize::MAX),
            KeyCode::Left => self.table = self.table.min(self.last_table()).saturating_sub(1),
            KeyCode::Right => self.table = (self.table + 1).min(self.last_table()),
            _ => {}
        }
        false
    }

    /// Pauses the picture, not the measurement, or resumes it.
    fn pause(&mut self) {
        self.paused = match self.paused.take() {
            Some(_) => None,
            None => Some(Box::new(self.latest.clone())),
        };
    }

    fn sort(&mut self) {
        let rows = self.table().map_or(&[][..], |table| &table.rows);
        let columns = self.table().map_or(0, |table| table.columns.len());
        // A column without anything in it is not shown.
        let is_shown = |&by: &usize| {
            let mut cells = rows.iter().filter_map(|row| row.cells.get(by));
            cells.any(|cell| !cell.text().is_empty())
        };
        self.by = (self.by.map_or(0, |by| by + 1)..columns).find(is_shown);
        self.reversed = false;
    }

    fn last_table(&self) -> usize {
        self.shown().tables.len().saturating_sub(1)
    }

    /// Moves on from the first row that is shown.
    fn step(&mut self, rows: isize) {
        let there = self.table().map_or(0, |table| table.rows.len());
        let shown = at_most(self.first, there);
        self.first = at_most(shown.saturating_add_signed(rows), there);
    }

    /// The rows of the table in their order.
    pub(super) fn sorted(&self) -> Vec<&PictureRow> {
        let rows = self.table().map_or(&[][..], |table| &table.rows);
        let mut rows: Vec<&PictureRow> = rows.iter().collect();
        if let Some(by) = self.by {
            rows.sort_by(|a, b| match (a.cells.get(by), b.cells.get(by)) {
                (Some(a), Some(b)) => a.compare(b),
                _ => Ordering::Equal,
            });
        }
        if self.reversed {
            rows.reverse();
        }
        rows
    }

    /// As many of the table's rows as fit into `room` lines, with a line on those that do not.
    pub(super) fn rows(&self, room: usize, width: Width, look: &Look) -> String {
        let Some(table) = self.table() else {
            return String::new();
        };
        let mut text = match table.title.as_str() {
            "" => String::new(),
            title => format!("{title}\n"),
        };
        // The columns' names, what has no room, and how many rows are left out.
        let room = room.saturating_sub(3 + text.lines().count()).max(1);
        let rows = self.sorted();
        let first = at_most(self.first, rows.len());
        let shown = rows.get(first..rows.len().min(first + room));
        let shown = shown.unwrap_or_default();
        text += &table.traced(shown, width, look);
        let more = rows.len() - shown.len();
        if more != 0 {
            text += &format!("{more} more rows\n");
        }
        text
    }
}

/// A first row behind which a page is left.
fn at_most(first: usize, rows: usize) -> usize {
    first.min(rows.saturating_sub(PAGE))
}

#[cfg(test)]
pub(super) mod tests;
