//! Linux perf's form of an event: `cpu/event=0xd1,umask=0x20,cmask=1,inv,edge/`, with `cpu_core` or
//! `cpu_atom` for one type of core, or with an event's name between the slashes, where extra fields
//! replace the event's own.

use super::{EventRef, bad_list, parse_number};
use crate::error::Result;

/// perf's names for a core's counters, each with the type of core as in leaf 0x1A.
const UNITS: [(&str, Option<u8>); 3] =
    [("cpu", None), ("cpu_core", Some(0x40)), ("cpu_atom", Some(0x20))];

/// perf's names for other units, or what these begin with, and what halprof does not count there.
const OTHERS: [(&str, &str); 6] = [
    ("power", "energy is not counted"),
    ("uncore", "events outside the cores are not counted"),
    ("amd_", "events outside the cores are not counted"),
    ("msr", "time stamps and SMIs are no events of a counter"),
    ("intel_pt", "instructions are not traced; the branches before a sample are recorded"),
    ("ibs_", "IBS is not programmed"),
];

/// A field of a select: its low eight bits and the bits above them, each part by width and
/// position.
struct Field {
    name: &'static str,
    low: (u32, u32),
    high: (u32, u32),
}

/// Linux, /sys/bus/event_source/devices/cpu/format: AMD's event and Intel's unit mask continue in
/// the high half.
const FIELDS: [Field; 7] = [
    field("event", (8, 0), (4, 32)),
    field("umask", (8, 8), (8, 40)),
    field("edge", (1, 18), (0, 0)),
    field("any", (1, 21), (0, 0)),
    field("inv", (1, 23), (0, 0)),
    field("cmask", (8, 24), (0, 0)),
    field("eq", (1, 36), (0, 0)),
];

const fn field(name: &'static str, low: (u32, u32), high: (u32, u32)) -> Field {
    Field { name, low, high }
}

/// What is between the slashes.
pub(super) struct PerfEvent {
    pub(super) event: EventRef,
    pub(super) core: Option<u8>,
    pub(super) period: Option<u64>,
}

/// The event, and what follows its second slash; `None` if this is not perf's form.
pub(super) fn parse(text: &str) -> Option<Result<(PerfEvent, &str)>> {
    let (unit, rest) = text.split_once('/')?;
    let own = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
    let Some((_, core)) = own else {
        let other = OTHERS.iter().find(|(name, _)| unit.to_ascii_lowercase().starts_with(name));
        let known = "only `cpu/…/`, `cpu_core/…/` and `cpu_atom/…/` are known";
        return Some(Err(bad_list(text, other.map_or(known, |(_, what)| what))));
    };
    let Some((terms, rest)) = rest.split_once('/') else {
        return Some(Err(bad_list(text, "a `/` without the second one")));
    };
    Some(parse_terms(text, terms, *core).map(|event| (event, rest)))
}

fn parse_terms(text: &str, terms: &str, core: Option<u8>) -> Result<PerfEvent> {
    let (mut select, mut changed) = (0, 0);
    let mut name = None;
    let mut period = None;
    let mut given: Vec<&str> = Vec::new();
    for term in terms.split(',').map(str::trim) {
        let (key, value) = term.split_once('=').unwrap_or((term, "1"));
        if given.contains(&key) {
            return Err(bad_list(text, &format!("`{key}` is given twice")));
        }
        given.push(key);
        let number = parse_number(value);
        if let Some(field) = FIELDS.iter().find(|field| field.name == key) {
            let bits = number.and_then(|number| field.bits(number));
            select |= bits
                .ok_or_else(|| bad_list(text, &format!("`{value}` does not fit into `{key}`")))?;
            changed |= field.mask();
        } else if key == "period" {
            period = number.filter(|&period| period != 0);
            if period.is_none() {
                return Err(bad_list(text, &format!("`{term}` is not a period")));
            }
        } else if term.contains('=') {
            let known: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
            let why = format!("`{key}` is not one of {}, period", known.join(", "));
            return Err(bad_list(text, &why));
        } else if term.is_empty() {
            return Err(bad_list(text, "an empty field"));
        } else {
            name = Some(term.to_owned());
        }
    }
    let event = match name {
        Some(name) if changed == 0 => EventRef::Named(name),
        Some(name) => EventRef::Changed { name, changed, select },
        None => EventRef::Raw(select),
    };
    Ok(PerfEvent { event, core, period })
}

impl Field {
    const fn mask(&self) -> u64 {
        let ((low, at), (high, above)) = (self.low, self.high);
        ((1 << low) - 1) << at | ((1 << high) - 1) << above
    }

    /// A value shifted into place; `None` if it does not fit.
    fn bits(&self, value: u64) -> Option<u64> {
        let ((low, at), (high, above)) = (self.low, self.high);
        let rest = value >> low;
        let fits = rest >> high == 0;
        fits.then_some((value & ((1 << low) - 1)) << at | rest << above)
    }
}
