//! Makes a session's programs: for each CPU type, the configuration of every source and the slice
//! that it runs in.

use super::cpu_types::CpuTypes;
use super::interval::period;
use super::io_buffer::{Refused, refused};
use super::requirements::{Constraints, REFERENCE_CYCLES, general, raw_event, requirements};
use crate::cpu::capabilities::Capabilities;
use crate::cpu::counter::Counter;
use crate::plan::assign::Assigned;
use crate::plan::counter_config::CounterConfig;
use crate::plan::index::SourceIndex;
use crate::plan::program::{CpuProgram, MAX_CPU_TYPES, Program, Scratch, Settings, Source};
use crate::plan::slice::Requirements;
use crate::run::self_test::PERIOD;
use crate::source::catalog;
use crate::source::encode;
use crate::source::filter::Filter;
use crate::source::{ANY, NO_COUNTER, Select};
use shared_types::request::session::UsedInterval;
use shared_types::{ErrorCode, ProfileSource};
use zerocopy::FromZeros as _;

/// Makes a program for every CPU type. A source must be counted on at least one CPU type that
/// the session uses, and a group must fit on all of them.
pub(super) fn make_programs(
    cpu_types: &CpuTypes,
    scratch: &mut Scratch,
    approximate: bool,
) -> Result<(), Refused> {
    let (mut unfit, mut used) = (None, 0);
    let Settings { processors, by_thread, .. } = scratch.program.settings;
    for (cpu_type, capabilities) in cpu_types.iter() {
        let fixed_in_use = cpu_types.fixed_in_use(cpu_type);
        let left = cpu_types.left(cpu_type).counters;
        // Windows documents no index for fixed counters in thread profiling.
        let (common, fixed) =
            if by_thread { (cpu_types.common(), NO_COUNTER) } else { (ANY, !fixed_in_use) };
        let constraints = Constraints {
            capabilities,
            fixed_in_use: fixed_in_use | (left >> 32) as u32,
            general: capabilities.counters & common,
            fixed: capabilities.fixed & fixed,
            left,
            approximate,
            unknown: if cpu_type == CpuTypes::BOOT {
                ErrorCode::SourceUnknown
            } else {
                ErrorCode::SourceNotSupported
            },
        };
        let needed = cpu_types.uses(&processors, cpu_type);
        used |= u16::from(needed) << cpu_type;
        match make_program(&constraints, scratch, cpu_type) {
            Err((index, error)) if needed => {
                let error = if fits_with_what_is_left(&constraints, scratch, cpu_type) {
                    ErrorCode::CountersLeft
                } else {
                    error
                };
                unfit = unfit.or(Some((index, cpu_type, error)));
            }
            Err(_) => refuse_all(&mut scratch.program, cpu_type),
            Ok(()) => {}
        }
    }
    let program = &scratch.program;
    for (index, source) in program.sources().iter().enumerate() {
        counted_somewhere(cpu_types, program, used, index, source)?;
    }
    let Some((index, cpu_type, error)) = unfit else {
        return Ok(());
    };
    if error == ErrorCode::CountersLeft {
        return Err(counters_left(cpu_types, cpu_type));
    }
    let source = &program.sources[index];
    let processor = cpu_types.first_of(cpu_type) as u64;
    Err(refused(error, source.id, processor))
}

/// Whether sources that do not fit on this CPU type would, had no earlier owner left counters behind.
/// Their program is made again for that, because this refuses them anyway.
fn fits_with_what_is_left(
    constraints: &Constraints<'_>,
    scratch: &mut Scratch,
    cpu_type: usize,
) -> bool {
    constraints.left != 0
        && make_program(&constraints.with_nothing_left(), scratch, cpu_type).is_ok()
}

/// The refusal of sources for which counters of this CPU type are missing that still serve an owner who
/// is gone.
fn counters_left(cpu_types: &CpuTypes, cpu_type: usize) -> Refused {
    let left = cpu_types.left(cpu_type);
    refused(ErrorCode::CountersLeft, left.register, left.counters)
}

/// A CPU type that the session does not use has no program if its sources do not fit.
fn refuse_all(program: &mut Program, cpu_type: usize) {
    let count = program.settings.count;
    let Some(made) = program.cpu_programs.get_mut(cpu_type) else {
        return;
    };
    for index in SourceIndex::first(count) {
        if made.configs[index].error == 0 {
            made.configs[index] = CounterConfig::refused(ErrorCode::DoesNotFit);
        }
    }
}

/// Refuses a source that the machine does not have, a raw select that the first CPU type named by
/// its spec refuses, and a source that no processor of the session counts, with the reason of the
/// first CPU type used. `used`: the CPU types of the session's processors, as a mask.
fn counted_somewhere(
    cpu_types: &CpuTypes,
    program: &Program,
    used: u16,
    index: usize,
    source: &Source,
) -> Result<(), Refused> {
    let error = |cpu_type: usize| {
        let config = program.cpu_programs.get(cpu_type)?.config(index)?;
        ErrorCode::from_wire(config.error.into())
    };
    if error(CpuTypes::BOOT) == Some(ErrorCode::SourceUnknown) {
        return Err(refused(ErrorCode::SourceUnknown, source.id, 0));
    }
    if ProfileSource(source.id) == ProfileSource::RAW
        && let Some((cpu_type, capabilities)) =
            cpu_types.iter().find(|(cpu_type, _)| source.cpu_types >> cpu_type & 1 != 0)
        && error(cpu_type).is_some()
    {
        raw_event(capabilities, source)?;
    }
    let mut used = (0..MAX_CPU_TYPES).filter(|cpu_type| used >> cpu_type & 1 != 0);
    let Some(first) = used.next() else {
        return Ok(());
    };
    let Some(refusal) = error(first) else {
        return Ok(());
    };
    if used.any(|cpu_type| error(cpu_type).is_none()) {
        return Ok(());
    }
    if refusal == ErrorCode::CountersLeft {
        return Err(counters_left(cpu_types, first));
    }
    let detail = match refusal {
        ErrorCode::FixedCounterTaken | ErrorCode::NeedsPair => cpu_types.first_of(first) as u64,
        _ => index as u64,
    };
    Err(refused(refusal, source.id, detail))
}

fn make_program(
    constraints: &Constraints<'_>,
    scratch: &mut Scratch,
    cpu_type: usize,
) -> Result<(), (SourceIndex, ErrorCode)> {
    let Scratch { program, assignment } = scratch;
    let Program { settings, sources, cpu_programs } = program;
    let Some(made) = cpu_programs.get_mut(cpu_type) else {
        return Ok(());
    };
    assignment.clear(constraints.capabilities.errata.last_counters);
    made.clear();
    let here = |source: &Source| source.cpu_types >> cpu_type & 1 != 0;
    let mut refuses = false;
    for index in SourceIndex::first(settings.count) {
        let source = &sources[index];
        if !here(source) {
            made.configs[index] = CounterConfig::refused(ErrorCode::SourceNotSupported);
            continue;
        }
        made.configs[index] = match requirements(constraints, source, settings) {
            Ok(_) if source.timer => CounterConfig::timer(),
            Ok(needed) => {
                *assignment.requirements(index) = needed;
                CounterConfig::new_zeroed()
            }
            Err(error) => CounterConfig::refused(error),
        };
        refuses |= !source.timer && !assignment.takes(index);
    }
    // A group runs on this CPU type only if all of its members are counted here.
    if refuses {
        let group = |index: SourceIndex| {
            let source = &sources[index];
            if here(source) && !source.timer { source.group } else { 0 }
        };
        for index in SourceIndex::first(settings.count).filter(|&index| group(index) != 0) {
            let split = |other| {
                group(other) == group(index) && assignment.takes(other) != assignment.takes(index)
            };
            if SourceIndex::first(index.get()).any(split) {
                return Err((index, ErrorCode::DoesNotFit));
            }
        }
    }
    if let Err(index) = assignment.solve(settings.count) {
        let pair = assignment.requirements(index).pair;
        return Err((index, if pair { ErrorCode::NeedsPair } else { ErrorCode::DoesNotFit }));
    }
    assignment.schedule(&mut made.schedule);
    for index in SourceIndex::first(settings.count) {
        if let Some((needed, assigned)) = assignment.assigned(index) {
            made.configs[index] =
                config(constraints.capabilities, settings, &sources[index], needed, assigned);
            made.configs[index].source = index;
            made.counters |= made.configs[index].bits();
        }
    }
    prove(constraints, settings, made);
    Ok(())
}

/// The configuration of a source that was assigned a counter.
fn config(
    capabilities: &Capabilities,
    settings: &Settings,
    source: &Source,
    needed: &Requirements,
    assigned: Assigned,
) -> CounterConfig {
    let fixed = encode::fixed(needed.filter, settings.samples);
    let encoding = if assigned.counter.is_fixed() { &fixed } else { &needed.encoding };
    CounterConfig {
        interrupts: settings.samples,
        pair: needed.pair,
        period: if settings.samples { period(&source.interval) } else { 0 },
        drawn: source.interval.flags & UsedInterval::DRAWN != 0,
        rounds: capabilities.errata.rounds(assigned.counter, encoding.select),
        slice: assigned.slice,
        ..CounterConfig::new(capabilities, assigned.counter, encoding)
    }
}

/// Makes what START has the session's counters do to prove that they count. General counters
/// count instructions or, if those are not available, core cycles; of the fixed counters, only 0 to
/// 2 take part, because they always have something to count.
fn prove(constraints: &Constraints<'_>, settings: &Settings, made: &mut CpuProgram) {
    let capabilities = constraints.capabilities;
    let interrupts = settings.samples;
    let row = [ProfileSource::TOTAL_ISSUES, ProfileSource::TOTAL_CYCLES]
        .into_iter()
        .filter_map(|id| catalog::find(capabilities, id))
        .find(|row| {
            !matches!(row.select, Select::None | Select::Fixed(_))
                && catalog::support(capabilities, row, true).is_ok()
        });
    let select = row.map_or(Select::None, |row| row.select);
    let set = row.map_or(NO_COUNTER, |row| catalog::counters(capabilities, row));
    let general = u64::from(general(constraints, &select, set));
    let encoding = |counter: Counter| {
        if counter.is_fixed() {
            let sure = counter.index() <= REFERENCE_CYCLES;
            return sure.then(|| encode::fixed(Filter::BOTH, interrupts));
        }
        let counts = general & counter.global_bit() != 0;
        counts.then(|| encode::encode(capabilities, &select, Filter::BOTH, interrupts))
    };
    let configs = Counter::each(made.counters).filter_map(|counter| {
        let config = CounterConfig {
            interrupts,
            ..CounterConfig::new(capabilities, counter, &encoding(counter)?)
        };
        Some((config, if interrupts { PERIOD } else { 0 }))
    });
    made.self_test.set(configs);
    // The counters are not hidden, which a processor may refuse: they count the test's own loop.
    made.self_test.shown = true;
}
