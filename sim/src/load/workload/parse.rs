//! `--workload SPEC`: `key=value` items separated by commas.

use super::{MAX_AMOUNT, PROGRAMS_MAX, Parts, Workload};
use crate::cpu::event::{Code, Event, NAMED_MAX};
use crate::machines::dump::MAX_PROCESSORS;
use std::collections::BTreeSet;
use thiserror::Error;

/// Why a text is not a workload.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WorkloadError {
    /// Nothing at all.
    #[error("the workload is empty")]
    Empty,
    /// No kind of event has an amount.
    #[error("the workload has no amount of any event")]
    NoAmount,
    /// Not of the form `key=value`.
    #[error("`{0}` in the workload is not KEY=VALUE")]
    NotKeyValue(String),
    /// A key that no workload has.
    #[error("a workload has no key `{0}`")]
    UnknownKey(String),
    /// More than [`NAMED_MAX`] events that do not have their own name.
    #[error("a workload names at most {NAMED_MAX} events of the vendor's")]
    TooMany,
    /// A key that is given twice.
    #[error("the workload has `{0}` twice")]
    DuplicateKey(String),
    /// A value that its key does not accept.
    #[error("`{key}={value}`: the value is not {expected}")]
    BadValue {
        key: String,
        value: String,
        /// What would be accepted.
        expected: &'static str,
    },
}

impl WorkloadError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Empty | Self::NoAmount => "For example `instructions=1000000,cycles=2000000`",
            Self::NotKeyValue(item) if !item.starts_with(|first: char| first.is_ascii_digit()) => {
                "Each part is KEY=VALUE, for example `instructions=1000000`"
            }
            Self::NotKeyValue(_) => "Separate several processors by `+`, as in `processors=0-3+8`",
            Self::UnknownKey(_) => {
                "Events: instructions cycles branches branch-misses ref-cycles llc-references \
                 llc-misses l1d-accesses l1d-misses l1i-fetches l1i-misses fp-operations, and \
                 the vendor's by their names; others: user processors programs short code seed skid \
                 drift"
            }
            Self::TooMany => "Leave some out",
            Self::DuplicateKey(_) => "Give each key once",
            Self::BadValue { .. } => "Numbers are decimal, the addresses of `code` hexadecimal",
        }
    }
}

/// The keys that every workload has.
pub fn keys() -> impl Iterator<Item = &'static str> {
    let others = ["user", "processors", "programs", "short", "code", "seed", "skid", "drift"];
    Event::ALL.into_iter().map(Event::name).chain(others)
}

/// Reads a workload.
///
/// Keys: the amount of each [`Event`] by its name, 0 to 2^62; `user`, percent; `processors`, as in
/// `0-3+8`, or `all`; `programs`, the percentages of programs that take turns, as in `70+30`;
/// `short`, when another program starts and for how long it runs, as in `3000000+2000000`; `code`,
/// as in `0x140001000-0x140002000`, the end exclusive; `seed`, for rates that vary over time;
/// `skid`, the positions by which interrupts are late; `drift`, the percentages of its cycles that it has
/// in one run after the other, as in `100+103+101`.
///
/// Defaults: amounts and skid 0, user 100, processor 0, one program, steady rates, and the code at
/// [`USER_CODE`](super::USER_CODE).
pub fn parse(text: &str) -> Result<Workload, WorkloadError> {
    parse_with(text, &|_| None)
}

/// The same, where `known` says what other keys stand for.
pub fn parse_with(
    text: &str,
    known: &dyn Fn(&str) -> Option<Known>,
) -> Result<Workload, WorkloadError> {
    if text.trim().is_empty() {
        return Err(WorkloadError::Empty);
    }
    let mut parts = Parts::default();
    let mut keys = BTreeSet::new();
    let mut has_amount = false;
    for item in text.split(',').map(str::trim) {
        let (key, value) =
            item.split_once('=').ok_or_else(|| WorkloadError::NotKeyValue(item.to_owned()))?;
        let amount = set(&mut parts, key, value, known)?;
        has_amount |= amount;
        if !keys.insert(key) {
            return Err(WorkloadError::DuplicateKey(key.to_owned()));
        }
    }
    if !has_amount {
        return Err(WorkloadError::NoAmount);
    }
    Ok(Workload::new(parts))
}

/// What a key that is not a workload's own stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// Another name for a kind of event.
    Kind(Event),
    /// An event that counters count with these codes; [`Code::event`] is filled in here.
    Codes(Vec<Code>),
}

/// Returns whether it is an amount.
fn set(
    parts: &mut Parts,
    key: &str,
    value: &str,
    known: &dyn Fn(&str) -> Option<Known>,
) -> Result<bool, WorkloadError> {
    let bad = |expected| WorkloadError::BadValue {
        key: key.to_owned(),
        value: value.to_owned(),
        expected,
    };
    match key {
        "user" => parts.user = number(value, 100).ok_or(bad("a percentage from 0 to 100"))?,
        "processors" => {
            parts.processors = processors(value)
                .ok_or(bad("a list such as `0-3+8` of processors below 2048, or `all`"))?;
        }
        "programs" => {
            parts.programs = programs(value).ok_or(bad(
                "a list of percentages such as `70+30`, eight at most, that add up to 100",
            ))?;
        }
        "short" => {
            let stretch = short(value);
            parts.short = Some(stretch.ok_or(bad("START+LENGTH in nanoseconds, each above 0"))?);
        }
        "code" => {
            parts.code = code(value)
                .ok_or(bad("a range START-END of hexadecimal addresses, END above START"))?;
        }
        "seed" => parts.seed = Some(number(value, u64::MAX).ok_or(bad("a number below 2^64"))?),
        "skid" => parts.skid = number(value, MAX_AMOUNT).ok_or(bad("a number up to 2^62"))?,
        "drift" => {
            let percentages = drift(value);
            parts.drift = percentages
                .ok_or(bad("a list of percentages such as `100+103+101`, each from 1 to 200"))?;
        }
        _ => {
            let kind = Event::ALL.into_iter().find(|event| event.name() == key);
            let unknown = || WorkloadError::UnknownKey(key.to_owned());
            let event = match kind {
                Some(event) => event,
                None => match known(key).ok_or_else(unknown)? {
                    Known::Kind(event) => event,
                    Known::Codes(codes) => named(parts, codes).ok_or(WorkloadError::TooMany)?,
                },
            };
            parts.amounts[event.index()] =
                number(value, MAX_AMOUNT).ok_or(bad("a number up to 2^62"))?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Adds another event; `None` if there are too many.
fn named(parts: &mut Parts, codes: Vec<Code>) -> Option<Event> {
    let last = parts.codes.last().map(|code| code.event);
    let place = match last {
        Some(Event::Named(place)) => place + 1,
        _ => 0,
    };
    let event = Event::Named(place);
    let codes = codes.into_iter().map(|code| Code { event, ..code });
    parts.codes.extend(codes);
    (usize::from(place) < NAMED_MAX).then_some(event)
}

/// Decimal digits only, up to `max`: `parse` alone would accept a sign.
fn number(text: &str, max: u64) -> Option<u64> {
    let digits = text.bytes().all(|digit| digit.is_ascii_digit());
    let value = text.parse().ok().filter(|_| digits)?;
    (value <= max).then_some(value)
}

/// `Some(None)` for `all`.
#[expect(clippy::option_option, reason = "wrong, all and some are three things")]
fn processors(text: &str) -> Option<Option<BTreeSet<u32>>> {
    if text == "all" {
        return Some(None);
    }
    let highest = MAX_PROCESSORS as u64 - 1;
    let mut processors = BTreeSet::new();
    for range in text.split('+') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (number(first, highest)?, number(last, highest)?);
        if first > last {
            return None;
        }
        processors.extend((first..=last).map(|processor| processor as u32));
    }
    Some(Some(processors))
}

fn programs(text: &str) -> Option<Vec<u64>> {
    let parts = text.split('+').map(|part| number(part, 100));
    let parts: Vec<u64> = parts.collect::<Option<_>>()?;
    let whole = parts.iter().sum::<u64>() == 100 && !parts.contains(&0);
    (whole && parts.len() <= PROGRAMS_MAX).then_some(parts)
}

fn drift(text: &str) -> Option<Vec<u64>> {
    text.split('+').map(|part| number(part, 200).filter(|&percent| percent != 0)).collect()
}

fn short(text: &str) -> Option<(u64, u64)> {
    let (start, length) = text.split_once('+')?;
    let (start, length) = (number(start, MAX_AMOUNT)?, number(length, MAX_AMOUNT)?);
    // Each is at most 2^62, so the sum does not wrap.
    (start > 0 && length > 0).then_some((start, start + length))
}

fn code(text: &str) -> Option<(u64, u64)> {
    let (start, end) = text.split_once('-')?;
    let (start, end) = (address(start)?, address(end)?);
    (start < end).then_some((start, end))
}

fn address(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let digits = digits.unwrap_or(text);
    let hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u64::from_str_radix(digits, 16).ok().filter(|_| hexadecimal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::workload::ROUND;

    #[test]
    fn the_default_runs_on_every_processor() {
        assert_eq!(Workload::default().highest_processor(), None);
        assert!(Workload::default().runs_on(2047));
    }

    #[test]
    fn every_event_by_its_name() {
        for event in Event::ALL {
            let text = format!("{}=4611686018427387904", event.name());
            let workload = parse(&text).expect("2^62 is the largest amount");
            for other in Event::ALL {
                let expected = if other == event { MAX_AMOUNT } else { 0 };
                assert_eq!(workload.amount(other), expected, "{text}");
            }
        }
    }

    #[test]
    fn processors_and_ranges() {
        for (value, indices) in
            [("0", vec![0]), ("0-3", vec![0, 1, 2, 3]), ("0-1+8+2047", vec![0, 1, 8, 2047])]
        {
            let workload = parse(&format!("cycles=1,processors={value}")).expect("a workload");
            let runs: Vec<u32> = (0..2048).filter(|&index| workload.runs_on(index)).collect();
            assert_eq!(runs, indices);
            assert_eq!(workload.highest_processor(), indices.last().copied());
        }
        assert_eq!(parse("cycles=1").map(|workload| workload.highest_processor()), Ok(Some(0)));
    }

    #[test]
    fn cycles_drift_from_run_to_run() {
        let workload = parse("cycles=1000,instructions=500,drift=100+103+97").expect("a workload");
        for (run, cycles) in [(0, 1000), (1, 1030), (2, 970), (3, 1000), (7, 1030)] {
            let own = workload.in_run(run).expect("it drifts");
            let amounts = (own.amount(Event::Cycles), own.amount(Event::Instructions));
            assert_eq!(amounts, (cycles, 500), "{run}");
        }
        assert_eq!(parse("cycles=1000").expect("a workload").in_run(1), None);
        for wrong in ["", "0", "201", "100+", "-3"] {
            assert!(parse(&format!("cycles=1000,drift={wrong}")).is_err(), "{wrong}");
        }
    }

    /// Every turn of a round is complete, and takes as many positions as its percentage says.
    #[test]
    fn programs_take_turns() {
        let workload = parse("cycles=1000000,programs=70+20+10").expect("a workload");
        assert_eq!((workload.programs(), Workload::default().programs()), (3, 1));
        let mut positions = [0u64; 3];
        for position in 1..=ROUND * 2 {
            positions[workload.program_at(position)] += 1;
        }
        assert_eq!(positions, [14_008, 4_004, 2_002]);
        assert_eq!(workload.program_at(1), workload.program_at(ROUND + 1));
    }

    #[test]
    fn what_is_no_workload_is_refused() {
        for text in ["", "  "] {
            assert_eq!(parse(text), Err(WorkloadError::Empty));
        }
        assert_eq!(parse("user=80"), Err(WorkloadError::NoAmount));
        for text in ["cycles", "cycles=1,", "cycles=1,,user=1", "cycles=1,processors=0-3,8"] {
            assert!(matches!(parse(text), Err(WorkloadError::NotKeyValue(_))), "{text}");
        }
        for text in ["cycle=1", "Cycles=1", "=1"] {
            assert!(matches!(parse(text), Err(WorkloadError::UnknownKey(_))), "{text}");
        }
        for text in ["cycles=1,cycles=1", "user=1,cycles=1,user=2"] {
            assert!(matches!(parse(text), Err(WorkloadError::DuplicateKey(_))), "{text}");
        }
    }

    #[test]
    fn values_outside_of_their_range_are_refused() {
        for text in [
            "cycles=",
            "cycles=-1",
            "cycles=+1",
            "cycles=1e6",
            "cycles=0x10",
            "cycles=4611686018427387905",
            "cycles=99999999999999999999999",
            "user=101",
            "processors=",
            "processors=3-0",
            "processors=2048",
            "processors=0-4294967295",
            "processors=0+",
            "programs=",
            "programs=70",
            "programs=70+31",
            "programs=100+0",
            "programs=60+5+5+5+5+5+5+5+5",
            "code=0x2000-0x1000",
            "code=0x1000-0x1000",
            "code=0x1000",
            "code=1000-+2000",
            "code=0x1000-0x10000000000000000",
            "seed=18446744073709551616",
            "skid=-1",
        ] {
            let refused = parse(&format!("instructions=1,{text}"));
            assert!(matches!(refused, Err(WorkloadError::BadValue { .. })), "{text}");
        }
    }
}
