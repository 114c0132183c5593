//! What is shown, and how each key changes it.

use super::choosing::{Choosing, Then};
use super::history::History;
use crate::output::Told;
use halprof_measure::estimate::Estimate;
use halprof_measure::rates::{Interval, Rate, Rates};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::cmp::Ordering;
use std::time::Duration;

/// How many intervals the charts go back, and the memory limit in bytes.
const HISTORY: (usize, usize) = (600, 16 << 20);

/// A processor that is counted on.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// Its index on the machine.
    pub(super) index: usize,
    /// Its core type; empty if all cores are of one kind.
    pub(super) core: &'static str,
}

/// Processors whose events are shown together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Party {
    All,
    /// Those of one type of core. A sum over two types would be the rate of neither.
    Core(&'static str),
    /// One, by its index on the machine.
    One(usize),
}

/// What has a line of its own among the sources: a source on the processors of one type of core.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// Its index among the sources.
    pub(super) source: usize,
    /// The type of core, empty where there is one kind only.
    pub(super) core: &'static str,
    /// The indexes of those that count it.
    pub(super) processors: Vec<usize>,
}

/// Everything that is on the screen.
pub(super) struct State {
    /// The machine, for the title.
    pub(super) machine: String,
    pub(super) modelled: bool,
    /// Labels of the sources, in the order of their counts.
    pub(super) sources: Vec<String>,
    /// Their lines, in the same order.
    pub(super) lines: Vec<Line>,
    /// Labels of everything that can be counted.
    choosable: Vec<String>,
    pub(super) processors: Vec<Row>,
    pub(super) every: Duration,
    pub(super) view: View,
    /// How the rows of each view are sorted.
    sorting: [Sorting; 2],
    /// The line that the chart shows; of processors, its source.
    pub(super) line: usize,
    /// The processors that the chart shows.
    pub(super) party: Party,
    latest: Shown,
    /// What was shown when the picture was paused.
    paused: Option<Box<Shown>>,
    /// The list of sources to choose from, while it is open.
    pub(super) choosing: Option<Choosing>,
    pub(super) help: bool,
    /// An error message for the last line.
    pub(super) message: Option<String>,
}

/// The evaluated readings.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) elapsed: Duration,
    pub(super) interval: Interval,
    /// For each line, since the session began.
    pub(super) totals: Vec<Estimate>,
    pub(super) history: History,
}

/// What the rows of the table stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    Sources,
    Processors,
}

/// The key by which the rows are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// In the order in which they were named; processors by number.
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

/// What a key requests beyond changing the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Quit,
    /// Count these from now on.
    Count(Vec<String>),
}

impl View {
    /// The keys by which its rows can be sorted; the first is the default.
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
    /// The state before anything is counted, with what can be counted on these processors.
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
            lines: Vec::new(),
            choosable,
            processors,
            every,
            view: View::Sources,
            sorting: [sorting; 2],
            line: 0,
            party: Party::All,
            latest: Shown::nothing(),
            paused: None,
            choosing: None,
            help: false,
            message: None,
        }
    }

    /// Counts these from now on; earlier readings are discarded.
    pub(super) fn count(&mut self, sources: Vec<String>, lines: Vec<Line>) {
        self.sources = sources;
        self.lines = lines;
        self.line = self.line.min(self.lines.len().saturating_sub(1));
        self.latest = Shown::nothing();
        self.paused = None;
    }

    /// Adds a reading, even while the picture is paused.
    pub(super) fn take(&mut self, elapsed: Duration, interval: Interval, rates: &Rates) {
        self.latest.history.push(&interval);
        let total = |line: &Line| rates.estimate_on(&line.processors, line.source);
        self.latest.totals = self.lines.iter().map(total).collect();
        self.latest.interval = interval;
        self.latest.elapsed = elapsed;
    }

    /// What is on the screen: the latest reading or, while paused, the one at that time.
    pub(super) fn shown(&self) -> &Shown {
        self.paused.as_deref().unwrap_or(&self.latest)
    }

    /// The source that is marked.
    pub(super) fn source(&self) -> usize {
        self.lines.get(self.line).map_or(0, |line| line.source)
    }

    /// The rate of a line in an interval.
    pub(super) fn rate(&self, line: usize) -> Option<Rate> {
        let line = self.lines.get(line)?;
        let interval = &self.shown().interval;
        interval.sum_on(&line.processors, line.source)
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    pub(super) const fn sorting(&self) -> Sorting {
        self.sorting[self.view as usize]
    }

    /// Handles a key.
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
            KeyCode::Left => self.other_source(false),
            KeyCode::Right => self.other_source(true),
            _ => {}
        }
        None
    }

    /// Pauses the picture, not the counting, or resumes it.
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

    fn turn(&mut self) {
        (self.view, self.party) = match self.view {
            View::Sources => (View::Processors, self.together()[0]),
            View::Processors => (View::Sources, Party::All),
        };
    }

    /// Marks the source behind the marked one, or before it, if there is one.
    fn other_source(&mut self, behind: bool) {
        let marked = self.source();
        let mut lines = self.lines.iter();
        let found = if behind {
            lines.position(|line| line.source > marked)
        } else {
            lines.rposition(|line| line.source < marked)
        };
        self.line = found.unwrap_or(self.line);
    }

    /// Moves the mark by `rows` rows, in the order shown.
    fn step(&mut self, rows: isize) {
        match self.view {
            View::Sources => {
                let order = self.sorted_lines();
                self.line = moved(&order, self.line, rows).unwrap_or(0);
            }
            View::Processors => {
                let order = self.sorted_processors();
                self.party = moved(&order, self.party, rows).unwrap_or(Party::All);
            }
        }
    }

    /// The lines of the sources in the order of their rows, as indexes.
    pub(super) fn sorted_lines(&self) -> Vec<usize> {
        let totals = &self.shown().totals;
        let total = |line: usize| totals.get(line).map_or(0, |total| total.value);
        let mut order: Vec<usize> = (0..self.lines.len()).collect();
        match self.sorting().by {
            By::Given => {}
            By::Name => order.sort_by_key(|&line| self.name(line)),
            By::Rate => order.sort_by(|&a, &b| largest_first(self.rate(a), self.rate(b))),
            By::Total => order.sort_by_key(|&line| std::cmp::Reverse(total(line))),
        }
        if self.sorting().reversed {
            order.reverse();
        }
        order
    }

    /// What the source of a line is called.
    pub(super) fn name(&self, line: usize) -> &str {
        let source = self.lines.get(line).map(|line| line.source);
        let name = source.and_then(|source| self.sources.get(source));
        name.map_or("", String::as_str)
    }

    /// The type of core of a line.
    pub(super) fn core(&self, line: usize) -> &'static str {
        self.lines.get(line).map_or("", |line| line.core)
    }

    /// What has a row before those of each processor: all together, or the types of core.
    pub(super) fn together(&self) -> Vec<Party> {
        let mut cores: Vec<&'static str> = Vec::new();
        for row in &self.processors {
            if !cores.contains(&row.core) {
                cores.push(row.core);
            }
        }
        match cores.as_slice() {
            [] | [_] => vec![Party::All],
            several => several.iter().copied().map(Party::Core).collect(),
        }
    }

    /// The indexes of the processors of a party.
    pub(super) fn members(&self, party: Party) -> Vec<usize> {
        let is_member = |row: &&Row| match party {
            Party::All => true,
            Party::Core(core) => row.core == core,
            Party::One(processor) => row.index == processor,
        };
        let members = self.processors.iter().filter(is_member);
        members.map(|row| row.index).collect()
    }

    /// The processors together, then each processor in the order of its row.
    pub(super) fn sorted_processors(&self) -> Vec<Party> {
        let shown = self.shown();
        let rate = |processor: usize| shown.interval.rate(processor, self.source());
        let mut order: Vec<usize> = self.processors.iter().map(|row| row.index).collect();
        if self.sorting().by == By::Rate {
            order.sort_by(|&a, &b| largest_first(rate(a), rate(b)));
        }
        if self.sorting().reversed {
            order.reverse();
        }
        let each = order.into_iter().map(Party::One);
        self.together().into_iter().chain(each).collect()
    }
}

/// The element `rows` rows away from `from`, or the nearest one that exists.
fn moved<T: Copy + PartialEq>(order: &[T], from: T, rows: isize) -> Option<T> {
    let now = order.iter().position(|&row| row == from).unwrap_or(0);
    let last = order.len().saturating_sub(1);
    order
        .get(now.saturating_add_signed(rows).min(last))
        .copied()
}

/// Rows without a rate come last.
fn largest_first(a: Option<Rate>, b: Option<Rate>) -> Ordering {
    let value = |rate: Option<Rate>| rate.map_or(-1.0, |rate| rate.per_second);
    value(b).total_cmp(&value(a))
}

#[cfg(test)]
pub(super) mod tests;
