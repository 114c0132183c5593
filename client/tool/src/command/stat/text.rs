//! Counts for people.

use super::body::{Body, Figure, Interval, Jitter, Repeats, Row};
use super::topdown;
use crate::output::{WARNING, lines, seconds, styled, table_of, thousands};

/// A column of the table: its head, whether it stands at the right, and what it has of a row.
type Column = (&'static str, bool, fn(&Row) -> String);

/// Every column there is; those that no row has anything for are not shown.
const COLUMNS: [Column; 12] = [
    ("processor", true, |row| optional(row.processor)),
    ("cores", false, |row| optional(row.core_type)),
    ("count", true, count),
    ("source", false, |row| row.source.clone()),
    ("group", true, |row| optional(row.group)),
    ("pass", true, |row| optional(row.pass)),
    ("", true, share),
    ("", false, bound),
    ("deviation", true, |row| {
        of_repeats(row, |of| whole_of(of.deviation))
    }),
    ("least", true, |row| of_repeats(row, |of| thousands(of.min))),
    ("median", true, |row| {
        of_repeats(row, |of| thousands(of.median))
    }),
    ("most", true, |row| of_repeats(row, |of| thousands(of.max))),
];

/// The result; `told` says that intervals stand before it.
pub(super) fn whole(body: &Body, told: bool) -> String {
    let mut text = String::new();
    if told {
        text += "\nin all\n";
    }
    if let Some(scope) = body.scope.text() {
        text += &format!("{scope}\n\n");
    }
    text += &rows(&body.counts);
    if !body.derived.is_empty() {
        text += "\n";
        text += &figures(&body.derived);
    }
    text += &topdown::text(&body.topdown);
    text += &remarks(body);
    text + &ending(body)
}

fn rows(rows: &[Row]) -> String {
    let mut shown = COLUMNS.to_vec();
    shown.retain(|(head, _, of)| {
        matches!(*head, "count" | "source") || rows.iter().any(|row| !of(row).is_empty())
    });
    let repeated = rows.iter().any(|row| row.repeats.is_some());
    let head = |column: &Column| match column.0 {
        "count" if repeated => "mean",
        head => head,
    };
    let head: Vec<&str> = shown.iter().map(head).collect();
    let right = shown.iter().enumerate();
    let right = right.filter(|(_, (_, right, _))| *right);
    let right: Vec<usize> = right.map(|(index, _)| index).collect();
    let cells = |row: &Row| -> Vec<String> { shown.iter().map(|(_, _, of)| of(row)).collect() };
    table_of(head, rows.iter().map(cells), &right)
}

/// What stands under the tables: what was left out, done otherwise, or unlike the rest.
fn remarks(body: &Body) -> String {
    let mut text = String::new();
    if let Some(left) = body.scope.left() {
        text += &format!("\n{left}\n");
    }
    for row in &body.counts {
        if let Some(processors) = &row.left_out {
            text += &format!(
                "\n{}: processors {processors} cannot count it and are left out\n",
                row.source
            );
        }
        if let Some(repeats) = &row.repeats {
            text += &outliers(row, repeats);
        }
    }
    for period in body.periods.iter().filter(|period| period.time) {
        let tick = seconds(u128::from(period.used) * 100);
        text += &format!("\n{}: one tick every {tick}\n", period.source);
    }
    if !body.passes.is_empty() {
        text += &format!(
            "\n{} passes: what was measured ran once for each, and counts are exact\n",
            body.passes.len()
        );
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
    format!(
        "\n{}: unlike the others: {}\n",
        row.source,
        outliers.join(", ")
    )
}

fn jittered(jitter: &Jitter) -> String {
    if jitter.intervals == 0 {
        return String::new();
    }
    format!(
        "\n{} whole intervals of {}: off by {} in the mean, {} at most\n",
        thousands(jitter.intervals),
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
            warnings += ": the last run is in no mean";
        }
    }
    if !warnings.is_empty() {
        text += &styled(WARNING, &warnings);
    }
    text + "\n"
}

fn optional(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn never(row: &Row) -> bool {
    row.scaled && row.running_ns == 0
}

fn count(row: &Row) -> String {
    if never(row) {
        return "not counted".to_owned();
    }
    thousands(row.value)
}

/// Which part of the time it was counted.
fn share(row: &Row) -> String {
    if row.scaled {
        return percent(row.running_ns, row.enabled_ns);
    }
    String::new()
}

/// How exact it is.
fn bound(row: &Row) -> String {
    match (&row.repeats, row.error) {
        (_, None) if row.scaled && !never(row) => "+/- unknown".to_owned(),
        // Each run's estimate may be wrong in the same direction, whatever the runs' spread.
        (Some(repeats), error) => relative(repeats.confidence + error.unwrap_or(0.0), row.value),
        (None, Some(error)) => format!("+/- {}", whole_of(error)),
        (None, None) => String::new(),
    }
}

fn of_repeats(row: &Row, of: fn(&Repeats) -> String) -> String {
    row.repeats.as_ref().map(of).unwrap_or_default()
}

fn figures(figures: &[Figure]) -> String {
    let by_type = figures.iter().any(|figure| figure.core_type.is_some());
    let cells = |figure: &Figure| {
        let [value, bound, name] = figure_cells(figure);
        let core_type = by_type.then(|| optional(figure.core_type));
        let cells = [Some(value), Some(bound), core_type, Some(name)];
        cells.into_iter().flatten().collect::<Vec<_>>()
    };
    let bounded = figures.iter().any(|figure| figure.scaled);
    let without_bound = |mut cells: Vec<String>| {
        if !bounded {
            cells.remove(1);
        }
        cells
    };
    lines(figures.iter().map(cells).map(without_bound), &[0])
}

fn figure_cells(figure: &Figure) -> [String; 3] {
    let filter = match figure.filter {
        "u" => ", user mode",
        "k" => ", kernel mode",
        _ => "",
    };
    let unit = if figure.unit.is_empty() {
        String::new()
    } else {
        format!(" {}", figure.unit)
    };
    let bound = match figure.error {
        // Never less than it is.
        Some(error) => format!("+/- {:.3}", (error * 1e3).ceil() / 1e3),
        None if figure.scaled => "+/- unknown".to_owned(),
        None => String::new(),
    };
    [
        format!("{:.3}{unit}", figure.value),
        bound,
        format!("{}{filter}", figure.name),
    ]
}

/// The lines of an interval, as they come: the columns are as wide as most values, whatever comes.
pub(super) fn interval(interval: &Interval, first: bool, metrics: bool) -> String {
    let when = format!(
        "{:>12.6} {:>10.6}",
        in_seconds(interval.start_ns),
        in_seconds(interval.length_ns)
    );
    let mut text = String::new();
    if first {
        text += &format!(
            "{:>12} {:>10} {:>20}  source\n",
            "start, s", "length, s", "count"
        );
    }
    for row in &interval.counts {
        let mut line = format!("{when} {:>20}  {}", count(row), row.source);
        for (name, value) in [
            ("processor ", optional(row.processor)),
            ("", optional(row.core_type)),
            ("", share(row)),
            ("", bound(row)),
            ("run ", optional(interval.run)),
            ("pass ", optional(interval.pass)),
        ] {
            if !value.is_empty() {
                line += &format!("  {name}{value}");
            }
        }
        text += &line;
        text += "\n";
    }
    for figure in interval.derived.iter().filter(|_| metrics) {
        let [value, bound, name] = figure_cells(figure);
        let core_type = optional(figure.core_type);
        let line = format!("{when} {value:>20}  {name}  {bound}  {core_type}");
        text += line.trim_end();
        text += "\n";
    }
    text
}

/// Part of a whole with one decimal.
fn percent(part: u128, whole: u128) -> String {
    let thousandths = part.saturating_mul(1000).checked_div(whole).unwrap_or(0);
    format!("{}.{} %", thousandths / 10, thousandths % 10)
}

/// Half an interval in percent of its middle.
#[expect(
    clippy::cast_precision_loss,
    reason = "a percentage is shown with two decimals"
)]
fn relative(half: f64, middle: u128) -> String {
    if middle == 0 {
        return format!("+/- {half:.0}");
    }
    format!("+/- {:.2} %", 100.0 * half / middle as f64)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "casts saturate"
)]
fn whole_of(value: f64) -> String {
    thousands(value.round() as u128)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "shown with six decimals, to the microsecond"
)]
const fn in_seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

fn milliseconds(nanoseconds: u64) -> String {
    format!("{:.3} ms", in_seconds(nanoseconds) * 1e3)
}
