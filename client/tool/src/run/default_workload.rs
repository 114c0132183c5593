//! The default workload of a model, with what it does with issue slots.

use crate::metrics::formula::{Formula, Value};
use crate::output::error::{Error, Result};
use crate::output::number::rounded;
use crate::select::event_set::{EventSet, choose};
use crate::select::source::OWN_BITS;
use halprof_measure::Source;
use halprof_measure::catalog::Catalog;
use halprof_measure::float::float;
use halprof_measure::selection::EventSpec;
use serde::Deserialize;
use shared_types::ProfileSource;
use sim::cpu::event::{Event, NAMED_MAX};
use sim::load::workload::{self, DEFAULT, Workload};

/// Operations that retire in the default workload, of its 100 million instructions.
const RETIRED: u64 = 120_000_000;

/// Cores of a table of events: how many operations they issue in a cycle, and which list has the
/// events by which they count slots.
#[derive(Deserialize)]
struct Cores {
    table: String,
    width: u64,
    events: String,
}

/// An event of a list, and how often it happens: a formula over the issue slots of a core, the
/// operations that it issues in a cycle (`width`) and those that retire. A twentieth of the slots are
/// lost to bad speculation, four fifths of these to mispredicted branches; three fifths wait for the
/// back end, half of these for memory; the rest that do not retire wait for the front end, half of
/// these for its latency.
#[derive(Deserialize)]
struct SlotEvent {
    events: String,
    event: String,
    amount: String,
}

impl SlotEvent {
    fn amount(&self, width: u64, cycles: u64) -> Option<u64> {
        let formula = Formula::parse_with(&self.amount, &[]).ok()?;
        let value_of = |name: &str| match name {
            "slots" => Some(Value::exact(float(width * cycles))),
            "retired" => Some(Value::exact(float(RETIRED))),
            "width" => Some(Value::exact(float(width))),
            _ => None,
        };
        u64::try_from(rounded(formula.value(false, &value_of)?.value)).ok()
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

/// The events of slots on the cores of a table, and how often each happens in a workload of so many
/// cycles.
fn events(table: &str, cycles: u64) -> Vec<(String, u64)> {
    let Some(cores) = cores().find(|cores| cores.table == table) else {
        return Vec::new();
    };
    let events = slot_events().filter(|row| row.events == cores.events);
    let amounts = events.filter_map(|row| {
        let amount = row.amount(cores.width, cycles)?;
        Some((row.event, amount))
    });
    amounts.collect()
}

/// The default workload. Where events of issue slots are counted, it has amounts of those too,
/// on each type of core its own; all other counts stay the same.
pub(crate) fn default_workload(event_set: &EventSet) -> Result<Workload> {
    let catalog = event_set.catalog();
    let cycles = Workload::default().amount(Event::Cycles);
    let cpu_types = catalog.cpu_types().iter();
    let mut tables: Vec<&str> =
        cpu_types.filter_map(|one| Some(one.microarchitecture?.table)).collect();
    tables.sort_unstable();
    tables.dedup();
    let counted: Vec<(u32, u64)> = inputs(&event_set.events, catalog).collect();
    let is_counted = |event: &str| {
        let events = choose(event, catalog).unwrap_or_default();
        inputs(&events, catalog).any(|input| counted.contains(&input))
    };
    let mut named: Vec<String> = Vec::new();
    for table in tables {
        let mut codes = Vec::new();
        let events = events(table, cycles).into_iter();
        for (event, amount) in events.filter(|(event, _)| is_counted(event)) {
            // Several names may mean the same.
            let own = catalog.modelled(&event, Some(table));
            if own.is_some() && !codes.contains(&own) {
                named.push(format!(",{table}/{event}={amount}"));
                codes.push(own);
            }
        }
    }
    if named.is_empty() {
        return Ok(Workload::default());
    }
    named.truncate(NAMED_MAX);
    let text = DEFAULT.to_owned() + &named.concat();
    let known = |key: &str| {
        let (table, event) = key.split_once('/')?;
        catalog.modelled(event, Some(table))
    };
    workload::parse_with(&text, &known).map_err(Error::internal)
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

    /// With and without hardware threads, wherever there are formulas.
    #[test]
    fn the_parts_of_level_1_are_all_slots() {
        let metrics = Metrics::built_in().expect("metrics.toml is right");
        let cycles = Workload::default().amount(Event::Cycles);
        for one in Microarchitecture::all() {
            let parts = metrics.topdown(one, 1);
            let own = events(one.table, cycles);
            assert!(parts.is_empty() || !own.is_empty(), "{}", one.table);
            let count = |name: &str| {
                let names = metrics.names(name);
                let amount = own.iter().find(|(event, _)| names.contains(&event.as_str()));
                let cycle = name.starts_with("CPU_CLK") || name == "ls_not_halted_cyc";
                let cycle = if cycle { cycles } else { 0 };
                let count = amount.map_or(cycle, |(_, amount)| *amount);
                Some(Value::of_count(count.into(), false, None))
            };
            for smt in [false, true] {
                let values = parts.iter().filter_map(|part| {
                    let id = &part.metric.id;
                    let share = part.metric.formula.value(smt, &count).expect(id).value;
                    assert!((0.0..90.0).contains(&share), "{} {id}", one.table);
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
        assert_eq!((cores().count(), slot_events().count()), (33, 42));
        assert!(slot_events().all(|row| row.amount(4, 150_000_000).is_some()));
        for cores in cores() {
            assert!(all().any(|one| one.table == cores.table), "{}", cores.table);
            assert!(slot_events().any(|row| row.events == cores.events), "{}", cores.table);
        }
        for row in slot_events() {
            assert!(all().any(|one| one.event(&row.event).is_some()), "{}", row.event);
        }
    }
}
