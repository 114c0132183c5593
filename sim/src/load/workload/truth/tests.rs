//! The closed forms against the counts, and the counts against the requested amounts.

use crate::cpu::event::{AMOUNTS, Compare, Event, Feed, Threads};
use crate::load::workload::{KERNEL_CODE, MAX_AMOUNT, Parts, Passed, Workload, parse};
use proptest::prelude::*;
use shared_types::BranchKind;
use std::collections::BTreeMap;

fn every(event: Event, (user, kernel): (bool, bool), compare: Compare) -> Feed {
    Feed { event, user, kernel, compare, threads: Threads::Own }
}

/// Amounts of the kinds that have their own name, in the order of [`Event::ALL`].
fn kinds(of_kinds: [u64; Event::ALL.len()]) -> [u64; AMOUNTS] {
    let mut amounts = [0; AMOUNTS];
    amounts[..of_kinds.len()].copy_from_slice(&of_kinds);
    amounts
}

fn amount() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..=5_u64,
        0..=100_000_u64,
        0..=MAX_AMOUNT,
        Just(MAX_AMOUNT),
        MAX_AMOUNT - 9..=MAX_AMOUNT,
    ]
}

fn of_amounts(amounts: [u64; 12], user: u64, seed: Option<u64>) -> Workload {
    Workload::new(Parts {
        amounts: kinds(amounts),
        user,
        seed,
        processors: None,
        ..Parts::default()
    })
}

/// A loop of two instructions with four iterations, behind one of three that is never left otherwise.
#[test]
fn samples_are_on_the_way_of_the_branches() {
    let branch = |from, to, taken| Passed { from, to, kind: BranchKind::Conditional, taken };
    let again = branch(0x1010, 0x100C, true);
    let way =
        vec![again, again, again, branch(0x1010, 0x1012, false), branch(0x1014, 0x1000, true)];
    let instructions = vec![0x1000, 0x1004, 0x1008, 0x100C, 0x1010, 0x1012, 0x1014, 0x1018];
    let sampled = |text: &str| {
        let mut workload = parse(text).expect("a workload");
        workload.run_from(instructions.clone());
        workload.follow(way.clone(), instructions.clone());
        let mut hits: BTreeMap<u64, u64> = BTreeMap::new();
        for position in 1..=100_000 {
            let (ip, user) = workload.ip_at(position);
            assert!(user);
            *hits.entry(ip).or_default() += 1;
            // The branch records of the sample end where it is.
            let newest = workload.branches_between(0, position, 1).last();
            if let Some(newest) = newest.filter(|_| workload.amount(Event::Branches) != 0) {
                let from_newest = newest.to..=0x1014;
                assert!(from_newest.contains(&ip), "{ip:#x} behind {newest:x?}");
            }
        }
        hits
    };
    // Every way between two branches takes as long: a fifth of the time each.
    let hits = sampled("instructions=100000,branches=20000");
    let share = |addresses: &[u64]| {
        let own: u64 = addresses.iter().filter_map(|address| hits.get(address)).sum();
        own / 100
    };
    let (before, in_loop, behind) =
        (share(&[0x1000, 0x1004, 0x1008]), share(&[0x100C, 0x1010]), share(&[0x1012, 0x1014]));
    // One way in five leads from the beginning through the loop: two of its five instructions.
    let right = [(before, 120), (in_loop, 680), (behind, 200), (share(&[0x1018]), 0)];
    for (share, right) in right {
        assert!(share.abs_diff(right) < 10, "{share} for {right} thousandths: {hits:x?}");
    }
    // Without branches there is no way, and all code is executed.
    assert_eq!(sampled("instructions=100000").len(), instructions.len());
}

prop_compose! {
    fn any_workload()(
        amounts in prop::array::uniform12(amount()),
        user in 0..=100_u64,
        seed in prop::option::of(any::<u64>()),
    ) -> Workload {
        of_amounts(amounts, user, seed)
    }
}

prop_compose! {
    fn any_feed(compares: BoxedStrategy<Compare>)(
        event in prop::sample::select(Event::ALL.to_vec()),
        user in any::<bool>(),
        kernel in any::<bool>(),
        compare in compares,
    ) -> Feed {
        Feed { event, user, kernel, compare, threads: Threads::Own }
    }
}

fn rising() -> BoxedStrategy<Compare> {
    prop_oneof![
        Just(Compare::Off),
        (1..=5_u64).prop_map(Compare::OneMoreEvery),
        (0..=5_u64).prop_map(Compare::AtLeast),
        (0..=5_u64).prop_map(Compare::Edge),
    ]
    .boxed()
}

fn amount_at(workload: &Workload, feed: Feed, position: u64) -> u64 {
    feed.amount(&workload.counts_at(position))
}

fn fraction(of: u64, numerator: u64) -> u64 {
    (u128::from(of) * u128::from(numerator) / u128::from(u64::MAX)) as u64
}

proptest! {
    #[test]
    fn the_whole_is_exact(workload in any_workload()) {
        let end = workload.counts_at(workload.length());
        for event in Event::ALL {
            prop_assert_eq!(end.total(event), workload.amount(event));
            let user = u128::from(workload.amount(event)) * u128::from(workload.parts.user) / 100;
            prop_assert_eq!(u128::from(end.user(event)), user);
        }
        prop_assert_eq!(workload.counts_at(u64::MAX), end);
        prop_assert_eq!(workload.counts_at(0), crate::cpu::event::Counts::default());
    }

    #[test]
    fn a_step_adds_at_most_one_of_each(workload in any_workload(), at in any::<u64>()) {
        prop_assume!(workload.length() > 0);
        let position = fraction(workload.length() - 1, at);
        let (now, next) = (workload.counts_at(position), workload.counts_at(position + 1));
        for event in Event::ALL {
            prop_assert!(next.total(event) - now.total(event) <= 1);
            let user = next.user(event) - now.user(event);
            prop_assert!(user <= next.total(event) - now.total(event));
        }
    }

    #[test]
    fn a_position_is_the_first(
        workload in any_workload(),
        feed in any_feed(rising()),
        part in any::<u64>(),
    ) {
        let whole = amount_at(&workload, feed, workload.length());
        prop_assert_eq!(workload.position_of(feed, whole + 1), None);
        prop_assert_eq!(workload.position_of(feed, 0), Some(0));
        prop_assume!(whole > 0);
        for wanted in [1 + fraction(whole - 1, part), 1, whole] {
            let position = workload.position_of(feed, wanted).expect("it is reached");
            prop_assert!(amount_at(&workload, feed, position) >= wanted);
            prop_assert!(amount_at(&workload, feed, position - 1) < wanted);
        }
    }

    #[test]
    fn below_crosses_at_its_position(
        workload in any_workload(),
        feed in any_feed((1..=5_u64).prop_map(Compare::Below).boxed()),
        part in any::<u64>(),
    ) {
        let whole = amount_at(&workload, feed, workload.length());
        prop_assume!(whole > 0);
        let wanted = 1 + fraction(whole - 1, part);
        let position = workload.position_of(feed, wanted).expect("it is reached");
        prop_assert!(amount_at(&workload, feed, position) >= wanted);
        prop_assert!(amount_at(&workload, feed, position - 1) < wanted);
    }

    #[test]
    fn below_is_the_first_of_all(
        amounts in prop::array::uniform12(0..=400_u64),
        user in 0..=100_u64,
        feed in any_feed((1..=5_u64).prop_map(Compare::Below).boxed()),
        wanted in 1..=400_u64,
    ) {
        let workload = of_amounts(amounts, user, None);
        let first = (0..=workload.length()).find(|&at| amount_at(&workload, feed, at) >= wanted);
        prop_assert_eq!(workload.position_of(feed, wanted), first);
    }

    #[test]
    fn time_and_position_agree(workload in any_workload(), part in any::<u64>()) {
        let whole = workload.amount(Event::Cycles).max(workload.amount(Event::Instructions));
        prop_assert_eq!(workload.time_at(workload.length()), whole);
        prop_assert_eq!(workload.position_at(whole + 1), None);
        prop_assume!(whole > 0);
        let time = 1 + fraction(whole - 1, part);
        let position = workload.position_at(time).expect("it comes");
        prop_assert!(workload.time_at(position) >= time);
        prop_assert!(workload.time_at(position - 1) < time);
    }

    #[test]
    fn an_address_is_in_the_range_of_its_mode(workload in any_workload(), part in any::<u64>()) {
        let (ip, user) = workload.ip_at(fraction(workload.length(), part));
        let (start, end) = if user { Parts::default().code } else { KERNEL_CODE };
        prop_assert!((start..end).contains(&ip));
    }

    #[test]
    fn an_overflow_in_one_mode_has_an_address_of_that_mode(
        workload in any_workload(),
        event in prop::sample::select(Event::ALL.to_vec()),
        user in any::<bool>(),
        part in any::<u64>(),
    ) {
        let feed = every(event, (user, !user), Compare::Off);
        let whole = amount_at(&workload, feed, workload.length());
        prop_assume!(whole > 0);
        let position = workload.position_of(feed, 1 + fraction(whole - 1, part)).expect("it comes");
        prop_assert_eq!(workload.ip_of(event, position).1, user);
    }
}

#[test]
fn a_seed_varies_the_rates_and_nothing_else() {
    let steady = parse("instructions=1000000,cycles=2000000").expect("a workload");
    let varied = parse("instructions=1000000,cycles=2000000,seed=7").expect("a workload");
    assert_eq!(varied, parse("instructions=1000000,cycles=2000000,seed=7").expect("a workload"));
    let half = |workload: &Workload| {
        let counts = workload.counts_at(workload.length() / 4);
        counts.total(Event::Instructions)
    };
    assert_eq!(half(&steady), 250_000);
    assert_ne!(half(&varied), half(&steady));
}

#[test]
fn the_longest_workload_has_positions() {
    for seed in 0..200 {
        let length = of_amounts([MAX_AMOUNT; 12], 50, Some(seed)).length();
        assert!((MAX_AMOUNT..=3 * MAX_AMOUNT).contains(&length));
    }
}

/// Whatever the sampling period, the samples cover all of the code, and each mode by its share.
#[test]
fn no_period_meets_the_same_instructions_or_one_mode_only() {
    let workload = parse("instructions=4000000000,user=90,code=0x1000-0x1050");
    let workload = workload.expect("a workload");
    for period in [4096, 10_000, 65_536, 100_000] {
        let samples = 4_000_000_000 / period;
        let mut places = [0_u64; 20];
        for (ip, user) in (1..=samples).map(|n| workload.ip_at(n * period)) {
            if user {
                assert!((0x1000..0x1050).contains(&ip) && ip % 4 == 0);
                places[(ip - 0x1000) as usize / 4] += 1;
            } else {
                assert!((KERNEL_CODE.0..KERNEL_CODE.1).contains(&ip));
            }
        }
        let user: u64 = places.iter().sum();
        assert!(user * 100 / samples >= 89 && user * 100 / samples <= 91, "{period}");
        for place in places {
            let share = place * 20 * 100 / user;
            assert!((80..=120).contains(&share), "{period}: {places:?}");
        }
    }
}

#[test]
fn without_cycles_and_instructions_all_happens_at_once() {
    let workload = parse("branches=10").expect("a workload");
    assert_eq!(workload.time_at(10), 0);
    assert_eq!(workload.position_at(1), None);
    assert_eq!(workload.position_at(0), Some(0));
}

/// With cycles and busy cycles at the same rate the difference only oscillates, and the search
/// ends.
#[test]
fn a_search_without_end_is_given_up() {
    let workload = parse("instructions=4000000000000,cycles=1000000000000").expect("a workload");
    let feed = every(Event::Instructions, (true, true), Compare::Below(1));
    assert_eq!(workload.position_of(feed, 2), None);
}
