//! What a model's workload does with issue slots, derived from its instructions and cycles.

use crate::metrics::formula::{Formula, Value};
use crate::output::error::{Error, Result};
use crate::output::number::rounded;
use crate::select::event_set::{EventSet, choose};
use crate::select::source::OWN_BITS;
use crate::target::machine::sibling;
use halprof_measure::Source;
use halprof_measure::catalog::{Catalog, CpuType};
use halprof_measure::float::float;
use halprof_measure::selection::EventSpec;
use serde::Deserialize;
use shared_types::{ProfileInterface, ProfileSource};
use sim::cpu::event::{Code, Event};
use sim::load::workload::{self, DEFAULT, Known, MAX_AMOUNT, Workload, WorkloadError};

/// Cores of a table of events: how many operations they issue in a cycle, and which list has the
/// events by which they count slots.
#[derive(Deserialize)]
struct Cores {
    table: String,
    width: u64,
    events: String,
}

/// The name in [`Cores`] of those that count slots by the architectural events alone.
const ARCHITECTURAL: &str = "architectural";

/// An event of a list, and how often it happens: a formula over the names of [`Division`].
#[derive(Deserialize)]
struct SlotEvent {
    events: String,
    event: String,
    amount: String,
}

/// What a hardware thread does with the issue slots of its core.
struct Division {
    /// The operations that its core issues in a cycle.
    width: f64,
    slots: f64,
    /// Six operations retire for five instructions.
    retired: f64,
    frontend: f64,
    speculation: f64,
    backend: f64,
    /// Fused operations that retire, eleven for ten instructions, of the thread's share of the core.
    fused: f64,
    /// What is left of this share.
    lost: f64,
}

impl Division {
    /// A twentieth of the slots are lost to bad speculation, four fifths of these to mispredicted
    /// branches; three fifths wait for the back end, half of these for memory; the rest that do not
    /// retire wait for the front end, half of these for its latency. Where so much retires that none
    /// would wait for the front end, the others divide what is left.
    fn new(width: u64, work: &Work) -> Self {
        let instructions = float(work.instructions);
        let slots = (float(width) * float(work.cycles)).min(float(MAX_AMOUNT));
        let retired = (instructions * 6.0 / 5.0).min(slots);
        let backend = (slots * 3.0 / 5.0).min((slots - retired) * 12.0 / 13.0);
        let speculation = (slots / 20.0).min((slots - retired) / 13.0);
        let share = slots / float(work.threads);
        let fused = (instructions * 11.0 / 10.0).min(share);
        Self {
            width: float(width),
            slots,
            retired,
            frontend: slots - retired - backend - speculation,
            speculation,
            backend,
            fused,
            lost: share - fused,
        }
    }

    fn named(&self, name: &str) -> Option<Value> {
        let value = match name {
            "width" => self.width,
            "slots" => self.slots,
            "retired" => self.retired,
            "frontend" => self.frontend,
            "speculation" => self.speculation,
            "backend" => self.backend,
            "fused" => self.fused,
            "lost" => self.lost,
            _ => return None,
        };
        Some(Value::exact(value))
    }
}

/// What the slots are derived from.
struct Work {
    instructions: u64,
    cycles: u64,
    /// The most threads of a core that run it.
    threads: u64,
}

impl Work {
    fn of(workload: &Workload, event_set: &EventSet) -> Self {
        let all = event_set.processors();
        let mut working = all.iter().filter(|one| workload.runs_on(one.index));
        let shares =
            working.any(|one| sibling(one, all).is_some_and(|other| workload.runs_on(other.index)));
        Self {
            instructions: workload.amount(Event::Instructions),
            cycles: workload.amount(Event::Cycles),
            threads: if shares { 2 } else { 1 },
        }
    }
}

impl SlotEvent {
    fn amount(&self, slots: &Division) -> Option<u64> {
        let formula = Formula::parse(&self.amount).ok()?;
        u64::try_from(rounded(formula.value(false, &|name: &str| slots.named(name))?.value)).ok()
    }
}

fn cores() -> impl Iterator<Item = Cores> {
    let text = include_str!("default_workload/cores.csv");
    csv::Reader::from_reader(text.as_bytes()).into_deserialize().flatten()
}

fn slot_events() -> impl Iterator<Item = SlotEvent> {
    let text = include_str!("default_workload/slots.csv");
    csv::Reader::from_reader(text.as_bytes()).into_deserialize().flatten()
}

/// The events of slots on the cores of a table, and how often each happens.
fn events(table: &str, work: &Work) -> Vec<(String, u64)> {
    let Some(cores) = cores().find(|cores| cores.table == table) else {
        return Vec::new();
    };
    let slots = Division::new(cores.width, work);
    let events = slot_events().filter(|row| row.events == cores.events);
    let amounts = events.filter_map(|row| {
        let amount = row.amount(&slots)?;
        Some((row.event, amount))
    });
    amounts.collect()
}

/// The tables of [`Cores`] that these CPU types count slots by.
fn tables(cpu_types: &[CpuType]) -> Vec<&'static str> {
    let known = |table: &str| cores().any(|cores| cores.table == table);
    let table = |one: &CpuType| match one.microarchitecture {
        Some(own) if known(own.table) => Some(own.table),
        _ if one.processor.interface == ProfileInterface::Emon as u32 => Some(ARCHITECTURAL),
        _ => None,
    };
    let mut tables: Vec<&str> = cpu_types.iter().filter_map(table).collect();
    tables.sort_unstable();
    tables.dedup();
    tables
}

/// What an event of a table means in a workload.
fn modelled(catalog: &Catalog, table: &str, event: &str) -> Option<Known> {
    catalog.modelled(event, (table != ARCHITECTURAL).then_some(table))
}

/// The default workload.
pub(crate) fn default_workload(event_set: &EventSet) -> Result<Workload> {
    with_slots(DEFAULT, Workload::default(), event_set).map_err(Error::internal)
}

/// The workload of a text. Where events of issue slots are counted that it does not name, it has
/// amounts of those too, on each type of core its own; all other counts stay the same.
pub(crate) fn with_slots(
    text: &str,
    workload: Workload,
    event_set: &EventSet,
) -> std::result::Result<Workload, WorkloadError> {
    let catalog = event_set.catalog();
    let work = Work::of(&workload, event_set);
    let counted: Vec<(u32, u64)> = inputs(&event_set.events, catalog).collect();
    let is_counted = |event: &str| {
        let events = choose(event, catalog).unwrap_or_default();
        inputs(&events, catalog).any(|input| counted.contains(&input))
    };
    let is_given = |known: &Known| {
        let Known::Codes(codes) = known else { return false };
        // Vendors' events and the architectural ones are the same slots.
        let same = |one: &Code, other: &Code| {
            other.architectural.is_some() || (one.select, one.fixed) == (other.select, other.fixed)
        };
        codes.iter().any(|one| workload.codes().iter().any(|other| same(one, other)))
    };
    let mut named: Vec<String> = Vec::new();
    for table in tables(catalog.cpu_types()) {
        let events = events(table, &work).into_iter();
        let events = events.filter_map(|(event, amount)| {
            let known = modelled(catalog, table, &event)?;
            Some((event, amount, known))
        });
        let events: Vec<(String, u64, Known)> = events.collect();
        if events.iter().any(|(_, _, known)| is_given(known)) {
            continue;
        }
        let mut codes = Vec::new();
        for (event, amount, own) in events.into_iter().filter(|(event, ..)| is_counted(event)) {
            // Several names may mean the same.
            if !codes.contains(&own) {
                named.push(format!(",{table}/{event}={amount}"));
                codes.push(own);
            }
        }
    }
    if named.is_empty() {
        return Ok(workload);
    }
    let known = |key: &str| match key.split_once('/') {
        Some((table, event)) => modelled(catalog, table, event),
        None => catalog.modelled(key, None),
    };
    workload::parse_with(&(text.to_owned() + &named.concat()), &known)
}

/// What counters are programmed to count, however it is called: [`ProfileSource::RAW`] and a select,
/// or the source of a fixed counter and 0.
fn inputs(events: &[EventSpec], catalog: &Catalog) -> impl Iterator<Item = (u32, u64)> {
    events.iter().flat_map(|event| &event.specs).map(|spec| {
        let mut sources = catalog.sources.iter();
        let has_select =
            |source: &&Source| source.id == spec.source && source.flags & Source::HAS_SELECT != 0;
        match sources.find(has_select) {
            Some(source) => (ProfileSource::RAW.0, source.select & !OWN_BITS),
            None => (spec.source, spec.raw & !OWN_BITS),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;
    use halprof_measure::events::Microarchitecture;

    /// The default; hardly any work; as much as fits, and more. With and without hardware threads.
    const WORKS: [(u64, bool); 8] = [
        (100_000_000, false),
        (100_000_000, true),
        (1_000_000, false),
        (1_000_000, true),
        (270_000_000, false),
        (270_000_000, true),
        (2_000_000_000, false),
        (2_000_000_000, true),
    ];

    /// Wherever there are formulas.
    #[test]
    fn the_parts_of_level_1_are_all_slots() {
        let metrics = Metrics::built_in().expect("metrics.toml is right");
        let cycles = Workload::default().amount(Event::Cycles);
        for one in Microarchitecture::all() {
            let parts = metrics.topdown(one, 1);
            for (instructions, smt) in WORKS {
                let threads = 1 + u64::from(smt);
                let own = events(one.table, &Work { instructions, cycles, threads });
                assert!(parts.is_empty() || !own.is_empty(), "{}", one.table);
                let count = |name: &str| {
                    let names = metrics.names(name);
                    let amount = own.iter().find(|(event, _)| names.contains(&event.as_str()));
                    let cycle = name.starts_with("CPU_CLK") || name == "ls_not_halted_cyc";
                    let cycle = if cycle { cycles } else { 0 };
                    let count = amount.map_or(cycle, |(_, amount)| *amount);
                    Some(Value::of_count(count.into(), false, None))
                };
                let values = parts.iter().filter_map(|part| {
                    let id = &part.metric.id;
                    let share = part.metric.formula.value(smt, &count).expect(id).value;
                    assert!((-1e-6..100.1).contains(&share), "{} {id}: {share}", one.table);
                    (!id.ends_with("_Counted")).then_some(share)
                });
                let sum: f64 = values.sum();
                let right = parts.is_empty() || (sum - 100.0).abs() < 1e-6;
                assert!(right, "{}: {sum} %", one.table);
            }
        }
    }

    #[test]
    fn every_table_and_event_is_known() {
        let all = || Microarchitecture::all().iter();
        assert_eq!((cores().count(), slot_events().count()), (35, 48));
        let work = Work { instructions: 100_000_000, cycles: 150_000_000, threads: 2 };
        let slots = Division::new(4, &work);
        assert!(slot_events().all(|row| row.amount(&slots).is_some()));
        for cores in cores() {
            let is_known = all().any(|one| one.table == cores.table);
            assert!(is_known || cores.table == ARCHITECTURAL, "{}", cores.table);
            assert!(slot_events().any(|row| row.events == cores.events), "{}", cores.table);
        }
        for row in slot_events().filter(|row| row.events != ARCHITECTURAL) {
            assert!(all().any(|one| one.event(&row.event).is_some()), "{}", row.event);
        }
    }
}
