//! Does assignment find counters for sources whenever they exist? Compared with a matcher that
//! tries everything.

use hal_profile::cpu::capabilities::Capabilities;
use hal_profile::cpu::counter::Counter;
use hal_profile::historic::netburst;
use hal_profile::historic::select::{NetBurstSelect, Select as Historic, Upstream};
use hal_profile::plan::assign::{Assignment, Schedule};
use hal_profile::plan::index::SourceIndex;
use hal_profile::plan::slice::Requirements;
use hal_profile::source::MAX_SOURCES;
use hal_profile::source::encode::encode;
use hal_profile::source::filter::Filter;
use hal_profile::source::{ANY, CounterSet, NO_COUNTER, Select, amd};
use halprof_tests::silicon::{Silicon, signature};
use shared_types::request::source::Placement;
use std::collections::BTreeSet;
use std::ops::Range;
use zerocopy::FromZeros;

/// The rotation of a source that runs in every one.
const EVERY: u16 = Placement::EVERY_SLICE;

/// A counter and its side.
type Seat = (Counter, u8);

/// A source, with the constraints that the manuals give it.
#[derive(Clone, Copy, Debug)]
struct Source {
    select: Select,
    /// The general counters that can count it.
    counters: CounterSet,
    /// The fixed counters that count the same event.
    fixed: CounterSet,
    filter: Filter,
    group: u16,
    /// It takes no counter: a timer, or a refused source.
    left_out: bool,
    /// It takes a counter of even number and the next.
    pair: bool,
}

const SOURCE: Source = Source {
    select: Select::EventSelect(0xC0),
    counters: ANY,
    fixed: NO_COUNTER,
    filter: Filter::BOTH,
    group: 0,
    left_out: false,
    pair: false,
};

const fn on(counters: CounterSet) -> Source {
    Source { counters, ..SOURCE }
}

const fn pair(counters: CounterSet) -> Source {
    Source { pair: true, ..on(counters) }
}

const fn fixed(index: u8) -> Source {
    Source { select: Select::Fixed(index), counters: NO_COUNTER, fixed: 1 << index, ..SOURCE }
}

const fn grouped(group: u16, source: Source) -> Source {
    Source { group, ..source }
}

/// Every place that a source could take if it were alone.
fn seats(capabilities: &Capabilities, source: &Source) -> Vec<Seat> {
    let of = |set: CounterSet, side| {
        let usable = set & source.counters & capabilities.counters;
        let pairs = move |index: &u32| {
            !source.pair || index.is_multiple_of(2) && capabilities.counters >> (index + 1) & 1 == 1
        };
        (0..32)
            .filter(move |index| usable >> index & 1 == 1)
            .filter(pairs)
            .map(|index| index as u8)
            .map(move |index| (Counter::general(index).expect("below 32"), side))
    };
    let usable = source.fixed & capabilities.fixed;
    let fixed = (0..32)
        .filter(move |index| usable >> index & 1 == 1)
        .map(|index| (Counter::fixed(index).expect("below 32"), 0));
    match source.select {
        Select::None => Vec::new(),
        Select::Fixed(_) => fixed.collect(),
        Select::EventSelect(_) | Select::Historic(Historic::Cesr { .. }) => {
            of(ANY, 0).chain(fixed).collect()
        }
        Select::Historic(Historic::NetBurst(event)) => [0, 1]
            .into_iter()
            .filter(|&side| event.escr_msr[side] != 0)
            .flat_map(|side| of(event.counters[side], side as u8))
            .collect(),
    }
}

/// The registers besides the counter's own that a source needs, and the values that it needs in
/// them. MSRs of RAT_ESCR, IA32_PEBS_ENABLE and MSR_PEBS_MATRIX_VERT: SDM vol. 4, "MSRs in Pentium
/// 4".
fn upstream(source: &Source, side: u8) -> Vec<(u32, (u32, Filter))> {
    let Select::Historic(Historic::NetBurst(event)) = source.select else {
        return Vec::new();
    };
    let modes = |value| (value, source.filter);
    let escr = event.escr_msr[usize::from(side)].into();
    let mut registers = vec![(escr, modes(event.escr))];
    match event.upstream {
        Upstream::None => {}
        Upstream::UopType { escr } => registers.push((0x3BC + u32::from(side), modes(escr))),
        Upstream::Replay { pebs_enable, matrix_vert } => registers
            .extend([(0x3F1, (pebs_enable, Filter::BOTH)), (0x3F2, (matrix_vert, Filter::BOTH))]),
    }
    registers
}

/// Whether two sources can run in these places at the same time.
fn agree((one, at): (&Source, Seat), (other, there): (&Source, Seat)) -> bool {
    let others = upstream(other, there.1);
    let taken = |source: &Source, (counter, _): Seat| {
        counter.global_bit() * if source.pair { 0b11 } else { 0b1 }
    };
    taken(one, at) & taken(other, there) == 0
        && upstream(one, at.1).iter().all(|(msr, value)| {
            let same = others.iter().filter(|(theirs, _)| theirs == msr);
            same.into_iter().all(|(_, theirs)| theirs == value)
        })
}

/// Whether all sources fit at once: tries every combination.
fn fits(capabilities: &Capabilities, sources: &[Source]) -> bool {
    let mut partial: Vec<Vec<Seat>> = vec![Vec::new()];
    for source in sources {
        let seats = seats(capabilities, source);
        partial = partial
            .iter()
            .flat_map(|seated| {
                seats.iter().filter_map(|&seat| {
                    let agrees = seated
                        .iter()
                        .zip(sources)
                        .all(|(&theirs, other)| agree((source, seat), (other, theirs)));
                    agrees.then(|| [seated.as_slice(), &[seat]].concat())
                })
            })
            .collect();
    }
    !partial.is_empty()
}

/// First fit in the requested order, groups together: the rotation of each source.
fn expected(capabilities: &Capabilities, sources: &[Source]) -> Result<Vec<Option<u16>>, usize> {
    let mut rotations: Vec<Vec<usize>> = Vec::new();
    let mut rotation_of = vec![None; sources.len()];
    for (first, source) in sources.iter().enumerate() {
        if source.left_out || rotation_of[first].is_some() {
            continue;
        }
        let of_group = |index: &usize| {
            let other = &sources[*index];
            !other.left_out && (*index == first || source.group != 0 && other.group == source.group)
        };
        let unit: Vec<usize> = (0..sources.len()).filter(of_group).collect();
        rotations.push(Vec::new());
        let rotation = rotations
            .iter()
            .position(|rotation| {
                let mut together: Vec<usize> = rotation.iter().chain(&unit).copied().collect();
                together.sort_unstable();
                let together: Vec<Source> = together.iter().map(|&index| sources[index]).collect();
                fits(capabilities, &together)
            })
            .ok_or(first)?;
        rotations[rotation].extend(&unit);
        for &index in &unit {
            rotation_of[index] = Some(rotation as u16);
        }
        rotations.retain(|rotation| !rotation.is_empty());
    }
    Ok(rotation_of)
}

fn requirements(capabilities: &Capabilities, source: &Source) -> Requirements {
    if source.left_out {
        return Requirements::new_zeroed();
    }
    let counters = seats(capabilities, source).into_iter().map(|(counter, _)| counter);
    Requirements {
        counters: counters.fold(0, |mask, counter| mask | counter.global_bit()),
        encoding: encode(capabilities, &source.select, source.filter, false),
        filter: source.filter,
        group: source.group,
        alone: false,
        pair: source.pair,
    }
}

fn assignment() -> Box<Assignment> {
    Assignment::new_box_zeroed().expect("memory")
}

/// The sources by their place in the session's list.
fn index(place: usize) -> SourceIndex {
    SourceIndex::first(MAX_SOURCES).nth(place).expect("below 256")
}

fn solve(
    assignment: &mut Assignment,
    capabilities: &Capabilities,
    sources: &[Source],
) -> Result<(), usize> {
    assignment.clear(capabilities.errata.last_counters);
    for (place, source) in sources.iter().enumerate() {
        *assignment.requirements(index(place)) = requirements(capabilities, source);
    }
    assignment.solve(sources.len()).map_err(SourceIndex::get)
}

fn schedule(assignment: &Assignment) -> Box<Schedule> {
    let mut schedule = Schedule::new_box_zeroed().expect("memory");
    assignment.schedule(&mut schedule);
    schedule
}

/// The counter and the slice of a source that takes a counter.
fn assigned(assignment: &Assignment, place: usize) -> Option<(Counter, u16)> {
    let (_, assigned) = assignment.assigned(index(place))?;
    Some((assigned.counter, assigned.slice))
}

/// Checks that every source that takes a counter has one that can count it, and shares no register
/// with another source of its rotation that needs a different value there. Returns the rotation of
/// each.
fn valid(
    assignment: &Assignment,
    capabilities: &Capabilities,
    sources: &[Source],
) -> Vec<Option<u16>> {
    let mut seated: Vec<(u16, &Source, Seat)> = Vec::new();
    let mut rotations = Vec::new();
    let schedule = schedule(assignment);
    for (place, source) in sources.iter().enumerate() {
        let assigned = assigned(assignment, place);
        assert_eq!(assigned.is_none(), source.left_out, "{place}");
        rotations.push(assigned.map(|(_, slice)| slice));
        let Some((counter, slice)) = assigned else {
            continue;
        };
        let seats = seats(capabilities, source);
        let seat = seats.into_iter().find(|(can, _)| *can == counter).expect("it can count it");
        let every = [slice, EVERY];
        let agrees = |(rotation, other, there): &(u16, &Source, Seat)| {
            !every.contains(rotation) && slice != EVERY || agree((source, seat), (other, *there))
        };
        assert!(seated.iter().all(agrees), "{seated:x?}");
        seated.push((slice, source, seat));
    }
    // Each slice's list has all of its sources, and those of every slice.
    for slice in (0..schedule.slices).chain([EVERY]) {
        let mut listed: Vec<usize> = schedule.sources(slice).map(SourceIndex::get).collect();
        listed.sort_unstable();
        let runs = |place: &usize| {
            rotations[*place].is_some_and(|rotation| [slice, EVERY].contains(&rotation))
        };
        let expected: Vec<usize> = (0..sources.len()).filter(runs).collect();
        assert_eq!(listed, expected, "{slice}");
    }
    let slices: BTreeSet<u16> = rotations.iter().copied().flatten().collect();
    let in_turn = slices.iter().filter(|&&slice| slice != EVERY);
    assert_eq!(usize::from(schedule.slices), in_turn.count());
    for (rotation, source, (counter, _)) in &seated {
        let on_it = seated.iter().filter(|(_, _, (other, _))| other == counter);
        let own = counter.is_fixed() && on_it.count() == 1;
        let grouped = source.group != 0
            && sources
                .iter()
                .filter(|&other| !other.left_out && other.group == source.group)
                .count()
                > 1;
        let every = schedule.slices > 1 && own && !grouped;
        assert_eq!(*rotation == EVERY, every, "{source:?}");
    }
    rotations
}

fn check(capabilities: &Capabilities, sources: &[Source]) {
    let mut assignment = assignment();
    let solved = solve(&mut assignment, capabilities, sources);
    let expected = expected(capabilities, sources);
    assert_eq!(solved.err(), expected.as_ref().err().copied(), "{sources:x?}");
    if let Ok(expected) = expected {
        let mut rotations = valid(&assignment, capabilities, sources);
        for (rotation, expected) in rotations.iter_mut().zip(&expected) {
            if *rotation == Some(EVERY) {
                *rotation = *expected;
            }
        }
        assert_eq!(rotations, expected, "{sources:x?}");
    }
}

fn together(capabilities: &Capabilities, sources: &[Source]) -> bool {
    let list: Vec<_> = sources.iter().map(|&source| grouped(1, source)).collect();
    check(capabilities, &list);
    solve(&mut assignment(), capabilities, &list).is_ok()
}

/// Every list of these sources, up to a maximum length.
fn lists(sources: &[Source], longest: usize) -> Vec<Vec<Source>> {
    let mut all = vec![Vec::new()];
    let mut last = all.clone();
    for _ in 0..longest {
        last = last
            .iter()
            .flat_map(|list| sources.iter().map(|&source| [list.as_slice(), &[source]].concat()))
            .collect();
        all.extend(last.iter().cloned());
    }
    all
}

/// Checks every list of these sources, up to a maximum length, apart and as one group.
fn check_lists(capabilities: &Capabilities, sources: &[Source], longest: usize) {
    for list in lists(sources, longest) {
        check(capabilities, &list);
        together(capabilities, &list);
    }
}

/// Checks a few hundred longer lists of these sources, some of them in groups.
fn check_longer(capabilities: &Capabilities, sources: &[Source], lengths: Range<usize>) {
    let mut rng = fastrand::Rng::with_seed(15);
    for _ in 0..200 {
        let length = rng.usize(lengths.clone());
        let one = |_| grouped(rng.u16(..3), sources[rng.usize(..sources.len())]);
        let list: Vec<_> = (0..length).map(one).collect();
        check(capabilities, &list);
    }
}

const LEFT_OUT: Source = Source { left_out: true, ..SOURCE };

#[test]
fn p6_flops_on_counter_0_only() {
    let p6 = Silicon::old_intel(6, 8).discover();
    let sources = [
        on(ANY),
        on(0b01),
        on(0b10),
        grouped(1, on(ANY)),
        grouped(1, on(0b01)),
        LEFT_OUT,
        grouped(1, LEFT_OUT),
    ];
    check_lists(&p6, &sources, 4);
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
        fixed(1),
        fixed(5),
        grouped(1, fixed(1)),
        grouped(1, on(ANY)),
    ];
    check_lists(&intel, &sources, 3);
    assert!(together(&intel, &[on(ANY), on(ANY), on(ANY), fixed(1), fixed(5)]));
    assert!(!together(&intel, &[on(ANY), on(ANY), on(ANY), on(ANY)]));
    assert!(!together(&intel, &[fixed(1), fixed(1)]));
}

#[test]
fn more_fixed_counters_than_general_ones() {
    let core_2 = Silicon::intel(6, 0x17, [0x0728_0202, 0, 0, 0x503]).discover();
    assert_eq!((core_2.counters, core_2.fixed), (0b11, 0b111));
    let sources = [on(ANY), fixed(0), fixed(1), fixed(2)];
    check_lists(&core_2, &sources, 5);
}

#[test]
fn family_15h_masks() {
    let bulldozer = Silicon::amd(0x15, 1).flip(0x8000_0001, [0, 0, 1 << 23, 0]).discover();
    let events = [0x00, 0x03, 0x23, 0x2E, 0x76, 0x8F, 0xC0, 0xD0, 0x1C0];
    let sources: Vec<_> = events.map(|event| on(amd::family15h_counters(event))).into();
    check_lists(&bulldozer, &sources, 3);
    check_longer(&bulldozer, &sources, 4..9);
}

/// Retired FLOPs of Zen: six counters are three pairs, and four two.
#[test]
fn pairs_among_others() {
    let zen = |ecx: u32| {
        let processor = Silicon::new(b"AuthenticAMD", 0x10, signature(0x19, 0x61));
        processor.leaf(0x8000_0001, [0, 0, ecx, 1 << 29]).discover()
    };
    let (six, four) = (zen(1 << 23), zen(0));
    assert_eq!((six.counters, four.counters), (0x3F, 0xF));
    for (capabilities, pairs) in [(&six, 3), (&four, 2)] {
        for length in 1..=4 {
            let list = vec![pair(ANY); length];
            assert_eq!(together(capabilities, &list), length <= pairs, "{length}");
        }
    }
    for (singles, fits) in [(2, true), (3, false)] {
        let list = [vec![SOURCE; singles], vec![pair(ANY); 2]].concat();
        assert_eq!(together(&six, &list), fits, "{singles}");
    }
    // A source that one counter alone counts moves a pair away from it, and two pairs change places.
    for list in [[pair(ANY), on(0b1), pair(0b100)], [pair(ANY), pair(0b1), on(0b10_0000)]] {
        assert!(together(&six, &list));
    }
    let sources = [SOURCE, on(0b1), on(0b1010), pair(ANY), pair(0b1_0000), pair(0b101)];
    check_lists(&six, &sources, 4);
    check_lists(&four, &sources[..4], 4);
    check_longer(&six, &sources, 5..8);
}

/// With as many counters as EBX can say, more pairs than can be tried end the search.
#[test]
fn the_search_for_pairs_is_bounded() {
    let zen = Silicon::new(b"AuthenticAMD", 0x10, signature(0x1A, 0x44))
        .leaf(0x8000_0000, [0x8000_0022, 0, 0, 0])
        .leaf(0x8000_0001, [0, 0, 1 << 23, 1 << 29])
        .leaf(0x8000_0022, [1, 15, 0, 0])
        .discover();
    assert_eq!(zen.counters, 0x7FFF);
    let list = vec![pair(ANY); MAX_SOURCES];
    let mut assignment = assignment();
    solve(&mut assignment, &zen, &list).expect("slices");
    assert_eq!(schedule(&assignment).slices, 256_u16.div_ceil(7));
    // Two want the same counter, whatever the pairs take.
    assert!(!together(&zen, &[pair(ANY), pair(ANY), pair(ANY), on(0b1), on(0b1)]));
}

fn pentium_4(thread: Option<u32>) -> Capabilities {
    Silicon::pentium_4(thread).discover()
}

fn netburst_rows() -> Vec<(&'static str, Source)> {
    netburst::ROWS
        .iter()
        .filter(|row| matches!(row.select, Select::Historic(Historic::NetBurst(_))))
        .map(|row| {
            let source = Source { select: row.select, ..on(row.counters) };
            (halprof_tests::facts::texts(shared_types::SourceTable::NetBurst, row).name, source)
        })
        .collect()
}

#[test]
fn netburst_shares_escrs_only_where_they_want_the_same() {
    let sources: Vec<_> = netburst_rows().into_iter().map(|(_, source)| source).collect();
    for thread in [None, Some(0), Some(1)] {
        let pentium_4 = pentium_4(thread);
        check_lists(&pentium_4, &sources, 2);
        check_longer(&pentium_4, &sources, 3..6);
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
    const fn source(event: NetBurstSelect) -> Source {
        Source { select: Select::Historic(Historic::NetBurst(event)), ..SOURCE }
    }
    let tagged = |escr| source(NetBurstSelect { upstream: Upstream::UopType { escr }, ..EVENT });
    let elsewhere = |escr| {
        source(NetBurstSelect {
            upstream: Upstream::UopType { escr },
            escr_msr: [0x3CC, 0x3CD],
            ..EVENT
        })
    };
    let replay = |metric, escr_msr| {
        source(NetBurstSelect {
            upstream: Upstream::Replay { pebs_enable: metric, matrix_vert: 1 },
            escr_msr,
            ..EVENT
        })
    };
    let sources = [
        source(EVENT),
        source(NetBurstSelect { escr: 0x0400_0200, ..EVENT }),
        source(NetBurstSelect { escr_msr: [0x3B8, 0], ..EVENT }),
        source(NetBurstSelect { escr_msr: [0, 0x3B9], ..EVENT }),
        tagged(0x400),
        tagged(0x800),
        elsewhere(0x400),
        elsewhere(0x800),
        replay(1, [0x3B8, 0x3B9]),
        replay(2, [0x3CC, 0x3CD]),
        replay(1, [0x3CC, 0x3CD]),
    ];
    check_lists(&pentium_4(None), &sources, 3);
}

#[test]
fn as_many_sources_as_a_session_can_have() {
    let p6 = Silicon::old_intel(6, 8).discover();
    let mut assignment = assignment();
    assert_eq!(schedule(&assignment).slices, 0);
    assert!(assigned(&assignment, 0).is_none());
    solve(&mut assignment, &p6, &[SOURCE; MAX_SOURCES]).expect("rotations");
    assert_eq!((MAX_SOURCES, schedule(&assignment).slices), (256, 128));
    for place in 0..MAX_SOURCES {
        let counter = Counter::general((place % 2) as u8).expect("below 32");
        assert_eq!(assigned(&assignment, place), Some((counter, (place / 2) as u16)));
    }
    // A new assignment forgets the old one.
    solve(&mut assignment, &p6, &[LEFT_OUT]).expect("nothing to assign");
    assert_eq!(schedule(&assignment).slices, 0);
    assert!(assigned(&assignment, 0).is_none() && assigned(&assignment, 1).is_none());
}

#[test]
fn a_group_of_more_than_there_are_counters() {
    let intel = Silicon::intel(6, 0x5E, [0x0730_0A03, 0, 0, 0x603]).discover();
    for (count, fixed_ones, fits) in
        [(10, 3, true), (11, 0, false), (10, 0, true), (33, 0, false), (MAX_SOURCES, 0, false)]
    {
        let list: Vec<_> = (0..count)
            .map(|_| SOURCE)
            .chain((0..fixed_ones).map(fixed))
            .map(|source| grouped(1, source))
            .collect();
        let solved = solve(&mut assignment(), &intel, &list);
        assert_eq!(solved, if fits { Ok(()) } else { Err(0) }, "{count}");
    }
}

/// Instructions retired, on fixed counter 0 or any general one.
const ALSO_FIXED: Source = Source { fixed: 1, ..SOURCE };

#[test]
fn a_fixed_counter_that_counts_the_same_is_taken_first() {
    let skylake = Silicon::intel(6, 0x5E, [0x0730_0403, 0, 0, 0x603]).discover();
    let mut assignment = assignment();
    solve(&mut assignment, &skylake, &[SOURCE, ALSO_FIXED]).expect("both fit");
    let counters = [0, 1].map(|place| assigned(&assignment, place).map(|(counter, _)| counter));
    assert_eq!(counters, [Counter::general(0), Counter::fixed(0)]);
    let sources = [on(ANY), on(0b11), ALSO_FIXED, fixed(0), grouped(1, ALSO_FIXED)];
    check_lists(&skylake, &sources, 5);
    // Four on general counters and one on the fixed counter, in any order.
    assert!(together(&skylake, &[ALSO_FIXED, SOURCE, SOURCE, SOURCE, SOURCE]));
    assert!(together(&skylake, &[ALSO_FIXED, fixed(0), SOURCE, SOURCE, SOURCE]));
    assert!(!together(&skylake, &[ALSO_FIXED, fixed(0), SOURCE, SOURCE, SOURCE, SOURCE]));
}

const USER: Filter = Filter { user: true, kernel: false };
const KERNEL: Filter = Filter { user: false, kernel: true };

/// An ESCR has one pair of mode bits per thread (SDM, NetBurst: "ESCR MSRs"): two ESCRs hold two
/// filters.
#[test]
fn two_filters_of_one_event_are_two_escrs_or_do_not_fit() {
    let filtered = |source: Source, filter| Source { filter, ..source };
    for (name, row) in netburst_rows() {
        let both = [filtered(row, USER), filtered(row, KERNEL)];
        let all = [both[0], both[1], filtered(row, Filter::BOTH)];
        for thread in [None, Some(0), Some(1)] {
            let pentium_4 = pentium_4(thread);
            let fit = together(&pentium_4, &both);
            assert!(fit || thread.is_some() || name != "TotalIssues", "instructions of both modes");
            check(&pentium_4, &both);
            check(&pentium_4, &all);
            assert!(!together(&pentium_4, &all), "{name}");
        }
    }
}

/// All sources but the last agree on one ESCR: without a bound the search would try every order of
/// all others on all counters, longer than anyone would wait.
#[test]
fn the_search_is_bounded() {
    /// The counters that even ESCRs feed.
    const EVEN: CounterSet = 0x1_3333;
    let on_one_escr = Source {
        select: Select::Historic(Historic::NetBurst(NetBurstSelect {
            escr: 0x0400_0600,
            cccr: 0x8000,
            escr_msr: [0x3B8, 0],
            counters: [EVEN, 0],
            upstream: Upstream::None,
        })),
        ..SOURCE
    };
    let other = Source { filter: USER, ..on_one_escr };
    let pentium_4 = pentium_4(None);
    let mut assignment = assignment();
    let mut list = vec![on_one_escr; 7];
    list.push(other);
    let group: Vec<_> = list.iter().map(|&source| grouped(1, source)).collect();
    assert_eq!(solve(&mut assignment, &pentium_4, &group), Err(0));
    solve(&mut assignment, &pentium_4, &list).expect("a rotation of its own");
    let rotations = valid(&assignment, &pentium_4, &list);
    assert_eq!(rotations.last(), Some(&Some(1)));
    // As many as a session can have: sources for which no search steps remain run in a later turn.
    let alternating: Vec<_> =
        (0..MAX_SOURCES).map(|index| [on_one_escr, other][index % 2]).collect();
    solve(&mut assignment, &pentium_4, &alternating).expect("rotations");
    valid(&assignment, &pentium_4, &alternating);
}
