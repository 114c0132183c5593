//! Makes a session's programs: for each kind of processor, the slot of every source and the rotation
//! that it runs in.

use super::exchange::{Refused, refused};
use super::interval::period;
use super::kinds::Kinds;
use super::requirements::{Constraints, REFERENCE_CYCLES, check_raw, general, requirements};
use crate::cpu::capabilities::Capabilities;
use crate::cpu::counter::Counter;
use crate::plan::assign::{Assigned, Requirements};
use crate::plan::counter_config::Slot;
use crate::plan::index::SourceIndex;
use crate::plan::program::{KindProgram, MAX_KINDS, Program, Scratch, Settings, Source};
use crate::run::self_test::PERIOD;
use crate::source::catalog;
use crate::source::encode;
use crate::source::filter::Filter;
use crate::source::{CounterSet, NO_COUNTER, Row, Select};
use shared_types::{ErrorCode, ProfileSource};
use zerocopy::FromZeros as _;

/// Makes a program for every kind of processor. A source must be counted on at least one kind that
/// the session uses, and a group must fit on all of them.
pub(super) fn make_programs(
    kinds: &Kinds,
    scratch: &mut Scratch,
    approximate: bool,
) -> Result<(), Refused> {
    let mut unfit = None;
    let processors = scratch.program.settings.processors;
    for kind in 0..MAX_KINDS {
        let Some(found) = kinds.get(kind) else {
            continue;
        };
        let (general, fixed) = allowed(kinds, kind, &scratch.program.settings);
        let constraints = Constraints {
            found,
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
        let made = make_program(&constraints, scratch, kind);
        match made {
            Err(index) if kinds.uses(&processors, kind) => unfit = unfit.or(Some((index, kind))),
            Err(_) => refuse_all(&mut scratch.program, kind),
            Ok(()) => {}
        }
    }
    let program = &scratch.program;
    let used = (0..MAX_KINDS)
        .filter(|&kind| kinds.get(kind).is_some() && kinds.uses(&processors, kind))
        .fold(0, |used, kind| used | 1 << kind);
    for (index, source) in program.sources().iter().enumerate() {
        counted_somewhere(kinds, program, used, index, source)?;
    }
    let Some((index, kind)) = unfit else {
        return Ok(());
    };
    let id = program.sources[index].id;
    let processor = kinds.first_of(kind) as u64;
    Err(refused(ErrorCode::DoesNotFit, id, processor))
}

/// A kind that the session does not use has no program if its sources do not fit.
fn refuse_all(program: &mut Program, kind: usize) {
    let count = program.settings.count;
    let Some(made) = program.kinds.get_mut(kind) else {
        return;
    };
    for index in SourceIndex::first(count) {
        if made.slots[index].error == 0 {
            made.slots[index] = Slot::refused(ErrorCode::DoesNotFit);
        }
    }
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

/// The general and the fixed counters of a kind of processor that a session may take. Windows
/// documents no index for fixed counters in thread profiling.
fn allowed(kinds: &Kinds, kind: usize, settings: &Settings) -> (CounterSet, CounterSet) {
    let Some(found) = kinds.get(kind) else {
        return (NO_COUNTER, NO_COUNTER);
    };
    if settings.by_thread {
        return (found.counters & kinds.common(), NO_COUNTER);
    }
    (found.counters, found.fixed & !kinds.taken(kind))
}

fn make_program(
    constraints: &Constraints<'_>,
    scratch: &mut Scratch,
    kind: usize,
) -> Result<(), SourceIndex> {
    let Scratch { program, assignment } = scratch;
    let Program { settings, sources, kinds } = program;
    let Some(made) = kinds.get_mut(kind) else {
        return Ok(());
    };
    assignment.clear();
    made.clear();
    let here = |source: &Source| source.kinds >> kind & 1 != 0;
    for index in SourceIndex::first(settings.count) {
        let source = &sources[index];
        if !here(source) {
            made.slots[index] = Slot::refused(ErrorCode::SourceNotSupported);
            continue;
        }
        made.slots[index] = match requirements(constraints, source, settings) {
            Ok(_) if source.timer => Slot::timer(),
            Ok(needed) => {
                *assignment.requirements(index) = needed;
                Slot::new_zeroed()
            }
            Err(error) => Slot::refused(error),
        };
        // A group runs on this CPU type only if all of its members are counted here.
        let split = |other: SourceIndex| {
            let member = &sources[other];
            let together = member.group == source.group && here(member) && !member.timer;
            together && assignment.takes(other) != assignment.takes(index)
        };
        if source.group != 0 && !source.timer && SourceIndex::first(index.get()).any(split) {
            return Err(index);
        }
    }
    assignment.solve(settings.count)?;
    assignment.schedule(&mut made.schedule);
    for index in SourceIndex::first(settings.count) {
        if let Some((needed, assigned)) = assignment.assigned(index) {
            made.slots[index] =
                slot(constraints.found, settings, &sources[index], needed, assigned);
            made.slots[index].source = index;
            made.counters |= assigned.counter.global_bit();
        }
    }
    prove(constraints, settings, made);
    Ok(())
}

/// The slot of a source that was assigned a counter.
fn slot(
    found: &Capabilities,
    settings: &Settings,
    source: &Source,
    needed: &Requirements,
    assigned: Assigned,
) -> Slot {
    let fixed = encode::fixed(needed.filter, settings.samples);
    let encoding = if assigned.counter.is_fixed() { &fixed } else { &needed.encoding };
    Slot {
        interrupts: settings.samples,
        period: if settings.samples { period(&source.interval) } else { 0 },
        rotation: assigned.slice,
        ..Slot::new(found, assigned.counter, encoding)
    }
}

/// Makes what START has the session's counters do to prove that they count. General counters
/// count instructions or, if those are not available, core cycles; of the fixed counters, only 0 to
/// 2 take part, because they always have something to count.
fn prove(constraints: &Constraints<'_>, settings: &Settings, made: &mut KindProgram) {
    let found = constraints.found;
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
    let general = u64::from(general(constraints, &select, set));
    let encoding = |counter: Counter| {
        if counter.is_fixed() {
            let sure = counter.index() <= REFERENCE_CYCLES;
            return sure.then(|| encode::fixed(Filter::BOTH, interrupts));
        }
        let counts = general & counter.global_bit() != 0;
        counts.then(|| encode::encode(found, &select, Filter::BOTH, interrupts))
    };
    let slots = Counter::each(made.counters).filter_map(|counter| {
        let slot = Slot { interrupts, ..Slot::new(found, counter, &encoding(counter)?) };
        Some((slot, if interrupts { PERIOD } else { 0 }))
    });
    made.proof.set(slots);
}
