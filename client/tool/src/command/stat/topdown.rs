//! `stat --topdown`: which events it needs, and its results.

use super::body::SlotsPart;
use super::measured::Measured;
use super::rows::View;
use crate::On;
use crate::choice::Choice;
use crate::formula::Value;
use crate::table::{Column, Width, table};
use crate::topdown::Part;
use crate::{Error, Result};
use halprof_measure::estimate::Estimate;
use shared_types::request::machine::Processor;
use std::collections::BTreeMap;

/// The suffix of a part that was counted rather than derived as a remainder: the check of a sum
/// uses it.
const COUNTED: &str = "_Counted";
/// If the sum of the parts is off by more than this, in percent, a note says so.
const OFF: f64 = 1.0;

const UNBOUNDED: &str = "unknown: too few turns";

/// What is counted on each kind of processor.
pub(super) struct TopDown {
    kinds: Vec<Kind>,
    /// All events are counted at the same time.
    together: bool,
}

struct Kind {
    /// The name of its table of events.
    name: String,
    number: u8,
    /// Threads share its cores.
    smt: bool,
    parts: Vec<Part>,
    /// The label of the count of each event, or why there is none.
    labels: BTreeMap<String, std::result::Result<String, String>>,
    /// Why there are no parts.
    reason: Option<&'static str>,
}

impl TopDown {
    /// Adds the events that must be counted to the choice.
    pub(super) fn add(choice: &mut Choice, level: u8, on: &mut On) -> Result<Self> {
        let mut kinds = Vec::new();
        let selected: Vec<Processor> = choice.selected().copied().collect();
        for kind in choice.catalog().kinds() {
            let number = kind.processor.kind;
            if !selected.iter().any(|processor| processor.kind == number) {
                continue;
            }
            let known = kind.microarchitecture;
            let parts = known.map_or_else(Vec::new, |one| Part::of(one, level));
            let reason = match (known, parts.is_empty()) {
                (None, _) => Some("the events of this processor are not known"),
                (Some(_), true) => Some(
                    "the vendor has no formula for this processor that general counters can compute",
                ),
                (Some(_), false) => None,
            };
            kinds.push(Kind {
                name: known.map_or("unknown", |one| one.table).to_owned(),
                number,
                smt: kind.processor.flags & Processor::SHARES_CORE != 0,
                parts,
                labels: BTreeMap::new(),
                reason,
            });
        }
        if kinds.iter().all(|kind| kind.reason.is_some()) {
            let why = kinds.iter().find_map(|kind| kind.reason);
            let why = why.unwrap_or("no processor has counters");
            return Err(on.without_counters(Error::unavailable(
                format!("top-down is not available here: {why}"),
                "`halprof list --metrics` shows which metrics are available.",
            )));
        }
        let first = choice.chosen.len();
        for kind in &mut kinds {
            for part in &kind.parts {
                for (name, listed) in part.events(kind.smt) {
                    if !kind.labels.contains_key(name) {
                        let label = choice.add_event(&listed);
                        let label = label.map_err(|error| error.to_string());
                        kind.labels.insert(name.to_owned(), label);
                    }
                }
            }
        }
        let together = choice.group_from(first, &mut on.connection);
        Ok(Self { kinds, together })
    }

    /// The results, from everything that was measured.
    pub(super) fn rows(&self, view: &View<'_>, measured: &[Measured]) -> Vec<SlotsPart> {
        let mut rows = Vec::new();
        for kind in &self.kinds {
            let row = |metric: &str, level, value: Option<Value>, reason: Option<String>| {
                let error = value.and_then(|value| value.error());
                let known = error.filter(|error| error.is_finite());
                SlotsPart {
                    kind: kind.name.clone(),
                    metric: metric.to_owned(),
                    level,
                    value: value.map(|value| value.value),
                    error: known,
                    reason: match value {
                        None => reason,
                        Some(_) if known != error => Some(UNBOUNDED.to_owned()),
                        Some(_) => None,
                    },
                    together: self.together,
                }
            };
            if let Some(reason) = kind.reason {
                rows.push(row("top-down", 1, None, Some(reason.to_owned())));
            }
            for part in &kind.parts {
                let lacking = part.events(kind.smt).find_map(|(name, _)| {
                    let why = kind.labels.get(name)?.as_ref().err()?;
                    Some(why.clone())
                });
                let of = |name: &str| {
                    let label = kind.labels.get(name)?.as_ref().ok()?;
                    counted(view, measured, label, kind.number)
                };
                let value = part.value(kind.smt, &of);
                let reason = lacking.unwrap_or_else(|| "what it is divided by is 0".to_owned());
                rows.push(row(part.metric, part.level, value, Some(reason)));
            }
        }
        rows
    }
}

/// The sum of an event's counts on one kind of processor.
fn counted(view: &View<'_>, measured: &[Measured], label: &str, kind: u8) -> Option<Value> {
    let mut parts: Vec<Estimate> = Vec::new();
    for pass in measured.iter().flat_map(|one| &one.passes) {
        for (place, &source) in pass.sources.iter().enumerate() {
            let Some(chosen) = view.choice.chosen.get(source) else {
                continue;
            };
            if chosen.label != label {
                continue;
            }
            let counting = view.choice.selected().filter(|processor| {
                processor.kind == kind && view.choice.counts_on(chosen, processor)
            });
            for processor in counting {
                let counts = pass.counts.get(processor.index as usize);
                let count = counts.and_then(|counts| counts.get(place));
                parts.extend(count.map(Estimate::new));
            }
        }
    }
    if parts.is_empty() {
        return None;
    }
    let sum = Estimate::sum(parts);
    Some(Value::of_count(sum.value, sum.scaled, sum.error))
}

/// The columns of the text table.
const COLUMNS: [Column; 4] = [
    Column::number("slots"),
    Column::word("95 %"),
    Column::name("metric"),
    Column::prose("note"),
];

/// The result as text.
pub(super) fn text(rows: &[SlotsPart], width: Width) -> String {
    let mut text = String::new();
    let mut kinds: Vec<&str> = Vec::new();
    for row in rows {
        if !kinds.contains(&row.kind.as_str()) {
            kinds.push(&row.kind);
        }
    }
    for kind in kinds {
        let own: Vec<&SlotsPart> = rows.iter().filter(|row| row.kind == kind).collect();
        text += &format!("\nWhere the slots went ({kind}):\n");
        let cells = |row: &&SlotsPart| {
            let indent = "  ".repeat(usize::from(row.level.saturating_sub(1)));
            let value = row
                .value
                .map_or("-".to_owned(), |value| format!("{value:.1} %"));
            let bound = row.error.map(|error| (error * 10.0).ceil() / 10.0);
            let bound = bound.map_or_else(String::new, |bound| format!("±{bound:.1}"));
            let reason = row.reason.clone().unwrap_or_default();
            [value, bound, format!("{indent}{}", row.metric), reason]
        };
        text += &table(width, &COLUMNS, own.iter().map(cells));
        let level_1: Vec<(&str, Option<f64>)> = own
            .iter()
            .filter(|row| row.level == 1)
            .map(|row| (row.metric.as_str(), row.value))
            .collect();
        if let Some(sum) = sum(&level_1)
            && (sum - 100.0).abs() >= OFF
        {
            text += &format!("The parts of level 1 add up to {sum:.1} %, not to 100 %.\n");
        }
        if own.iter().any(|row| !row.together) {
            let told = "There are not enough counters for all events at once: parts of one figure were counted at different times.";
            text += &format!("{}\n", width.prose(0, told));
        }
    }
    text
}

/// The sum of the parts of level 1, in percent, if all have a value. A part that was counted
/// replaces the one that is derived as the remainder.
fn sum(level_1: &[(&str, Option<f64>)]) -> Option<f64> {
    let counted = |metric: &str| {
        let name = format!("{metric}{COUNTED}");
        level_1.iter().any(|(other, _)| *other == name)
    };
    let kept = level_1.iter().filter(|(metric, _)| !counted(metric));
    let sum: Option<f64> = kept.map(|(_, value)| *value).sum();
    sum.filter(|_| !level_1.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_takes_what_was_counted() {
        assert_eq!(sum(&[("A", Some(40.0)), ("B", Some(60.0))]), Some(100.0));
        assert_eq!(
            sum(&[
                ("A", Some(40.0)),
                ("A_Counted", Some(39.0)),
                ("B", Some(60.0))
            ]),
            Some(99.0)
        );
        assert_eq!(sum(&[("A", Some(40.0)), ("B", None)]), None);
        assert_eq!(sum(&[]), None);
    }
}
