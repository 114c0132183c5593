//! Makes a session's programs: for each kind of processor, the slot of every source and the rotation
//! that it runs in.

use super::counted::{REFERENCE_CYCLES, Terms, candidates, check_raw, want};
use super::exchange::{Refused, refused};
use super::interval::period;
use super::kinds::Kinds;
use crate::cpu::capabilities::Capabilities;
use crate::cpu::counter::Counter;
use crate::plan::assign::Assignment;
use crate::plan::counter_config::Slot;
use crate::plan::program::{KindProgram, MAX_KINDS, Program, Scratch, Settings, Source};
use crate::run::pmu;
use crate::run::self_test::PERIOD;
use crate::source::catalog;
use crate::source::encode::{self, Filter, encode};
use crate::source::{CounterSet, NO_COUNTER, Row, Select};
use shared_types::{ErrorCode, ProfileSource};

/// Makes a program for every kind of processor. A source must be counted on at least one kind that
/// the session uses, and a group must fit on all of them.
pub(super) fn make_programs(
    kinds: &Kinds,
    scratch: &mut Scratch,
    approximate: bool,
) -> Result<(), Refused> {
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

/// A kind that the session does not use has no program if its sources do not fit.
fn refuse_all(program: &mut Program, kind: usize) {
    let count = program.settings.count;
    let slots = program.kinds.get_mut(kind).map(|made| &mut made.slots);
    for slot in slots.into_iter().flatten().take(count) {
        if slot.error == 0 {
            *slot = Slot::refused(ErrorCode::DoesNotFit);
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

fn make_program(terms: &Terms<'_>, scratch: &mut Scratch, kind: usize) -> Result<(), usize> {
    let Scratch { program, assignment, seen } = scratch;
    let Program { settings, sources, kinds } = program;
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
            let of_group =
                |other: usize| sources.get(other).is_some_and(|other| other.group == source.group);
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
            period: if settings.samples { period(&source.interval) } else { 0 },
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
        let slot = Slot { interrupts, ..Slot::new(found, counter, &encoding(counter)?) };
        Some((slot, if interrupts { PERIOD } else { 0 }))
    });
    made.proof.set(slots);
}
