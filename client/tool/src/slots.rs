//! The default workload of a model, with what it does with issue slots.

use crate::choice::Choice;
use crate::{Error, Result};
use sim::workload::{self, DEFAULT, Workload};

/// Events of issue slots: the end of the names of the microarchitectures concerned, the event, and
/// how often it happens in the default workload's 150 million cycles. Of all slots about an eighth
/// retire, a fifth wait for the front end, 5 % are lost to bad speculation, and the rest wait for
/// the back end; on four-wide processors more retire and fewer wait.
const EVENTS: &[(&str, &str, u64)] = &[
    ("", "IDQ_UOPS_NOT_DELIVERED.CORE", 120_000_000),
    ("", "UOPS_ISSUED.ANY", 115_000_000),
    ("", "UOPS_RETIRED.RETIRE_SLOTS", 110_000_000),
    ("", "INT_MISC.RECOVERY_CYCLES_ANY", 5_000_000),
    ("", "INT_MISC.RECOVERY_CYCLES", 5_000_000),
    ("", "TOPDOWN.SLOTS", 900_000_000),
    ("", "UOPS_RETIRED.SLOTS", 120_000_000),
    ("", "TOPDOWN.BACKEND_BOUND_SLOTS", 540_000_000),
    ("", "TOPDOWN.BAD_SPEC_SLOTS", 45_000_000),
    ("", "IDQ_BUBBLES.CORE", 195_000_000),
    // Five slots in each cycle.
    ("", "TOPDOWN_RETIRING.ALL", 120_000_000),
    ("", "TOPDOWN_FE_BOUND.ALL", 200_000_000),
    ("", "TOPDOWN_BAD_SPECULATION.ALL", 50_000_000),
    ("", "TOPDOWN_BE_BOUND.ALL", 380_000_000),
    // Eight on Skymont, six before.
    ("", "TOPDOWN_RETIRING.ALL_P", 120_000_000),
    ("", "TOPDOWN_FE_BOUND.ALL_P", 200_000_000),
    ("", "TOPDOWN_BAD_SPECULATION.ALL_P", 50_000_000),
    ("skymont", "TOPDOWN_BE_BOUND.ALL_P", 830_000_000),
    ("", "TOPDOWN_BE_BOUND.ALL_P", 530_000_000),
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

/// The default workload; with amounts of those of its events that the choice counts and that have
/// no name of their own, so that nothing changes where they are not counted.
pub(crate) fn default_workload(choice: &Choice) -> Result<Workload> {
    let kinds = choice.catalog().kinds().iter();
    let tables = kinds.filter_map(|kind| kind.microarchitecture.map(|one| one.table));
    let tables: Vec<&str> = tables.collect();
    let amount = |label: &str| {
        let name = label.split(':').next().unwrap_or(label);
        let mut events = EVENTS.iter();
        let &(_, event, amount) = events.find(|(of, event, _)| {
            event.eq_ignore_ascii_case(name) && tables.iter().any(|table| table.ends_with(of))
        })?;
        Some((event, amount))
    };
    let mut counted: Vec<(&str, u64)> = choice
        .names()
        .iter()
        .filter_map(|one| amount(one))
        .collect();
    counted.sort_unstable();
    counted.dedup();
    if counted.is_empty() {
        return Ok(Workload::default());
    }
    let text = counted
        .iter()
        .fold(DEFAULT.to_owned(), |text, (event, amount)| {
            text + &format!(",{event}={amount}")
        });
    workload::parse_with(&text, &|name| choice.catalog().modelled(name)).map_err(Error::internal)
}
