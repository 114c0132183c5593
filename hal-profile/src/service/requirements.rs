//! What a source needs on one CPU type: the event, and the counters that can count it there.

use super::io_buffer::{Refused, refused};
use crate::cpu::capabilities::Capabilities;
use crate::historic::catalog as historic;
use crate::plan::program::{Settings, Source};
use crate::plan::slice::Requirements;
use crate::source::catalog;
use crate::source::encode::encode;
use crate::source::filter::Filter;
use crate::source::raw;
use crate::source::{ANY, CounterSet, Fit, NO_COUNTER, RawEvent, Select};
use shared_types::request::session::UsedInterval;
use shared_types::{Delivery, ErrorCode, ProfileInterface, ProfileSource};
use zerocopy::FromZeros as _;

/// The fixed counter that counts reference cycles at the rate of the time-stamp counter (SDM,
/// "Fixed-function Performance Counters").
pub(super) const REFERENCE_CYCLES: u8 = 2;

/// Event selects that count the same as a fixed counter: instructions retired and core cycles.
/// Reference cycles have none, because event 3C/01 counts a different clock on some processors.
const GENERAL_TWINS: [u64; 2] = [0x00C0, 0x003C];

/// The constraints under which one CPU type is programmed.
pub(super) struct Constraints<'a> {
    pub(super) capabilities: &'a Capabilities,
    /// Fixed counters that another owner has enabled, or that still serve one who is gone.
    pub(super) fixed_in_use: u32,
    /// The general counters that the session may take, but for those that are `left`.
    pub(super) general: CounterSet,
    /// The fixed counters that it may take, but for those that are `left`.
    pub(super) fixed: CounterSet,
    /// Counters that still serve an owner who is gone, in the layout of the global registers.
    pub(super) left: u64,
    pub(super) approximate: bool,
    /// The error for a source without a row; the boot processor's tables define which sources
    /// exist.
    pub(super) unknown: ErrorCode,
}

impl Constraints<'_> {
    fn general(&self) -> CounterSet {
        self.general & !(self.left as CounterSet)
    }

    fn fixed(&self) -> CounterSet {
        self.fixed & !((self.left >> 32) as CounterSet)
    }

    /// The same, had no owner left a counter behind.
    pub(super) fn with_nothing_left(&self) -> Self {
        Self { left: 0, ..*self }
    }
}

/// What a processor counts for a source, and on which counters.
struct Event {
    select: Select,
    general: CounterSet,
    fixed: CounterSet,
}

/// What a source needs on this CPU type; no counter for one that a timer counts. The error says why
/// it is not counted here.
pub(super) fn requirements(
    constraints: &Constraints<'_>,
    source: &Source,
    settings: &Settings,
) -> Result<Requirements, ErrorCode> {
    let needed = requirements_within(constraints, source, settings);
    if needed.is_ok() || constraints.left == 0 {
        return needed;
    }
    // What is left is the cause only if the source could be counted without it.
    match requirements_within(&constraints.with_nothing_left(), source, settings) {
        Ok(_) => Err(ErrorCode::CountersLeft),
        Err(error) => Err(error),
    }
}

fn requirements_within(
    constraints: &Constraints<'_>,
    source: &Source,
    settings: &Settings,
) -> Result<Requirements, ErrorCode> {
    let capabilities = constraints.capabilities;
    let event = event(constraints, source)?;
    if source.timer {
        return Ok(Requirements::new_zeroed());
    }
    if settings.samples && capabilities.delivery == Delivery::None {
        return Err(ErrorCode::SamplingUnavailable);
    }
    let event = without_fixed(constraints, event);
    let mut general = general(constraints, &event.select, event.general);
    let pair = catalog::takes_pair(capabilities, &event.select);
    if pair {
        general = first_of_pairs(general, constraints.general());
        if settings.by_thread {
            // Windows documents nothing of counters that extend others in thread profiling.
            return Err(ErrorCode::NotByThread);
        }
        if general == NO_COUNTER {
            return Err(ErrorCode::NeedsPair);
        }
    }
    let fixed = event.fixed & constraints.fixed();
    if general == NO_COUNTER && fixed == NO_COUNTER {
        return Err(without_counter(matches!(event.select, Select::Fixed(_)), settings));
    }
    Ok(Requirements {
        counters: u64::from(general) | u64::from(fixed) << 32,
        encoding: encode(capabilities, &event.select, source.filter, settings.samples),
        filter: source.filter,
        group: source.group,
        alone: source.alone,
        pair,
    })
}

/// The counters of even number in a set whose successors are among `all`.
fn first_of_pairs(counters: CounterSet, all: CounterSet) -> CounterSet {
    const EVEN: CounterSet = 0x5555_5555;
    counters & all >> 1 & EVEN
}

fn event(constraints: &Constraints<'_>, source: &Source) -> Result<Event, ErrorCode> {
    let capabilities = constraints.capabilities;
    let id = ProfileSource(source.id);
    if id == ProfileSource::RAW {
        if source.counters != ANY && source.counters & !capabilities.counters != 0 {
            return Err(ErrorCode::SourceNotSupported);
        }
        let event = raw_event(capabilities, source).map_err(|_| ErrorCode::SourceNotSupported)?;
        let general = event.counters & source.counters;
        return Ok(Event { select: event.select, general, fixed: NO_COUNTER });
    }
    let row = catalog::find(capabilities, id).ok_or(constraints.unknown)?;
    catalog::support(capabilities, row, constraints.approximate)
        .map_err(|refusal| refusal.error)?;
    if row.fit == Fit::Timer && !source.timer {
        let by_reference = source.interval.flags & UsedInterval::BY_REFERENCE_CYCLES != 0;
        let in_use = if by_reference { constraints.fixed_in_use } else { u32::MAX };
        let (select, general, _) = sampled_time(capabilities, in_use)?;
        return Ok(Event { select, general, fixed: NO_COUNTER });
    }
    Ok(Event {
        select: row.select,
        general: catalog::counters(capabilities, row),
        fixed: row.fixed,
    })
}

/// An event of a fixed counter is counted there or, if that belongs to another owner or is not
/// reserved, on a general counter that counts the same.
fn without_fixed(constraints: &Constraints<'_>, event: Event) -> Event {
    let Select::Fixed(index) = event.select else {
        return event;
    };
    let there = constraints.fixed() >> (index % 32) & 1 != 0;
    match GENERAL_TWINS.get(usize::from(index)) {
        Some(&twin) if !there => {
            Event { select: Select::EventSelect(twin), general: ANY, fixed: NO_COUNTER }
        }
        _ => Event { fixed: 1 << (index % 32), ..event },
    }
}

/// The general counters of a set that the session may take for a select.
pub(super) fn general(
    constraints: &Constraints<'_>,
    select: &Select,
    counters: CounterSet,
) -> CounterSet {
    match select {
        Select::None | Select::Fixed(_) => NO_COUNTER,
        Select::EventSelect(_) => counters & constraints.general(),
        Select::Historic(select) => historic::candidates(select, counters & constraints.general()),
    }
}

/// The event of a raw select, whose own filter must be the source's or none. The refusal names the
/// bits that are not allowed, or the select whose filter differs; without counters there is no
/// layout.
pub(super) fn raw_event(capabilities: &Capabilities, source: &Source) -> Result<RawEvent, Refused> {
    let refuse = |error, detail| refused(error, source.id, detail);
    let family =
        catalog::raw_family(capabilities).ok_or(refuse(ErrorCode::SourceNotSupported, 0))?;
    let event =
        raw::parse(family, source.raw).map_err(|bits| refuse(ErrorCode::RawRefused, bits))?;
    let own = Filter { user: event.user, kernel: event.kernel };
    if (own.user || own.kernel) && own != source.filter {
        return Err(refuse(ErrorCode::BadFilter, source.raw));
    }
    Ok(event)
}

/// What ProfileTime counts when it is sampled on one CPU type. A timer's callback has no address, so
/// sampling by time counts cycles: reference cycles at the time-stamp counter's rate or, if those are
/// not available, core cycles. The last value returned is the flag that says which.
pub(super) fn sampled_time(
    capabilities: &Capabilities,
    fixed_in_use: u32,
) -> Result<(Select, CounterSet, u32), ErrorCode> {
    if capabilities.delivery == Delivery::None {
        return Err(ErrorCode::SamplingUnavailable);
    }
    let emon = capabilities.interface() == ProfileInterface::Emon;
    if emon && capabilities.fixed & !fixed_in_use & 1 << REFERENCE_CYCLES != 0 {
        let select = Select::Fixed(REFERENCE_CYCLES);
        return Ok((select, ANY, UsedInterval::BY_REFERENCE_CYCLES));
    }
    let by = UsedInterval::BY_CORE_CYCLES;
    let cycles = catalog::find(capabilities, ProfileSource::TOTAL_CYCLES)
        .filter(|row| catalog::support(capabilities, row, true).is_ok())
        .map(|row| (row.select, catalog::counters(capabilities, row), by));
    // In AMD's table only ProfileTime has cycles as its select.
    let own = catalog::find(capabilities, ProfileSource::TIME)
        .filter(|row| !matches!(row.select, Select::None))
        .map(|row| (row.select, catalog::constraint(capabilities, &row.select), by));
    cycles.or(own).ok_or(ErrorCode::NoReferenceCycles)
}

/// Why a source has no counter. `only_fixed`: no general counter counts it.
fn without_counter(only_fixed: bool, settings: &Settings) -> ErrorCode {
    if settings.by_thread {
        ErrorCode::NotByThread
    } else if !only_fixed {
        ErrorCode::SourceNotSupported
    } else {
        ErrorCode::FixedCounterTaken
    }
}
