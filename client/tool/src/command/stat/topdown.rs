//! `stat --topdown`: which events it needs, and its results.

use super::body::SlotsPart;
use crate::metrics::formula::Value;
use crate::metrics::no_turn;
use crate::metrics::topdown::Part;
use crate::output::error::Error;
use crate::output::error::Result;
use crate::output::table::{Column, Width, table};
use crate::select::event_set::{EventSet, countable};
use crate::target::context::Context;
use halprof_measure::catalog::CpuType as Known;
use halprof_measure::estimate::Estimate;
use halprof_measure::events::Microarchitecture;
use shared_types::request::counts::Count;
use shared_types::request::machine::Processor;
use std::collections::BTreeMap;

/// If the sum of the parts is off by more than this and their bounds, in percent, a line says so.
const OFF: f64 = 1.0;

const TOO_FEW: &str = "too few turns";

/// All slots: on any general counter, and on fixed counter 3, which leaves a general one to others.
const SLOTS: [&str; 2] = ["TOPDOWN.SLOTS_P", "TOPDOWN.SLOTS"];
const FIXED_SLOTS: u8 = 3;

/// What shows where a part comes from, best first.
const CAUSES: [(&str, &[&str]); 4] = [
    (
        "frontend_bound",
        &[
            "L1iMisses",
            "ICACHE_DATA.STALLS",
            "ICACHE_16B.IFDATA_STALL",
            "ICACHE.IFETCH_STALL",
            "ICACHE.IFDATA_STALL",
            "ICACHE.MISSES",
        ],
    ),
    ("bad_speculation", &["BranchMispredictions"]),
    ("backend_bound", &["L2Misses", "LLCMisses"]),
    ("retiring", &["TotalIssues"]),
];

/// Of these parts of parts it shows nothing.
const OF_OTHER_CAUSE: [&str; 5] = ["core", "cpu", "clears", "restarts", "bandwidth"];

/// The counts of a pass: the chosen sources, and for each processor one count for each of them.
pub(super) type PassCounts<'a> = (&'a [usize], &'a [Vec<Count>]);

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
    known: Option<&'static Microarchitecture>,
    /// A fixed counter counts its slots.
    fixed_slots: bool,
    /// Threads share its cores.
    smt: bool,
    parts: Vec<Part>,
    /// The label of the count of each event, or why there is none.
    labels: BTreeMap<String, std::result::Result<String, String>>,
    /// Why there are no parts.
    reason: Option<&'static str>,
    /// What shows where a part comes from, by the part's name.
    causes: BTreeMap<&'static str, &'static str>,
}

impl TopDown {
    /// Adds the events that must be counted to the choice.
    pub(super) fn add(event_set: &mut EventSet, level: u8, ctx: &mut Context) -> Result<Self> {
        let mut kinds = Vec::new();
        let selected: Vec<Processor> = event_set.selected().copied().collect();
        for kind in event_set.catalog().cpu_types() {
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
                known,
                fixed_slots: kind.processor.fixed_mask >> FIXED_SLOTS & 1 != 0,
                smt: kind.processor.flags & Processor::SHARES_CORE != 0,
                parts,
                labels: BTreeMap::new(),
                reason,
                causes: causes(event_set, kind),
            });
        }
        if kinds.iter().all(|kind| kind.reason.is_some()) {
            let why = kinds.iter().find_map(|kind| kind.reason);
            let why = why.unwrap_or("no processor has counters");
            return Err(ctx.without_counters(Error::unavailable(
                format!("top-down is not available here: {why}"),
                "`halprof list --metrics` shows which metrics are available.",
            )));
        }
        let first = event_set.events.len();
        // Several kinds may have formulas over one event, which is chosen once.
        let mut wanted: Vec<(String, u16)> = Vec::new();
        for kind in &kinds {
            for listed in kind.events().map(|(_, listed)| listed) {
                match wanted.iter_mut().find(|(other, _)| *other == listed) {
                    Some((_, mask)) => *mask |= kind.mask(),
                    None => wanted.push((listed, kind.mask())),
                }
            }
        }
        let label = |(listed, mask): (String, u16)| {
            let label = event_set.add_event(&listed, mask);
            (listed, label.map_err(|error| error.to_string()))
        };
        let labels: BTreeMap<_, _> = wanted.into_iter().map(label).collect();
        for kind in &mut kinds {
            let of_name = |(name, listed): (&str, String)| {
                Some((name.to_owned(), labels.get(&listed)?.clone()))
            };
            kind.labels = kind.events().filter_map(of_name).collect();
        }
        let together = event_set.group_from(first, &mut ctx.connection);
        Ok(Self { kinds, together })
    }

    /// The results, from everything that was measured.
    pub(super) fn rows(&self, event_set: &EventSet, passes: &[PassCounts<'_>]) -> Vec<SlotsPart> {
        let kinds = self.kinds.iter();
        kinds.flat_map(|kind| kind.rows(event_set, passes, self.together)).collect()
    }

    /// What to look at next on each kind of processor, by the kind's name.
    pub(super) fn next(&self, rows: &[SlotsPart]) -> BTreeMap<String, String> {
        let of_kind = |kind: &Kind| Some((kind.name.clone(), kind.next(rows)?));
        self.kinds.iter().filter_map(of_kind).collect()
    }
}

impl Kind {
    /// What to look at next: the largest part, its largest part, and where it comes from.
    fn next(&self, rows: &[SlotsPart]) -> Option<String> {
        let largest = |parent: Option<&str>| {
            let own = rows.iter().filter(|row| row.kind == self.name);
            let parts = own.filter(|part| part.parent == parent);
            let values = parts.map(|part| Some((part.value?, part.metric.as_str())));
            let values: Vec<_> = values.collect::<Option<_>>()?;
            let by_value = |one: &&(f64, &str), other: &&(f64, &str)| one.0.total_cmp(&other.0);
            values.iter().max_by(by_value).map(|(_, metric)| *metric)
        };
        let own = || rows.iter().filter(|row| row.kind == self.name);
        if own().any(|row| row.level == 1 && row.reason.is_some()) {
            return None;
        }
        let part = largest(None)?;
        let inner = largest(Some(part));
        let of_it = inner.map_or_else(String::new, |inner| format!(", of it {inner}"));
        let divides = own().all(|row| row.level == 1) && self.divides(part);
        let divides = divides.then(|| "`--topdown=2` divides it".to_owned());
        let cause = self.causes.get(part.to_ascii_lowercase().as_str());
        let inner = inner.unwrap_or_default().to_ascii_lowercase();
        let other = OF_OTHER_CAUSE.iter().any(|word| inner.contains(word));
        let cause = cause.filter(|_| !other);
        let cause = cause.map(|event| format!("`halprof record -e {event}` shows where"));
        let advice: Vec<String> = divides.into_iter().chain(cause).collect();
        let advice = advice.join(", ");
        let colon = if advice.is_empty() { "" } else { ": " };
        Some(format!("{part} is the largest part{of_it}{colon}{advice}."))
    }

    /// The events of its parts by their names in the formulas, each with its spelling in a list.
    fn events(&self) -> impl Iterator<Item = (&str, String)> {
        let [general, fixed] = SLOTS;
        let events = self.parts.iter().flat_map(|part| part.events(self.smt));
        events.map(move |(name, listed)| {
            let by_fixed = self.fixed_slots && listed == general;
            (name, if by_fixed { fixed.to_owned() } else { listed })
        })
    }

    /// The kind as a mask.
    const fn mask(&self) -> u16 {
        1 << (self.number % 16)
    }

    /// Whether a part has parts of its own.
    fn divides(&self, part: &str) -> bool {
        let parts = self.known.map_or_else(Vec::new, |one| Part::of(one, 2));
        parts.iter().any(|one| one.parent == Some(part))
    }

    fn rows(
        &self,
        event_set: &EventSet,
        passes: &[PassCounts<'_>],
        together: bool,
    ) -> Vec<SlotsPart> {
        let none = |metric: &str, reason: &str| SlotsPart {
            kind: self.name.clone(),
            metric: metric.to_owned(),
            level: 1,
            parent: None,
            value: None,
            error: None,
            reason: Some(reason.to_owned()),
            together,
        };
        if let Some(reason) = self.reason {
            return vec![none("top-down", reason)];
        }
        let row = |part: &Part| {
            let row = match self.value(event_set, passes, part) {
                Ok(value) => SlotsPart {
                    value: Some(value.value),
                    error: value.error().filter(|error| error.is_finite()),
                    reason: value
                        .error()
                        .is_some_and(f64::is_infinite)
                        .then(|| format!("unknown: {TOO_FEW}")),
                    ..none(part.metric, "")
                },
                Err(reason) => none(part.metric, &reason),
            };
            SlotsPart { level: part.level, parent: part.parent, ..row }
        };
        self.parts.iter().map(row).collect()
    }

    /// The value of a part, or why it has none.
    fn value(
        &self,
        event_set: &EventSet,
        passes: &[PassCounts<'_>],
        part: &Part,
    ) -> std::result::Result<Value, String> {
        let mut counts = BTreeMap::new();
        for (name, _) in part.events(self.smt) {
            let Some(label) = self.labels.get(name) else {
                continue;
            };
            counts.insert(name, counted(event_set, passes, label.as_ref()?, self.number)?);
        }
        let value = part.value(self.smt, &|name| counts.get(name).copied());
        let value = value.ok_or("the divisor is 0")?;
        let unbounded = value.error().is_some_and(f64::is_infinite);
        if unbounded && !(0.0..=100.0).contains(&value.value) {
            return Err(TOO_FEW.to_owned());
        }
        Ok(value)
    }
}

/// The causes that a kind of processor can count.
fn causes(event_set: &EventSet, kind: &Known) -> BTreeMap<&'static str, &'static str> {
    let able = |event: &&&str| {
        let event = countable(event, event_set.catalog());
        event.is_some_and(|event| event_set.counts_on(&event, &kind.processor))
    };
    let first = |&(part, events): &(&'static str, &'static [&'static str])| {
        let event = events.iter().find(able)?;
        Some((part, *event))
    };
    CAUSES.iter().filter_map(first).collect()
}

/// The sum of an event's counts on one kind of processor, or why there is none.
fn counted(
    event_set: &EventSet,
    passes: &[PassCounts<'_>],
    label: &str,
    kind: u8,
) -> std::result::Result<Value, String> {
    let mut parts: Vec<Estimate> = Vec::new();
    for (sources, counts) in passes {
        for (place, &source) in sources.iter().enumerate() {
            let Some(chosen) = event_set.events.get(source) else {
                continue;
            };
            if chosen.label != label {
                continue;
            }
            let counting = event_set.selected().filter(|processor| {
                processor.kind == kind && event_set.counts_on(chosen, processor)
            });
            for processor in counting {
                let counts = counts.get(processor.index as usize);
                let count = counts.and_then(|counts| counts.get(place));
                parts.extend(count.map(Estimate::new));
            }
        }
    }
    let sum = Estimate::sum(parts);
    if sum.never_scheduled_cpus != 0 {
        return Err(no_turn(label));
    }
    let value = sum.value.filter(|_| sum.running > 0).ok_or(TOO_FEW)?;
    Ok(Value::of_count(value, sum.scaled, sum.error))
}

/// The columns of the text table.
const COLUMNS: [Column; 4] =
    [Column::number("slots"), Column::word("95 %"), Column::name("metric"), Column::prose("note")];

/// The result as text.
pub(super) fn text(rows: &[SlotsPart], next: &BTreeMap<String, String>, width: Width) -> String {
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
            let [value, bound] = figures(row);
            let reason = row.reason.clone().unwrap_or_default();
            [value, bound, name(row), reason]
        };
        text += &table(width, &COLUMNS, own.iter().map(cells));
        let together = "There are not enough counters for all events at once: parts of one figure were counted at different times.";
        let together = own.iter().any(|row| !row.together).then_some(together);
        let next = next.get(kind).cloned();
        let lines = [wrong(&own), together.map(str::to_owned), next];
        for line in lines.into_iter().flatten() {
            text += &format!("{}\n", width.prose(0, &line));
        }
    }
    text
}

/// The share and its bound.
pub(super) fn figures(row: &SlotsPart) -> [String; 2] {
    let value = row.value.map(|value| format!("{value:.1} %"));
    // Rounded up, never down.
    let bound = row.error.map(|error| (error * 10.0).ceil() / 10.0);
    let bound = bound.map(|bound| format!("±{bound:.1}"));
    [value.unwrap_or_else(|| "-".to_owned()), bound.unwrap_or_default()]
}

/// The name, indented below its parent's.
pub(super) fn name(row: &SlotsPart) -> String {
    let indent = "  ".repeat(usize::from(row.level.saturating_sub(1)));
    format!("{indent}{}", row.metric)
}

/// What is wrong if the parts of level 1 do not add up to the whole within their bounds.
fn wrong(own: &[&SlotsPart]) -> Option<String> {
    let level_1 = || own.iter().filter(|row| row.level == 1);
    let bounded = |row: &&&SlotsPart| row.reason.is_none();
    if own.is_empty() || !level_1().all(|row| bounded(&row)) {
        return None;
    }
    let sum: f64 = level_1().filter_map(|row| row.value).sum();
    let bounds: f64 = level_1().filter_map(|row| row.error).sum();
    ((sum - 100.0).abs() >= OFF + bounds).then(|| {
        format!("Level 1 adds up to {sum:.1} %, not to 100 %: one of its events is wrong.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_that_is_off_by_more_than_its_bounds_is_told() {
        let part = |value, error| SlotsPart {
            kind: "a".to_owned(),
            metric: "A".to_owned(),
            level: 1,
            parent: None,
            value,
            error,
            reason: value.is_none().then(String::new),
            together: true,
        };
        for (parts, told) in [
            (&[(Some(40.0), None), (Some(60.5), None)][..], None),
            (&[(Some(40.0), None), (Some(59.0), None)], Some("99.0 %")),
            (&[(Some(73.3), None), (Some(60.0), None)], Some("133.3 %")),
            (&[(Some(73.3), Some(30.0)), (Some(60.0), Some(3.0))], None),
            (&[(Some(40.0), None), (None, None)], None),
            (&[], None),
        ] {
            let parts = parts.iter().map(|&(value, error)| part(value, error));
            let parts: Vec<SlotsPart> = parts.collect();
            let said = wrong(&parts.iter().collect::<Vec<_>>());
            let right = match told {
                Some(told) => said.as_ref().is_some_and(|said| said.contains(told)),
                None => said.is_none(),
            };
            assert!(right, "{said:?}");
        }
    }
}
