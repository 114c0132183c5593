//! What may a client request for counters, CPU types and select bits, and what is the answer?

use crate::backend::Backend;
use crate::machines::{Client, on as machine};
use crate::requests::spec;
use halprof_measure::{Connection, Error, Setup};
use shared_types::request::session::Spec;
use shared_types::request::source::Placement;
use shared_types::{ErrorCode, ProfileSource};

scenarios![what_an_event_is_limited_to_is_obeyed_or_refused];

/// A list of sources, for a machine with one processor.
#[derive(Debug)]
struct Limit {
    /// The built-in model.
    model: &'static str,
    /// The requested sources.
    specs: Vec<Spec>,
    /// The expected answer.
    answer: Answer,
}

/// The answer to a list on the first kind of processor.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    /// For each spec, the counters that it may be on, as a mask of general counters or a fixed
    /// counter's number as in [`Placement::counter`], and its turn.
    Placed(Vec<(On, u16)>),
    /// Code, subject and detail.
    Refused(ErrorCode, u32, u64),
}

/// The counters on which a source may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    /// On one of these general counters.
    General(u32),
    /// On this fixed counter.
    Fixed(u16),
}

const RAW: u32 = ProfileSource::RAW.0;
/// Instructions and cycles, on fixed counters 0 and 1 only.
const FIXED: [u32; 2] = [0x8000_0100, 0x8000_0101];
const ANY_THREAD: u64 = 1 << 21;
const UNIT_MASK_2: u64 = 1 << 40;
const MODEL: &str = "sapphire-rapids";
/// All its general counters.
const ALL: u32 = 0xFF;

fn what_an_event_is_limited_to_is_obeyed_or_refused<B: Backend>() {
    for limits in [masks(), fixed(), alone(), select_bits()] {
        for limit in limits {
            let machine = machine::<B>(&format!("{},processors=1", limit.model));
            hold(&limit, machine);
        }
    }
}

fn row(model: &'static str, specs: Vec<Spec>, answer: Answer) -> Limit {
    Limit { model, specs, answer }
}

fn placed(counters: On, turns: &[u16]) -> Answer {
    Answer::Placed(turns.iter().map(|&turn| (counters, turn)).collect())
}

const fn in_group(spec: Spec) -> Spec {
    Spec { group: 1, ..spec }
}

/// An event on some of the machine's 8 counters.
const fn on(counters: u32, unit_mask: u64) -> Spec {
    Spec { counters, ..Spec::of_raw(0xD1 | unit_mask << 8) }
}

fn masks() -> Vec<Limit> {
    let low = |mask| on(0xF, mask);
    let one = |spec, answer| row(MODEL, vec![spec], answer);
    let no_such_counter = Answer::Refused(ErrorCode::SourceNotSupported, RAW, 0);
    // Those that can go anywhere come first and must make room.
    let eight = (1..=4).map(Spec::of_raw).chain((1..=4).map(low));
    let places = [On::General(ALL); 4].into_iter().chain([On::General(0xF); 4]);
    vec![
        one(on(u32::MAX, 0), placed(On::General(ALL), &[0])),
        one(on(ALL, 0), placed(On::General(ALL), &[0])),
        one(on(0x80, 0), placed(On::General(0x80), &[0])),
        one(on(0, 0), Answer::Refused(ErrorCode::BadValue, 24, 0)),
        one(on(0x100, 0), no_such_counter.clone()),
        one(on(0x1FF, 0), no_such_counter.clone()),
        // A HAL source may be on the counters of its row.
        one(Spec { counters: 1, ..spec(2) }, Answer::Refused(ErrorCode::BadValue, 24, 1)),
        // The machine has one kind of processor, number 0.
        one(Spec { cpu_types: 1, ..on(1, 0) }, placed(On::General(1), &[0])),
        one(Spec { cpu_types: 2, ..on(1, 0) }, no_such_counter),
        row(
            MODEL,
            eight.map(in_group).collect(),
            Answer::Placed(places.map(|place| (place, 0)).collect()),
        ),
        row(
            MODEL,
            (1..=5).map(low).map(in_group).collect(),
            Answer::Refused(ErrorCode::DoesNotFit, RAW, 0),
        ),
        row(MODEL, (1..=5).map(low).collect(), placed(On::General(0xF), &[0, 0, 0, 0, 1])),
    ]
}

/// An event of one fixed counter can go on no other.
fn fixed() -> Vec<Limit> {
    let [instructions, cycles] = FIXED.map(spec);
    let user = Spec { filter: Spec::USER, ..instructions };
    vec![
        row(
            MODEL,
            vec![cycles, instructions],
            Answer::Placed(vec![(On::Fixed(1), 0), (On::Fixed(0), 0)]),
        ),
        row(MODEL, vec![instructions, user], placed(On::Fixed(0), &[0, 1])),
        row(
            MODEL,
            [instructions, user].map(in_group).to_vec(),
            Answer::Refused(ErrorCode::DoesNotFit, FIXED[0], 0),
        ),
        // AMD's processors have no fixed counters.
        row("zen4", vec![instructions], Answer::Refused(ErrorCode::SourceUnknown, FIXED[0], 0)),
    ]
}

fn alone() -> Vec<Limit> {
    let alone = Spec { flags: Spec::ALONE, ..Spec::of_raw(0x2CD) };
    let other = |mask: u64| Spec::of_raw(0xC6 | mask << 8);
    let turns =
        |specs: Vec<Spec>, turns: &[u16]| row(MODEL, specs, placed(On::General(ALL), turns));
    let does_not_fit = |specs: [Spec; 2]| {
        let answer = Answer::Refused(ErrorCode::DoesNotFit, RAW, 0);
        row(MODEL, specs.map(in_group).to_vec(), answer)
    };
    let unknown_flag = Spec { flags: 4, ..alone };
    // Instructions are counted by fixed counter 0.
    let instructions = Spec { flags: Spec::ALONE, ..spec(2) };
    vec![
        turns(vec![alone], &[0]),
        turns(vec![alone, other(1), other(2)], &[0, 1, 1]),
        turns(vec![other(1), alone, other(2)], &[0, 1, 0]),
        row(
            MODEL,
            vec![instructions, other(1)],
            Answer::Placed(vec![(On::Fixed(0), 0), (On::General(ALL), 1)]),
        ),
        does_not_fit([alone, other(1)]),
        does_not_fit([other(1), alone]),
        row(MODEL, vec![unknown_flag], Answer::Refused(ErrorCode::BadValue, 30, 4)),
    ]
}

/// Any-thread exists from version 3 on until CPUID deprecates it, the second unit mask with leaf
/// 0x23; a model faults if a reserved bit is written.
fn select_bits() -> Vec<Limit> {
    let bits = |model, bits: u64, counters: Option<u32>| {
        let answer = counters.map_or(Answer::Refused(ErrorCode::RawRefused, RAW, bits), |all| {
            placed(On::General(all), &[0])
        });
        row(model, vec![Spec::of_raw(0xC0 | bits)], answer)
    };
    vec![
        bits("skylake", ANY_THREAD, Some(0xF)),
        bits("skylake", UNIT_MASK_2, None),
        bits("core2", ANY_THREAD, None),
        bits(MODEL, ANY_THREAD, None),
        bits(MODEL, UNIT_MASK_2, None),
        bits("hybrid", UNIT_MASK_2, Some(0x3FF)),
        bits("zen4", ANY_THREAD, None),
        bits("zen4", UNIT_MASK_2, None),
    ]
}

/// Sends the list to a machine, and fails if the answer differs.
fn hold<B: Backend>(limit: &Limit, mut connection: Connection<Client<B>>) {
    let setup = Setup { specs: limit.specs.clone(), ..Setup::default() };
    let fit = match connection.plan(&setup) {
        Ok(fit) => fit,
        Err(Error::Refused(refusal)) => {
            let answer = Answer::Refused(refusal.code, refusal.subject, refusal.detail);
            assert_eq!(answer, limit.answer, "{limit:#x?}");
            return;
        }
        Err(error) => panic!("{limit:#x?}: {error}"),
    };
    let Answer::Placed(wanted) = &limit.answer else {
        panic!("{limit:#x?}: {fit:?}");
    };
    let placements = fit.placements.first().expect("a kind of processor");
    assert_eq!(placements.len(), wanted.len(), "{limit:#x?}");
    let mut taken = Vec::new();
    for (placement, (on, turn)) in placements.iter().zip(wanted) {
        let Placement { counter, slice: found, error } = *placement;
        let right = match *on {
            On::General(mask) => counter < 32 && mask >> counter & 1 == 1,
            On::Fixed(index) => counter == Placement::FIXED + index,
        };
        assert!(right && error == 0 && found == *turn, "{limit:#x?}: {fit:?}");
        assert!(!taken.contains(&(counter, found)), "{limit:#x?}: {fit:?}");
        taken.push((counter, found));
    }
}
