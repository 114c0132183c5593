//! The results of several runs: each count's mean, and how reliable it is.

use super::body::{Outlier, Repeats, Row, Run};
use halprof_measure::statistics::Summary;

/// For one run, its rows unchanged; for several, their means, each with its spread.
pub(super) fn combined(runs: &[Run], trim: bool) -> Vec<Row> {
    let whole = whole(runs);
    let Some((_, first)) = whole.first() else {
        return Vec::new();
    };
    let rows = first.counts.iter().enumerate();
    rows.map(|(index, row)| {
        let same: Vec<&Row> = whole.iter().filter_map(|(_, run)| run.counts.get(index)).collect();
        let numbers: Vec<usize> = whole.iter().map(|(number, _)| *number).collect();
        mean(row, &same, &numbers, trim)
    })
    .collect()
}

/// The time that a run took, and its spread over several.
pub(super) fn elapsed(runs: &[Run], trim: bool) -> (u128, Option<Repeats>) {
    let whole = whole(runs);
    let numbers: Vec<usize> = whole.iter().map(|(number, _)| *number).collect();
    let values: Vec<u128> = whole.iter().map(|(_, run)| run.elapsed_ns.into()).collect();
    match Summary::from_values(&values, trim) {
        Some(summary) => {
            let repeats = repeats(&summary, &values, &numbers);
            (summary.mean, Some(repeats))
        }
        None => (values.first().copied().unwrap_or(0), None),
    }
}

/// The complete runs, with their numbers; if there is none, the incomplete one.
fn whole(runs: &[Run]) -> Vec<(usize, &Run)> {
    let numbered = || (1..).zip(runs);
    let whole: Vec<(usize, &Run)> = numbered().filter(|(_, run)| !run.interrupted).collect();
    if whole.is_empty() {
        return numbered().take(1).collect();
    }
    whole
}

fn mean(row: &Row, same: &[&Row], numbers: &[usize], trim: bool) -> Row {
    let known = same.iter().zip(numbers);
    let known = known.filter_map(|(&row, &number)| Some((row, number, row.value?)));
    let known: Vec<(&Row, usize, u128)> = known.collect();
    let same: Vec<&Row> = known.iter().map(|&(row, ..)| row).collect();
    let numbers: Vec<usize> = known.iter().map(|&(_, number, _)| number).collect();
    let values: Vec<u128> = known.iter().map(|&(.., value)| value).collect();
    let Some(summary) = Summary::from_values(&values, trim) else {
        let only = same.first().copied();
        return only.unwrap_or(row).clone();
    };
    let kept = summary.kept.iter().filter_map(|&index| same.get(index));
    let kept: Vec<&Row> = kept.copied().collect();
    let mean_of = |of: fn(&Row) -> u128| {
        let values: Vec<u128> = kept.iter().map(|row| of(row)).collect();
        let first = values.first().copied().unwrap_or(0);
        Summary::from_values(&values, false).map_or(first, |summary| summary.mean)
    };
    Row {
        value: Some(summary.mean),
        counted: mean_of(|row| row.counted),
        enabled_ns: mean_of(|row| row.enabled_ns),
        running_ns: mean_of(|row| row.running_ns),
        scaled: kept.iter().any(|row| row.scaled),
        error: bound(&kept),
        deviation: Some(summary.deviation),
        repeats: Some(repeats(&summary, &values, &numbers)),
        without_turn: kept.iter().find_map(|row| row.without_turn.clone()),
        ..row.clone()
    }
}

/// The bound of a mean of estimates: at worst all of them are off in the same direction, which the
/// spread of the runs does not show.
fn bound(rows: &[&Row]) -> Option<f64> {
    if !rows.iter().any(|row| row.scaled) {
        return None;
    }
    let of_row = |row: &&Row| if row.scaled { row.error } else { Some(0.0) };
    let sum = rows.iter().map(of_row).sum::<Option<f64>>()?;
    let n = u32::try_from(rows.len()).map_or(f64::INFINITY, f64::from);
    Some((sum / n).ceil())
}

fn repeats(summary: &Summary, values: &[u128], numbers: &[usize]) -> Repeats {
    let outlier = |&index: &usize| {
        let (run, value) = (numbers.get(index)?, values.get(index)?);
        Some(Outlier { run: *run, value: *value })
    };
    Repeats {
        runs: summary.kept.len(),
        deviation: summary.deviation,
        confidence: summary.confidence,
        min: summary.min,
        median: summary.median,
        max: summary.max,
        outliers: summary.outliers.iter().filter_map(outlier).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(value: u128, error: Option<f64>) -> Run {
        let row = Row {
            source: "TotalIssues".to_owned(),
            requested: None,
            processor: None,
            core_type: None,
            group: None,
            pass: None,
            value: Some(value),
            counted: value / 2,
            enabled_ns: value * 2,
            running_ns: value,
            scaled: error.is_some(),
            error,
            deviation: None,
            repeats: None,
            left_out: None,
            without_turn: None,
            note: None,
            members: Vec::new(),
        };
        Run { elapsed_ns: 1, counts: vec![row], interrupted: false }
    }

    /// An outlier is in none of a row's numbers, or in all of them.
    #[test]
    fn all_numbers_of_a_row_are_of_the_same_runs() {
        let values = [100, 102, 98, 100, 102, 98, 5000];
        let runs: Vec<Run> = values.iter().map(|&value| run(value, Some(10.0))).collect();
        for (trim, mean) in [(true, 100), (false, 5600_u128.div_ceil(7))] {
            let row = combined(&runs, trim).remove(0);
            assert_eq!(
                (row.value, row.counted, row.running_ns, row.enabled_ns),
                (Some(mean), mean / 2, mean, 2 * mean),
                "{trim}"
            );
        }
    }

    #[test]
    fn the_bound_of_a_mean_is_the_mean_of_the_bounds() {
        let bound = |errors: [Option<f64>; 2]| {
            let runs = errors.map(|error| run(100, error));
            combined(&runs, false).remove(0).error
        };
        assert_eq!(bound([Some(10.0), Some(30.0)]), Some(20.0));
        assert_eq!(bound([Some(10.0), None]), Some(5.0), "one was exact");
        assert_eq!(bound([None, None]), None);
        // With too few turns nothing is known.
        let mut unknown = [run(100, Some(10.0)), run(100, None)];
        unknown[1].counts[0].scaled = true;
        assert_eq!(combined(&unknown, false).remove(0).error, None);
    }
}
