//! The vendors' errata that change counts: those of facts/errata.csv, by processor,
//! select and counter, and those that the vendors' lists name for an event.

use crate::catalog::CpuType;
use crate::events::Event;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared_types::request::machine::Processor;
use shared_types::request::source::Placement;
use std::sync::LazyLock;

/// One erratum that concerns a count or a sample.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct Erratum {
    /// The vendor's number.
    pub id: String,
    /// What halprof does about it: `counter-last`, `reload-rounded`, `reset-at-start`, or nothing:
    /// `note`; `listed` where only its number is known.
    pub effect: String,
    /// What it does to counts.
    pub note: String,
}

/// How an event is counted on one CPU type.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// The select, in the format of the interface; `None` for time.
    pub select: Option<u64>,
    /// Where it is counted.
    pub placement: Placement,
    /// Whether it is sampled, not only counted.
    pub sampled: bool,
    /// The other hardware thread of the core may be measured at the same time.
    pub beside_sibling: bool,
}

/// A row of the table.
#[derive(Deserialize)]
struct Row {
    /// The numbers in the documents of several processors, separated by commas.
    id: String,
    vendor: String,
    family: String,
    models: String,
    condition: Condition,
    /// Codes, or codes and unit masks, separated by `|`; empty for all.
    events: String,
    /// General counters, a mask; empty for all counters.
    counters: String,
    effect: String,
    note: String,
    source: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Condition {
    #[serde(rename = "")]
    None,
    /// [`Processor::TSX_FORCE_ABORT`].
    TsxForceAbort,
    /// Both hardware threads of a core are measured.
    Smt,
    /// The erratum concerns only what is sampled.
    Sampling,
}

/// The effect of errata of which nothing is known but that the vendor's list names them for an event.
const LISTED: &str = "listed";
const OF_EVENT: &str = "Intel's list of events names it for this event; Intel's specification update says what it does to the count";

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let text = include_str!("../../../facts/errata.csv");
    csv::Reader::from_reader(text.as_bytes()).into_deserialize().flatten().collect()
});

/// The errata that concern an event on a CPU type, by number.
#[must_use]
pub fn of(cpu_type: &CpuType, counted: &Counted) -> Vec<Erratum> {
    let mut errata = Vec::new();
    let processor = &cpu_type.processor;
    for row in ROWS.iter().filter(|row| row.concerns(processor, counted)) {
        errata.push(row.erratum());
    }
    for id in of_event(cpu_type, counted) {
        if !errata.iter().any(|one| one.id == id)
            // A row says when its erratum concerns a count; the vendor's list says only that it
            // may.
            && !ROWS.iter().any(|row| row.is_of(processor, id))
        {
            errata.push(Erratum {
                id: id.to_owned(),
                effect: LISTED.into(),
                note: OF_EVENT.into(),
            });
        }
    }
    errata.sort();
    errata
}

/// What the table says of a number, on whatever processors: a sentence for each row.
pub fn of_number(id: &str) -> impl Iterator<Item = String> {
    let rows = ROWS.iter().filter(move |row| row.has_number(id));
    rows.map(|row| {
        let Row { vendor, family, models, note, source, .. } = row;
        let vendor = if vendor == "GenuineIntel" { "Intel" } else { "AMD" };
        format!("{vendor}, family {family}, models {models}: {note} ({source})")
    })
}

/// Whether the vendor's list names an erratum for an event.
#[must_use]
pub fn is_listed(event: &Event, id: &str) -> bool {
    event.errata.split(", ").any(|one| one.eq_ignore_ascii_case(id))
}

impl Erratum {
    /// Whether what it does to the count is known.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.effect != LISTED
    }
}

/// The numbers that the vendor's list has for an event.
fn of_event<'a>(cpu_type: &'a CpuType, counted: &Counted) -> Vec<&'a str> {
    let fixed = fixed(counted.placement).map(|index| index as u8);
    let code = counted.select.map(intel_code);
    let is_event = |event: &&Event| match fixed {
        Some(index) => event.fixed == Some(index),
        None => event.fixed.is_none() && code == Some((event.code, event.unit_mask)),
    };
    let events = cpu_type.events().filter(is_event);
    let ids = events.flat_map(|event| event.errata.split(", ")).filter(|id| !id.is_empty());
    ids.collect()
}

impl Row {
    fn concerns(&self, processor: &Processor, counted: &Counted) -> bool {
        let condition = match self.condition {
            Condition::None => true,
            Condition::TsxForceAbort => processor.flags & Processor::TSX_FORCE_ABORT != 0,
            Condition::Smt => {
                processor.flags & Processor::SHARES_CORE != 0 && counted.beside_sibling
            }
            Condition::Sampling => counted.sampled,
        };
        condition && self.is_for(processor) && self.is_event(counted) && self.is_counter(counted)
    }

    fn is_for(&self, processor: &Processor) -> bool {
        self.vendor.as_bytes() == processor.vendor
            && number(&self.family) == u64::from(processor.family)
            && is_in(&self.models, processor.model.into())
    }

    fn is_of(&self, processor: &Processor, id: &str) -> bool {
        self.is_for(processor) && self.has_number(id)
    }

    fn has_number(&self, id: &str) -> bool {
        self.id.split(", ").any(|one| one.eq_ignore_ascii_case(id))
    }

    /// Whether the event is among its events. On a fixed counter no select counts.
    fn is_event(&self, counted: &Counted) -> bool {
        if self.events.is_empty() {
            return true;
        }
        let Some(select) = counted.select.filter(|_| fixed(counted.placement).is_none()) else {
            return false;
        };
        let (code, mask) = match self.vendor.as_str() {
            // AMD: bits 35:32 are the upper bits of the event.
            "AuthenticAMD" => (select & 0xFF | select >> 24 & 0xF00, select >> 8 & 0xFF),
            _ => (select & 0xFF, select >> 8 & 0xFF),
        };
        self.events.split('|').any(|event| match event.split_once('/') {
            Some((event, own)) => is_in(event, code) && number(own) == mask,
            None => is_in(event, code),
        })
    }

    fn is_counter(&self, counted: &Counted) -> bool {
        if self.counters.is_empty() {
            return true;
        }
        let counters = number(&self.counters);
        let general = u64::from(counted.placement.counter);
        general < 64 && counters >> general & 1 == 1
    }

    fn erratum(&self) -> Erratum {
        Erratum { id: self.id.clone(), effect: self.effect.clone(), note: self.note.clone() }
    }
}

/// Event and unit mask of Intel's selects, as the lists have them.
const fn intel_code(select: u64) -> (u16, u16) {
    let mask = select >> 8 & 0xFF | select >> 32 & 0xFF00;
    ((select & 0xFF) as u16, mask as u16)
}

/// The index of the fixed counter on which something is counted.
fn fixed(placement: Placement) -> Option<u16> {
    let counter = placement.counter;
    (counter != Placement::TIMER && counter >= Placement::FIXED).then(|| counter - Placement::FIXED)
}

/// Whether a list such as `0x00-0x0F|0x2A` has a number.
fn is_in(list: &str, value: u64) -> bool {
    list.split('|').any(|range| {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        (number(low)..=number(high)).contains(&value)
    })
}

/// A number of the table; the tests read each.
fn number(text: &str) -> u64 {
    crate::selection::parse_number(text).unwrap_or(u64::MAX)
}
