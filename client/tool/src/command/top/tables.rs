//! The table: its columns, as many as fit, and its rows, including the marked one.

use super::figures;
use super::look::Look;
use super::state::{By, Party, State};
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Sparkline, Table};
use std::ops::Range;

/// The width of a number such as `~666.7 M`.
const NUMBER: u16 = 9;
/// The width of a 64-bit total with commas between thousands.
const TOTAL: u16 = 26;
/// The smallest width with room for words about a processor.
const WIDE_FROM: u16 = 40;

/// A column and its content.
struct Column<What> {
    head: String,
    /// The sort key of this column.
    by: Option<By>,
    width: u16,
    what: What,
}

impl<What> Column<What> {
    fn new(head: &str, by: Option<By>, width: u16, what: What) -> Self {
        Self {
            head: head.to_owned(),
            by,
            width,
            what,
        }
    }

    /// The header, cut to the width, with a mark if the table is sorted by this column.
    fn title(&self, state: &State, look: &Look) -> String {
        let sorting = state.sorting();
        if self.by != Some(sorting.by) {
            return cut(&self.head, self.width);
        }
        // By default, numbers are sorted in descending order and names in ascending order.
        let falls = matches!(sorting.by, By::Rate | By::Total) != sorting.reversed;
        let mark = if falls { look.falling } else { look.rising };
        format!("{}{mark}", cut(&self.head, self.width.saturating_sub(1)))
    }
}

fn cut(text: &str, width: u16) -> String {
    text.chars().take(width.into()).collect()
}

/// The total width of the columns.
fn width<What>(columns: &[Column<What>]) -> u16 {
    let all = columns.iter().map(|column| column.width.saturating_add(1));
    all.fold(0, u16::saturating_add).saturating_sub(1)
}

/// A cell: left-aligned for a name, right-aligned for a number.
fn cell(text: String, is_name: bool) -> Cell<'static> {
    let alignment = if is_name {
        Alignment::Left
    } else {
        Alignment::Right
    };
    Cell::from(Line::from(text).alignment(alignment))
}

/// Draws the rows, highlighting the marked one.
fn draw<What>(
    frame: &mut Frame<'_>,
    area: Rect,
    (state, look): (&State, &Look),
    columns: &[Column<What>],
    is_name: impl Fn(&What) -> bool,
    rows: impl IntoIterator<Item = (bool, Vec<String>)>,
) {
    let titles = columns.iter().map(|column| {
        let title = column.title(state, look);
        cell(title, is_name(&column.what))
    });
    let rows = rows.into_iter().map(|(is_marked, texts)| {
        let cells = columns.iter().zip(texts);
        let row = Row::new(cells.map(|(column, text)| cell(text, is_name(&column.what))));
        row.style(if is_marked { look.marked } else { Style::new() })
    });
    let widths = columns.iter().map(|column| column.width);
    let table = Table::new(rows, widths).header(Row::new(titles).style(look.quiet));
    frame.render_widget(table, area);
}

/// The range of rows that is shown, so that it includes the marked one.
pub(super) fn window(rows: usize, marked: usize, room: u16) -> Range<usize> {
    let room = usize::from(room);
    let first = marked
        .saturating_sub(room / 2)
        .min(rows.saturating_sub(room));
    first..rows.min(first + room)
}

/// The columns of the table of sources.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OfSource {
    Name,
    Core,
    Rate,
    Bound,
    Share,
    Total,
}

/// One row for each source and type of core, with what its processors do together.
pub(super) fn sources(frame: &mut Frame<'_>, area: Rect, state: &State, look: &Look) {
    let order = state.sorted_lines();
    let marked = order.iter().position(|&line| line == state.line);
    let room = area.height.saturating_sub(1);
    let visible = order.get(window(order.len(), marked.unwrap_or(0), room));
    let visible = visible.unwrap_or_default();
    let columns = source_columns(state, area.width);
    let row = |&line: &usize| {
        let texts = columns.iter();
        let texts = texts.map(|column| source_text(state, line, column.what));
        (line == state.line, texts.collect())
    };
    let parts = [Constraint::Length(width(&columns) + 1), Constraint::Min(0)];
    let [table, history] = Layout::horizontal(parts).areas(area);
    let is_name = |what: &OfSource| matches!(what, OfSource::Name | OfSource::Core);
    let rows = visible.iter().map(row);
    draw(frame, table, (state, look), &columns, is_name, rows);
    for (row, &line) in (1u16..).zip(visible) {
        let area = Rect {
            y: history.y + row,
            height: 1,
            ..history
        };
        sparkline(frame, area, state, line, look);
    }
}

/// The name and the rate, and whatever else there is room for.
fn source_columns(state: &State, room: u16) -> Vec<Column<OfSource>> {
    let names = state.sources.iter().map(|name| name.chars().count());
    let longest = u16::try_from(names.max().unwrap_or(0)).unwrap_or(u16::MAX);
    let name = longest.max(8).min(room.saturating_sub(NUMBER + 1));
    let given = state.sorting().by == By::Given && state.sorting().reversed;
    let by_name = if given { By::Given } else { By::Name };
    let mut columns = vec![
        Column::new("source", Some(by_name), name, OfSource::Name),
        Column::new("rate/s", Some(By::Rate), NUMBER, OfSource::Rate),
    ];
    let core = state.lines.iter().map(|line| line.core.len()).max();
    let core = core.unwrap_or(0) as u16;
    // The rows of one source differ by it alone: it goes before all numbers but the rate.
    if core > 0 && width(&columns) + 1 + core <= room {
        columns.insert(1, Column::new("core", None, core, OfSource::Core));
    }
    let mut more = vec![Column::new(
        "total",
        Some(By::Total),
        TOTAL,
        OfSource::Total,
    )];
    if state.shown().totals.iter().any(|total| total.scaled) {
        more.insert(0, Column::new("95 %", None, NUMBER, OfSource::Bound));
        more.insert(1, Column::new("counted", None, NUMBER, OfSource::Share));
    }
    for column in more {
        if width(&columns) + 1 + column.width <= room {
            columns.push(column);
        }
    }
    columns
}

fn source_text(state: &State, line: usize, what: OfSource) -> String {
    let rate = state.rate(line);
    let total = state.shown().totals.get(line);
    match what {
        OfSource::Name => state.name(line).to_owned(),
        OfSource::Core => state.core(line).to_owned(),
        OfSource::Rate => figures::rate(rate),
        OfSource::Bound => figures::bound(rate),
        OfSource::Share => total.map(figures::share).unwrap_or_default(),
        OfSource::Total => total.map(figures::total).unwrap_or_default(),
    }
}

/// The last intervals of one line, with the latest at the right.
fn sparkline(frame: &mut Frame<'_>, area: Rect, state: &State, line: usize, look: &Look) {
    let Some(line) = state.lines.get(line) else {
        return;
    };
    let history = &state.shown().history;
    let rates = history.rates_on(&line.processors, line.source);
    let skipped = rates.len().saturating_sub(area.width.into());
    let rates: Vec<Option<f32>> = rates.skip(skipped).collect();
    let most = rates.iter().flatten().copied().fold(0.0, f32::max);
    // In thousandths of the highest bar, with an eighth of headroom above it.
    #[expect(clippy::cast_sign_loss, reason = "nothing happens less than 0 times")]
    let height = |rate: Option<f32>| rate.map(|rate| (rate / most * 1000.0) as u64);
    let bars = Sparkline::default()
        .data(rates.iter().map(|&rate| height(rate)))
        .max(1125)
        .bar_set(look.bars.clone())
        .style(look.trace);
    let width = (rates.len() as u16).min(area.width);
    let at_right = Rect {
        x: area.right() - width,
        width,
        ..area
    };
    frame.render_widget(bars, at_right);
}

/// The columns of the table of processors.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OfProcessor {
    Number,
    Core,
    Rate(usize),
}

/// One row for all processors, or for each type of core, and one for each processor.
pub(super) fn processors(frame: &mut Frame<'_>, area: Rect, state: &State, look: &Look) {
    let order = state.sorted_processors();
    let (together, each) = order.split_at(state.together().len().min(order.len()));
    let marked = each.iter().position(|&row| row == state.party);
    // The first rows, for processors together, stay.
    let room = area.height.saturating_sub(1 + together.len() as u16);
    let visible = each.get(window(each.len(), marked.unwrap_or(0), room));
    let visible = together.iter().chain(visible.unwrap_or_default());
    let columns = processor_columns(state, area.width);
    let row = |&party: &Party| {
        let texts = columns.iter();
        let texts = texts.map(|column| processor_text(state, party, column.what));
        (party == state.party, texts.collect())
    };
    let is_name = |what: &OfProcessor| *what == OfProcessor::Core;
    let rows = visible.map(row);
    draw(frame, area, (state, look), &columns, is_name, rows);
}

/// The processor, and as many sources as fit, but at least the marked one.
fn processor_columns(state: &State, room: u16) -> Vec<Column<OfProcessor>> {
    let is_wide = room >= WIDE_FROM;
    let (head, number) = if is_wide {
        ("processor", 10)
    } else {
        ("cpu", 4)
    };
    let given = Some(By::Given);
    let mut columns = vec![Column::new(head, given, number, OfProcessor::Number)];
    let core = state.processors.iter().map(|row| row.core.len()).max();
    let core = core.unwrap_or(0) as u16;
    if core > 0 && is_wide {
        columns.push(Column::new("core", None, core, OfProcessor::Core));
    }
    let left = room.saturating_sub(width(&columns) + 1);
    for source in sources_in(state, left) {
        let name = state.sources.get(source).map_or("", String::as_str);
        let by = (source == state.source()).then_some(By::Rate);
        let width = source_width(state, source).min(left);
        columns.push(Column::new(name, by, width, OfProcessor::Rate(source)));
    }
    columns
}

fn processor_text(state: &State, party: Party, what: OfProcessor) -> String {
    match (what, party) {
        (OfProcessor::Number, Party::All | Party::Core(_)) => "all".to_owned(),
        (OfProcessor::Number, Party::One(processor)) => processor.to_string(),
        (OfProcessor::Core, Party::All) => String::new(),
        (OfProcessor::Core, Party::Core(core)) => core.to_owned(),
        (OfProcessor::Core, Party::One(processor)) => {
            let mut rows = state.processors.iter();
            let row = rows.find(|row| row.index == processor);
            row.map_or("", |row| row.core).to_owned()
        }
        (OfProcessor::Rate(source), party) => {
            let interval = &state.shown().interval;
            figures::rate(interval.sum_on(&state.members(party), source))
        }
    }
}

/// The width of the name, including the mark of the sorted column.
fn source_width(state: &State, source: usize) -> u16 {
    let name = state.sources.get(source);
    let name = name.map_or(0, |name| name.chars().count() + 1);
    u16::try_from(name).unwrap_or(u16::MAX).max(NUMBER)
}

/// The marked source, and as many before it and then after it as fit.
fn sources_in(state: &State, room: u16) -> Range<usize> {
    let taken = |source| source_width(state, source).saturating_add(1);
    let (mut first, mut end) = (state.source(), state.source() + 1);
    let mut left = room.saturating_sub(source_width(state, first));
    while let Some(before) = first.checked_sub(1)
        && let Some(rest) = left.checked_sub(taken(before))
    {
        (first, left) = (before, rest);
    }
    while end < state.sources.len()
        && let Some(rest) = left.checked_sub(taken(end))
    {
        (end, left) = (end + 1, rest);
    }
    first..end
}
