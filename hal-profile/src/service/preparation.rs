//! What a session asks for, made ready: each spec resolved to what the processors are told to
//! count, each interval settled, a plan made for each kind of processor.

use super::exchange::{Exchange, Refused, refused};
use super::{Kinds, Service};
use crate::capabilities::Capabilities;
use crate::catalog;
use crate::control::Filter;
use crate::guard::{DEFAULT_BUDGET, Limits};
use crate::machine::{ProcessorSet, Processors};
use crate::plan::{MAX_SOURCES, Plan, Wanted};
use crate::session::{Configuration, MAX_KINDS, Program, Session, SessionSource, ticks};
use crate::source::{ANY, Fit, Select, limits, raw};
use core::mem::size_of;
use core::ops::DerefMut;
use shared_types::request::session::{Configure, SAMPLE, Spec, UsedInterval};
use shared_types::{Delivery, ErrorCode, ProfileInterface, ProfileSource};

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
        let [scratch, _, ..] = &mut *self.sessions else {
            return Err(no_memory());
        };
        let configuration = &mut scratch.program.configuration;
        configuration.count = 0;
        configuration.samples = request.header.flags & SAMPLE != 0;
        configuration.kernel = kernel;
        configuration.processors = processors;
        configuration.frequency = frequency;
        configuration.interrupt_time = Limits::new(frequency, DEFAULT_BUDGET);
        configuration.rotation = rotation(request.rotation);
        configuration.rotation_ticks = ticks(configuration.rotation.into(), frequency);
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
        make_plans(&self.kinds, &mut scratch.program, approximate)
    }
}

/// What intervals are counted in.
#[derive(Clone, Copy)]
struct Clock {
    frequency: u64,
    /// The timer's finest step, in units of 100 ns.
    resolution: u32,
}

pub(super) const fn no_memory() -> Refused {
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
pub(super) fn time_by_reference_cycles(boot: &Capabilities, id: u32) -> Result<Select, Refused> {
    if boot.delivery == Delivery::None {
        return Err(refused(ErrorCode::SamplingUnavailable, id, 0));
    }
    if boot.interface() != ProfileInterface::Emon || boot.fixed >> REFERENCE_CYCLES & 1 == 0 {
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
fn make_plans(kinds: &Kinds, program: &mut Program, approximate: bool) -> Result<(), Refused> {
    let Program {
        configuration,
        plans,
    } = program;
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

const UNWANTED: Wanted = Wanted {
    select: Select::None,
    counters: 0,
    timer: false,
    group: 0,
    refused: Some(ErrorCode::SourceNotInSession),
};

pub(super) fn uses_kind(kinds: &Kinds, processors: &ProcessorSet, kind: usize) -> bool {
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

/// Turns of the busiest kind.
pub(super) fn turns(plans: &[Plan]) -> u16 {
    plans.iter().map(Plan::turns).max().unwrap_or(0)
}
