//! Tables for people: they fit the terminal, and are complete if there is none.
//!
//! A table that is too wide gives up space where it matters least: prose wraps, names are shortened
//! in the middle, and then extra columns are left out, which the table says. Where even that is not
//! enough, the last columns of a row follow on lines of their own. Numbers are never cut.

use crate::output::escape::Escaped;
use crate::output::style::{plain, styled};
use anstyle::Style;
use halprof_measure::selection::format_processors;
use halprof_profile::symbols::shortened;
use schemars::JsonSchema;
use serde::Serialize;
use std::borrow::Cow;
use std::ops::Range;
use terminal_size::{Width as Columns, terminal_size_of};
use textwrap::WordSplitter;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The style of table headers.
const HEAD: Style = Style::new().bold();

/// The gap between two columns.
const GAP: &str = "  ";

/// What the second and later lines of a row begin with, if one line does not hold its columns.
const FOLDED: &str = "    ";

/// The width of prose where there is room for more: longer lines are hard to read.
const PROSE: usize = 80;

/// The number of columns that output may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Width(Option<usize>);

impl Width {
    /// Unlimited width, for files.
    pub(crate) const UNLIMITED: Self = Self(None);

    /// The requested width, with 0 for unlimited; without a request, that of the terminal on
    /// standard output.
    pub(crate) fn of(requested: Option<usize>) -> Self {
        let terminal = || terminal_size_of(std::io::stdout()).map(|(Columns(columns), _)| columns);
        match requested {
            Some(columns) => Self(Some(columns).filter(|&columns| columns != 0)),
            None => Self(terminal().map(usize::from)),
        }
    }

    /// The number of columns, if it is limited.
    pub(crate) const fn columns(self) -> Option<usize> {
        self.0
    }

    /// Text broken between words, with the second and later lines indented by `label` columns, the
    /// width of a label before the first.
    pub(crate) fn prose(self, label: usize, text: &str) -> String {
        let columns = self.0.map_or(PROSE, |columns| columns.min(PROSE));
        let indent = "\n".to_owned() + &" ".repeat(label);
        wrapped(columns.saturating_sub(label).max(12), text).replace('\n', &indent)
    }

    /// Lines of text, each broken between words if it is too long.
    pub(crate) fn fitted(self, text: &str) -> String {
        match self.0 {
            Some(columns) => wrapped(columns.max(20), text),
            None => text.to_owned(),
        }
    }

    /// How many blocks of `block` columns fit beside `others` columns: at least one.
    pub(crate) fn room_for(self, block: usize, others: usize) -> usize {
        self.0.map_or(usize::MAX, |columns| (columns.saturating_sub(others) / block).max(1))
    }

    /// A name that fits into the rest of a line, shortened in the middle if necessary.
    pub(crate) fn left(self, used: usize, name: &str) -> Cow<'_, str> {
        match self.0 {
            Some(columns) => cut(columns.saturating_sub(used).max(8), name),
            None => name.into(),
        }
    }
}

/// What happens to a column if there is too little room.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// Nothing: it is as wide as its widest cell.
    Natural,
    /// It wraps between words, down to this many columns.
    Wrapped(usize),
    /// It is shortened in the middle, down to this many columns.
    Cut(usize),
    /// It has room for larger values than most, and gives it up down to this many columns.
    Loose(usize),
    /// It is left out.
    Extra,
}

impl Fit {
    /// The fewest columns at which it is easy to read.
    const fn least(self) -> usize {
        match self {
            Self::Wrapped(least) | Self::Cut(least) | Self::Loose(least) => least,
            Self::Natural | Self::Extra => usize::MAX,
        }
    }

    /// The fewest columns at which it can be read.
    const fn very_least(self) -> usize {
        match self {
            Self::Wrapped(_) | Self::Cut(_) => 6,
            Self::Loose(least) => least,
            Self::Natural | Self::Extra => usize::MAX,
        }
    }
}

/// A column of a table.
#[derive(Clone, Copy)]
pub(crate) struct Column<'a> {
    head: &'a str,
    right: bool,
    fit: Fit,
    /// Its cells have colours; those of others are untrusted text.
    styled: bool,
}

impl<'a> Column<'a> {
    const fn new(head: &'a str, right: bool, fit: Fit) -> Self {
        Self { head, right, fit, styled: false }
    }

    pub(crate) const fn head(&self) -> &'a str {
        self.head
    }

    /// Numbers, right-aligned.
    pub(crate) const fn number(head: &'a str) -> Self {
        Self::new(head, true, Fit::Natural)
    }

    /// Numbers in rows that come one by one, with room for larger ones down to this many columns.
    pub(crate) const fn loose(head: &'a str, least: usize) -> Self {
        Self::new(head, true, Fit::Loose(least))
    }

    /// Short words.
    pub(crate) const fn word(head: &'a str) -> Self {
        Self::new(head, false, Fit::Natural)
    }

    /// This column with cells of the tool's own, in colours.
    pub(crate) const fn coloured(self) -> Self {
        Self { styled: true, ..self }
    }

    /// Names that may be long.
    pub(crate) const fn name(head: &'a str) -> Self {
        Self::new(head, false, Fit::Cut(24))
    }

    /// Sentences.
    pub(crate) const fn prose(head: &'a str) -> Self {
        Self::new(head, false, Fit::Wrapped(16))
    }

    /// This column, left out if there is no room for it.
    pub(crate) const fn extra(self) -> Self {
        Self::new(self.head, self.right, Fit::Extra)
    }

    /// Sentences in a table with many other columns.
    pub(crate) const fn narrow(head: &'a str) -> Self {
        Self::new(head, false, Fit::Wrapped(9))
    }

    fn cell(self, text: &str) -> String {
        if self.styled { text.to_owned() } else { Escaped(text).to_string() }
    }

    const fn wraps(self) -> bool {
        matches!(self.fit, Fit::Wrapped(_))
    }

    fn is_empty(index: usize, rows: &[Vec<String>]) -> bool {
        rows.iter().all(|row| row.get(index).is_none_or(String::is_empty))
    }
}

/// A table with a header. A column that is empty in all rows is left out. Cells may be untrusted text.
pub(crate) fn table<C: IntoIterator<Item = String>>(
    width: Width,
    columns: &[Column<'_>],
    rows: impl IntoIterator<Item = C>,
) -> String {
    let cells = |row: C| row.into_iter().zip(columns).map(|(text, column)| column.cell(&text));
    let rows: Vec<Vec<String>> = rows.into_iter().map(|row| cells(row).collect()).collect();
    let mut shown: Vec<(usize, Column<'_>)> = columns.iter().copied().enumerate().collect();
    shown.retain(|&(index, _)| rows.is_empty() || !Column::is_empty(index, &rows));
    let natural = |&(index, column): &(usize, Column<'_>)| {
        let cells = rows.iter().filter_map(|row| row.get(index));
        let cells = cells.map(|cell| columns_of(cell));
        cells.chain([column.head.width()]).max().unwrap_or(0)
    };
    let layout = Layout::fit(width, shown, natural);
    let mut text = layout.heads();
    for row in &rows {
        text += &layout.line(row);
    }
    text + &layout.no_room()
}

/// A table with its title, and with what it omits in words; either may be empty.
pub(crate) struct Section<'a> {
    pub(crate) title: String,
    pub(crate) columns: Vec<Column<'a>>,
    pub(crate) rows: Vec<Vec<String>>,
    pub(crate) more: String,
}

impl Section<'_> {
    pub(crate) fn text(self, width: Width) -> String {
        let table = table(width, &self.columns, self.rows);
        let lines =
            [Escaped(self.title).to_string(), table.trim_end_matches('\n').to_owned(), self.more];
        lines.into_iter().filter(|line| !line.is_empty()).map(|line| line + "\n").collect()
    }
}

/// A row of a result. Serde makes JSON and CSV of it, schemars the schema, and its columns the text.
pub(crate) trait Record: Serialize + JsonSchema + 'static {
    /// The columns in text, from left to right.
    const COLUMNS: &'static [Field<Self>];
}

/// A column in the text of records of type `R`: where its cells come from, and how they are aligned.
pub(crate) struct Field<R: ?Sized> {
    pub(crate) column: Column<'static>,
    pub(crate) cell: fn(&R) -> String,
}

impl<R: ?Sized> Field<R> {
    pub(crate) const fn new(column: Column<'static>, cell: fn(&R) -> String) -> Self {
        Self { column, cell }
    }
}

/// Records as a table with a header. A column that is empty in all records is left out.
pub(crate) fn records<'a, R: Record + 'a>(
    width: Width,
    records: impl IntoIterator<Item = &'a R>,
) -> String {
    records_in(width, R::COLUMNS, records)
}

/// The same in other columns than those that records of this type usually have.
pub(crate) fn records_in<'a, R: 'a>(
    width: Width,
    fields: &[Field<R>],
    records: impl IntoIterator<Item = &'a R>,
) -> String {
    let columns: Vec<Column<'_>> = fields.iter().map(|field| field.column).collect();
    let cells = |record: &'a R| fields.iter().map(move |field| (field.cell)(record));
    table(width, &columns, records.into_iter().map(cells))
}

/// Records of processors: those that differ in nothing but their processor share a line, and the
/// column `at` lists the processors.
pub(crate) fn records_by_processor<R: Record>(
    width: Width,
    (at, processor): (usize, fn(&R) -> u32),
    records: &[R],
) -> String {
    let mut lines: Vec<(Vec<String>, Vec<u32>)> = Vec::new();
    for record in records {
        let cells: Vec<String> = R::COLUMNS.iter().map(|field| (field.cell)(record)).collect();
        match lines.iter_mut().find(|(alike, _)| *alike == cells) {
            Some((_, processors)) => processors.push(processor(record)),
            None => lines.push((cells, vec![processor(record)])),
        }
    }
    let columns: Vec<Column<'_>> = R::COLUMNS.iter().map(|field| field.column).collect();
    let lines = lines.into_iter().map(|(mut cells, processors)| {
        cells[at] = format_processors(processors);
        cells
    });
    table(width, &columns, lines)
}

/// The columns of a table for which there is room.
pub(crate) struct Layout<'a> {
    width: Width,
    /// The columns with their indexes among those that were given.
    shown: Vec<(usize, Column<'a>)>,
    widths: Vec<usize>,
    /// The headers of those that have no room.
    left_out: Vec<&'a str>,
}

impl<'a> Layout<'a> {
    /// For rows that come one by one: columns with the widths of most values, of which the last one
    /// has the rest of the line.
    pub(crate) fn new(width: Width, columns: &[(Column<'a>, usize)]) -> Self {
        let shown = columns.iter().map(|&(column, _)| column).enumerate().collect();
        let natural = |&(index, column): &(usize, Column<'_>)| {
            let width = columns.get(index).map_or(0, |&(_, width)| width);
            width.max(column.head.width())
        };
        let mut layout = Self::fit(width, shown, natural);
        let widths = &mut layout.widths;
        let used = GAP.len() * widths.len() + widths.iter().sum::<usize>();
        if let (Some(room), Some(last)) = (width.0, widths.last_mut()) {
            *last += (room + GAP.len()).saturating_sub(used);
        }
        if width.0.is_none() {
            // Nothing is cut.
            for (_, column) in &mut layout.shown {
                column.fit = Fit::Natural;
            }
        }
        layout
    }

    /// Leaves out columns and narrows others until the rest fits.
    fn fit(
        width: Width,
        mut shown: Vec<(usize, Column<'a>)>,
        natural: impl Fn(&(usize, Column<'a>)) -> usize,
    ) -> Self {
        let mut left_out = Vec::new();
        loop {
            let mut widths: Vec<usize> = shown.iter().map(&natural).collect();
            let Some(room) = width.0 else {
                return Self { width, shown, widths, left_out };
            };
            let fits = shrink(&mut widths, &shown, (room, Fit::least));
            let extra = shown.iter().rposition(|(_, column)| column.fit == Fit::Extra);
            if let Some(extra) = extra.filter(|_| !fits) {
                left_out.insert(0, shown.remove(extra).1.head);
                continue;
            }
            // Names that are hard to read are better than lines that the terminal breaks.
            if !shrink(&mut widths, &shown, (room, Fit::very_least)) {
                let lines = lines_of(width, &widths);
                widths = shown.iter().map(&natural).collect();
                for line in lines {
                    let room = room.saturating_sub(indent(&line).len());
                    let (widths, shown) = (&mut widths[line.clone()], &shown[line]);
                    let fits = shrink(widths, shown, (room, Fit::least));
                    let _ = fits || shrink(widths, shown, (room, Fit::very_least));
                }
            }
            return Self { width, shown, widths, left_out };
        }
    }

    fn no_room(&self) -> String {
        if self.left_out.is_empty() {
            return String::new();
        }
        let text = format!("No room for: {}.", self.left_out.join(", "));
        self.width.prose(0, &text) + "\n"
    }

    fn heads(&self) -> String {
        let heads = self.shown.iter().map(|(_, column)| column.head.to_owned());
        styled(HEAD, self.cells(&heads.collect::<Vec<_>>()).trim_end_matches('\n')) + "\n"
    }

    /// A note on the columns that do not fit, if any, and the headers.
    pub(crate) fn head(&self) -> String {
        self.no_room() + &self.heads()
    }

    /// A row, with a cell for each of the columns that were given.
    pub(crate) fn line(&self, row: &[String]) -> String {
        let cells = self.shown.iter().map(|&(index, column)| {
            row.get(index).map_or_else(String::new, |text| column.cell(text))
        });
        self.cells(&cells.collect::<Vec<_>>())
    }

    /// A cell for each column that is shown, with as many lines as the tallest needs, and more if the
    /// columns do not fit into one.
    fn cells(&self, cells: &[String]) -> String {
        let Self { width, shown, widths, .. } = self;
        let columns = shown.iter().zip(widths).zip(cells);
        let cells: Vec<Vec<String>> = columns
            .map(|((&(_, column), &width), cell)| match column.fit {
                Fit::Wrapped(_) => wrapped(width, cell).lines().map(str::to_owned).collect(),
                Fit::Cut(_) => vec![cut(width, cell).into_owned()],
                Fit::Natural | Fit::Loose(_) | Fit::Extra => vec![cell.clone()],
            })
            .collect();
        let widest = |lines: &Vec<String>| lines.iter().map(|line| columns_of(line)).max();
        let used = cells.iter().zip(widths);
        let used = used.map(|(lines, &width)| widest(lines).unwrap_or(0).max(width));
        let mut used: Vec<usize> = used.collect();
        // A cell that is wider than its column takes from the rest of the line first.
        if let (1, Some(last), Some((_, column))) =
            (lines_of(*width, widths).len(), used.last_mut(), shown.last())
            && !column.right
        {
            *last = cells.last().and_then(widest).unwrap_or(0);
        }
        let mut text = String::new();
        for line in lines_of(*width, &used) {
            let before = indent(&line);
            let (shown, widths, cells) =
                (&shown[line.clone()], &widths[line.clone()], &cells[line]);
            let height = cells.iter().map(Vec::len).max().unwrap_or(0).max(1);
            for index in 0..height {
                let cells = cells.iter().map(|cell| cell.get(index).map_or("", String::as_str));
                text += beside(before, shown, widths, cells).trim_end();
                text += "\n";
            }
        }
        text
    }
}

/// The columns that stand in each line of a row: all of them in one, if it holds them.
fn lines_of(width: Width, widths: &[usize]) -> Vec<Range<usize>> {
    let room = width.0.unwrap_or(usize::MAX);
    let mut lines = Vec::new();
    let (mut first, mut used) = (0, 0_usize);
    for (index, width) in widths.iter().enumerate() {
        let wider = used.saturating_add(*width);
        if index != first && wider > room {
            lines.push(first..index);
            (first, used) = (index, FOLDED.len() + width);
        } else {
            used = wider;
        }
        used = used.saturating_add(GAP.len());
    }
    lines.push(first..widths.len());
    lines
}

const fn indent(line: &Range<usize>) -> &'static str {
    if line.start == 0 { "" } else { FOLDED }
}

/// Narrows columns that can be narrower until the table fits: prose before names, the widest first.
fn shrink(
    widths: &mut [usize],
    shown: &[(usize, Column<'_>)],
    (room, least): (usize, fn(Fit) -> usize),
) -> bool {
    let gaps = GAP.len() * widths.len().saturating_sub(1);
    let mut too_much = (widths.iter().sum::<usize>() + gaps).saturating_sub(room);
    while too_much != 0 {
        let least = |column: &Column<'_>| least(column.fit).max(column.head.width());
        let columns = widths.iter_mut().zip(shown);
        let able = columns.filter(|(width, (_, column))| **width > least(column));
        let Some((width, _)) = able.max_by_key(|(width, (_, column))| (column.wraps(), **width))
        else {
            return false;
        };
        *width -= 1;
        too_much -= 1;
    }
    true
}

/// Cells beside each other, each as wide as its column.
fn beside<'a>(
    before: &str,
    shown: &[(usize, Column<'_>)],
    widths: &[usize],
    cells: impl Iterator<Item = &'a str>,
) -> String {
    let mut line = before.to_owned();
    for ((&(_, column), &width), cell) in shown.iter().zip(widths).zip(cells) {
        let pad = " ".repeat(width.saturating_sub(columns_of(cell)));
        let (before, after) = if column.right { (&*pad, "") } else { ("", &*pad) };
        line += &[before, cell, after, GAP].concat();
    }
    line
}

/// How many columns a text takes; its colours take none.
fn columns_of(text: &str) -> usize {
    if text.contains('\u{1b}') {
        return plain(text).width();
    }
    text.width()
}

/// A name of at most `columns` columns. A function, `a.dll!ns::f(int)`, loses what matters least, and what
/// is still too long its middle, for an ellipsis.
pub(crate) fn cut(columns: usize, name: &str) -> Cow<'_, str> {
    if name.width() <= columns {
        return name.into();
    }
    if let Some(name) = function(columns, name) {
        return cut_in_the_middle(columns, &name).into_owned().into();
    }
    cut_in_the_middle(columns, name)
}

/// The fewest columns of a function that a call tree leaves beside its indentation.
const OF_FUNCTION: usize = 16;

/// A function with what tables put around its name: the indentation of a call tree, an address, an
/// offset. It is as short as it can be if it does not fit; `None` if this is no function.
fn function(columns: usize, text: &str) -> Option<String> {
    let trimmed = text.trim_start();
    let deepest = columns.saturating_sub(OF_FUNCTION);
    let indent = " ".repeat((text.len() - trimmed.len()).min(deepest));
    let (address, name) = match trimmed.split_once(' ') {
        Some((address, name)) if address.starts_with("0x") => (format!("{address} "), name),
        _ => (String::new(), trimmed),
    };
    let offset = name.rfind("+0x").unwrap_or(name.len());
    let (name, offset) = name.split_at(offset);
    let (module, symbol) = name.split_once('!')?;
    let whole = |form: &str| [&indent, &*address, form, offset].concat();
    let form = shortened(Some(module), symbol, |form| whole(form).width() <= columns);
    Some(whole(&form))
}

fn cut_in_the_middle(columns: usize, name: &str) -> Cow<'_, str> {
    if name.width() <= columns {
        return name.into();
    }
    let room = columns.saturating_sub(1);
    let front = fitting(name.chars(), room / 2);
    let back = fitting(name.chars().rev(), room - room / 2);
    let front: String = name.chars().take(front).collect();
    let skipped = name.chars().count() - back;
    let back: String = name.chars().skip(skipped).collect();
    format!("{front}…{back}").into()
}

/// How many characters fit into `columns` columns.
fn fitting(characters: impl Iterator<Item = char>, columns: usize) -> usize {
    let mut left = columns;
    let fits = |character: &char| {
        let rest = left.checked_sub(character.width().unwrap_or(0));
        left = rest.unwrap_or(0);
        rest.is_some()
    };
    characters.take_while(fits).count()
}

fn wrapped(columns: usize, text: &str) -> String {
    let options = textwrap::Options::new(columns);
    textwrap::fill(text, options.word_splitter(WordSplitter::NoHyphenation))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column<'_>; 4] = [
        Column::number("count"),
        Column::name("symbol"),
        Column::number("deviation").extra(),
        Column::prose("note"),
    ];

    fn example(width: usize) -> String {
        let row = [
            "1,000,000",
            "game.exe!world::physics::Solver<double, 3>::step(float)",
            "12",
            "the event happened at or before this address",
        ];
        plain(&table(Width::of(Some(width)), &COLUMNS, [row.map(str::to_owned)]))
    }

    #[test]
    fn a_table_without_limits_is_whole() {
        assert_eq!(
            example(0),
            "    count  symbol                                                   deviation  note\n\
             1,000,000  game.exe!world::physics::Solver<double, 3>::step(float)         12  the event happened at or before this address\n"
        );
    }

    #[test]
    fn a_table_keeps_to_its_width_and_keeps_its_numbers() {
        for width in 54..200 {
            let text = example(width);
            assert!(text.lines().all(|line| line.width() <= width), "{text}");
            assert!(text.contains("1,000,000") && text.contains("step"), "{text}");
        }
        assert!(example(60).contains("No room for: deviation."));
        assert!(example(80).contains("deviation  note"));
    }

    #[test]
    fn columns_that_do_not_fit_follow_on_the_next_line() {
        let columns = ["one", "two", "three", "four", "five", "six"].map(Column::name);
        let cells = ["1,000", "alpha", "beta", "gamma", "a name of some length", "e"];
        let rows = [cells.map(str::to_owned)];
        let text = plain(&table(Width::of(Some(30)), &columns, rows.clone()));
        assert_eq!(
            text,
            "one    two    three  four\n    five                   six\n\
             1,000  alpha  beta   gamma\n    a name of some length  e\n"
        );
        for width in 1..30 {
            let text = plain(&table(Width::of(Some(width)), &columns, rows.clone()));
            assert!(text.contains("1,000"), "{width}: {text}");
        }
        let columns = [(Column::number("n"), 4), (Column::number("m"), 4), (Column::name("s"), 8)];
        let rows = Layout::new(Width::of(Some(30)), &columns);
        for (number, line) in [
            ("2,000,000,000,000", "   1  2,000,000,000,000  alpha\n"),
            ("2,000,000,000,000,000", "   1  2,000,000,000,000,000\n    alpha\n"),
        ] {
            assert_eq!(rows.line(&["1", number, "alpha"].map(str::to_owned)), line);
        }
    }

    #[test]
    fn a_name_keeps_both_its_ends() {
        for (columns, name, shown) in [
            (10, "short", "short"),
            (5, "abcdefghij", "ab…ij"),
            (6, "abcdefghij", "ab…hij"),
            (1, "ab", "…"),
            (0, "ab", "…"),
            // Each character takes two columns.
            (6, "日本語日本語", "日…語"),
        ] {
            assert_eq!(cut(columns, name), shown);
        }
    }

    #[test]
    fn a_function_loses_its_arguments_first_and_keeps_its_name() {
        const STEP: &str = "a.dll!ns::Solver<int>::step(float, float)";
        let nested = " ".repeat(8) + "a.dll!ns::step(int, int)";
        let deep = " ".repeat(40) + "a.dll!step(int)";
        for (columns, name, shown) in [
            (41, STEP, STEP),
            (40, STEP, "a.dll!ns::Solver<int>::step"),
            (22, STEP, "a.dll!ns::Solver::step"),
            (12, STEP, "a.dll!step"),
            (5, STEP, "step"),
            (3, STEP, "s…p"),
            (30, &nested, "        a.dll!ns::step"),
            // The calls of a deep tree are not indented out of the table.
            (20, &deep, "    a.dll!step(int)"),
            (24, "0x1000 a.dll!ns::step(int)+0x10", "0x1000 a.dll!step+0x10"),
            (10, "app.exe (1234)", "app.…1234)"),
        ] {
            assert_eq!(cut(columns, name), shown);
        }
    }

    #[test]
    fn rows_that_come_one_by_one_keep_to_their_width() {
        let columns = [
            (Column::number("time"), 10),
            (Column::number("length").extra(), 10),
            (Column::name("symbol"), 24),
        ];
        let cells = ["1", "2", "game.exe!world::physics::Solver<double, 3>::step(float)"];
        let cells = cells.map(str::to_owned);
        for width in 30..100 {
            let rows = Layout::new(Width::of(Some(width)), &columns);
            let text = plain(&rows.head()) + &rows.line(&cells);
            assert!(text.lines().all(|line| line.width() <= width), "{text}");
            assert_eq!(text.starts_with("No room for: length."), width < 48, "{text}");
            assert!(text.contains("step"), "{text}");
        }
        let rows = Layout::new(Width::UNLIMITED, &columns);
        assert_eq!(plain(&rows.head()), "      time      length  symbol\n");
        assert_eq!(rows.line(&cells), format!("         1           2  {}\n", cells[2]));
    }

    #[test]
    fn colours_take_no_room() {
        let cell = styled(HEAD, "1");
        let columns = [Column::word("a").coloured(), Column::word("b")];
        let text = table(Width::UNLIMITED, &columns, [[cell, "x".to_owned()]]);
        assert_eq!(plain(&text), "a  b\n1  x\n");
        assert!(text.contains("\u{1b}[1m1"), "{text:?}");
    }

    /// A name could hide others with a colour, or end the line.
    #[test]
    fn cells_are_escaped() {
        let cell = "\u{1b}[8ma\nb".to_owned();
        let text = table(Width::UNLIMITED, &[Column::name("name")], [[cell.clone()]]);
        assert_eq!(plain(&text), "name\n\\x1b[8ma\\nb\n");
        let layout = Layout::new(Width::UNLIMITED, &[(Column::name("name"), 4)]);
        assert_eq!(layout.line(&[cell]), "\\x1b[8ma\\nb\n");
    }
}
