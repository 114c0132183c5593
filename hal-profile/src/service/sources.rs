//! Sources: enumerated, queried, planned, and resolved for a session.

use super::exchange::{Answer, Exchange, Refused, refused};
use super::{Kinds, Service};
use crate::capabilities::Capabilities;
use crate::catalog;
use crate::control::Filter;
use crate::machine::{ProcessorSet, Processors};
use crate::plan::{MAX_SOURCES, Plan, Seat};
use crate::session::{Client, Configuration, MAX_KINDS, Session, SessionSource, ticks};
use crate::source::{ANY, Fit, Row, Select, limits, raw};
use core::mem::size_of;
use core::ops::DerefMut;
use shared_types::hal::HalProfileSourceInformationEx64;
use shared_types::request::machine::Page;
use shared_types::request::session::{Configure, SAMPLE, Spec, UsedInterval};
use shared_types::request::source::{
    APPROXIMATE, Information, Placement, Plan as PlanReply, Query, Source,
};
use shared_types::{Delivery, ErrorCode, Interface, ProfileSource, ReplyHeader, Text};

/// The fixed counter that counts reference cycles at the rate of the time-stamp counter (SDM vol.
/// 3B, "Fixed-function Performance Counters").
const REFERENCE_CYCLES: u8 = 2;
/// Turns of a rotation run this long by default, in units of 100 ns.
const DEFAULT_ROTATION: u32 = 40_000;
/// The shortest and the longest turn, in units of 100 ns: 1 ms and 1 s.
const ROTATION_LIMITS: (u32, u32) = (10_000, 10_000_000);
/// Samples that a ring holds by default: 2 seconds at 10,000 a second.
const DEFAULT_RING: u32 = 20_000;
/// The largest ring of one processor.
const LARGEST_RING: u32 = 1 << 22;

impl<P: Processors, S: DerefMut<Target = [Session]>> Service<P, S> {
    pub(super) fn enumerate(&self, exchange: &mut Exchange<'_>) -> Answer {
        let request = exchange.from(APPROXIMATE)?;
        let approximate = request.header.flags & APPROXIMATE != 0;
        let head = size_of::<Page>();
        exchange.need(head + size_of::<Source>())?;
        let room = (exchange.output() - head) / size_of::<Source>();
        let (mut total, mut count) = (0, 0);
        if let Some(boot) = self.kinds.boot() {
            for row in catalog::rows(boot) {
                if total >= request.first as usize && count < room {
                    let source = self.source(boot, row, approximate);
                    exchange.put(head + count * size_of::<Source>(), &source);
                    count += 1;
                }
                total += 1;
            }
        }
        let length = head + count * size_of::<Source>();
        let header = ReplyHeader::done(length);
        exchange.put(
            0,
            &Page {
                header,
                count: count as u32,
                total: total as u32,
            },
        );
        Ok(length)
    }

    fn source(&self, boot: &Capabilities, row: &'static Row, approximate: bool) -> Source {
        let support = self.support(boot, row, approximate);
        let (counts, note) = catalog::describe(boot, row);
        let select = catalog::select_word(&row.select);
        let limits = limits(row.id);
        let kinds = self.kinds.iter().filter(|(_, kind)| {
            catalog::find(kind, row.id)
                .is_some_and(|row| self.support(kind, row, approximate).is_ok())
        });
        let flags = [
            (support.is_ok(), Source::SUPPORTED),
            (catalog::is_hal(boot, row.id), Source::HAL),
            (support.is_ok() && samples(boot, row), Source::SAMPLING),
            (row.fit == Fit::Timer, Source::TIMER),
            (row.fit == Fit::Approximate, Source::APPROXIMATES),
            (select.is_some(), Source::HAS_SELECT),
        ];
        Source {
            id: row.id.0,
            flags: flags
                .iter()
                .filter(|(set, _)| *set)
                .fold(0, |bits, (_, bit)| bits | bit),
            select: select.unwrap_or(0),
            default_interval: limits.default,
            min_interval: limits.min,
            max_interval: limits.max,
            kinds: kinds.fold(0, |mask, (kind, _)| mask | 1 << kind),
            name: Text::new(row.name),
            symbol: Text::new(row.symbol),
            counts: Text::new(counts),
            note: Text::new(match support {
                Err(refusal) => refusal.why,
                Ok(()) if !samples(boot, row) => no_sampling(boot, row),
                Ok(()) => note,
            }),
        }
    }

    /// As [`catalog::support`]; where no memory was lent, every source is unsupported (seed: the
    /// HAL's Emon interface).
    fn support(
        &self,
        capabilities: &Capabilities,
        row: &Row,
        approximate: bool,
    ) -> Result<(), catalog::Refusal> {
        if self.sessions.len() < 2 {
            return Err(catalog::Refusal {
                error: ErrorCode::NoMemory,
                why: "no memory could be had for the counters, so no source is supported",
            });
        }
        catalog::support(capabilities, row, approximate)
    }

    pub(super) fn query(&self, client: Client, exchange: &mut Exchange<'_>) -> Answer {
        let request = exchange.request::<Query>(APPROXIMATE)?;
        let approximate = request.header.flags & APPROXIMATE != 0;
        let id = ProfileSource(request.source);
        let boot = self.kinds.boot();
        let Some((boot, row)) = boot.and_then(|boot| Some((boot, catalog::find(boot, id)?))) else {
            return Err(refused(ErrorCode::SourceUnknown, request.source, 0));
        };
        let limits = limits(id);
        let interval = match request.session {
            0 => limits.default.into(),
            number => {
                let place = self.place(client, number)?;
                let configuration = self
                    .sessions
                    .get(place)
                    .map(|session| &session.configuration);
                configuration
                    .and_then(|all| all.sources().iter().find(|source| source.id == id.0))
                    .map(|source| source.interval.used)
                    .ok_or(refused(ErrorCode::SourceNotInSession, id.0, 0))?
            }
        };
        let supported = self.support(boot, row, approximate).is_ok();
        exchange.reply(&Information {
            header: ReplyHeader::done(size_of::<Information>()),
            information: HalProfileSourceInformationEx64 {
                source: id.0.cast_signed(),
                supported: supported.into(),
                padding: [0; 3],
                // The HAL answers interval 0 for what it does not support.
                interval: if supported { interval } else { 0 },
                default_interval: limits.default.into(),
                max_interval: limits.max.into(),
                min_interval: limits.min.into(),
            },
        })
    }

    pub(super) fn plan(&mut self, exchange: &mut Exchange<'_>) -> Answer {
        let request = exchange.head::<Configure>(APPROXIMATE | SAMPLE)?;
        if request.session != 0 {
            return Err(refused(
                ErrorCode::ReservedNotZero,
                16,
                request.session.into(),
            ));
        }
        let approximate = request.header.flags & APPROXIMATE != 0;
        self.prepare(exchange, &request, approximate, true)?;
        let sources = request.sources as usize;
        let kinds = self
            .kinds
            .iter()
            .map(|(kind, _)| kind + 1)
            .max()
            .unwrap_or(0);
        let head = size_of::<PlanReply>();
        let length = head + kinds * sources * size_of::<Placement>();
        exchange.need(length)?;
        let mut fits = true;
        let Some(scratch) = self.sessions.first() else {
            return Err(no_memory());
        };
        for (kind, plan) in scratch.plans.iter().enumerate().take(kinds) {
            let used = uses_kind(&self.kinds, &scratch.configuration.processors, kind);
            for index in 0..sources {
                let placement = placement(plan.seat(index));
                fits &= !used || (placement.error == 0 && placement.turn == 0);
                let at = head + (kind * sources + index) * size_of::<Placement>();
                exchange.put(at, &placement);
            }
        }
        exchange.put(
            0,
            &PlanReply {
                header: ReplyHeader::done(length),
                fits: fits.into(),
                kinds: kinds as u32,
                sources: sources as u32,
                reserved: 0,
            },
        );
        Ok(length)
    }

    /// Makes a configuration and its plans in the first place of the sessions' memory, from a
    /// request and the specs that follow it.
    pub(super) fn prepare(
        &mut self,
        exchange: &Exchange<'_>,
        request: &Configure,
        approximate: bool,
        kernel: bool,
    ) -> Result<(), Refused> {
        check_size(exchange, request)?;
        let processors = ProcessorSet::from_bits(request.processors);
        let count = self.kinds.processors;
        if let Some(index) = processors.first_beyond(count) {
            return Err(refused(
                ErrorCode::ProcessorUnknown,
                index as u32,
                count as u64,
            ));
        }
        let frequency = self.processors.timestamp_frequency();
        let resolution = self.processors.timer_resolution();
        let ring_bytes_max = self.about.ring_bytes_max;
        if self.sessions.len() < 2 {
            return Err(no_memory());
        }
        let Some(scratch) = self.sessions.first_mut() else {
            return Err(no_memory());
        };
        let configuration = &mut scratch.configuration;
        configuration.count = 0;
        configuration.samples = request.header.flags & SAMPLE != 0;
        configuration.kernel = kernel;
        configuration.processors = processors;
        configuration.frequency = frequency;
        configuration.rotation_ticks = ticks(rotation(request.rotation).into(), frequency);
        configuration.ring_samples = ring_samples(request, &processors, count, ring_bytes_max);
        let clock = Clock {
            frequency,
            resolution,
        };
        for index in 0..request.sources as usize {
            let spec = exchange.element::<Spec>(size_of::<Configure>(), index);
            let spec = spec.unwrap_or_default();
            let source = resolve(&self.kinds, &spec, configuration, clock)?;
            if source.filter.kernel && !kernel {
                return Err(refused(ErrorCode::KernelNotGranted, source.id, 0));
            }
            if let Some(place) = configuration.sources.get_mut(index) {
                *place = source;
            }
            configuration.count = index + 1;
        }
        make_plans(&self.kinds, scratch, approximate)
    }
}

/// What intervals are counted in.
#[derive(Clone, Copy)]
struct Clock {
    frequency: u64,
    /// The timer's finest step, in units of 100 ns.
    resolution: u32,
}

const fn no_memory() -> Refused {
    refused(ErrorCode::NoMemory, 0, 0)
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

/// How long each turn runs, in units of 100 ns.
pub(super) fn rotation(requested: u32) -> u32 {
    match requested {
        0 => DEFAULT_ROTATION,
        other => other.clamp(ROTATION_LIMITS.0, ROTATION_LIMITS.1),
    }
}

/// Samples for each ring, so that all of them together stay below the cap.
fn ring_samples(request: &Configure, wanted: &ProcessorSet, processors: usize, cap: u64) -> u32 {
    let rings = (0..processors)
        .filter(|&index| wanted.contains(index))
        .count()
        .max(1) as u64;
    let mut samples = match request.ring_samples {
        0 => DEFAULT_RING,
        other => other.min(LARGEST_RING),
    };
    samples = samples.next_power_of_two();
    while samples > 1 && crate::ring::words_for(samples) as u64 * 8 * rings > cap {
        samples /= 2;
    }
    samples
}

/// What a spec means on this machine, as its boot processor's tables say.
fn resolve(
    kinds: &Kinds,
    spec: &Spec,
    before: &Configuration,
    clock: Clock,
) -> Result<SessionSource, Refused> {
    let id = spec.source;
    let boot = kinds
        .boot()
        .ok_or(refused(ErrorCode::SourceUnknown, id, 0))?;
    let filter = Filter::from_wire(spec.filter).ok_or(refused(ErrorCode::BadFilter, id, 0))?;
    let (select, counters, timer);
    if ProfileSource(id) == ProfileSource::RAW {
        let family =
            catalog::raw_family(boot).ok_or(refused(ErrorCode::SourceNotSupported, id, 0))?;
        let event = raw::parse(family, spec.raw)
            .map_err(|bits| refused(ErrorCode::RawRefused, id, bits))?;
        let own = Filter {
            user: event.user,
            kernel: event.kernel,
        };
        if (own.user || own.kernel) && own != filter {
            return Err(refused(ErrorCode::BadFilter, id, spec.raw));
        }
        (select, counters, timer) = (event.select, event.counters, false);
    } else {
        if spec.raw != 0 {
            return Err(refused(ErrorCode::BadValue, 16, spec.raw));
        }
        let row = catalog::find(boot, ProfileSource(id)).ok_or(refused(
            ErrorCode::SourceUnknown,
            id,
            0,
        ))?;
        timer = row.fit == Fit::Timer && !before.samples;
        (select, counters) = if row.fit == Fit::Timer && before.samples {
            (time_by_reference_cycles(boot, id)?, ANY)
        } else {
            (row.select, catalog::counters(boot, row))
        };
    }
    let same =
        |other: &&SessionSource| other.id == id && other.filter == filter && other.raw == spec.raw;
    if before.sources().iter().any(|other| same(&other)) {
        return Err(refused(ErrorCode::SourceDuplicate, id, 0));
    }
    let interval = used_interval(ProfileSource(id), spec.interval, timer, clock);
    Ok(SessionSource {
        id,
        raw: spec.raw,
        filter,
        group: spec.group,
        select,
        counters,
        timer,
        interval,
    })
}

/// A timer's callback has no address, so sampling by time counts reference cycles.
fn time_by_reference_cycles(boot: &Capabilities, id: u32) -> Result<Select, Refused> {
    if boot.delivery == Delivery::None {
        return Err(refused(ErrorCode::SamplingUnavailable, id, 0));
    }
    if boot.interface() != Interface::Emon || boot.fixed >> REFERENCE_CYCLES & 1 == 0 {
        return Err(refused(ErrorCode::NoReferenceCycles, id, 0));
    }
    Ok(Select::Fixed(REFERENCE_CYCLES))
}

/// The interval in use for one that was asked for: within the source's limits, and in whole steps
/// of the timer for ProfileTime.
fn used_interval(id: ProfileSource, requested: u64, timer: bool, clock: Clock) -> UsedInterval {
    let limits = limits(id);
    let (min, max) = (u64::from(limits.min), u64::from(limits.max));
    let wanted = if requested == 0 {
        limits.default.into()
    } else {
        requested
    };
    let mut used = wanted.clamp(min, max);
    let mut flags = if used == wanted {
        0
    } else {
        UsedInterval::CLAMPED
    };
    let mut events = used;
    if id == ProfileSource::TIME {
        if timer {
            let step = u64::from(clock.resolution.max(1));
            used = used.div_ceil(step) * step;
            events = used;
        } else {
            events = ticks(used, clock.frequency);
            flags |= UsedInterval::BY_REFERENCE_CYCLES;
        }
    }
    UsedInterval {
        source: id.0,
        flags,
        requested,
        used,
        events,
    }
}

impl Configuration {
    /// Sets the interval of a source; `None` where the session does not have it.
    pub(super) fn set_interval(
        &mut self,
        id: u32,
        wanted: u64,
        resolution: u32,
    ) -> Option<UsedInterval> {
        let clock = Clock {
            frequency: self.frequency,
            resolution,
        };
        let mut set = None;
        for source in self
            .sources
            .iter_mut()
            .take(self.count)
            .filter(|source| source.id == id)
        {
            source.interval = used_interval(ProfileSource(id), wanted, source.timer, clock);
            set = Some(source.interval);
        }
        set
    }
}

/// Plans for every kind of processor; a source must be counted on one kind at least, and a group
/// on all that the session uses.
fn make_plans(kinds: &Kinds, scratch: &mut Session, approximate: bool) -> Result<(), Refused> {
    let Session {
        configuration,
        plans,
        ..
    } = scratch;
    let used = |kind| uses_kind(kinds, &configuration.processors, kind);
    for (index, source) in configuration.sources().iter().enumerate() {
        let mut refusals = kinds
            .iter()
            .filter(|(kind, _)| used(*kind))
            .map(|(_, found)| refusal(found, source, approximate, configuration.samples));
        let first = refusals.next().flatten();
        if let Some(error) = first
            && refusals.all(|refusal| refusal.is_some())
        {
            return Err(refused(error, source.id, index as u64));
        }
    }
    for (kind, plan) in plans.iter_mut().enumerate().take(MAX_KINDS) {
        let Some(found) = kinds.get(kind) else {
            continue;
        };
        let made = plan.make(found, configuration.count(), |index| {
            configuration
                .sources()
                .get(index)
                .map_or(UNWANTED, |source| {
                    source.wanted(refusal(found, source, approximate, configuration.samples))
                })
        });
        if let (Err(index), true) = (made, used(kind)) {
            let id = configuration
                .sources()
                .get(index)
                .map_or(0, |source| source.id);
            let processor =
                (0..kinds.processors).find(|&processor| kinds.kind_of(processor) == kind);
            return Err(refused(
                ErrorCode::DoesNotFit,
                id,
                processor.unwrap_or(0) as u64,
            ));
        }
    }
    Ok(())
}

const UNWANTED: crate::plan::Wanted = crate::plan::Wanted {
    select: Select::None,
    counters: 0,
    timer: false,
    group: 0,
    refused: Some(ErrorCode::SourceNotInSession),
};

fn uses_kind(kinds: &Kinds, processors: &ProcessorSet, kind: usize) -> bool {
    (0..kinds.processors).any(|index| kinds.kind_of(index) == kind && processors.contains(index))
}

/// Why a kind of processor cannot count, or cannot sample, a source.
fn refusal(
    found: &Capabilities,
    source: &SessionSource,
    approximate: bool,
    samples: bool,
) -> Option<ErrorCode> {
    let id = ProfileSource(source.id);
    let support = if id == ProfileSource::RAW {
        catalog::raw_family(found)
            .map(|_| ())
            .ok_or(ErrorCode::SourceNotSupported)
    } else {
        let row = catalog::find(found, id);
        row.ok_or(ErrorCode::SourceNotSupported)
            .and_then(|row| catalog::support(found, row, approximate).map_err(|why| why.error))
    };
    match support {
        Err(error) => Some(error),
        Ok(()) if samples && found.delivery == Delivery::None => {
            Some(ErrorCode::SamplingUnavailable)
        }
        Ok(()) => None,
    }
}

/// Whether a supported source can be sampled.
fn samples(found: &Capabilities, row: &Row) -> bool {
    found.delivery != Delivery::None
        && (row.fit != Fit::Timer || time_by_reference_cycles(found, row.id.0).is_ok())
}

fn no_sampling(found: &Capabilities, row: &Row) -> &'static str {
    match found.interface() {
        Interface::Default => "a timer's callback has no address to sample",
        Interface::Pentium => "counting only: the Pentium's counters raise no interrupt",
        _ if found.delivery == Delivery::None => {
            "counting only: no local APIC is enabled to carry the interrupt"
        }
        _ if row.fit == Fit::Timer => {
            "counting only: a timer's callback has no address, and this processor has no counter of reference cycles"
        }
        _ => "counting only",
    }
}

fn placement(seat: Seat) -> Placement {
    match seat {
        Seat::Counter { counter, turn, .. } => Placement {
            turn,
            counter: u16::from(counter.index())
                + if counter.is_fixed() {
                    Placement::FIXED
                } else {
                    0
                },
            error: 0,
        },
        Seat::Timer => Placement {
            turn: 0,
            counter: Placement::TIMER,
            error: 0,
        },
        Seat::Refused(error) => Placement {
            turn: 0,
            counter: 0,
            error: error as u32,
        },
    }
}

/// Turns of the busiest kind.
pub(super) fn turns(plans: &[Plan]) -> u16 {
    plans.iter().map(Plan::turns).max().unwrap_or(0)
}
