//! Counts as text.

use super::body::{Body, Figure, Interval, Jitter, Repeats, Row};
use super::{by_process, topdown};
use crate::output::number::{seconds, thousands};
use crate::output::style::{WARNING, styled};
use crate::output::table::{self, Rows, Width, table};
use halprof_profile::file::cannot_count;
use std::collections::BTreeSet;

/// A column of the table, and its value for a row.
type Column = (table::Column, fn(&Row) -> String);

/// Every possible column; the table leaves out those that are empty in all rows.
const COLUMNS: [Column; 13] = [
    (table::Column::number("processor"), |row| optional(row.processor)),
    (table::Column::word("cores"), |row| optional(row.core_type)),
    (table::Column::number("count"), |row| match row.repeats {
        None => count(row),
        Some(_) => String::new(),
    }),
    (table::Column::number("mean"), |row| match row.repeats {
        None => String::new(),
        Some(_) => count(row),
    }),
    (table::Column::number("95 %"), bound),
    (table::Column::number("counted"), share),
    (table::Column::name("source"), |row| row.source.clone()),
    (table::Column::number("group"), |row| optional(row.group)),
    (table::Column::number("pass"), |row| optional(row.pass)),
    (table::Column::number("deviation").extra(), |row| {
        of_repeats(row, |of| whole_of(of.deviation))
    }),
    (table::Column::number("min").extra(), |row| of_repeats(row, |of| thousands(of.min))),
    (table::Column::number("median").extra(), |row| of_repeats(row, |of| thousands(of.median))),
    (table::Column::number("max").extra(), |row| of_repeats(row, |of| thousands(of.max))),
];

/// The result; `told` says that intervals were printed before it.
pub(super) fn whole(body: &Body, told: bool, width: Width) -> String {
    let mut text = String::new();
    if told {
        text += "\ntotal\n";
    }
    if let Some(scope) = body.scope.text() {
        text += &format!("{scope}\n\n");
    }
    text += &table(width, &COLUMNS.map(|(column, _)| column), body.counts.iter().map(cells));
    if !body.derived.is_empty() {
        text += "\n";
        text += &figures(&body.derived, width);
    }
    text += &by_process::text(&body.by_process, width);
    text += &topdown::text(&body.topdown, &body.next, width);
    text += &width.fitted(&remarks(body));
    text + &width.fitted(&ending(body))
}

fn cells(row: &Row) -> [String; COLUMNS.len()] {
    COLUMNS.map(|(_, of)| of(row))
}

/// The remarks below the tables: what was left out, differs from the request, or is an outlier.
fn remarks(body: &Body) -> String {
    let mut text = String::new();
    let mut told = BTreeSet::new();
    if let Some(left) = body.scope.left_running() {
        text += &format!("\n{left}\n");
    }
    for row in &body.counts {
        // Top-down counts each kind of processor by events of its own.
        let told_apart = !body.topdown.is_empty() && row.requested.is_none();
        if let Some(processors) = row.left_out.as_ref().filter(|_| !told_apart) {
            text += &format!("\n{}\n", cannot_count(&row.source, processors));
        }
        if let Some(note) = row.note.as_ref().filter(|_| told.insert(&row.source)) {
            text += &format!("\n{} counts {note}\n", row.source);
        }
        if let Some(repeats) = &row.repeats {
            text += &outliers(row, repeats);
        }
    }
    if body.counts.iter().any(|row| row.scaled && row.error.is_none() && row.value.is_some()) {
        text += "\n± unknown: the measurement was too short for enough turns on the counters\n";
    }
    for period in body.periods.iter().filter(|period| period.time) {
        let tick = seconds(u128::from(period.used) * 100);
        text += &format!("\n{}: one tick every {tick}\n", period.source);
    }
    if !body.passes.is_empty() {
        text += &format!("\n{} passes, one run each: counts are exact\n", body.passes.len());
    }
    if let Some(jitter) = &body.jitter {
        text += &jittered(jitter);
    }
    text
}

fn outliers(row: &Row, repeats: &Repeats) -> String {
    if repeats.outliers.is_empty() {
        return String::new();
    }
    let outliers = repeats.outliers.iter();
    let outliers = outliers.map(|one| format!("{} in run {}", thousands(one.value), one.run));
    let outliers: Vec<String> = outliers.collect();
    format!("\n{}: outliers: {}\n", row.source, outliers.join(", "))
}

fn jittered(jitter: &Jitter) -> String {
    if jitter.intervals == 0 {
        return String::new();
    }
    format!(
        "\n{} interval{} of {}; deviation: mean {}, max {}\n",
        thousands(jitter.intervals),
        if jitter.intervals == 1 { "" } else { "s" },
        milliseconds(jitter.asked_ns),
        milliseconds(jitter.mean_ns),
        milliseconds(jitter.max_ns)
    )
}

fn ending(body: &Body) -> String {
    let mut text = format!("\nelapsed {}", seconds(body.elapsed_ns));
    if let Some(repeats) = &body.elapsed_repeats {
        let relative = relative(repeats.confidence, body.elapsed_ns);
        text += &format!(" {relative} (mean of {} runs)", repeats.runs);
    }
    let mut warnings = String::new();
    if body.counts.iter().any(|row| row.scaled) {
        warnings += ", sources took turns on the counters: counts are estimates";
    }
    if body.interrupted {
        warnings += ", interrupted";
        if body.elapsed_repeats.is_some() && body.runs.iter().any(|run| run.interrupted) {
            warnings += ": the last run is not in the mean";
        }
    }
    if !warnings.is_empty() {
        text += &styled(WARNING, &warnings);
    }
    text + "\n"
}

/// The bound of an estimate that has too few turns for one.
const UNKNOWN: &str = "± unknown";

fn optional(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn count(row: &Row) -> String {
    match row.value {
        Some(value) => thousands(value),
        None if row.running_ns != 0 => "unknown".to_owned(),
        None => "not counted".to_owned(),
    }
}

/// For which part of the time it was counted.
fn share(row: &Row) -> String {
    if row.scaled {
        return percent(row.running_ns, row.enabled_ns);
    }
    String::new()
}

/// How accurate it is.
fn bound(row: &Row) -> String {
    let Some(value) = row.value else {
        return String::new();
    };
    match (&row.repeats, row.error) {
        // Each run's estimate may be off in the same direction, whatever the spread of the runs.
        (_, None) if row.scaled => UNKNOWN.to_owned(),
        (Some(repeats), error) => relative(repeats.confidence + error.unwrap_or(0.0), value),
        (None, Some(error)) => format!("±{}", whole_of(error)),
        (None, None) => String::new(),
    }
}

fn of_repeats(row: &Row, of: fn(&Repeats) -> String) -> String {
    row.repeats.as_ref().map(of).unwrap_or_default()
}

fn figures(figures: &[Figure], width: Width) -> String {
    let columns = [
        table::Column::number("value"),
        table::Column::number("95 %"),
        table::Column::number("processor"),
        table::Column::word("cores"),
        table::Column::prose("metric"),
    ];
    let cells = figures.iter().map(|figure| {
        let [value, bound, name] = figure_cells(figure);
        let processor = optional(figure.processor);
        [value, bound, processor, optional(figure.core_type), name]
    });
    table(width, &columns, cells)
}

fn figure_cells(figure: &Figure) -> [String; 3] {
    let filter = match figure.filter {
        "u" => ", user mode",
        "k" => ", kernel mode",
        _ => "",
    };
    let unit = if figure.unit.is_empty() { String::new() } else { format!(" {}", figure.unit) };
    let Some(value) = figure.value else {
        let why = figure.reason.as_deref().unwrap_or_default();
        let what = format!("{}{filter}: {why}", figure.name);
        return ["-".to_owned(), String::new(), what];
    };
    let bound = match figure.error {
        // Rounded up, never down.
        Some(error) => format!("±{:.3}", (error * 1e3).ceil() / 1e3),
        None if figure.scaled => UNKNOWN.to_owned(),
        None => String::new(),
    };
    [format!("{value:.3}{unit}"), bound, format!("{}{filter}", figure.name)]
}

/// The lines of an interval, as it ends. The columns are wide enough for most values, because later
/// ones are not known yet. The first interval has a header, which says which columns there are.
pub(super) fn interval(interval: &Interval, first: bool, metrics: bool, width: Width) -> String {
    let mut text = String::new();
    let when = [
        format!("{:.6}", in_seconds(interval.start_ns)),
        format!("{:.6}", in_seconds(interval.length_ns)),
        optional(interval.run),
        optional(interval.pass),
    ];
    let slots = &interval.topdown;
    // Of what top-down counts for itself its figures are enough.
    let shown = |row: &&Row| slots.is_empty() || row.requested.is_some();
    let counts = interval.counts.iter().filter(shown).map(|row| {
        let place = [optional(row.processor), optional(row.core_type)];
        (place, [count(row), bound(row), share(row), row.source.clone()])
    });
    let figures = interval.derived.iter().filter(|_| metrics).map(|figure| {
        let [value, bound, name] = figure_cells(figure);
        let place = [optional(figure.processor), optional(figure.core_type)];
        (place, [value, bound, String::new(), name])
    });
    let several = slots.iter().any(|row| Some(&row.kind) != slots.first().map(|row| &row.kind));
    let slots = slots.iter().map(|row| {
        let [value, bound] = topdown::figures(row);
        let kind = if several { row.kind.as_str() } else { "" };
        let place = [String::new(), String::new()];
        let name = format!("{} {kind}", topdown::name(row));
        (place, [value, bound, String::new(), name.trim_end().to_owned()])
    });
    let rows =
        counts.chain(figures).chain(slots).map(|(place, what)| [&when[..], &place, &what].concat());
    let rows: Vec<Vec<String>> = rows.collect();
    let has =
        |index: usize| move |row: &Vec<String>| row.get(index).is_some_and(|cell| !cell.is_empty());
    let names = rows.iter().filter_map(|row| row.last());
    let name = names.map(|name| name.chars().count()).max().unwrap_or(0);
    let used: Vec<usize> =
        (0..INTERVAL.len()).filter(|&index| rows.iter().any(has(index))).collect();
    let columns = INTERVAL.map(|(column, columns)| (column, columns.unwrap_or(name)));
    let columns = used.iter().filter_map(|&index| columns.get(index).copied());
    let lines = Rows::new(width, &columns.collect::<Vec<_>>());
    if first {
        text += &lines.head();
    }
    for row in &rows {
        let cells = used.iter().filter_map(|&index| row.get(index).cloned());
        text += &lines.line(&cells.collect::<Vec<_>>());
    }
    text
}

/// The columns of intervals and their widths; that of names is as wide as they are.
const INTERVAL: [(table::Column, Option<usize>); 10] = [
    (table::Column::loose("start, s", 10), Some(12)),
    (table::Column::number("length, s").extra(), Some(10)),
    (table::Column::loose("run", 3), Some(4)),
    (table::Column::number("pass"), Some(4)),
    (table::Column::number("processor"), Some(9)),
    (table::Column::word("cores"), Some(11)),
    (table::Column::loose("count", 13), Some(17)),
    (table::Column::loose("95 %", 9), Some(10)),
    (table::Column::number("counted").extra(), Some(7)),
    (table::Column::name("source"), None),
];

/// A part as a percentage of a whole, with one decimal.
fn percent(part: u128, whole: u128) -> String {
    let thousandths = part.saturating_mul(1000).checked_div(whole).unwrap_or(0);
    format!("{}.{} %", thousandths / 10, thousandths % 10)
}

/// Half of an interval, as a percentage of its middle.
#[expect(clippy::cast_precision_loss, reason = "a percentage is shown with two decimals")]
fn relative(half: f64, middle: u128) -> String {
    if middle == 0 {
        return format!("±{:.0}", half.ceil());
    }
    // Rounded up, never down.
    format!("±{:.2} %", (1e4 * half / middle as f64).ceil() / 100.0)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts saturate")]
fn whole_of(value: f64) -> String {
    thousands(value.round() as u128)
}

#[expect(clippy::cast_precision_loss, reason = "shown with six decimals, to the microsecond")]
const fn in_seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

fn milliseconds(nanoseconds: u64) -> String {
    format!("{:.3} ms", in_seconds(nanoseconds) * 1e3)
}
