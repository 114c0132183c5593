//! Does the plan find a place for sources exactly where there is one? Against a matcher that tries
//! everything.

use hal_profile::capabilities::Capabilities;
use hal_profile::counter::Counter;
use hal_profile::plan::{MAX_SOURCES, Plan, Seat, Wanted};
use hal_profile::source::{
    ANY, CounterSet, NO_COUNTER, NetBurstSelect, Select, Upstream, amd, netburst,
};
use halprof_tests::silicon::{Silicon, signature};
use shared_types::ErrorCode;

/// A counter and a side.
type Place = (Counter, u8);

const SOURCE: Wanted = Wanted {
    select: Select::EventSelect(0xC0),
    counters: ANY,
    timer: false,
    group: 0,
    refused: None,
};

const fn on(counters: CounterSet) -> Wanted {
    Wanted { counters, ..SOURCE }
}

const fn fixed(index: u8) -> Wanted {
    Wanted {
        select: Select::Fixed(index),
        counters: NO_COUNTER,
        ..SOURCE
    }
}

const fn grouped(group: u16, wanted: Wanted) -> Wanted {
    Wanted { group, ..wanted }
}

/// Everywhere that a source could go if it were alone.
fn places(capabilities: &Capabilities, wanted: &Wanted) -> Vec<Place> {
    let of = |set: CounterSet, side| {
        let usable = set & wanted.counters & capabilities.counters;
        (0..32)
            .filter(move |index| usable >> index & 1 == 1)
            .map(move |index| (Counter::general(index), side))
    };
    match wanted.select {
        Select::None => Vec::new(),
        Select::Fixed(index) => (0..32)
            .filter(|&one| one == index && capabilities.fixed >> one & 1 == 1)
            .map(|one| (Counter::fixed(one), 0))
            .collect(),
        Select::EventSelect(_) | Select::Cesr { .. } => of(ANY, 0).collect(),
        Select::NetBurst(event) => [0, 1]
            .into_iter()
            .filter(|&side| event.escr_msr[side] != 0)
            .flat_map(|side| of(event.counters[side], side as u8))
            .collect(),
    }
}

/// Whether two sources can sit where they are at the same time.
fn agree((one, at): (&Wanted, Place), (other, there): (&Wanted, Place)) -> bool {
    if at.0 == there.0 {
        return false;
    }
    let (Select::NetBurst(one), Select::NetBurst(other)) = (one.select, other.select) else {
        return true;
    };
    let same_side = at.1 == there.1;
    let side = usize::from(at.1);
    let same_escr = same_side && one.escr_msr[side] == other.escr_msr[side];
    if same_escr && (one.escr, one.upstream) != (other.escr, other.upstream) {
        return false;
    }
    match (one.upstream, other.upstream) {
        (Upstream::UopType { escr }, Upstream::UopType { escr: theirs }) => {
            !same_side || escr == theirs
        }
        (Upstream::Replay { .. }, Upstream::Replay { .. }) => one.upstream == other.upstream,
        _ => true,
    }
}

/// Tries everything.
fn fits(capabilities: &Capabilities, sources: &[Wanted]) -> bool {
    let mut partial: Vec<Vec<Place>> = vec![Vec::new()];
    for source in sources {
        let places = places(capabilities, source);
        partial = partial
            .iter()
            .flat_map(|seated| {
                places.iter().filter_map(|&place| {
                    let agrees = seated
                        .iter()
                        .zip(sources)
                        .all(|(&theirs, other)| agree((source, place), (other, theirs)));
                    agrees.then(|| [seated.as_slice(), &[place]].concat())
                })
            })
            .collect();
    }
    !partial.is_empty()
}

/// First fit in the order asked for, groups together: the turn of each source.
fn expected(capabilities: &Capabilities, wanted: &[Wanted]) -> Result<Vec<Option<u16>>, usize> {
    let mut turns: Vec<Vec<usize>> = Vec::new();
    let mut turn_of = vec![None; wanted.len()];
    for (first, source) in wanted.iter().enumerate() {
        if source.timer || source.refused.is_some() || turn_of[first].is_some() {
            continue;
        }
        let unit: Vec<usize> = (0..wanted.len())
            .filter(|&index| {
                index == first || source.group != 0 && wanted[index].group == source.group
            })
            .collect();
        if unit
            .iter()
            .any(|&index| !wanted[index].timer && wanted[index].refused.is_some())
        {
            return Err(first);
        }
        let unit = unit.into_iter().filter(|&index| !wanted[index].timer);
        turns.push(Vec::new());
        let turn = turns
            .iter()
            .position(|turn| {
                let mut together: Vec<usize> = turn.iter().copied().chain(unit.clone()).collect();
                together.sort_unstable();
                let together: Vec<Wanted> = together.iter().map(|&index| wanted[index]).collect();
                fits(capabilities, &together)
            })
            .ok_or(first)?;
        turns[turn].extend(unit.clone());
        unit.for_each(|index| turn_of[index] = Some(turn as u16));
        turns.retain(|turn| !turn.is_empty());
    }
    Ok(turn_of)
}

fn check(capabilities: &Capabilities, wanted: &[Wanted]) {
    let mut plan = Plan::EMPTY;
    let made = plan.make(capabilities, wanted.len(), |index| wanted[index]);
    let expected = expected(capabilities, wanted);
    assert_eq!(made.err(), expected.as_ref().err().copied(), "{wanted:x?}");
    let Ok(expected) = expected else {
        return;
    };
    let mut seated: Vec<(u16, &Wanted, Place)> = Vec::new();
    for (index, (wanted, turn)) in wanted.iter().zip(&expected).enumerate() {
        match (plan.seat(index), *turn, wanted.refused) {
            (
                Seat::Counter {
                    counter,
                    side,
                    turn,
                },
                Some(expected),
                None,
            ) => {
                assert_eq!(turn, expected, "{index}");
                let place = (counter, side);
                assert!(places(capabilities, wanted).contains(&place), "{place:?}");
                let agrees = |(theirs, other, there): &(u16, &Wanted, Place)| {
                    *theirs != turn || agree((wanted, place), (other, *there))
                };
                assert!(seated.iter().all(agrees), "{seated:x?}");
                seated.push((turn, wanted, place));
            }
            (Seat::Timer, None, _) => assert!(wanted.timer),
            (Seat::Refused(error), None, Some(refused)) => assert_eq!(error, refused),
            other => panic!("{index}: {other:?}"),
        }
    }
    let turns = expected.iter().flatten().max().map_or(0, |last| last + 1);
    assert_eq!(plan.turns(), turns);
}

/// Every list of these sources up to a length.
fn lists(sources: &[Wanted], longest: usize) -> Vec<Vec<Wanted>> {
    let mut all = vec![Vec::new()];
    let mut last = all.clone();
    for _ in 0..longest {
        last = last
            .iter()
            .flat_map(|list| {
                sources
                    .iter()
                    .map(|&source| [list.as_slice(), &[source]].concat())
            })
            .collect();
        all.extend(last.iter().cloned());
    }
    all
}

const TIMER: Wanted = Wanted {
    timer: true,
    ..on(NO_COUNTER)
};
const REFUSED: Wanted = Wanted {
    refused: Some(ErrorCode::SourceNotSupported),
    ..SOURCE
};

#[test]
fn p6_flops_on_counter_0_only() {
    let p6 = Silicon::old_intel(6, 8).discover();
    let sources = [
        on(ANY),
        on(0b01),
        on(0b10),
        grouped(1, on(ANY)),
        grouped(1, on(0b01)),
        TIMER,
        REFUSED,
    ];
    for list in lists(&sources, 4) {
        check(&p6, &list);
    }
}

#[test]
fn pentium_pairs() {
    let pentium = Silicon::old_intel(5, 4).discover();
    let on = |event, counters| Wanted {
        select: Select::Cesr {
            event,
            clocks: false,
        },
        ..on(counters)
    };
    let sources = [
        on(0x16, ANY),
        on(0x2A, 0b01),
        on(0x2A, 0b10),
        grouped(7, on(0x2B, 0b10)),
    ];
    for list in lists(&sources, 4) {
        check(&pentium, &list);
    }
}

#[test]
fn fixed_counters_beside_general_ones_with_holes() {
    let intel = Silicon::new(b"GenuineIntel", 0x23, signature(6, 0xC5))
        .leaf(0x0A, [0x0730_0805, 0, 0, 0x603])
        .subleaf(7, 1, [1 << 8, 0, 0, 0])
        .subleaf(0x23, 0, [0b10, 0, 0, 0])
        .subleaf(0x23, 1, [0b1_0010_0100, 0b10_0010, 0, 0])
        .discover();
    let sources = [
        on(ANY),
        on(0b0000_0110),
        on(0b1_0000_0000),
        on(0b1),
        fixed(0),
        fixed(1),
        fixed(5),
        grouped(1, fixed(1)),
        grouped(1, on(ANY)),
    ];
    for list in lists(&sources, 3) {
        check(&intel, &list);
    }
    let together = |sources: &[Wanted]| {
        let list: Vec<_> = sources.iter().map(|&source| grouped(1, source)).collect();
        check(&intel, &list);
        Plan::EMPTY
            .clone()
            .make(&intel, list.len(), |index| list[index])
            .is_ok()
    };
    assert!(together(&[on(ANY), on(ANY), on(ANY), fixed(1), fixed(5)]));
    assert!(!together(&[on(ANY), on(ANY), on(ANY), on(ANY)]));
    assert!(!together(&[fixed(1), fixed(1)]));
}

#[test]
fn more_fixed_counters_than_general_ones() {
    let core_2 = Silicon::intel(6, 0x17, [0x0728_0202, 0, 0, 0x503]).discover();
    assert_eq!((core_2.counters, core_2.fixed), (0b11, 0b111));
    let sources = [on(ANY), fixed(0), fixed(1), fixed(2)];
    for list in lists(&sources, 5) {
        check(&core_2, &list);
        let together: Vec<_> = list.iter().map(|&source| grouped(1, source)).collect();
        check(&core_2, &together);
    }
}

#[test]
fn family_15h_masks() {
    let bulldozer = Silicon::amd(0x15, 1)
        .flip(0x8000_0001, [0, 0, 1 << 23, 0])
        .discover();
    let events = [0x00, 0x03, 0x23, 0x2E, 0x76, 0x8F, 0xC0, 0xD0, 0x1C0];
    let sources: Vec<_> = events
        .map(|event| on(amd::family15h_counters(event)))
        .into();
    for list in lists(&sources, 3) {
        check(&bulldozer, &list);
    }
    let mut rng = fastrand::Rng::with_seed(15);
    for _ in 0..300 {
        let one =
            |rng: &mut fastrand::Rng| grouped(rng.u16(..3), sources[rng.usize(..sources.len())]);
        let list: Vec<_> = (0..rng.usize(4..9)).map(|_| one(&mut rng)).collect();
        check(&bulldozer, &list);
    }
}

/// A Pentium 4 with no second thread, or one of two.
fn pentium_4(thread: Option<u32>) -> Capabilities {
    let ebx = thread.map_or(0, |thread| thread << 24 | 2 << 16);
    Silicon::new(b"GenuineIntel", 2, signature(15, 2))
        .leaf(
            1,
            [
                signature(15, 2),
                ebx,
                0,
                u32::from(thread.is_some()) << 28 | 1 << 9 | 1 << 5,
            ],
        )
        .msr(0x1A0, 1 << 7)
        .discover()
}

fn netburst_rows() -> Vec<(&'static str, Wanted)> {
    netburst::ROWS
        .iter()
        .filter(|row| matches!(row.select(), Select::NetBurst(_)))
        .map(|row| {
            let wanted = Wanted {
                select: row.select(),
                ..on(row.counters)
            };
            (row.name(), wanted)
        })
        .collect()
}

#[test]
fn netburst_shares_escrs_only_where_they_want_the_same() {
    let rows = netburst_rows();
    let sources: Vec<_> = rows.iter().map(|(_, wanted)| *wanted).collect();
    for thread in [None, Some(0), Some(1)] {
        let pentium_4 = pentium_4(thread);
        for list in lists(&sources, 2) {
            check(&pentium_4, &list);
            let together: Vec<_> = list.iter().map(|&source| grouped(1, source)).collect();
            check(&pentium_4, &together);
        }
    }
}

#[test]
fn netburst_in_longer_lists() {
    let rows = netburst_rows();
    let mut rng = fastrand::Rng::with_seed(4);
    for round in 0..200 {
        let pentium_4 = pentium_4([None, Some(0), Some(1)][round % 3]);
        let one = |rng: &mut fastrand::Rng| grouped(rng.u16(..3), rows[rng.usize(..rows.len())].1);
        let list: Vec<_> = (0..rng.usize(3..6)).map(|_| one(&mut rng)).collect();
        check(&pentium_4, &list);
    }
}

#[test]
fn netburst_upstream_tags() {
    const EVENT: NetBurstSelect = NetBurstSelect {
        escr: 0x0400_0600,
        cccr: 0x8000,
        escr_msr: [0x3B8, 0x3B9],
        counters: [0b11_0000_0000_0000, 0b1100_0000_0000_0000],
        upstream: Upstream::None,
    };
    const fn wanted(event: NetBurstSelect) -> Wanted {
        Wanted {
            select: Select::NetBurst(event),
            ..SOURCE
        }
    }
    let tagged = |escr| {
        wanted(NetBurstSelect {
            upstream: Upstream::UopType { escr },
            ..EVENT
        })
    };
    let elsewhere = |escr| {
        wanted(NetBurstSelect {
            upstream: Upstream::UopType { escr },
            escr_msr: [0x3CC, 0x3CD],
            ..EVENT
        })
    };
    let replay = |metric, escr_msr| {
        wanted(NetBurstSelect {
            upstream: Upstream::Replay {
                pebs_enable: metric,
                matrix_vert: 1,
            },
            escr_msr,
            ..EVENT
        })
    };
    let sources = [
        wanted(EVENT),
        wanted(NetBurstSelect {
            escr: 0x0400_0200,
            ..EVENT
        }),
        wanted(NetBurstSelect {
            escr_msr: [0x3B8, 0],
            ..EVENT
        }),
        wanted(NetBurstSelect {
            escr_msr: [0, 0x3B9],
            ..EVENT
        }),
        tagged(0x400),
        tagged(0x800),
        elsewhere(0x400),
        elsewhere(0x800),
        replay(1, [0x3B8, 0x3B9]),
        replay(2, [0x3CC, 0x3CD]),
        replay(1, [0x3CC, 0x3CD]),
    ];
    let pentium_4 = pentium_4(None);
    for list in lists(&sources, 3) {
        check(&pentium_4, &list);
        let together: Vec<_> = list.iter().map(|&source| grouped(1, source)).collect();
        check(&pentium_4, &together);
    }
}

#[test]
fn as_many_sources_as_a_session_can_have() {
    let p6 = Silicon::old_intel(6, 8).discover();
    let mut plan = Plan::EMPTY;
    assert_eq!(plan.turns(), 0);
    assert_eq!(plan.seat(0), Seat::Refused(ErrorCode::SourceNotInSession));
    plan.make(&p6, MAX_SOURCES, |_| SOURCE).expect("a plan");
    assert_eq!((MAX_SOURCES, plan.turns()), (256, 128));
    for index in 0..MAX_SOURCES {
        let seat = Seat::Counter {
            counter: Counter::general((index % 2) as u8),
            side: 0,
            turn: (index / 2) as u16,
        };
        assert_eq!(plan.seat(index), seat);
    }
    assert_eq!(
        plan.seat(MAX_SOURCES),
        Seat::Refused(ErrorCode::SourceNotInSession)
    );
    // A new plan forgets the old one.
    plan.make(&p6, 1, |_| TIMER).expect("a plan");
    assert_eq!((plan.turns(), plan.seat(0)), (0, Seat::Timer));
}

#[test]
fn a_group_of_more_than_there_are_counters() {
    let intel = Silicon::intel(6, 0x5E, [0x0730_0A03, 0, 0, 0x603]).discover();
    for (count, fixed_ones, fits) in [
        (10, 3, true),
        (11, 0, false),
        (10, 0, true),
        (33, 0, false),
        (256, 0, false),
    ] {
        let list: Vec<_> = (0..count)
            .map(|_| SOURCE)
            .chain((0..fixed_ones).map(fixed))
            .map(|source| grouped(1, source))
            .collect();
        let made = Plan::EMPTY
            .clone()
            .make(&intel, list.len(), |index| list[index]);
        assert_eq!(made, if fits { Ok(()) } else { Err(0) }, "{count}");
    }
}
