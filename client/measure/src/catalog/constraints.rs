//! What a select needs, whoever names it: the counters that can count it, whether it takes two, and an
//! MSR that halprof does not program.
//!
//! A raw select means the event of that code and unit mask, so it has the constraints of the rows
//! that name it, in the processor's table or, where the vendor's list leaves such events out, in
//! `data/constraints.csv`. The driver also knows that AMD's event 003h takes a pair (hal-profile's
//! source/amd.rs), because it takes any select from any client; the client knows it too, so that it
//! can say what a name needs before it asks the driver.

use super::CpuType;
use serde::Deserialize;
use shared_types::request::machine::Processor;
use std::sync::LazyLock;

/// What the rows of one code and unit mask say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Constraint {
    /// The general counters, as a mask.
    pub(super) counters: u32,
    /// Whether it takes a counter of even number and the one after it.
    pub(super) pair: bool,
    /// An MSR that the event takes a value from.
    pub(super) msr: Option<u32>,
}

/// A row of constraints.csv. Lists are separated by spaces; no counters or unit masks are all of them.
#[derive(Deserialize)]
struct Row {
    /// Tables of events, or `FAMILY:MODEL` of processors that have none.
    processors: String,
    codes: String,
    unit_masks: String,
    counters: String,
    pair: String,
    msr: String,
}

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let text = include_str!("../../data/constraints.csv");
    csv::Reader::from_reader(text.as_bytes()).into_deserialize().flatten().collect()
});

/// The constraint of an event select on a CPU type: of the rows with its code and unit mask or, if
/// there are none, of all rows with its code. The smallest set of counters holds. `None` if no table
/// has the code.
pub(super) fn of_select(cpu_type: &CpuType, select: u64) -> Option<Constraint> {
    let mut rows: Vec<Matched> = matched(cpu_type, select).collect();
    if rows.iter().any(|row| row.same_mask) {
        rows.retain(|row| row.same_mask);
    }
    let constraints = || rows.iter().map(|row| row.constraint);
    let counters = constraints().map(|one| one.counters).min_by_key(|mask| mask.count_ones())?;
    // If the code also counts something without the MSR, the user may mean that.
    let needs_msr = constraints().all(|one| one.msr.is_some());
    let msr = constraints().find_map(|one| one.msr).filter(|_| needs_msr);
    Some(Constraint { counters, pair: constraints().any(|one| one.pair), msr })
}

/// A row with a select's code.
struct Matched {
    /// Whether it has the unit mask too.
    same_mask: bool,
    constraint: Constraint,
}

fn matched(cpu_type: &CpuType, select: u64) -> impl Iterator<Item = Matched> {
    let (code, unit_mask) = fields(select);
    let events = cpu_type.events().filter(move |event| {
        // The code of a fixed counter's row is not one of a select.
        event.code == code && (event.fixed.is_none() || event.counters.is_some())
    });
    let events = events.map(move |event| Matched {
        same_mask: event.unit_mask == unit_mask,
        constraint: Constraint {
            counters: event.counters.unwrap_or(u32::MAX),
            pair: false,
            msr: event.msr,
        },
    });
    let rows = ROWS.iter().filter(move |row| row.is_for(cpu_type) && has(&row.codes, code));
    events.chain(rows.map(move |row| Matched {
        same_mask: row.unit_masks.is_empty() || has(&row.unit_masks, unit_mask),
        constraint: Constraint {
            counters: number(&row.counters).unwrap_or(u32::MAX),
            pair: row.pair == "1",
            msr: number(&row.msr),
        },
    }))
}

/// A select's event code, with AMD's bits 35:32, and its unit mask, with Intel's bits 47:40.
const fn fields(select: u64) -> (u16, u16) {
    let code = select & 0xFF | select >> 24 & 0xF00;
    let unit_mask = select >> 8 & 0xFF | select >> 32 & 0xFF00;
    (code as u16, unit_mask as u16)
}

impl Row {
    fn is_for(&self, cpu_type: &CpuType) -> bool {
        let Processor { family, model, .. } = cpu_type.processor;
        let table = cpu_type.microarchitecture.map(|one| one.table);
        self.processors.split(' ').any(|one| match one.split_once(':') {
            None => Some(one) == table,
            Some((of_family, of_model)) => {
                number(of_family) == Some(family.into()) && number(of_model) == Some(model.into())
            }
        })
    }
}

fn has(list: &str, field: u16) -> bool {
    list.split(' ').any(|one| number(one) == Some(field.into()))
}

fn number(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}
