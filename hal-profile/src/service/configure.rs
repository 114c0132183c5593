//! Turns a configuration into programs: resolves each spec, settles each interval, and makes a
//! program for each kind of processor.

use super::branches;
use super::by_thread;
use super::events::RING_BYTES;
use super::exchange::{Exchange, Refused, refused};
use super::kinds::Kinds;
use super::{Host, Service};
use crate::assign::{Assignment, Wanted};
use crate::capabilities::Capabilities;
use crate::catalog;
use crate::counter::Counter;
use crate::encode::{self, Encoding, Filter, encode};
use crate::guard::{DEFAULT_BUDGET, Limits};
use crate::host::Processors;
use crate::pmu;
use crate::processor_set::ProcessorSet;
use crate::program::{KindProgram, MAX_KINDS, Program, Scratch, Settings, Source, ticks};
use crate::proof::PERIOD;
use crate::ring::words_for;
use crate::session::Rights;
use crate::slot::Slot;
use crate::source::MAX_SOURCES;
use crate::source::raw::{self, Family, RawEvent};
use crate::source::{ANY, CounterSet, Fit, NO_COUNTER, Row, Select, limits};
use core::mem::{offset_of, size_of};
use shared_types::request::session::{
    Configure, EVENTS, NO_ADDRESS, SAMPLE, Spec, THREADS, UsedInterval,
};
use shared_types::{Delivery, ErrorCode, ProfileInterface, ProfileSource};

/// The fixed counter that counts reference cycles at the rate of the time-stamp counter (SDM,
/// "Fixed-function Performance Counters").
const REFERENCE_CYCLES: u8 = 2;
/// The default length of a rotation, in units of 100 ns: 4 ms.
const DEFAULT_ROTATION: u32 = 40_000;
/// The shortest and the longest rotation, in units of 100 ns: 1 ms and 1 s.
const ROTATION_LIMITS: (u32, u32) = (10_000, 10_000_000);
/// The default capacity of a ring, in samples: 2 seconds at 10,000 per second.
const DEFAULT_RING: u32 = 20_000;
/// The same for samples with branches: 2 seconds at 2,000 per second.
const DEFAULT_BRANCH_RING: u32 = 4_000;
/// The largest ring of one processor, in samples.
const LARGEST_RING: u32 = 1 << 22;

impl<H: Host> Service<H> {
    /// Makes a program in the scratch memory from a request and the specs that follow it.
    pub(super) fn prepare(
        &mut self,
        exchange: &Exchange<'_>,
        request: &Configure,
        rights: Rights,
    ) -> Result<(), Refused> {
        if self.sessions.is_empty() {
            return Err(refused(ErrorCode::NoMemory, 0, 0));
        }
        check_size(exchange, request)?;
        by_thread::check_request(request)?;
        branches::check_request(request, rights)?;
        let processors = ProcessorSet::from_bits(request.processors);
        let count = self.kinds.processors();
        if let Some(index) = processors.first_beyond(count) {
            return Err(refused(
                ErrorCode::ProcessorUnknown,
                index as u32,
                count as u64,
            ));
        }
        self.survey();
        let frequency = self.processors.timestamp_frequency();
        let clock = Clock {
            frequency,
            resolution: self.processors.timer_resolution(),
        };
        let rotation = rotation(request.rotation);
        let events = request.header.flags & EVENTS != 0;
        let of_events = if events { RING_BYTES } else { 0 };
        let rings_max = self.about.ring_bytes_max.saturating_sub(of_events);
        let settings = Settings {
            count: 0,
            kinds: self.kinds.known(),
            samples: request.header.flags & SAMPLE != 0,
            timers: false,
            no_address: request.header.flags & NO_ADDRESS != 0,
            by_thread: request.header.flags & THREADS != 0,
            events,
            kernel: rights.sees_kernel(),
            branches: request.branches as u8,
            usual: request.header.flags & NO_ADDRESS == 0 && request.branches == 0,
            processors,
            rotation,
            rotation_ticks: ticks(rotation.into(), frequency),
            seed: request.rotation_seed,
            frequency,
            interrupt_time: Limits::new(frequency, DEFAULT_BUDGET),
            ring_samples: ring_samples(request, &processors, count, rings_max),
        };
        let scratch = &mut *self.scratch;
        scratch.program.settings = settings;
        scratch.seen.clear();
        let kernel = may_count_kernel(&settings, rights);
        let specs = exchange.elements::<Spec>(size_of::<Configure>());
        for (index, spec) in specs.enumerate() {
            let Some(source) = scratch.program.sources.get_mut(index) else {
                break;
            };
            resolve(&self.kinds, &spec, &settings, clock, source)?;
            if let (true, Err(error)) = (source.filter.kernel, kernel) {
                return Err(refused(error, source.id, 0));
            }
            add_source(scratch, index)?;
        }
        make_programs(&self.kinds, scratch, rights.approximate)?;
        branches::make_recordings(&self.kinds, &mut scratch.program, request.branch_filter)
    }
}

/// The clocks on which intervals are based.
#[derive(Clone, Copy)]
struct Clock {
    frequency: u64,
    /// The timer's finest step, in units of 100 ns.
    resolution: u32,
}

fn check_size(exchange: &Exchange<'_>, request: &Configure) -> Result<(), Refused> {
    let sources = request.sources as usize;
    if sources == 0 {
        return Err(refused(ErrorCode::NoSources, 0, 0));
    }
    if sources > MAX_SOURCES {
        return Err(refused(
            ErrorCode::TooManySources,
            request.sources,
            MAX_SOURCES as u64,
        ));
    }
    let right = size_of::<Configure>() + sources * size_of::<Spec>();
    if exchange.input() != right {
        return Err(refused(
            ErrorCode::WrongSize,
            exchange.input() as u32,
            right as u64,
        ));
    }
    Ok(())
}

/// How long each rotation runs, in units of 100 ns.
fn rotation(requested: u32) -> u32 {
    match requested {
        0 => DEFAULT_ROTATION,
        other => other.clamp(ROTATION_LIMITS.0, ROTATION_LIMITS.1),
    }
}

/// The capacity of each ring, in samples, such that all rings together stay within the cap.
fn ring_samples(request: &Configure, wanted: &ProcessorSet, processors: usize, cap: u64) -> u32 {
    let rings = (0..processors)
        .filter(|&index| wanted.contains(index))
        .count()
        .max(1) as u64;
    let mut samples = match request.ring_samples {
        0 if request.branches == 0 => DEFAULT_RING,
        0 => DEFAULT_BRANCH_RING,
        other => other.min(LARGEST_RING),
    };
    samples = samples.next_power_of_two();
    while samples > 1 && words_for(samples, request.branches as u8) as u64 * 8 * rings > cap {
        samples /= 2;
    }
    samples
}

/// Resolves a spec into a source, using the boot processor's tables.
fn resolve(
    kinds: &Kinds,
    spec: &Spec,
    settings: &Settings,
    clock: Clock,
    source: &mut Source,
) -> Result<(), Refused> {
    let id = spec.source;
    source.id = id;
    source.raw = spec.raw;
    source.group = spec.group;
    source.filter = Filter::from_wire(spec.filter).ok_or(refused(ErrorCode::BadFilter, id, 0))?;
    source.kinds = match spec.kinds {
        0 => u16::MAX,
        some => some,
    };
    source.counters = spec.counters;
    source.timer = false;
    if ProfileSource(id) == ProfileSource::RAW {
        if spec.counters == 0 {
            return Err(bad_value(offset_of!(Spec, counters), 0));
        }
    } else {
        if spec.raw != 0 {
            return Err(bad_value(offset_of!(Spec, raw), spec.raw));
        }
        if spec.counters != 0 {
            return Err(bad_value(offset_of!(Spec, counters), spec.counters.into()));
        }
        source.counters = ANY;
        // `want` finds out whether the machine has the source.
        source.timer = ProfileSource(id) == ProfileSource::TIME && !settings.samples;
    }
    source.interval = used_interval(ProfileSource(id), spec.interval, source.timer, clock);
    if ProfileSource(id) == ProfileSource::TIME && !source.timer {
        let boot = kinds.boot();
        let boot = boot.ok_or(refused(ErrorCode::SourceUnknown, id, 0))?;
        let (_, _, flag) = sampled_time(boot, kinds.taken(kinds.kind_of(0)))
            .map_err(|error| refused(error, id, 0))?;
        source.interval.flags |= flag;
    }
    if spec.flags & !Spec::ALONE != 0 {
        return Err(bad_value(offset_of!(Spec, flags), spec.flags.into()));
    }
    source.alone = spec.flags & Spec::ALONE != 0;
    Ok(())
}

/// The refusal of an invalid field of a spec, named by its offset.
fn bad_value(offset: usize, value: u64) -> Refused {
    refused(ErrorCode::BadValue, offset as u32, value)
}

/// Refuses a raw select that is not valid on this kind of processor, with the reason.
fn check_raw(found: &Capabilities, source: &Source) -> Result<(), Refused> {
    match raw_event(catalog::raw_family(found), source) {
        Ok(_) => Ok(()),
        Err(RawError::NoFamily) => Err(refused(ErrorCode::SourceNotSupported, source.id, 0)),
        Err(RawError::Bits(bits)) => Err(refused(ErrorCode::RawRefused, source.id, bits)),
        Err(RawError::Filter) => Err(refused(ErrorCode::BadFilter, source.id, source.raw)),
    }
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

/// Whether the client may count kernel mode: this needs a session that was opened for it, and
/// kernel addresses also need a privilege.
fn may_count_kernel(settings: &Settings, rights: Rights) -> Result<(), ErrorCode> {
    let shows_addresses = settings.samples && !settings.no_address;
    if !rights.kernel {
        Err(ErrorCode::KernelNotGranted)
    } else if shows_addresses && !rights.kernel_addresses {
        Err(ErrorCode::KernelAddressesNotGranted)
    } else {
        Ok(())
    }
}

/// Adds a source that has been resolved to the session, if the session does not have it yet.
fn add_source(scratch: &mut Scratch, index: usize) -> Result<(), Refused> {
    let Scratch { program, seen, .. } = scratch;
    let Some(source) = program.sources.get(index) else {
        return Ok(());
    };
    let key = u64::from(source.id) << 2
        ^ source.raw << 34
        ^ u64::from(source.filter.user)
        ^ u64::from(source.filter.kernel) << 1;
    let earlier = seen.put(key ^ source.raw, index, |other| {
        program.sources.get(other).is_some_and(|other| {
            other.id == source.id
                && other.filter == source.filter
                && other.raw == source.raw
                && other.kinds & source.kinds != 0
        })
    });
    if earlier.is_some() {
        return Err(refused(ErrorCode::SourceDuplicate, source.id, 0));
    }
    program.settings.count = index + 1;
    program.settings.timers |= source.timer;
    Ok(())
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

/// The interval used for a requested one: within the source's limits and, for ProfileTime, in whole
/// steps of the timer.
fn used_interval(id: ProfileSource, requested: u64, timer: bool, clock: Clock) -> UsedInterval {
    let limits = limits(id);
    let mut used = UsedInterval {
        source: id.0,
        flags: 0,
        requested,
        used: limits.default.into(),
        events: limits.default.into(),
    };
    if requested != 0 {
        used.used = requested.clamp(limits.min.into(), limits.max.into());
        used.events = used.used;
        if used.used != requested {
            used.flags = UsedInterval::CLAMPED;
        }
    }
    if id == ProfileSource::TIME {
        if timer {
            let step = u64::from(clock.resolution.max(1));
            used.used = used.used.div_ceil(step) * step;
            used.events = used.used;
        } else {
            used.events = ticks(used.used, clock.frequency);
        }
    }
    used
}

/// The events between two samples; 32 bits have room for every source's largest interval.
fn period(interval: &UsedInterval) -> u32 {
    interval.events.try_into().unwrap_or(u32::MAX)
}

impl Program {
    /// Sets the interval of a source; `None` if the session does not have the source.
    pub(super) fn set_interval(
        &mut self,
        id: u32,
        wanted: u64,
        resolution: u32,
    ) -> Option<UsedInterval> {
        let clock = Clock {
            frequency: self.settings.frequency,
            resolution,
        };
        let by = UsedInterval::BY_REFERENCE_CYCLES | UsedInterval::BY_CORE_CYCLES;
        let mut set = None;
        let sources = self
            .sources
            .iter_mut()
            .enumerate()
            .take(self.settings.count);
        for (index, source) in sources.filter(|(_, source)| source.id == id) {
            let flags = source.interval.flags & by;
            source.interval = used_interval(ProfileSource(id), wanted, source.timer, clock);
            source.interval.flags |= flags;
            set = Some(source.interval);
            let slots = self
                .kinds
                .iter_mut()
                .filter_map(|kind| kind.slots.get_mut(index));
            for slot in slots.filter(|slot| slot.interrupts) {
                slot.period = period(&source.interval);
            }
        }
        set
    }
}

/// Makes a program for every kind of processor. A source must be counted on at least one kind that
/// the session uses, and a group must fit on all of them.
fn make_programs(kinds: &Kinds, scratch: &mut Scratch, approximate: bool) -> Result<(), Refused> {
    let mut unfit = None;
    scratch.assignment.clear();
    let processors = scratch.program.settings.processors;
    for kind in 0..MAX_KINDS {
        let Some(found) = kinds.get(kind) else {
            continue;
        };
        let (general, fixed) = allowed(kinds, kind, &scratch.program.settings);
        let terms = Terms {
            found,
            raw: catalog::raw_family(found),
            taken: kinds.taken(kind),
            general,
            fixed,
            approximate,
            unknown: if kind == kinds.kind_of(0) {
                ErrorCode::SourceUnknown
            } else {
                ErrorCode::SourceNotSupported
            },
        };
        let made = make_program(&terms, scratch, kind);
        if let (Err(index), true) = (made, kinds.uses(&processors, kind)) {
            unfit = unfit.or(Some((index, kind)));
        }
    }
    let program = &scratch.program;
    let used = (0..MAX_KINDS)
        .filter(|&kind| kinds.get(kind).is_some() && kinds.uses(&processors, kind))
        .fold(0, |used, kind| used | 1 << kind);
    let boot = kinds.kind_of(0);
    let slots = program.kinds.get(boot).filter(|_| used >> boot & 1 != 0);
    let slots = slots.map_or(&[] as &[Slot], |kind| &kind.slots);
    for (index, source) in program.sources().iter().enumerate() {
        // The common case: the session uses the boot processor's kind, which counts the source.
        if slots.get(index).is_none_or(|slot| slot.error != 0) {
            counted_somewhere(kinds, program, used, index, source)?;
        }
    }
    let Some((index, kind)) = unfit else {
        return Ok(());
    };
    let id = program.sources().get(index).map_or(0, |source| source.id);
    let processor = kinds.first_of(kind) as u64;
    Err(refused(ErrorCode::DoesNotFit, id, processor))
}

/// Refuses a source that the machine does not have, a raw select that the first kind named by its
/// spec refuses, and a source that no processor of the session counts, with the reason of the first
/// kind used. `used`: the kinds of the session's processors, as a mask.
fn counted_somewhere(
    kinds: &Kinds,
    program: &Program,
    used: u16,
    index: usize,
    source: &Source,
) -> Result<(), Refused> {
    let error = |kind: usize| {
        let slot = program.kinds.get(kind)?.slot(index)?;
        ErrorCode::from_wire(slot.error.into())
    };
    if error(kinds.kind_of(0)) == Some(ErrorCode::SourceUnknown) {
        return Err(refused(ErrorCode::SourceUnknown, source.id, 0));
    }
    if ProfileSource(source.id) == ProfileSource::RAW
        && let Some((kind, found)) = kinds.iter().find(|(kind, _)| source.kinds >> kind & 1 != 0)
        && error(kind).is_some()
    {
        check_raw(found, source)?;
    }
    let mut used = (0..MAX_KINDS).filter(|kind| used >> kind & 1 != 0);
    let Some(first) = used.next() else {
        return Ok(());
    };
    let Some(refusal) = error(first) else {
        return Ok(());
    };
    if used.any(|kind| error(kind).is_none()) {
        return Ok(());
    }
    let detail = match refusal {
        ErrorCode::FixedCounterTaken => kinds.first_of(first) as u64,
        _ => index as u64,
    };
    Err(refused(refusal, source.id, detail))
}

/// The terms on which one kind of processor is programmed.
struct Terms<'a> {
    found: &'a Capabilities,
    /// The layout of raw selects.
    raw: Option<Family>,
    /// Fixed counters that another owner has enabled.
    taken: u32,
    /// The general counters that the session may take.
    general: CounterSet,
    /// The fixed counters that it may take.
    fixed: CounterSet,
    approximate: bool,
    /// The error for a source without a row; the boot processor's tables define which sources
    /// exist.
    unknown: ErrorCode,
}

fn make_program(terms: &Terms<'_>, scratch: &mut Scratch, kind: usize) -> Result<(), usize> {
    let Scratch {
        program,
        assignment,
        seen,
    } = scratch;
    let Program {
        settings,
        sources,
        kinds,
    } = program;
    let Some(made) = kinds.get_mut(kind) else {
        return Ok(());
    };
    assignment.next_kind();
    seen.clear();
    let mut refused_group = None;
    let sources = sources.get(..settings.count).unwrap_or_default();
    for (index, (source, slot)) in sources.iter().zip(&mut made.slots).enumerate() {
        if source.kinds >> kind & 1 == 0 {
            *slot = Slot::refused(ErrorCode::SourceNotSupported);
            continue;
        }
        let Some(wanted) = assignment.wanted(index) else {
            continue;
        };
        let counted = want(terms, source, settings, wanted);
        match counted {
            Ok(()) if source.timer => *slot = Slot::timer(),
            // `fill` makes the slot.
            Ok(()) => assignment.take(index),
            Err(error) => *slot = Slot::refused(error),
        }
        if source.group != 0 && !source.timer {
            let of_group = |other: usize| {
                sources
                    .get(other)
                    .is_some_and(|other| other.group == source.group)
            };
            let earlier = seen.put(source.group.into(), index, of_group);
            if let Some(earlier) = earlier {
                assignment.same_group(earlier, index);
            }
            // A group runs on this kind only if all of its members are counted here.
            let split = earlier
                .is_some_and(|earlier| assignment.assigned(earlier).is_some() != counted.is_ok());
            refused_group = refused_group.or(split.then_some(index));
        }
    }
    let solved = assignment.solve(settings.count);
    fill(terms.found, settings, sources, assignment, made);
    prove(terms, settings, made);
    refused_group.map_or(solved, Err)
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
    Some(Counted::Other(
        event.select,
        event.counters & source.counters,
    ))
}

/// Writes the requirements of a source on this kind of processor; the error says why it is not
/// counted here.
#[inline(never)]
fn want(
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

/// Why a source has no counter. `only_fixed`: no general counter counts it.
fn without_counter(only_fixed: bool, settings: &Settings) -> ErrorCode {
    if settings.by_thread {
        ErrorCode::NotByThread
    } else if !only_fixed {
        ErrorCode::SourceNotSupported
    } else if settings.no_address {
        ErrorCode::SamplingUnavailable
    } else {
        ErrorCode::FixedCounterTaken
    }
}

/// Event selects that count the same as a fixed counter: instructions retired and core cycles.
/// Reference cycles have none, because event 3C/01 counts a different clock on some processors.
const GENERAL_TWINS: [u64; 2] = [0x00C0, 0x003C];

/// The general and the fixed counters of a kind of processor that a session may take. The HAL's
/// callback serves only counters that are reserved one by one, and Windows documents no index for
/// fixed counters in thread profiling, so neither uses fixed counters.
fn allowed(kinds: &Kinds, kind: usize, settings: &Settings) -> (CounterSet, CounterSet) {
    let Some(found) = kinds.get(kind) else {
        return (NO_COUNTER, NO_COUNTER);
    };
    if settings.no_address {
        let reserved = 1u32.checked_shl(kinds.general());
        let reserved = reserved.map_or(u32::MAX, |limit| limit - 1);
        return (found.counters & reserved, NO_COUNTER);
    }
    if settings.by_thread {
        return (found.counters & kinds.common(), NO_COUNTER);
    }
    (found.counters, found.fixed & !kinds.taken(kind))
}

/// The counters that can count a select on each side: of the general ones, those in `counters`.
fn candidates(terms: &Terms<'_>, select: &Select, counters: CounterSet) -> [u64; 2] {
    let general = counters & terms.general;
    match select {
        Select::None => [0; 2],
        Select::EventSelect(_) | Select::Cesr { .. } => [general.into(), 0],
        Select::Fixed(index) => [u64::from(terms.fixed & 1 << (index % 32)) << 32, 0],
        Select::NetBurst(event) => {
            let side = |escr_msr: u16, counters: CounterSet| {
                if escr_msr == 0 {
                    0
                } else {
                    u64::from(general & counters)
                }
            };
            let ([even_escr, odd_escr], [even, odd]) = (event.escr_msr, event.counters);
            [side(even_escr, even), side(odd_escr, odd)]
        }
    }
}

/// Encodes the slot of every source that was assigned a counter.
fn fill(
    found: &Capabilities,
    settings: &Settings,
    sources: &[Source],
    assignment: &Assignment,
    made: &mut KindProgram,
) {
    made.first = *assignment.first();
    made.every = assignment.every();
    made.rotations = assignment.rotations();
    made.counters = 0;
    for (index, (slot, source)) in made.slots.iter_mut().zip(sources).enumerate() {
        let Some((wanted, assigned)) = assignment.assigned(index) else {
            continue;
        };
        let counter = assigned.counter;
        let [even, odd] = &wanted.encodings;
        let fixed;
        let encoding = if counter.is_fixed() {
            fixed = encode::fixed(wanted.filter, settings.samples);
            &fixed
        } else if assigned.side == 0 {
            even
        } else {
            odd
        };
        *slot = Slot {
            interrupts: settings.samples,
            period: if settings.samples {
                period(&source.interval)
            } else {
                0
            },
            source: index as u16,
            rotation: assigned.rotation,
            next: assigned.next,
            ..Slot::new(found, counter, encoding)
        };
        made.counters |= counter.global_bit();
    }
}

/// Makes what START has the session's counters do to prove that they count. General counters
/// count instructions or, if those are not available, core cycles; of the fixed counters, only 0 to
/// 2 take part, because they always have something to count.
fn prove(terms: &Terms<'_>, settings: &Settings, made: &mut KindProgram) {
    let found = terms.found;
    let interrupts = settings.samples;
    let row = [ProfileSource::TOTAL_ISSUES, ProfileSource::TOTAL_CYCLES]
        .into_iter()
        .filter_map(|id| catalog::find(found, id))
        .find(|row| {
            !matches!(row.select(), Select::None | Select::Fixed(_))
                && catalog::support(found, row, true).is_ok()
        });
    let select = row.map_or(Select::None, Row::select);
    let set = row.map_or(NO_COUNTER, |row| catalog::counters(found, row));
    let general = candidates(terms, &select, set);
    let encoding = |counter: Counter| {
        if counter.is_fixed() {
            let sure = counter.index() <= REFERENCE_CYCLES;
            return sure.then(|| encode::fixed(Filter::BOTH, interrupts));
        }
        // Two NetBurst counters of one side would share an ESCR, with the same value in it.
        let mut sides = general.iter();
        let side = sides.position(|side| side & counter.global_bit() != 0)?;
        Some(encode(found, &select, side as u8, Filter::BOTH, interrupts))
    };
    let slots = pmu::each(made.counters).filter_map(|counter| {
        let slot = Slot {
            interrupts,
            ..Slot::new(found, counter, &encoding(counter)?)
        };
        Some((slot, if interrupts { PERIOD } else { 0 }))
    });
    made.proof.set(slots);
}
