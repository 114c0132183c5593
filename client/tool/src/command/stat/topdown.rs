//! `stat --topdown`: which events it needs, and its results.

use super::result::{Method, TopDownRow};
use crate::metrics::{Counted, MetricRow, Metrics, TopDownMetric, never_scheduled};
use crate::output::error::{Error, Result};
use crate::output::table::{Column, Field, Record, Width, records};
use crate::results::counts::Counts;
use crate::results::view::RowBuilder;
use crate::select::event_set::{EventSet, choose, countable};
use crate::select::time::nanoseconds;
use crate::target::context::Context;
use crate::target::machine::sibling;
use halprof_measure::catalog::Catalog;
use halprof_measure::catalog::CpuType as Known;
use halprof_measure::estimate::Estimate;
use halprof_measure::selection::format_processors;
use shared_types::ProfileInterface;
use shared_types::request::machine::Processor;
use std::collections::BTreeMap;

/// If the sum of the parts is off by more than this and their bounds, in percent, a line says so.
const OFF: f64 = 1.0;

/// The name of a CPU type without a table of events.
const UNKNOWN: &str = "unknown";
const TOO_FEW: &str = "too few slices";

/// Words in the names of level-2 parts that have another cause than the sources of `topdown_cause`, so that
/// sampling these would show nothing.
const OF_OTHER_CAUSE: [&str; 5] = ["core", "cpu", "clears", "restarts", "bandwidth"];

/// What is counted on each CPU type.
pub(crate) struct TopDown {
    cpu_types: Vec<CpuType>,
    /// All events are counted at the same time.
    together: bool,
}

struct CpuType {
    /// The name of its table of events.
    name: String,
    number: u8,
    parts: Vec<TopDownMetric>,
    method: Option<Method>,
    /// The parts that have parts of their own.
    divided: Vec<String>,
    /// Why an event of a part is not counted, by the event's spelling in a list.
    errors: BTreeMap<String, String>,
    /// Why nothing is counted.
    refused: Option<Refused>,
    /// The source whose samples show where a part comes from, by the part's name in lower case.
    causes: BTreeMap<String, String>,
}

/// Why there is no top-down analysis on a CPU type, and what to do.
struct Refused {
    why: String,
    hint: String,
}

impl Refused {
    fn new(why: impl Into<String>) -> Self {
        let hint = "`halprof list --metrics` shows which metrics are available.";
        Self { why: why.into(), hint: hint.to_owned() }
    }
}

impl TopDown {
    /// Adds the events that must be counted. By the architectural events it is where the vendor has no
    /// formulas, or where `method` asks for it.
    pub(super) fn add(
        event_set: &mut EventSet,
        metrics: &Metrics,
        level: u8,
        method: Method,
        ctx: &mut Context,
    ) -> Result<Self> {
        let is_measured = |known: &&Known| {
            event_set.selected().any(|processor| processor.cpu_type == known.processor.cpu_type)
        };
        let catalog = event_set.catalog();
        let measured = catalog.cpu_types().iter().filter(is_measured);
        let mut cpu_types: Vec<CpuType> =
            measured.map(|known| CpuType::new(known, level, method, metrics, catalog)).collect();
        distinguish(&mut cpu_types);
        for cpu_type in &mut cpu_types {
            cpu_type.refuse_halves_of_cores(event_set, metrics);
        }
        if cpu_types.iter().all(|one| one.refused.is_some()) {
            let refused = cpu_types.into_iter().find_map(|one| one.refused);
            let Refused { why, hint } =
                refused.unwrap_or_else(|| Refused::new("no processor has counters"));
            return Err(ctx.without_counters(Error::unavailable(
                format!("top-down is not available here: {why}"),
                hint,
            )));
        }
        let first = event_set.events.len();
        // CPU types may have formulas over one event, which is added once for all of them.
        let mut needed: Vec<(String, u16)> = Vec::new();
        for cpu_type in &cpu_types {
            for event in cpu_type.events(metrics, event_set.catalog()) {
                match needed.iter_mut().find(|(other, _)| *other == event) {
                    Some((_, mask)) => *mask |= cpu_type.mask(),
                    None => needed.push((event, cpu_type.mask())),
                }
            }
        }
        for (event, mask) in needed {
            if let Err(error) = event_set.add_event(&event, mask) {
                for cpu_type in cpu_types.iter_mut().filter(|one| one.mask() & mask != 0) {
                    cpu_type.errors.insert(event.clone(), error.to_string());
                }
            }
        }
        let members: Vec<usize> = (first..event_set.events.len()).collect();
        let together = event_set.group(&members, &mut ctx.connection);
        Ok(Self { cpu_types, together })
    }

    /// The results, from everything that was measured.
    pub(super) fn rows(&self, view: &RowBuilder<'_>, runs: &[Counts]) -> Vec<TopDownRow> {
        let mut rows = Vec::new();
        for cpu_type in &self.cpu_types {
            let sums = cpu_type.sums(view, runs);
            rows.extend(cpu_type.rows(view.metrics, view.frequency, &sums, self.together));
        }
        rows
    }

    /// What to look at next on each CPU type, by its name.
    pub(super) fn next(&self, rows: &[TopDownRow]) -> BTreeMap<String, String> {
        let next = |one: &CpuType| Some((one.name.clone(), one.next(rows)?));
        self.cpu_types.iter().filter_map(next).collect()
    }
}

impl CpuType {
    fn new(known: &Known, level: u8, method: Method, metrics: &Metrics, catalog: &Catalog) -> Self {
        let microarchitecture = known.microarchitecture.filter(|_| method == Method::Vendor);
        let parts_to =
            |level| microarchitecture.map_or_else(Vec::new, |one| metrics.topdown(one, level));
        let number = known.processor.cpu_type;
        let (parts, method, refused) = match parts_to(level) {
            parts if !parts.is_empty() => (parts, Some(Method::Vendor), None),
            _ => match by_architectural_events(known, metrics, catalog) {
                Ok(parts) => (parts, Some(Method::Architectural), None),
                Err(why) => (Vec::new(), None, Some(Refused::new(why))),
            },
        };
        Self {
            name: known.microarchitecture.map_or(UNKNOWN, |one| one.table).to_owned(),
            number,
            parts,
            method,
            divided: parts_to(2).into_iter().filter_map(|part| part.parent).collect(),
            errors: BTreeMap::new(),
            refused,
            causes: causes(metrics, catalog, &known.processor),
        }
    }

    /// Where threads share cores, the formulas up to Cascade Lake take half of what the counters of
    /// both threads of a core add up to. With one of them it would be half of what the core did.
    fn refuse_halves_of_cores(&mut self, event_set: &EventSet, metrics: &Metrics) {
        if !self.parts.iter().any(|part| metrics.counts_threads_together(&part.metric)) {
            return;
        }
        let of_type = |one: &&Processor| one.cpu_type == self.number;
        let own: Vec<&Processor> = event_set.selected().filter(of_type).collect();
        let all = event_set.processors();
        let missing = |one: &&Processor| own.iter().all(|other| other.index != one.index);
        let missing = own.iter().filter_map(|one| sibling(one, all)).filter(missing);
        let missing: Vec<u32> = missing.map(|one| one.index).collect();
        if !missing.is_empty() {
            let mut both: Vec<u32> = own.iter().map(|one| one.index).collect();
            both.extend(&missing);
            both.sort_unstable();
            let [missing, both] = [missing, both].map(format_processors);
            self.refused = Some(Refused {
                why: format!(
                    "its formulas need the counts of both hardware threads of each core; not measured: {missing}"
                ),
                hint: format!("`-C {both}` measures whole cores."),
            });
        }
    }

    /// The events of its parts, each as it can be counted best.
    fn events(&self, metrics: &Metrics, catalog: &Catalog) -> Vec<String> {
        let is_counted = |name: &&str| is_counted_on(self.number, name, catalog);
        let parts = self.parts.iter().filter(|_| self.refused.is_none());
        let terms = parts.flat_map(|part| metrics.terms(&part.metric));
        let mut events = Vec::new();
        for term in terms {
            let names = metrics.names(&term.name);
            let best = names.iter().copied().find(is_counted).or(names.last().copied());
            events.extend(best.map(str::to_owned));
        }
        events
    }

    /// The CPU type as a mask.
    const fn mask(&self) -> u16 {
        1 << (self.number % 16)
    }

    /// What each event counted on processors of this CPU type, in all runs together.
    fn sums<'a>(&self, view: &'a RowBuilder<'_>, runs: &[Counts]) -> Vec<(&'a str, Estimate)> {
        let is_own = |processor: &&Processor| processor.cpu_type == self.number;
        let own: Vec<u32> = view.processors.iter().filter(is_own).map(|one| one.index).collect();
        let sum = |(index, label): (usize, &'a str)| {
            let counts = runs.iter().flat_map(|run| &run.events).filter(|one| one.event == index);
            let estimates = counts.flat_map(|one| {
                own.iter().filter_map(|processor| one.by_processor.get(processor).copied())
            });
            let estimates: Vec<Estimate> = estimates.collect();
            (!estimates.is_empty()).then(|| (label, Estimate::sum(estimates)))
        };
        let labels = view.events.iter().map(|event| event.label.as_str()).enumerate();
        labels.filter_map(sum).collect()
    }

    fn rows(
        &self,
        metrics: &Metrics,
        frequency: u64,
        sums: &[(&str, Estimate)],
        together: bool,
    ) -> Vec<TopDownRow> {
        let row = |metric: &str, level, parent, value: std::result::Result<Value, String>| {
            let (value, error, reason) = match value {
                Ok((value, error, note)) => (Some(value), error, note),
                Err(reason) => (None, None, Some(reason)),
            };
            let (cpu_type, metric) = (self.name.clone(), metric.to_owned());
            let method = self.method;
            TopDownRow { cpu_type, metric, level, parent, value, error, reason, together, method }
        };
        if let Some(Refused { why, .. }) = &self.refused {
            return vec![row("top-down", 1, None, Err(why.clone()))];
        }
        let counts = counted(sums, frequency);
        let rows = self.parts.iter().map(|part| {
            let value = self.value(metrics, part, sums, &counts);
            row(&part.metric.id, part.level, part.parent.clone(), value)
        });
        rows.collect()
    }

    /// The value of a part, or why it has none.
    fn value(
        &self,
        metrics: &Metrics,
        part: &TopDownMetric,
        sums: &[(&str, Estimate)],
        counts: &[Counted<'_>],
    ) -> std::result::Result<Value, String> {
        for term in metrics.terms(&part.metric) {
            let names = metrics.names(&term.name);
            if let Some(error) = names.iter().find_map(|name| self.errors.get(*name)) {
                return Err(error.clone());
            }
            let is_named = |label: &str| names.iter().any(|name| name.eq_ignore_ascii_case(label));
            match sums.iter().find(|(label, _)| is_named(label)) {
                Some((label, sum)) if sum.never_scheduled_cpus != 0 => {
                    return Err(never_scheduled(label));
                }
                Some((_, sum)) if sum.running == 0 => return Err(TOO_FEW.to_owned()),
                _ => {}
            }
        }
        let figure = metrics.figure(&part.metric, counts, "");
        let Some(MetricRow { value: Some(value), scaled, error, .. }) = figure else {
            return Err(metrics.why_not(&part.metric, counts, &[], ""));
        };
        let is_unknown = scaled && error.is_none();
        if is_unknown && !(0.0..=100.0).contains(&value) {
            return Err(TOO_FEW.to_owned());
        }
        let note = is_unknown.then(|| format!("unknown: {TOO_FEW}"));
        Ok((value, error.filter(|&error| error > 0.0), note))
    }

    /// What to look at next: the largest part, its largest part, and where it comes from.
    fn next<'a>(&self, rows: &'a [TopDownRow]) -> Option<String> {
        let own = || rows.iter().filter(|row| row.cpu_type == self.name);
        let largest = |parent: Option<&str>| {
            let parts = own().filter(|part| part.parent.as_deref() == parent);
            let values = parts.map(|part| Some((part.value?, part.metric.as_str())));
            let values: Vec<_> = values.collect::<Option<_>>()?;
            let by_value = |one: &&(f64, &str), other: &&(f64, &str)| one.0.total_cmp(&other.0);
            let (most, _) = values.iter().max_by(by_value)?;
            let parts = values.iter().filter(|(value, _)| value.total_cmp(most).is_eq());
            Some(parts.map(|(_, part)| *part).collect::<Vec<&str>>())
        };
        if own().any(|row| row.level == 1 && row.reason.is_some()) {
            return None;
        }
        // If several parts are equally large, none is the largest.
        let only =
            |parts: Vec<&'a str>| if parts.len() == 1 { parts.first().copied() } else { None };
        let part = largest(None).and_then(only)?;
        let inner = largest(Some(part)).and_then(only);
        let of_it = inner.map_or_else(String::new, |inner| format!(", of it {inner}"));
        let divides = own().all(|row| row.level == 1) && self.divided.iter().any(|one| one == part);
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
}

/// The parts by the architectural events, or why there are none.
fn by_architectural_events(
    known: &Known,
    metrics: &Metrics,
    catalog: &Catalog,
) -> std::result::Result<Vec<TopDownMetric>, String> {
    let Processor { cpu_type, interface, .. } = known.processor;
    let no_formula = match known.microarchitecture {
        None => "the events of this processor are not known",
        Some(_) => "the vendor has no formula for this processor that general counters can compute",
    };
    if interface != ProfileInterface::Emon as u32 {
        return Err(no_formula.to_owned());
    }
    let parts = metrics.architectural(|name| is_counted_on(cpu_type, name, catalog));
    parts.map_err(|why| format!("{no_formula}, and {why}"))
}

/// Whether a CPU type counts an event, whatever the others do.
fn is_counted_on(cpu_type: u8, name: &str, catalog: &Catalog) -> bool {
    let event = choose(name, catalog).ok().and_then(|events| events.into_iter().next());
    let event = event.filter(|event| event.label.eq_ignore_ascii_case(name));
    event.is_some_and(|event| catalog.spec_on(&event, cpu_type).is_some())
}

/// Several CPU types without a table of events are told apart by their numbers.
fn distinguish(cpu_types: &mut [CpuType]) {
    let of = |name: &str, all: &[CpuType]| all.iter().filter(|one| one.name == name).count();
    let names: Vec<String> = cpu_types.iter().map(|one| one.name.clone()).collect();
    let repeated: Vec<bool> = names.iter().map(|name| of(name, cpu_types) > 1).collect();
    for (cpu_type, _) in cpu_types.iter_mut().zip(repeated).filter(|(_, repeated)| *repeated) {
        cpu_type.name = format!("{}, CPU type {}", cpu_type.name, cpu_type.number);
    }
}

/// A value, its bound, and why that is unknown.
type Value = (f64, Option<f64>, Option<String>);

fn counted<'a>(sums: &[(&'a str, Estimate)], frequency: u64) -> Vec<Counted<'a>> {
    let counted = |&(label, sum): &(&'a str, Estimate)| {
        Some(Counted {
            label,
            value: sum.value?,
            scaled: sum.scaled,
            error: sum.error,
            enabled_ns: nanoseconds(sum.enabled, frequency),
            group: 0,
        })
    };
    sums.iter().filter_map(counted).collect()
}

/// For each part, the first of its causes that a processor can count.
fn causes(metrics: &Metrics, catalog: &Catalog, processor: &Processor) -> BTreeMap<String, String> {
    let is_counted = |source: &&String| {
        countable(source, catalog).is_some_and(|event| catalog.counts_on(&event, processor))
    };
    let causes = metrics.topdown_causes.iter();
    let causes = causes.map(|(part, sources)| Some((part, sources.iter().find(is_counted)?)));
    causes.flatten().map(|(part, source)| (part.clone(), source.clone())).collect()
}

impl Record for TopDownRow {
    const COLUMNS: &'static [Field<Self>] = &[
        Field::new(Column::number("slots"), Self::share),
        Field::new(Column::word("95 %"), Self::bound),
        Field::new(Column::name("metric"), Self::indented),
        Field::new(Column::prose("note"), |row| row.reason.clone().unwrap_or_default()),
    ];
}

impl TopDownRow {
    pub(super) fn share(&self) -> String {
        self.value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1} %"))
    }

    pub(super) fn bound(&self) -> String {
        // Rounded up, never down.
        let bound = self.error.map(|error| (error * 10.0).ceil() / 10.0);
        bound.map(|bound| format!("±{bound:.1}")).unwrap_or_default()
    }

    /// The name, indented below its parent's.
    pub(super) fn indented(&self) -> String {
        let indent = "  ".repeat(usize::from(self.level.saturating_sub(1)));
        format!("{indent}{}", self.metric)
    }
}

pub(super) fn text(rows: &[TopDownRow], next: &BTreeMap<String, String>, width: Width) -> String {
    let mut text = String::new();
    for own in rows.chunk_by(|one, next| one.cpu_type == next.cpu_type) {
        let cpu_type = own.first().map_or("", |row| row.cpu_type.as_str());
        let is_architectural = own.iter().any(|row| row.method == Some(Method::Architectural));
        let by = if is_architectural { ", by the architectural events" } else { "" };
        text += &format!("\nWhere the slots went ({cpu_type}){by}:\n");
        text += &records(width, own);
        let together = "There are not enough counters for all events at once: parts of one figure were counted at different times.";
        let together = own.iter().any(|row| !row.together).then_some(together);
        let next = next.get(cpu_type).cloned();
        let lines = [wrong(own), together.map(str::to_owned), next];
        for line in lines.into_iter().flatten() {
            text += &format!("{}\n", width.prose(0, &line));
        }
    }
    text
}

/// What is wrong if the parts of level 1 do not add up to the whole within their bounds.
fn wrong(own: &[TopDownRow]) -> Option<String> {
    let level_1 = || own.iter().filter(|row| row.level == 1);
    let bounded = |row: &&TopDownRow| row.reason.is_none();
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
    fn a_sum_outside_its_bounds_is_reported() {
        let part = |value, error| TopDownRow {
            cpu_type: "a".to_owned(),
            metric: "A".to_owned(),
            level: 1,
            parent: None,
            value,
            error,
            reason: value.is_none().then(String::new),
            together: true,
            method: Some(Method::Vendor),
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
            let parts: Vec<TopDownRow> = parts.collect();
            let said = wrong(&parts);
            let right = match told {
                Some(told) => said.as_ref().is_some_and(|said| said.contains(told)),
                None => said.is_none(),
            };
            assert!(right, "{said:?}");
        }
    }
}
