//! What is shown, and what each key makes of it.

use super::choosing::{Choosing, Then};
use crate::output::Told;
use halprof_measure::estimate::Estimate;
use halprof_measure::rates::{History, Interval, Rate, Rates};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::cmp::Ordering;
use std::time::Duration;

/// Intervals that the charts go back, within so many bytes.
const HISTORY: (usize, usize) = (600, 16 << 20);

/// A processor that is counted on.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// Its index on the machine.
    pub(super) index: usize,
    /// Its core type, empty where there is one kind only.
    pub(super) core: &'static str,
}

/// Everything that is on the screen.
pub(super) struct State {
    /// What is measured on, for the title.
    pub(super) machine: String,
    pub(super) modelled: bool,
    /// Labels of the sources, in the order of their counts.
    pub(super) sources: Vec<String>,
    /// Labels of all that could be counted.
    choosable: Vec<String>,
    pub(super) processors: Vec<Row>,
    pub(super) every: Duration,
    pub(super) view: View,
    /// How the rows of each view are sorted.
    sorting: [Sorting; 2],
    /// The source that the chart shows.
    pub(super) source: usize,
    /// The processor that it shows; `None`: all together.
    pub(super) processor: Option<usize>,
    latest: Shown,
    /// What was shown when the picture was stopped.
    paused: Option<Box<Shown>>,
    /// The list of sources to choose from, where it is open.
    pub(super) choosing: Option<Choosing>,
    pub(super) help: bool,
    /// What went wrong, for the last line.
    pub(super) message: Option<String>,
}

/// What the readings came to.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) elapsed: Duration,
    pub(super) interval: Interval,
    /// Of each source, since the session began.
    pub(super) totals: Vec<Estimate>,
    pub(super) history: History,
}

/// What the rows of the table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    Sources,
    Processors,
}

/// What the rows are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// As they were named; processors by their number.
    Given,
    Name,
    Rate,
    Total,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sorting {
    pub(super) by: By,
    pub(super) reversed: bool,
}

/// What a key asks for beyond the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Quit,
    /// To count these from now on.
    Count(Vec<String>),
}

impl View {
    /// What its rows can be sorted by; the first without asking.
    const fn orders(self) -> &'static [By] {
        match self {
            Self::Sources => &[By::Given, By::Rate, By::Total, By::Name],
            Self::Processors => &[By::Given, By::Rate],
        }
    }
}

impl Shown {
    pub(super) const fn nothing() -> Self {
        Self {
            elapsed: Duration::ZERO,
            interval: Interval::NOTHING,
            totals: Vec::new(),
            history: History::new(HISTORY.0, HISTORY.1),
        }
    }
}

impl State {
    /// A machine that counts nothing yet, of what could be counted on these processors.
    pub(super) fn new(
        told: &Told,
        every: Duration,
        choosable: Vec<String>,
        processors: Vec<Row>,
    ) -> Self {
        let sorting = Sorting {
            by: By::Given,
            reversed: false,
        };
        Self {
            machine: told.machine.clone(),
            modelled: told.modelled,
            sources: Vec::new(),
            choosable,
            processors,
            every,
            view: View::Sources,
            sorting: [sorting; 2],
            source: 0,
            processor: None,
            latest: Shown::nothing(),
            paused: None,
            choosing: None,
            help: false,
            message: None,
        }
    }

    /// These are counted from now on; what is known of others is gone.
    pub(super) fn count(&mut self, sources: Vec<String>) {
        self.sources = sources;
        self.source = self.source.min(self.sources.len().saturating_sub(1));
        self.latest = Shown::nothing();
        self.paused = None;
    }

    /// Takes a reading in, whether or not the picture moves.
    pub(super) fn take(&mut self, elapsed: Duration, interval: Interval, rates: &Rates) {
        self.latest.history.push(&interval);
        self.latest.totals = rates.estimates();
        self.latest.interval = interval;
        self.latest.elapsed = elapsed;
    }

    /// What is on the screen: the latest reading, or the one that was there when it was stopped.
    pub(super) fn shown(&self) -> &Shown {
        self.paused.as_deref().unwrap_or(&self.latest)
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    pub(super) const fn sorting(&self) -> Sorting {
        self.sorting[self.view as usize]
    }

    /// What a key does.
    pub(super) fn key(&mut self, key: KeyEvent) -> Option<Asked> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return (key.code == KeyCode::Char('c')).then_some(Asked::Quit);
        }
        if let Some(choosing) = &mut self.choosing {
            let asked = match choosing.key(key.code) {
                Then::Stay => return None,
                Then::Close => None,
                Then::Count(labels) => Some(Asked::Count(labels)),
            };
            self.choosing = None;
            return asked;
        }
        if self.help {
            self.help = false;
            return None;
        }
        self.message = None;
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Some(Asked::Quit),
            KeyCode::Char(' ' | 'p') => self.pause(),
            KeyCode::Char('s') => self.sort(),
            KeyCode::Char('r') => {
                let reversed = &mut self.sorting[self.view as usize].reversed;
                *reversed = !*reversed;
            }
            KeyCode::Char('v') | KeyCode::Tab => self.turn(),
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Char('c') => {
                self.choosing = Some(Choosing::new(&self.choosable, &self.sources));
            }
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::PageUp => self.step(-10),
            KeyCode::PageDown => self.step(10),
            KeyCode::Home => self.step(isize::MIN),
            KeyCode::End => self.step(isize::MAX),
            KeyCode::Left => self.source = self.source.saturating_sub(1),
            KeyCode::Right => {
                self.source = (self.source + 1).min(self.sources.len().saturating_sub(1));
            }
            _ => {}
        }
        None
    }

    /// Stops the picture, not the counting; or lets it go on.
    fn pause(&mut self) {
        self.paused = match self.paused.take() {
            Some(_) => None,
            None => Some(Box::new(self.latest.clone())),
        };
    }

    fn sort(&mut self) {
        let orders = self.view.orders();
        let sorting = &mut self.sorting[self.view as usize];
        let now = orders.iter().position(|&by| by == sorting.by).unwrap_or(0);
        sorting.by = orders.get(now + 1).copied().unwrap_or(By::Given);
        sorting.reversed = false;
    }

    const fn turn(&mut self) {
        self.view = match self.view {
            View::Sources => View::Processors,
            View::Processors => View::Sources,
        };
        self.processor = None;
    }

    /// Moves the mark by so many rows, as they are sorted.
    fn step(&mut self, rows: isize) {
        match self.view {
            View::Sources => {
                let order = self.sorted_sources();
                self.source = moved(&order, self.source, rows).unwrap_or(0);
            }
            View::Processors => {
                let order = self.sorted_processors();
                self.processor = moved(&order, self.processor, rows).unwrap_or(None);
            }
        }
    }

    /// The sources, as indexes, in the order of their rows.
    pub(super) fn sorted_sources(&self) -> Vec<usize> {
        let shown = self.shown();
        let rate = |source: usize| shown.interval.sum(source);
        let total = |source: usize| shown.totals.get(source).map_or(0, |total| total.value);
        let mut order: Vec<usize> = (0..self.sources.len()).collect();
        match self.sorting().by {
            By::Given => {}
            By::Name => order.sort_by_key(|&source| self.sources.get(source)),
            By::Rate => order.sort_by(|&a, &b| largest_first(rate(a), rate(b))),
            By::Total => order.sort_by_key(|&source| std::cmp::Reverse(total(source))),
        }
        if self.sorting().reversed {
            order.reverse();
        }
        order
    }

    /// All processors together, then each, as an index of the machine's, in the order of their rows.
    pub(super) fn sorted_processors(&self) -> Vec<Option<usize>> {
        let shown = self.shown();
        let rate = |processor: usize| shown.interval.rate(processor, self.source);
        let mut order: Vec<usize> = self.processors.iter().map(|row| row.index).collect();
        if self.sorting().by == By::Rate {
            order.sort_by(|&a, &b| largest_first(rate(a), rate(b)));
        }
        if self.sorting().reversed {
            order.reverse();
        }
        let each = order.into_iter().map(Some);
        std::iter::once(None).chain(each).collect()
    }
}

/// What is so many rows away from `from`, or as near to that as there are rows.
fn moved<T: Copy + PartialEq>(order: &[T], from: T, rows: isize) -> Option<T> {
    let now = order.iter().position(|&row| row == from).unwrap_or(0);
    let last = order.len().saturating_sub(1);
    order
        .get(now.saturating_add_signed(rows).min(last))
        .copied()
}

/// What has no rate comes last.
fn largest_first(a: Option<Rate>, b: Option<Rate>) -> Ordering {
    let value = |rate: Option<Rate>| rate.map_or(-1.0, |rate| rate.per_second);
    value(b).total_cmp(&value(a))
}

#[cfg(test)]
pub(super) mod tests;
