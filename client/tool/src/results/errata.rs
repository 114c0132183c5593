//! The errata that concern the events of a measurement, by the counters that they get.

use crate::output::error::Result;
use crate::output::escape::Escaped;
use crate::select::event_set::EventSet;
use crate::target::backend::Backend;
use halprof_measure::catalog::Catalog;
use halprof_measure::errata::{self, Counted, Erratum};
use halprof_measure::selection::{EventSpec, parse_list};
use halprof_measure::tracing::session::plan::TraceEvent;
use halprof_measure::{Connection, Fit, Setup, Source};
use shared_types::ProfileSource;
use shared_types::request::machine::Processor;
use shared_types::request::session::Spec;
use std::collections::BTreeSet;

/// The errata of each event, by its index in the event set, and CPU type.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventErrata(Vec<Vec<(u8, Erratum)>>);

impl EventErrata {
    /// The errata of all events of these sets, each set measured by itself, and sampled if
    /// `sampled` is set.
    pub(crate) fn new(
        event_set: &EventSet,
        sets: &[Vec<usize>],
        sampled: bool,
        connection: &mut Connection<Backend>,
    ) -> Result<Self> {
        let mut all = Self(vec![Vec::new(); event_set.events.len()]);
        // Which processors share a core is not known here: with one alone, its sibling is left out.
        let beside_sibling = event_set.selected().nth(1).is_some();
        for indexes in sets {
            // The plan is of counts, which have no branches; the counters are the same.
            let counted = Setup { branches: 0, branch_filter: 0, ..event_set.setup_of(indexes) };
            let fit = connection.plan(&counted)?;
            let events = indexes.iter().filter_map(|&index| event_set.events.get(index));
            let of_set = of_planned(event_set.catalog(), events, &fit, sampled, beside_sibling);
            for (&index, errata) in indexes.iter().zip(of_set) {
                if let Some(all) = all.0.get_mut(index) {
                    all.extend(errata);
                }
            }
        }
        Ok(all)
    }

    /// The errata of sources that Windows' own tracing counts. It is not known which counter each
    /// gets, so these are the errata of each source counted by itself.
    pub(crate) fn traced<'a>(
        event_set: &EventSet,
        names: impl IntoIterator<Item = &'a String>,
        connection: &mut Connection<Backend>,
    ) -> Self {
        let own = |name: &String| traced_by_type(event_set, name, connection);
        Self(names.into_iter().map(own).collect())
    }

    /// The errata of an event on some processors.
    pub(crate) fn of<'a>(
        &self,
        event: usize,
        processors: impl IntoIterator<Item = &'a Processor>,
    ) -> Vec<Erratum> {
        let types: BTreeSet<u8> = processors.into_iter().map(|one| one.cpu_type).collect();
        let all = self.0.get(event).into_iter().flatten();
        let own: BTreeSet<&Erratum> =
            all.filter(|(number, _)| types.contains(number)).map(|(_, erratum)| erratum).collect();
        own.into_iter().cloned().collect()
    }
}

/// The errata of an event that is sampled by itself, on all processors.
pub(crate) fn alone(
    catalog: &Catalog,
    event: &EventSpec,
    connection: &mut Connection<Backend>,
) -> Vec<Erratum> {
    once(alone_by_type(catalog, event, connection))
}

/// The errata of an event that is sampled by itself, each with its CPU type.
fn alone_by_type(
    catalog: &Catalog,
    event: &EventSpec,
    connection: &mut Connection<Backend>,
) -> Vec<(u8, Erratum)> {
    let setup = Setup { specs: event.specs.clone(), ..Setup::default() };
    let Ok(fit) = connection.plan(&setup) else {
        return Vec::new();
    };
    of_planned(catalog, [event], &fit, true, true).into_iter().flatten().collect()
}

fn once(errata: Vec<(u8, Erratum)>) -> Vec<Erratum> {
    let errata: BTreeSet<Erratum> = errata.into_iter().map(|(_, erratum)| erratum).collect();
    errata.into_iter().collect()
}

/// The errata of a source that Windows' own tracing counts. It is not known which counter it gets,
/// so these are the errata of the source counted by itself.
pub(crate) fn traced(
    event_set: &EventSet,
    event: &TraceEvent,
    connection: &mut Connection<Backend>,
) -> Vec<Erratum> {
    once(traced_by_type(event_set, &event.name, connection))
}

fn traced_by_type(
    event_set: &EventSet,
    name: &str,
    connection: &mut Connection<Backend>,
) -> Vec<(u8, Erratum)> {
    let mut items = Vec::new();
    let parsed = parse_list(name, &mut items);
    let events = parsed.and_then(|()| event_set.catalog().resolve(&items)).unwrap_or_default();
    let own = |event: &EventSpec| alone_by_type(event_set.catalog(), event, connection);
    events.iter().flat_map(own).collect()
}

/// The errata of events that were planned together, with the CPU type that each is of.
fn of_planned<'a>(
    catalog: &Catalog,
    events: impl IntoIterator<Item = &'a EventSpec>,
    fit: &Fit,
    sampled: bool,
    beside_sibling: bool,
) -> Vec<Vec<(u8, Erratum)>> {
    let mut first = 0;
    let mut all = Vec::new();
    for event in events {
        let mut errata = Vec::new();
        for cpu_type in catalog.cpu_types() {
            let number = cpu_type.processor.cpu_type;
            let placements = fit.placements.get(usize::from(number));
            let index = catalog.spec_on(event, number);
            let spec = index.and_then(|index| event.specs.get(index));
            let placement = index.and_then(|index| placements?.get(first + index));
            let (Some(spec), Some(&placement)) = (spec, placement) else {
                continue;
            };
            if placement.error != 0 {
                continue;
            }
            let select = select(catalog, spec);
            let counted = Counted { select, placement, sampled, beside_sibling };
            let of_type = errata::of(cpu_type, &counted).into_iter();
            errata.extend(of_type.map(|erratum| (number, erratum)));
        }
        first += event.specs.len();
        all.push(errata);
    }
    all
}

/// The select that counts a specification; `None` for time.
fn select(catalog: &Catalog, spec: &Spec) -> Option<u64> {
    if spec.source == ProfileSource::RAW.0 {
        return Some(spec.raw);
    }
    let source = catalog.sources.iter().find(|source| source.id == spec.source)?;
    (source.flags & Source::HAS_SELECT != 0).then_some(source.select)
}

/// The text below a table: a line for each erratum whose effect on a count is known. A number alone
/// would tell a reader nothing.
pub(crate) fn text<'a>(rows: impl IntoIterator<Item = (&'a str, &'a [Erratum])>) -> String {
    below(&lines(rows))
}

/// The same with the errata of which only the number is known: for someone who asks about one event.
pub(crate) fn all<'a>(rows: impl IntoIterator<Item = (&'a str, &'a [Erratum])>) -> String {
    below(&lines_of(rows, |_| true))
}

fn below(lines: &[String]) -> String {
    if lines.is_empty() { String::new() } else { format!("\n{}\n", lines.join("\n")) }
}

/// Each erratum whose effect is known once, with the sources that it concerns.
pub(crate) fn lines<'a>(rows: impl IntoIterator<Item = (&'a str, &'a [Erratum])>) -> Vec<String> {
    lines_of(rows, Erratum::is_known)
}

fn lines_of<'a>(
    rows: impl IntoIterator<Item = (&'a str, &'a [Erratum])>,
    is_shown: impl Fn(&Erratum) -> bool,
) -> Vec<String> {
    let mut all: Vec<(&Erratum, Vec<&str>)> = Vec::new();
    for (source, errata) in rows {
        for erratum in errata.iter().filter(|erratum| is_shown(erratum)) {
            match all.iter_mut().find(|(other, _)| *other == erratum) {
                Some((_, sources)) if sources.contains(&source) => {}
                Some((_, sources)) => sources.push(source),
                None => all.push((erratum, vec![source])),
            }
        }
    }
    let line = |(erratum, sources): &(&Erratum, Vec<&str>)| {
        let (id, note) = (Escaped(&erratum.id), Escaped(&erratum.note));
        format!("{id} ({}): {note}", Escaped(&sources.join(", ")))
    };
    all.iter().map(line).collect()
}
