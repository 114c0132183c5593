//! What a source counts on one kind of processor, and the counters that can count it there.

use super::exchange::{Refused, refused};
use crate::cpu::capabilities::Capabilities;
use crate::plan::assign::Wanted;
use crate::plan::program::{Settings, Source};
use crate::source::catalog;
use crate::source::encode::{self, Encoding, Filter, encode};
use crate::source::raw::{self, Family, RawEvent};
use crate::source::{ANY, CounterSet, Fit, NO_COUNTER, Select};
use shared_types::request::session::UsedInterval;
use shared_types::{Delivery, ErrorCode, ProfileInterface, ProfileSource};

/// The fixed counter that counts reference cycles at the rate of the time-stamp counter (SDM,
/// "Fixed-function Performance Counters").
pub(super) const REFERENCE_CYCLES: u8 = 2;

/// Event selects that count the same as a fixed counter: instructions retired and core cycles.
/// Reference cycles have none, because event 3C/01 counts a different clock on some processors.
const GENERAL_TWINS: [u64; 2] = [0x00C0, 0x003C];

/// The terms on which one kind of processor is programmed.
pub(super) struct Terms<'a> {
    pub(super) found: &'a Capabilities,
    /// The layout of raw selects.
    pub(super) raw: Option<Family>,
    /// Fixed counters that another owner has enabled.
    pub(super) taken: u32,
    /// The general counters that the session may take.
    pub(super) general: CounterSet,
    /// The fixed counters that it may take.
    pub(super) fixed: CounterSet,
    pub(super) approximate: bool,
    /// The error for a source without a row; the boot processor's tables define which sources
    /// exist.
    pub(super) unknown: ErrorCode,
}

/// Writes the requirements of a source on this kind of processor; the error says why it is not
/// counted here.
#[inline(never)]
pub(super) fn want(
    terms: &Terms<'_>,
    source: &Source,
    settings: &Settings,
    wanted: &mut Wanted,
) -> Result<(), ErrorCode> {
    let found = terms.found;
    let counted = counted(terms, source)?;
    if matches!(counted, Counted::Timer) {
        return Ok(());
    }
    if settings.samples && found.delivery == Delivery::None {
        return Err(ErrorCode::SamplingUnavailable);
    }
    wanted.filter = source.filter;
    wanted.alone = source.alone;
    let only_fixed = match counted {
        Counted::Timer => false,
        Counted::Event(event, general, fixed) => {
            let select = encode::event_select(event, source.filter, settings.samples);
            wanted.encodings = [Encoding::plain(select), Encoding::default()];
            let general = u64::from(general & terms.general);
            wanted.candidates = [general | u64::from(fixed & terms.fixed) << 32, 0];
            false
        }
        Counted::Other(select, general) => {
            wanted.encodings = [Encoding::default(); 2];
            wanted.candidates = candidates(terms, &select, general);
            for (side, encoding) in (0..).zip(&mut wanted.encodings) {
                // A logical processor of two has one side only.
                if wanted.candidates.get(usize::from(side)) != Some(&0) {
                    *encoding = encode(found, &select, side, source.filter, settings.samples);
                }
            }
            matches!(select, Select::Fixed(_))
        }
    };
    if wanted.candidates == [0, 0] {
        return Err(without_counter(only_fixed, settings));
    }
    Ok(())
}

/// What a source counts on one kind of processor.
enum Counted {
    /// A timer's ticks.
    Timer,
    /// An event select, which these general counters and these fixed ones can count.
    Event(u64, CounterSet, CounterSet),
    /// Something else, on these general counters.
    Other(Select, CounterSet),
}

/// What a source counts on this kind of processor; the error says why it is not counted.
#[inline]
fn counted(terms: &Terms<'_>, source: &Source) -> Result<Counted, ErrorCode> {
    let found = terms.found;
    let id = ProfileSource(source.id);
    if id == ProfileSource::RAW {
        return counted_raw(terms, source).ok_or(ErrorCode::SourceNotSupported);
    }
    let row = catalog::find(found, id).ok_or(terms.unknown)?;
    catalog::support(found, row, terms.approximate).map_err(|refusal| refusal.error)?;
    if row.fit == Fit::Timer {
        if source.timer {
            return Ok(Counted::Timer);
        }
        let (select, general, _) = sampled_time(found, terms.taken)?;
        return Ok(counted_select(terms, select, general));
    }
    let general = catalog::counters(found, row);
    Ok(match row.event_select() {
        Some(event) => Counted::Event(event, general, row.fixed),
        None => counted_select(terms, row.select(), general),
    })
}

/// What is wanted for a select. If a fixed counter belongs to another owner or is not reserved, a
/// general counter counts the same where it can.
fn counted_select(terms: &Terms<'_>, select: Select, general: CounterSet) -> Counted {
    match select {
        Select::EventSelect(event) => Counted::Event(event, general, NO_COUNTER),
        Select::Fixed(index) => match GENERAL_TWINS.get(usize::from(index)) {
            Some(&twin) if terms.fixed >> index & 1 == 0 => Counted::Event(twin, ANY, NO_COUNTER),
            Some(&twin) => Counted::Event(twin, NO_COUNTER, 1 << index),
            None => Counted::Other(select, general),
        },
        _ => Counted::Other(select, general),
    }
}

/// The same for a raw source; `None` if this kind of processor does not count it.
#[inline]
fn counted_raw(terms: &Terms<'_>, source: &Source) -> Option<Counted> {
    let family = terms.raw?;
    if source.counters != ANY && source.counters & !terms.found.counters != 0 {
        return None;
    }
    if let Some(general) = raw::event_counters(family, source.raw).ok()? {
        return agrees(raw::event_filter(source.raw), source.filter).then_some(Counted::Event(
            source.raw,
            general & source.counters,
            NO_COUNTER,
        ));
    }
    let event = raw_event(terms.raw, source).ok()?;
    Some(Counted::Other(event.select, event.counters & source.counters))
}

/// Why a raw select gives no event.
enum RawError {
    /// There are no counters, so there is no layout.
    NoFamily,
    /// These bits of it are not allowed.
    Bits(u64),
    /// Its own filter differs from the source's.
    Filter,
}

/// Refuses a raw select that is not valid on this kind of processor, with the reason.
pub(super) fn check_raw(found: &Capabilities, source: &Source) -> Result<(), Refused> {
    match raw_event(catalog::raw_family(found), source) {
        Ok(_) => Ok(()),
        Err(RawError::NoFamily) => Err(refused(ErrorCode::SourceNotSupported, source.id, 0)),
        Err(RawError::Bits(bits)) => Err(refused(ErrorCode::RawRefused, source.id, bits)),
        Err(RawError::Filter) => Err(refused(ErrorCode::BadFilter, source.id, source.raw)),
    }
}

fn raw_event(family: Option<Family>, source: &Source) -> Result<RawEvent, RawError> {
    let family = family.ok_or(RawError::NoFamily)?;
    let event = raw::parse(family, source.raw).map_err(RawError::Bits)?;
    if agrees((event.user, event.kernel), source.filter) {
        Ok(event)
    } else {
        Err(RawError::Filter)
    }
}

/// Whether a raw select's own filter, user mode and kernel mode, is the source's or none.
fn agrees((user, kernel): (bool, bool), filter: Filter) -> bool {
    !(user || kernel) || filter == Filter { user, kernel }
}

/// What ProfileTime counts when it is sampled. A timer's callback has no address, so sampling by
/// time counts cycles: reference cycles at the time-stamp counter's rate or, if those are not
/// available, core cycles. The last value returned is the flag that says which.
pub(super) fn sampled_time(
    found: &Capabilities,
    taken: u32,
) -> Result<(Select, CounterSet, u32), ErrorCode> {
    if found.delivery == Delivery::None {
        return Err(ErrorCode::SamplingUnavailable);
    }
    let emon = found.interface() == ProfileInterface::Emon;
    if emon && found.fixed & !taken & 1 << REFERENCE_CYCLES != 0 {
        let select = Select::Fixed(REFERENCE_CYCLES);
        return Ok((select, ANY, UsedInterval::BY_REFERENCE_CYCLES));
    }
    let by = UsedInterval::BY_CORE_CYCLES;
    let cycles = catalog::find(found, ProfileSource::TOTAL_CYCLES)
        .filter(|row| catalog::support(found, row, true).is_ok())
        .map(|row| (row.select(), catalog::counters(found, row), by));
    // In AMD's table only ProfileTime has cycles as its select.
    let own = catalog::find(found, ProfileSource::TIME)
        .filter(|row| !matches!(row.select(), Select::None))
        .map(|row| (row.select(), catalog::constraint(found, &row.select()), by));
    cycles.or(own).ok_or(ErrorCode::NoReferenceCycles)
}

/// The counters that can count a select on each side: of the general ones, those in `counters`.
pub(super) fn candidates(terms: &Terms<'_>, select: &Select, counters: CounterSet) -> [u64; 2] {
    let general = counters & terms.general;
    match select {
        Select::None => [0; 2],
        Select::EventSelect(_) | Select::Cesr { .. } => [general.into(), 0],
        Select::Fixed(index) => [u64::from(terms.fixed & 1 << (index % 32)) << 32, 0],
        Select::NetBurst(event) => {
            let side = |escr_msr: u16, counters: CounterSet| {
                if escr_msr == 0 { 0 } else { u64::from(general & counters) }
            };
            let ([even_escr, odd_escr], [even, odd]) = (event.escr_msr, event.counters);
            [side(even_escr, even), side(odd_escr, odd)]
        }
    }
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
