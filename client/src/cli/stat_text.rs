//! Counts for people, and as comma-separated values.

use super::output::{lines, seconds, table, thousands};
use super::stat::{Body, Figure, Interval, Row};
use crate::{Error, Result};

/// Counts, figures and the time it took.
pub(super) fn text(body: &Body) -> String {
    let mut text = String::new();
    for one in &body.intervals {
        text += &interval(one);
    }
    if !body.intervals.is_empty() {
        text += "in all\n";
    }
    text += &rows(&body.counts);
    if !body.derived.is_empty() {
        text += "\n";
        text += &lines(body.derived.iter().map(figure), &[0]);
    }
    for row in &body.counts {
        if let Some(processors) = &row.left_out {
            text += &format!(
                "\n{}: processors {processors} cannot count it and are left out\n",
                row.source
            );
        }
    }
    for period in body.periods.iter().filter(|period| period.time) {
        let tick = seconds(u128::from(period.used) * 100);
        text += &format!("\n{}: one tick every {tick}\n", period.source);
    }
    text + &ending(body)
}

/// The counts of one interval.
pub(super) fn interval(interval: &Interval) -> String {
    format!(
        "at {}\n{}\n",
        seconds(interval.time_ns),
        rows(&interval.counts)
    )
}

fn ending(body: &Body) -> String {
    let mut text = format!("\nelapsed {}", seconds(body.elapsed_ns));
    if body.runs.len() > 1 {
        text += &format!(" (mean of {} runs)", body.runs.len());
    }
    if body.counts.iter().any(|row| row.scaled) {
        text += ", sources took turns on the counters: counts are estimates";
    }
    if body.interrupted {
        text += ", interrupted";
    }
    text + "\n"
}

fn rows(counts: &[Row]) -> String {
    if counts.iter().any(|row| row.processor.is_some()) {
        let line = |row: &Row| {
            let [count, source, share, bound] = cells(row);
            let processor = row
                .processor
                .map(|processor| processor.to_string())
                .unwrap_or_default();
            [processor, count, source, share, bound]
        };
        return table(
            ["processor", "count", "source", "", ""],
            counts.iter().map(line),
            &[0, 1, 3],
        );
    }
    table(
        ["count", "source", "", ""],
        counts.iter().map(cells),
        &[0, 2],
    )
}

/// The count, the source, which part of the time it was counted, and how exact it is.
fn cells(row: &Row) -> [String; 4] {
    let never = row.scaled && row.running_ns == 0;
    let count = if never {
        "not counted".to_owned()
    } else {
        thousands(row.value)
    };
    let share = if row.scaled {
        percent(row.running_ns, row.enabled_ns)
    } else {
        String::new()
    };
    let bound = match (row.deviation, row.error) {
        (Some(deviation), _) => format!("deviation {}", whole(deviation)),
        (None, Some(error)) => format!("+/- {}", whole(error)),
        (None, None) if row.scaled && !never => "+/- unknown".to_owned(),
        (None, None) => String::new(),
    };
    [count, row.source.clone(), share, bound]
}

fn figure(figure: &Figure) -> [String; 2] {
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
    [
        format!("{:.3}{unit}", figure.value),
        format!("{}{filter}", figure.name),
    ]
}

/// Part of a whole with one decimal.
fn percent(part: u128, whole: u128) -> String {
    let thousandths = part.saturating_mul(1000).checked_div(whole).unwrap_or(0);
    format!("{}.{} %", thousandths / 10, thousandths % 10)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "casts saturate"
)]
fn whole(value: f64) -> String {
    thousands(value.round() as u128)
}

/// One line for each count: those of intervals begin with their time, those of the whole with none.
pub(super) fn csv(body: &Body) -> Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let failed = |error: csv::Error| Error::Internal(error.to_string());
    writer
        .write_record([
            "time_ns",
            "source",
            "processor",
            "value",
            "counted",
            "enabled_ns",
            "running_ns",
            "scaled",
            "error",
        ])
        .map_err(failed)?;
    for interval in &body.intervals {
        for row in &interval.counts {
            writer
                .write_record(record(Some(interval.time_ns), row))
                .map_err(failed)?;
        }
    }
    for row in &body.counts {
        writer.write_record(record(None, row)).map_err(failed)?;
    }
    let bytes = writer
        .into_inner()
        .map_err(|error| Error::Internal(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| Error::Internal(error.to_string()))
}

fn record(time_ns: Option<u64>, row: &Row) -> [String; 9] {
    let optional = |value: Option<String>| value.unwrap_or_default();
    [
        optional(time_ns.map(|time| time.to_string())),
        row.source.clone(),
        optional(row.processor.map(|processor| processor.to_string())),
        row.value.to_string(),
        row.counted.to_string(),
        row.enabled_ns.to_string(),
        row.running_ns.to_string(),
        row.scaled.to_string(),
        optional(row.error.map(|error| format!("{error:.0}"))),
    ]
}
