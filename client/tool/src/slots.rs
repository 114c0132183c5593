//! The default workload of a model, with what it does with issue slots.

use crate::choice::{Choice, choose};
use crate::source::OWN_BITS;
use crate::{Error, Result};
use halprof_measure::catalog::Catalog;
use halprof_measure::selection::Chosen;
use shared_types::ProfileSource;
use shared_types::request::source::Source;
use sim::workload::{self, DEFAULT, Workload};

/// Events of issue slots: the end of the names of the microarchitectures concerned, the event, and
/// how often it happens in the default workload's 150 million cycles. Of all slots about an eighth
/// retire, a fifth wait for the front end, 5 % are lost to bad speculation, and the rest wait for
/// the back end; on four-wide processors more retire and fewer wait. Of two events with the same
/// select the first has the amount.
const EVENTS: &[(&str, &str, u64)] = &[
    ("", "IDQ_UOPS_NOT_DELIVERED.CORE", 120_000_000),
    ("", "UOPS_ISSUED.ANY", 115_000_000),
    ("", "UOPS_RETIRED.RETIRE_SLOTS", 110_000_000),
    ("", "INT_MISC.RECOVERY_CYCLES_ANY", 5_000_000),
    ("", "INT_MISC.RECOVERY_CYCLES", 5_000_000),
    ("", "TOPDOWN.SLOTS", 900_000_000),
    ("", "TOPDOWN.SLOTS_P", 900_000_000),
    ("", "UOPS_RETIRED.SLOTS", 120_000_000),
    ("", "TOPDOWN.BACKEND_BOUND_SLOTS", 540_000_000),
    ("", "TOPDOWN.BAD_SPEC_SLOTS", 45_000_000),
    ("", "IDQ_BUBBLES.CORE", 195_000_000),
    // Eight on Skymont, six before.
    ("", "TOPDOWN_RETIRING.ALL_P", 120_000_000),
    ("", "TOPDOWN_FE_BOUND.ALL_P", 200_000_000),
    ("", "TOPDOWN_BAD_SPECULATION.ALL_P", 50_000_000),
    ("skymont", "TOPDOWN_BE_BOUND.ALL_P", 830_000_000),
    ("", "TOPDOWN_BE_BOUND.ALL_P", 530_000_000),
    // Five slots in each cycle.
    ("", "TOPDOWN_RETIRING.ALL", 120_000_000),
    ("", "TOPDOWN_FE_BOUND.ALL", 200_000_000),
    ("", "TOPDOWN_BAD_SPECULATION.ALL", 50_000_000),
    ("", "TOPDOWN_BE_BOUND.ALL", 380_000_000),
    // Eight on Zen 5, six on Zen 4.
    ("", "ex_ret_ops", 120_000_000),
    ("", "de_src_op_disp.all", 170_000_000),
    (
        "",
        "de_no_dispatch_per_slot.no_ops_from_frontend",
        200_000_000,
    ),
    (
        "zen5",
        "de_no_dispatch_per_slot.backend_stalls",
        830_000_000,
    ),
    ("", "de_no_dispatch_per_slot.backend_stalls", 530_000_000),
];

/// The default workload. Where the choice counts events of `EVENTS`, it has amounts of those too; all
/// other counts stay the same.
pub(crate) fn default_workload(choice: &Choice) -> Result<Workload> {
    let catalog = choice.catalog();
    let kinds = catalog.kinds().iter();
    let tables = kinds.filter_map(|kind| kind.microarchitecture.map(|one| one.table));
    let tables: Vec<&str> = tables.collect();
    let of_tables = |row: &&(&str, &str, u64)| tables.iter().any(|table| table.ends_with(row.0));
    let mut events: Vec<_> = EVENTS.iter().filter(of_tables).collect();
    // The first of a name is the more exact.
    events.dedup_by_key(|row| row.1);
    let counted: Vec<(u32, u64)> = inputs(&choice.chosen, catalog).collect();
    let mut text = String::new();
    for (_, event, amount) in events {
        let ways = choose(event, catalog).unwrap_or_default();
        if inputs(&ways, catalog).any(|input| counted.contains(&input)) {
            text += &format!(",{event}={amount}");
        }
    }
    if text.is_empty() {
        return Ok(Workload::default());
    }
    let text = DEFAULT.to_owned() + &text;
    workload::parse_with(&text, &|name| catalog.modelled(name)).map_err(Error::internal)
}

/// What counters are programmed to count, however it is called: [`ProfileSource::RAW`] and a select,
/// or the source of a fixed counter and 0.
fn inputs(chosen: &[Chosen], catalog: &Catalog) -> impl Iterator<Item = (u32, u64)> {
    chosen.iter().map(|one| {
        let mut sources = catalog.sources.iter();
        let is = |source: &&Source| {
            source.id == one.spec.source && source.flags & Source::HAS_SELECT != 0
        };
        match sources.find(is) {
            Some(source) => (ProfileSource::RAW.0, source.select & !OWN_BITS),
            None => (one.spec.source, one.spec.raw & !OWN_BITS),
        }
    })
}
