//! What a recording says of its machine and its sources.

use crate::output::MachineInfo;
use crate::output::number::thousands;
use crate::output::table::{Column, Field, Record};
use crate::run::metric_periods::ChosenBy;
use crate::select::event_set::EventSet;
use crate::select::periods::{self, Period};
use crate::target::{machine_id, seal_key};
use halprof_measure::Effective;
use halprof_measure::describe;
use halprof_measure::errata::Erratum;
use halprof_profile::file::{self, Cores, Metadata};
use schemars::JsonSchema;
use serde::Serialize;
use shared_types::request::machine::{Machine, Processor};
use std::collections::BTreeMap;

/// A source, and the processors that cannot count it.
#[derive(JsonSchema, Serialize)]
pub(crate) struct ExcludedCpus {
    pub(crate) source: String,
    pub(crate) processors: String,
}

impl From<(&str, &str)> for ExcludedCpus {
    fn from((source, processors): (&str, &str)) -> Self {
        Self { source: source.to_owned(), processors: processors.to_owned() }
    }
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct InPass {
    #[serde(flatten)]
    pub(crate) period: Period,
    pub(crate) pass: u32,
    /// How halprof chose the period; null where a period was given, or is the default of its source.
    pub(crate) chosen_by: Option<ChosenBy>,
    /// What the source counts, in a sentence or two; empty if that is not known.
    pub(crate) meaning: String,
    /// The vendor's errata that concern it.
    pub(crate) errata: Vec<Erratum>,
}

pub(crate) fn in_pass(
    event_set: &EventSet,
    indexes: &[usize],
    effective: &Effective,
    pass: u32,
) -> impl Iterator<Item = (usize, InPass)> {
    let used = periods::of_pass(event_set, indexes, effective).into_iter();
    let in_pass = move |period: Period| InPass {
        meaning: event_set.catalog().meaning(&period.source),
        period,
        pass,
        chosen_by: None,
        errata: Vec::new(),
    };
    let used = used.map(in_pass);
    indexes.iter().copied().zip(used)
}

/// Which processors are of which type, if types differ.
fn cores(processors: &[Processor]) -> Vec<Cores> {
    let name = |processor: &Processor| describe::core_type(processor).unwrap_or_default();
    let same = |a: &Processor, b: &Processor| name(a) == name(b);
    let runs = processors.chunk_by(same).filter_map(|run| {
        let (first, last) = (run.first()?, run.last()?);
        Some(Cores { name: name(first).to_owned(), first: first.index, last: last.index })
    });
    let runs: Vec<Cores> = runs.collect();
    if runs.len() > 1 { runs } else { Vec::new() }
}

fn sources(periods: &[InPass], event_set: &EventSet) -> Vec<file::Source> {
    let excluded: BTreeMap<String, String> = event_set.excluded_cpus().into_iter().collect();
    let source = |InPass { period, pass, meaning, errata, .. }: &InPass| file::Source {
        name: period.source.clone(),
        period: file::Period {
            requested: period.requested,
            used: period.used,
            events: period.events,
            by_reference_cycles: period.by_reference_cycles,
            by_core_cycles: period.by_core_cycles,
            drawn: period.drawn,
        },
        pass: *pass,
        meaning: meaning.clone(),
        errata: errata.clone(),
        excluded_cpus: excluded.get(&period.source).cloned().unwrap_or_default(),
    };
    periods.iter().map(source).collect()
}

/// What a recording says of the machine, of its sources, and of the command that ran.
pub(crate) fn metadata(
    machine: &Machine,
    machine_info: &MachineInfo,
    event_set: &EventSet,
    periods: &[InPass],
    command: Vec<String>,
) -> Metadata {
    let mut metadata = Metadata {
        machine: machine_info.description.clone(),
        modelled: machine_info.modelled,
        interface: describe::interface_name(machine.interface).to_owned(),
        timestamp_frequency: machine.timestamp_frequency,
        processors: machine.processors,
        cores: cores(event_set.processors()),
        began: machine_id::unix_seconds(),
        command,
        sources: sources(periods, event_set),
        passes: periods.iter().map(|row| row.pass + 1).max().unwrap_or(0),
        ..Metadata::default()
    };
    machine_id::sign(&mut metadata, seal_key::key().as_deref());
    metadata
}

impl Record for InPass {
    const COLUMNS: &'static [Field<Self>] = &[
        Field::new(Column::name("source"), |row| row.period.source.clone()),
        Field::new(Column::number("period requested"), |row| thousands(row.period.requested)),
        Field::new(Column::number("used"), |row| thousands(row.period.used)),
        Field::new(Column::number("pass"), |row| thousands(row.pass + 1)),
    ];
}
