//! Configures a session: checks the request, resolves each spec into a source, and has its programs
//! made.

use super::branches;
use super::by_thread;
use super::cpu_types::CpuTypes;
use super::events::RING_BYTES;
use super::interval::{Clock, drawn, used_interval};
use super::io_buffer::{IoBuffer, Refused, refused};
use super::programs::make_programs;
use super::requirements::sampled_time;
use super::{Host, Service};
use crate::plan::cpu_set::ProcessorSet;
use crate::plan::program::{Program, Settings, Source, ticks};
use crate::run::host::Processors;
use crate::run::ring::words_for;
use crate::service::session::Rights;
use crate::source::filter::Filter;
use crate::source::{ANY, MAX_SOURCES};
use core::mem::offset_of;
use shared_types::request::session::{Configure, EVENTS, SAMPLE, Spec, THREADS, UsedInterval};
use shared_types::{ErrorCode, ProfileSource};

/// The default length of a slice, in units of 100 ns: 4 ms.
const DEFAULT_SLICE: u32 = 40_000;

/// The shortest and the longest slice, in units of 100 ns: 1 ms and 1 s.
const SLICE_LIMITS: (u32, u32) = (10_000, 10_000_000);

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
        io: &IoBuffer<'_>,
        request: &Configure,
        rights: Rights,
    ) -> Result<(), Refused> {
        if self.sessions.is_empty() {
            return Err(refused(ErrorCode::NoMemory, 0, 0));
        }
        check_size(io, request)?;
        by_thread::check_request(request)?;
        branches::check_request(request, rights)?;
        let processors = ProcessorSet::from_bits(request.processors);
        let count = self.cpu_types.processors();
        if let Some(index) = processors.first_beyond(count) {
            return Err(refused(ErrorCode::ProcessorUnknown, index as u32, count as u64));
        }
        self.survey();
        let frequency = self.processors.timestamp_frequency();
        let clock = Clock { frequency, resolution: self.processors.timer_resolution() };
        let slice = slice(request.slice_100ns).max(self.shortest_tick());
        let samples = request.header.flags & SAMPLE != 0;
        let polls = slice.div_ceil(self.read_period(samples).max(1));
        let events = request.header.flags & EVENTS != 0;
        let of_events = if events { RING_BYTES } else { 0 };
        let rings_max = self.about.ring_bytes_max.saturating_sub(of_events);
        let settings = Settings {
            count: 0,
            cpu_types: self.cpu_types.known(),
            samples,
            timers: false,
            by_thread: request.header.flags & THREADS != 0,
            events,
            kernel: rights.sees_kernel(),
            branches: request.branches as u8,
            processors,
            slice,
            slice_polls: polls,
            slice_ticks: last_poll(slice, polls, frequency),
            seed: request.slice_seed,
            frequency,
            ring_samples: ring_samples(request, &processors, count, rings_max),
        };
        let scratch = &mut *self.scratch;
        scratch.program.settings = settings;
        let kernel = may_count_kernel(&settings, rights);
        for spec in io.elements::<Spec>(size_of::<Configure>()) {
            let source = resolve(&self.cpu_types, &spec, &settings, clock)?;
            if let (true, Err(error)) = (source.filter.kernel, kernel) {
                return Err(refused(error, source.id, 0));
            }
            add_source(&mut scratch.program, source)?;
        }
        make_programs(&self.cpu_types, scratch, rights.approximate)?;
        branches::make_recordings(&self.cpu_types, &mut scratch.program, request.branch_filter)
    }
}

fn check_size(io: &IoBuffer<'_>, request: &Configure) -> Result<(), Refused> {
    let sources = request.sources as usize;
    if sources == 0 {
        return Err(refused(ErrorCode::NoSources, 0, 0));
    }
    if sources > MAX_SOURCES {
        return Err(refused(ErrorCode::TooManySources, request.sources, MAX_SOURCES as u64));
    }
    let right = size_of::<Configure>() + sources * size_of::<Spec>();
    if io.input() != right {
        return Err(refused(ErrorCode::WrongSize, io.input() as u32, right as u64));
    }
    Ok(())
}

/// How long each slice runs, in units of 100 ns.
fn slice(requested: u32) -> u32 {
    match requested {
        0 => DEFAULT_SLICE,
        other => other.clamp(SLICE_LIMITS.0, SLICE_LIMITS.1),
    }
}

/// The ticks of the time-stamp counter after which a timer tick is the last of a slice that has
/// `polls`. Timers jitter: a tick that comes up to a quarter of its period early must still end the
/// slice, not leave that to the next.
fn last_poll(slice: u32, polls: u32, frequency: u64) -> u64 {
    let each = slice / polls.max(1);
    ticks((slice - each / 4).into(), frequency)
}

/// The capacity of each ring, in samples, such that all rings together stay within the cap.
fn ring_samples(request: &Configure, set: &ProcessorSet, processors: usize, cap: u64) -> u32 {
    let rings = (0..processors).filter(|&index| set.contains(index)).count().max(1) as u64;
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
    cpu_types: &CpuTypes,
    spec: &Spec,
    settings: &Settings,
    clock: Clock,
) -> Result<Source, Refused> {
    let id = ProfileSource(spec.source);
    let filter = Filter::from_wire(spec.filter).ok_or(refused(ErrorCode::BadFilter, id.0, 0))?;
    let raw = id == ProfileSource::RAW;
    if !raw && spec.raw != 0 {
        return Err(bad_value(offset_of!(Spec, raw), spec.raw));
    }
    // A raw select must name its counters, and nothing else may.
    if raw == (spec.counters == 0) {
        return Err(bad_value(offset_of!(Spec, counters), spec.counters.into()));
    }
    // `requirements` finds out whether the machine has the source.
    let timer = id == ProfileSource::TIME && !settings.samples;
    let mut interval = used_interval(id, spec.interval, timer, clock);
    interval.flags |= drawn(settings, spec.interval, spec.flags & Spec::MEAN != 0);
    if id == ProfileSource::TIME && !timer {
        interval.flags |= time_sampled_by(cpu_types).map_err(|error| refused(error, id.0, 0))?;
    }
    if spec.flags & !(Spec::ALONE | Spec::MEAN) != 0 {
        return Err(bad_value(offset_of!(Spec, flags), spec.flags.into()));
    }
    Ok(Source {
        id: id.0,
        raw: spec.raw,
        counters: if raw { spec.counters } else { ANY },
        cpu_types: if spec.cpu_types == 0 { u16::MAX } else { spec.cpu_types },
        alone: spec.flags & Spec::ALONE != 0,
        filter,
        group: spec.group,
        timer,
        interval,
    })
}

/// The flag that says by which cycles time is sampled: by the same on every CPU type, because a session
/// has one answer for all. The boot processor's type must have one of the two.
fn time_sampled_by(cpu_types: &CpuTypes) -> Result<u32, ErrorCode> {
    let by = |(cpu_type, capabilities)| {
        let left = (cpu_types.left(cpu_type).counters >> 32) as u32;
        let in_use = cpu_types.fixed_in_use(cpu_type) | left;
        sampled_time(capabilities, in_use).map(|(_, _, flag)| flag)
    };
    let boot = by((CpuTypes::BOOT, cpu_types.boot()))?;
    // A CPU type that has neither kind of cycles is refused, or left out, with its other
    // requirements.
    let mut flags = cpu_types.iter().filter_map(|one| by(one).ok());
    Ok(flags.find(|&flag| flag == UsedInterval::BY_CORE_CYCLES).unwrap_or(boot))
}

/// The refusal of an invalid field of a spec, named by its offset.
fn bad_value(offset: usize, value: u64) -> Refused {
    refused(ErrorCode::BadValue, offset as u32, value)
}

/// Whether the client may count kernel mode: this needs a session that was opened for it, and
/// kernel addresses also need a privilege.
fn may_count_kernel(settings: &Settings, rights: Rights) -> Result<(), ErrorCode> {
    if !rights.kernel {
        Err(ErrorCode::KernelNotGranted)
    } else if settings.samples && !rights.kernel_addresses {
        Err(ErrorCode::KernelAddressesNotGranted)
    } else {
        Ok(())
    }
}

/// Adds a source to the session, if the session does not have it yet.
fn add_source(program: &mut Program, source: Source) -> Result<(), Refused> {
    let same = |other: &Source| {
        // In a long list the sources are raw selects, which differ in nothing else.
        other.raw == source.raw
            && other.id == source.id
            && other.filter == source.filter
            && other.cpu_types & source.cpu_types != 0
    };
    if program.sources().iter().any(same) {
        return Err(refused(ErrorCode::SourceDuplicate, source.id, 0));
    }
    program.settings.timers |= source.timer;
    if let Some(entry) = program.sources.each.get_mut(program.settings.count) {
        *entry = source;
        program.settings.count += 1;
    }
    Ok(())
}
