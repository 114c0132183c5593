//! Which source runs when: in slices that follow each other, on a timer, and until the session ends?
//! A test lets time pass by hand.

use hal_profile::run::host::Processors as _;
use halprof_tests::bare::Bare;
use halprof_tests::requests::spec;
use shared_types::request::session::{SAMPLE, STOP, Spec};
use shared_types::{ErrorCode, LossCause};
use sim::cpu::event::Event;
use sim::machines::models;
use sim::quirks::Quirks;

const TIME: u32 = 0x00;
const TOTAL_ISSUES: u32 = 0x02;

fn every(interval: u64, source: u32) -> Spec {
    Spec { interval, ..spec(source) }
}

/// Six sources that no fixed counter counts take turns on four general counters; a timer never
/// waits for a counter. The first and the last of the six, which never run together, are branches.
const TWO_TURNS: [u32; 7] = [0x06, 0x0B, 0x1B, 0x1C, 0x1D, 0x1E, TIME];

/// A timer runs whenever the session does; of the other sources only those whose turn it is.
#[test]
fn what_waits_for_its_turn_does_not_run() {
    let mut bare = Bare::new("skylake", 1);
    bare.configure(0, &TWO_TURNS.map(spec), 40_000);
    bare.cpu(0).processor.set_timestamp(1_000_000);
    bare.start();
    bare.cpu(0).processor.set_timestamp(2_000_000);
    for when in ["running", "stopped", "later"] {
        let counts = bare.snapshot();
        assert!(counts.iter().all(|count| count.enabled == 1_000_000), "{when}");
        let running: Vec<_> = counts.iter().map(|count| count.running).collect();
        let waited = running.iter().filter(|&&running| running == 0).count();
        let ran = running.iter().filter(|&&running| running == 1_000_000);
        assert!((1..=4).contains(&waited), "{when}: {running:?}");
        assert_eq!(ran.count() + waited, TWO_TURNS.len(), "{when}: {running:?}");
        assert_eq!(running.last(), Some(&1_000_000), "{when}");
        match when {
            "running" => bare.stop(),
            _ => bare.cpu(0).processor.set_timestamp(3_000_000),
        }
    }
}

/// Two turns of 4 ms: the previous session was stopped in the second one.
#[test]
fn a_session_begins_with_its_first_turn() {
    let mut bare = Bare::new("skylake", 1);
    bare.configure(0, &TWO_TURNS.map(spec), 40_000);
    bare.start();
    bare.cpu(0).processor.set_timestamp(5_000_000);
    bare.service.processors().tick(0);
    bare.stop();
    bare.configure(0, &[spec(TOTAL_ISSUES)], 0);
    bare.start();
    bare.retire(0, &[(Event::Instructions, 12_345)]);
    assert_eq!(bare.snapshot()[0].counted, 12_345);
}

/// The timer reads counters that do not take turns, without stopping them.
#[test]
fn a_single_turn_is_never_over() {
    let mut bare = Bare::new("skylake", 1);
    bare.configure(0, &[spec(TOTAL_ISSUES)], 0);
    bare.start();
    bare.cpu(0).processor.set_timestamp(1_000_000_000);
    bare.service.processors().tick(0);
    assert_eq!(bare.snapshot()[0].slices, 0);
}

/// 7.5 ms are 7 ticks of 1 ms.
#[test]
fn a_timer_is_read_while_it_runs() {
    let mut bare = Bare::new("skylake", 1);
    bare.configure(0, &[every(10_000, TIME)], 0);
    bare.start();
    bare.cpu(0).processor.set_timestamp(7_500_000);
    assert_eq!(bare.snapshot()[0].counted, 7);
}

/// A tick that comes a little early ends the turn all the same: from three quarters of it on.
#[test]
fn a_turn_is_over_after_three_quarters_of_its_time() {
    for (ran, over) in [(2_999_999, 0), (3_000_000, 1), (4_000_000, 1)] {
        let mut bare = Bare::new("skylake", 1);
        bare.configure(0, &TWO_TURNS.map(spec), 40_000);
        bare.cpu(0).processor.set_timestamp(1_000_000);
        bare.start();
        bare.cpu(0).processor.set_timestamp(1_000_000 + ran);
        bare.service.processors().tick(0);
        let counts = bare.snapshot();
        let turns = counts.iter().map(|count| count.slices).max();
        assert_eq!(turns, Some(over), "{ran}");
    }
}

/// A turn of a second is not over at the looks within it, however early they come.
#[test]
fn a_long_turn_is_looked_at_as_often_as_any_session() {
    const SECOND: u32 = 10_000_000;
    let skylake = models::find("skylake").expect("a model").processors()[0].clone();
    let narrow = skylake.with_quirks(Quirks::parse("narrow-counters").expect("one"));
    let specs = &TWO_TURNS.map(spec)[..6];
    for (leaves, flags, looks) in [(skylake, SAMPLE, 4), (narrow, 0, 45)] {
        let mut bare = Bare::of(&[leaves]);
        bare.configure(flags, specs, SECOND);
        bare.cpu(0).processor.set_timestamp(1_000_000);
        bare.start();
        let timer = bare.service.timer().expect("a timer");
        assert_eq!((timer.period, timer.precise), (SECOND / looks, true), "{looks}");
        let frequency = bare.service.processors().timestamp_frequency();
        let look = frequency / u64::from(looks);
        for number in 1..=u64::from(looks) {
            let early = look / 5;
            let now = 1_000_000 + number * look - early;
            bare.cpu(0).processor.set_timestamp(now);
            bare.service.processors().tick(0);
            let turns = bare.snapshot().iter().map(|count| count.slices).max();
            assert_eq!(turns, Some(number / u64::from(looks)), "{number} of {looks}");
        }
        bare.stop();
    }
}

/// Counters are read in a quarter of the time in which 48 events a nanosecond would wrap them, and
/// at least every 5 s; while sampling, overflows are looked for every 250 ms. Only the timer of turns is
/// precise.
#[test]
fn the_timer_is_as_frequent_as_the_session_needs() {
    let skylake = || models::find("skylake").expect("a model").processors()[0].clone();
    let narrow = skylake().with_quirks(Quirks::parse("narrow-counters").expect("one"));
    let quarter = ((1_u64 << 32) / 4_800 / 4) as u32;
    let two = &TWO_TURNS.map(spec)[..6];
    let one = &[spec(TOTAL_ISSUES)][..];
    for (leaves, flags, specs, timer) in [
        (skylake(), 0, &[spec(TIME)][..], None),
        (skylake(), 0, one, Some((50_000_000, false))),
        (skylake(), SAMPLE, one, Some((2_500_000, false))),
        (narrow.clone(), 0, one, Some((quarter, false))),
        (narrow, SAMPLE, one, Some((quarter, false))),
        (skylake(), 0, two, Some((40_000, true))),
        (skylake(), SAMPLE, two, Some((40_000, true))),
    ] {
        let mut bare = Bare::of(&[leaves]);
        bare.configure(flags, specs, 40_000);
        assert_eq!(bare.service.timer(), None, "{timer:?}");
        bare.start();
        let now = bare.service.timer();
        assert_eq!(now.map(|one| (one.period, one.precise)), timer);
        bare.stop();
        assert_eq!(bare.service.timer(), None, "{timer:?}");
    }
}

/// Turns of 2^33 events in 2^34 ticks: each sum is above 2^64, and what a later turn adds comes on
/// top of that.
#[test]
fn sums_of_squares_have_128_bits() {
    let mut bare = Bare::new("skylake", 1);
    bare.configure(0, &TWO_TURNS.map(spec), 40_000);
    let mut now = 1_000_000;
    bare.cpu(0).processor.set_timestamp(now);
    bare.start();
    for turn in 1..=8 {
        bare.retire(0, &[(Event::Branches, turn << 33)]);
        now += 1 << 34;
        bare.cpu(0).processor.set_timestamp(now);
        bare.service.processors().tick(0);
        // The first source and the last but one have branches, in different turns.
        let counts = bare.snapshot().into_iter();
        for count in counts.filter(|count| count.counted != 0 && count.slices != 0) {
            let turns = count.slices;
            assert_eq!(count.counted, turns << 33);
            assert_eq!(count.count_squared, [0, turns << 2]);
            assert_eq!(count.count_by_time, [0, turns << 3]);
            assert_eq!(count.time_squared, [0, turns << 4]);
        }
    }
    let turns: u64 = bare.snapshot().iter().map(|count| count.slices).sum();
    assert_eq!(turns, 8 * 3, "three counters are used in each");
}

/// Two sources that sample, each in a turn of its own.
fn alone() -> [Spec; 2] {
    [TOTAL_ISSUES, 0x06].map(|source| Spec { flags: Spec::ALONE, ..every(5_000, source) })
}

fn both(total: u64) -> [(Event, u64); 2] {
    [(Event::Instructions, total), (Event::Branches, total)]
}

/// The interrupt of a turn's last overflow is taken when its tick has stopped the counters, or
/// never comes.
#[test]
fn an_overflow_at_the_end_of_a_turn_is_told_and_the_next_turn_begins() {
    for lost in [false, true] {
        let mut bare = Bare::new("skylake", 1);
        bare.configure(SAMPLE, &alone(), 40_000);
        bare.start();
        bare.retire(0, &both(5_000));
        let cpu = bare.cpu(0);
        if lost {
            assert!(cpu.processor.acknowledge_interrupt().is_some());
        }
        cpu.processor.set_timestamp(4_000_000);
        bare.service.processors().tick(0);
        let missed = LossCause::Missed as usize;
        let statistics = bare.statistics();
        assert_eq!(statistics.generated, 1);
        assert_eq!(statistics.lost[missed], u64::from(lost));
        bare.retire(0, &both(5_700));
        bare.stop();
        let mut counted = bare.snapshot().into_iter().map(|one| one.counted).collect::<Vec<_>>();
        counted.sort_unstable();
        assert_eq!(counted, [700, 5_000]);
    }
}

/// What ends the session while the counters are stopped between two turns: the next does not begin.
#[test]
fn no_turn_begins_after_the_end() {
    const DEBUGCTL: u32 = 0x1D9;
    let mut bare = Bare::new("skylake", 1);
    bare.branches = 8;
    bare.configure(SAMPLE, &alone(), 40_000);
    bare.start();
    bare.retire(0, &both(5_000));
    let processor = &mut bare.cpu(0).processor;
    // Someone else stops recording.
    processor.wrmsr(DEBUGCTL, 0).expect("a register");
    processor.set_timestamp(4_000_000);
    bare.service.processors().tick(0);
    bare.retire(0, &both(20_000));
    assert!(!bare.take_interrupt(0), "nothing counts");
    let reply = bare.try_about_session(STOP);
    assert_eq!(reply.error, ErrorCode::BranchesChanged as u32);
}
