//! The default workload of a model, with what it does with issue slots.

use crate::output::error::{Error, Result};
use crate::select::event_set::{EventSet, choose};
use crate::select::source::OWN_BITS;
use halprof_measure::Source;
use halprof_measure::catalog::Catalog;
use halprof_measure::selection::EventSpec;
use shared_types::ProfileSource;
use sim::cpu::event::{Event, NAMED_MAX};
use sim::load::workload::{self, DEFAULT, Workload};

/// Operations that retire in the default workload, of its 100 million instructions.
const RETIRED: u64 = 120_000_000;

/// What becomes of issue slots. Those that retire, wait for the back end or the front end, or are
/// lost to bad speculation, are all of them.
#[derive(Clone, Copy, Debug)]
enum Slots {
    All,
    Retired,
    /// Retired operations of instructions with several.
    Heavy,
    /// Retired and lost to bad speculation.
    Issued,
    BadSpeculation,
    Mispredicted,
    Cleared,
    Backend,
    /// Half of the back end's.
    Memory,
    Core,
    Frontend,
    /// Half of the front end's.
    Latency,
    Bandwidth,
    /// Cycles without any operation from the front end.
    LatencyCycles,
    /// As often as this.
    Exactly(u64),
}

impl Slots {
    /// How many there are on a core that issues `width` operations in a cycle.
    fn amount(self, width: u64, cycles: u64) -> u64 {
        let all = width * cycles;
        let of = |part: Self| part.amount(width, cycles);
        match self {
            Self::All => all,
            Self::Retired => RETIRED,
            Self::Heavy => RETIRED / 12,
            Self::Issued => RETIRED + of(Self::BadSpeculation),
            Self::BadSpeculation => all / 20,
            Self::Mispredicted => all / 25,
            Self::Cleared => of(Self::BadSpeculation) - of(Self::Mispredicted),
            Self::Backend => all / 5 * 3,
            Self::Memory => of(Self::Backend) / 2,
            Self::Core => of(Self::Backend) - of(Self::Memory),
            Self::Frontend => all - of(Self::Issued) - of(Self::Backend),
            Self::Latency => of(Self::LatencyCycles) * width,
            Self::Bandwidth => of(Self::Frontend) - of(Self::Latency),
            Self::LatencyCycles => of(Self::Frontend) / 2 / width,
            Self::Exactly(amount) => amount,
        }
    }
}

/// Cores that issue equally many operations in a cycle, and count them with the same events.
struct Cores {
    tables: &'static [&'static str],
    width: u64,
    events: &'static [(&'static str, Slots)],
}

const CORES: [Cores; 9] = [
    Cores {
        tables: &[
            "sandybridge",
            "jaketown",
            "ivybridge",
            "ivytown",
            "haswell",
            "haswellx",
            "broadwell",
            "broadwellde",
            "broadwellx",
            "skylake",
            "skylakex",
            "cascadelakex",
        ],
        width: 4,
        // The rest of the slots waits for the back end.
        events: &[
            ("IDQ_UOPS_NOT_DELIVERED.CORE", Slots::Exactly(120_000_000)),
            ("UOPS_ISSUED.ANY", Slots::Exactly(115_000_000)),
            ("UOPS_RETIRED.RETIRE_SLOTS", Slots::Exactly(110_000_000)),
            ("INT_MISC.RECOVERY_CYCLES_ANY", Slots::Exactly(5_000_000)),
            ("INT_MISC.RECOVERY_CYCLES", Slots::Exactly(5_000_000)),
        ],
    },
    Cores {
        tables: &["icelake", "icelakex", "rocketlake", "tigerlake"],
        width: 5,
        events: &[
            ("TOPDOWN.SLOTS", Slots::All),
            ("TOPDOWN.SLOTS_P", Slots::All),
            ("UOPS_RETIRED.SLOTS", Slots::Retired),
            ("TOPDOWN.BACKEND_BOUND_SLOTS", Slots::Backend),
            ("IDQ_UOPS_NOT_DELIVERED.CORE", Slots::Frontend),
        ],
    },
    Cores {
        tables: &[
            "alderlake_goldencove",
            "sapphirerapids",
            "emeraldrapids",
            "graniterapids",
            "meteorlake_redwoodcove",
        ],
        width: 6,
        events: PERFORMANCE,
    },
    Cores {
        tables: &["lunarlake_lioncove", "arrowlake_lioncove", "pantherlake_cougarcove"],
        width: 8,
        events: PERFORMANCE,
    },
    Cores {
        tables: &["alderlake_gracemont"],
        width: 5,
        events: &[
            ("TOPDOWN_RETIRING.ALL", Slots::Retired),
            ("TOPDOWN_FE_BOUND.ALL", Slots::Frontend),
            ("TOPDOWN_BAD_SPECULATION.ALL", Slots::BadSpeculation),
            ("TOPDOWN_BE_BOUND.ALL", Slots::Backend),
        ],
    },
    Cores {
        tables: &["meteorlake_crestmont", "arrowlake_crestmont", "grandridge", "sierraforest"],
        width: 6,
        events: EFFICIENCY,
    },
    Cores { tables: &["lunarlake_skymont", "arrowlake_skymont"], width: 8, events: EFFICIENCY },
    Cores { tables: &["amdzen4"], width: 6, events: ZEN },
    Cores { tables: &["amdzen5"], width: 8, events: ZEN },
];

/// From Golden Cove on.
const PERFORMANCE: &[(&str, Slots)] = &[
    ("TOPDOWN.SLOTS", Slots::All),
    ("TOPDOWN.SLOTS_P", Slots::All),
    ("UOPS_RETIRED.SLOTS", Slots::Retired),
    ("UOPS_RETIRED.HEAVY", Slots::Heavy),
    ("TOPDOWN.BACKEND_BOUND_SLOTS", Slots::Backend),
    ("TOPDOWN.MEMORY_BOUND_SLOTS", Slots::Memory),
    ("TOPDOWN.BAD_SPEC_SLOTS", Slots::BadSpeculation),
    ("TOPDOWN.BR_MISPREDICT_SLOTS", Slots::Mispredicted),
    ("IDQ_BUBBLES.CORE", Slots::Frontend),
    ("IDQ_BUBBLES.CYCLES_0_UOPS_DELIV.CORE", Slots::LatencyCycles),
    ("IDQ_BUBBLES.FETCH_LATENCY", Slots::LatencyCycles),
];

/// From Crestmont on.
const EFFICIENCY: &[(&str, Slots)] = &[
    ("TOPDOWN_RETIRING.ALL_P", Slots::Retired),
    ("TOPDOWN_RETIRING.ALL", Slots::Retired),
    ("TOPDOWN_FE_BOUND.ALL_P", Slots::Frontend),
    ("TOPDOWN_FE_BOUND.ALL", Slots::Frontend),
    ("TOPDOWN_FE_BOUND.FRONTEND_LATENCY", Slots::Latency),
    ("TOPDOWN_FE_BOUND.FRONTEND_BANDWIDTH", Slots::Bandwidth),
    ("TOPDOWN_BAD_SPECULATION.ALL_P", Slots::BadSpeculation),
    ("TOPDOWN_BAD_SPECULATION.ALL", Slots::BadSpeculation),
    ("TOPDOWN_BAD_SPECULATION.MISPREDICT", Slots::Mispredicted),
    ("TOPDOWN_BAD_SPECULATION.MACHINE_CLEARS", Slots::Cleared),
    ("TOPDOWN_BE_BOUND.ALL_P", Slots::Backend),
    ("TOPDOWN_BE_BOUND.ALL", Slots::Backend),
    ("TOPDOWN_BE_BOUND.ALLOC_RESTRICTIONS", Slots::Core),
];

const ZEN: &[(&str, Slots)] = &[
    ("ex_ret_ops", Slots::Retired),
    ("de_src_op_disp.all", Slots::Issued),
    ("de_no_dispatch_per_slot.no_ops_from_frontend", Slots::Frontend),
    ("de_no_dispatch_per_slot.backend_stalls", Slots::Backend),
];

/// The events of slots on the cores of a table, and how often each happens in a workload of so many
/// cycles.
fn events(table: &str, cycles: u64) -> impl Iterator<Item = (&'static str, u64)> {
    let cores = CORES.iter().filter(move |cores| cores.tables.contains(&table));
    cores.flat_map(move |cores| {
        let events = cores.events.iter();
        events.map(move |&(event, slots)| (event, slots.amount(cores.width, cycles)))
    })
}

/// The default workload. Where events of issue slots are counted, it has amounts of those too,
/// on each type of core its own; all other counts stay the same.
pub(crate) fn default_workload(event_set: &EventSet) -> Result<Workload> {
    let catalog = event_set.catalog();
    let cycles = Workload::default().amount(Event::Cycles);
    let kinds = catalog.cpu_types().iter();
    let mut tables: Vec<&str> =
        kinds.filter_map(|kind| kind.microarchitecture.map(|one| one.table)).collect();
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
        for (event, amount) in events(table, cycles).filter(|(event, _)| is_counted(event)) {
            // Several names may mean the same.
            let own = catalog.modelled(event, Some(table));
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
    use crate::metrics::formula::Value;
    use halprof_measure::events::Microarchitecture;

    /// With and without hardware threads, wherever there are formulas.
    #[test]
    fn the_parts_of_level_1_are_all_slots() {
        let metrics = Metrics::built_in().expect("metrics.toml is right");
        let cycles = Workload::default().amount(Event::Cycles);
        for one in Microarchitecture::all() {
            let parts = metrics.topdown(one, 1);
            let own: Vec<_> = events(one.table, cycles).collect();
            assert!(parts.is_empty() || !own.is_empty(), "{}", one.table);
            let count = |name: &str| {
                let amount = own.iter().find(|(event, _)| metrics.names(name).contains(event));
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
    fn every_event_is_known() {
        for cores in &CORES {
            let all = || Microarchitecture::all().iter();
            let own = all().filter(|one| cores.tables.contains(&one.table));
            assert_eq!(own.count(), cores.tables.len(), "{:?}", cores.tables);
            for (name, _) in cores.events {
                assert!(all().any(|one| one.event(name).is_some()), "{name}");
            }
        }
    }
}
