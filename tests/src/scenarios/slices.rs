//! Which source runs when: in slices that follow each other, on a timer, and until the session ends?
//! A test lets time pass by hand.

use crate::backend::Backend;
use crate::requests::spec;
use crate::stepped::Stepped;
use crate::wire::{first, with_quirks};
use hal_profile::service::Timer;
use shared_types::request::session::{SAMPLE, Spec};
use shared_types::{ErrorCode, LossCause, ProfileSource};
use sim::cpu::event::Event;

scenarios![
    what_waits_for_its_slice_does_not_run,
    counters_of_a_slice_begin_and_end_together,
    a_session_begins_with_its_first_slice,
    a_single_slice_is_never_over,
    a_timer_is_read_while_it_runs,
    a_slice_is_over_after_three_quarters_of_its_time,
    a_long_slice_is_looked_at_as_often_as_any_session,
    the_timer_is_as_frequent_as_the_session_needs,
    slices_lengthen_with_the_processors,
    sums_of_squares_have_128_bits,
    an_overflow_at_the_end_of_a_slice_is_told_and_the_next_slice_begins,
    no_slice_begins_after_the_end,
    no_slice_begins_frozen,
    a_time_that_goes_back_adds_none,
];

const TIME: u32 = 0x00;
const TOTAL_ISSUES: u32 = 0x02;

fn every(interval: u64, source: u32) -> Spec {
    Spec { interval, ..spec(source) }
}

/// Six sources that no fixed counter counts take turns on four general counters; a timer never
/// waits for a counter. The first and the last of the six, which never run together, are branches.
const TWO_SLICES: [u32; 7] = [0x06, 0x0B, 0x1B, 0x1C, 0x1D, 0x1E, TIME];

/// Reset leaves a bit for each general counter in the global control register, so that a select
/// alone would start its counter, at START and after sleep. Instructions retire between any two
/// register writes.
fn counters_of_a_slice_begin_and_end_together<B: Backend>() {
    let raw = Spec { raw: 0xC0, counters: 1, ..spec(ProfileSource::RAW.0) };
    for model in ["core2", "skylake", "sapphire-rapids", "zen4"] {
        for flags in [0, SAMPLE] {
            let mut machine = Stepped::<B>::new(model, 1);
            machine.configure(flags, &[raw, spec(TOTAL_ISSUES)], 0);
            machine.cpu(0).before_each_write.set(Event::Instructions, 10, 0);
            machine.start();
            machine.sleep();
            machine.lose_registers();
            machine.wake();
            machine.stop();
            let counted = machine.counted();
            assert_eq!(counted[0], counted[1], "{model}, {flags}");
        }
    }
}

/// A timer runs whenever the session does; of the other sources only those of the current slice.
fn what_waits_for_its_slice_does_not_run<B: Backend>() {
    let mut machine = Stepped::<B>::new("skylake", 1);
    machine.configure(0, &TWO_SLICES.map(spec), 40_000);
    machine.processor(0).set_timestamp(1_000_000);
    machine.start();
    machine.processor(0).set_timestamp(2_000_000);
    for when in ["running", "stopped", "later"] {
        let counts = machine.snapshot();
        assert!(counts.iter().all(|count| count.enabled == 1_000_000), "{when}");
        let running: Vec<_> = counts.iter().map(|count| count.running).collect();
        let waited = running.iter().filter(|&&running| running == 0).count();
        let ran = running.iter().filter(|&&running| running == 1_000_000);
        assert!((1..=4).contains(&waited), "{when}: {running:?}");
        assert_eq!(ran.count() + waited, TWO_SLICES.len(), "{when}: {running:?}");
        assert_eq!(running.last(), Some(&1_000_000), "{when}");
        match when {
            "running" => machine.stop(),
            _ => machine.processor(0).set_timestamp(3_000_000),
        }
    }
}

/// Two slices of 4 ms: the previous session was stopped in the second one.
fn a_session_begins_with_its_first_slice<B: Backend>() {
    let mut machine = Stepped::<B>::new("skylake", 1);
    machine.configure(0, &TWO_SLICES.map(spec), 40_000);
    machine.start();
    machine.processor(0).set_timestamp(5_000_000);
    machine.tick();
    machine.stop();
    machine.run(0, &[spec(TOTAL_ISSUES)]);
    machine.retire(0, &[(Event::Instructions, 12_345)]);
    assert_eq!(machine.counted()[0], 12_345);
}

/// The timer reads counters that do not take turns, without stopping them.
fn a_single_slice_is_never_over<B: Backend>() {
    let mut machine = Stepped::<B>::new("skylake", 1);
    machine.run(0, &[spec(TOTAL_ISSUES)]);
    machine.processor(0).set_timestamp(1_000_000_000);
    machine.tick();
    assert_eq!(machine.snapshot()[0].slices, 0);
}

/// 7.5 ms are 7 ticks of 1 ms.
fn a_timer_is_read_while_it_runs<B: Backend>() {
    let mut machine = Stepped::<B>::new("skylake", 1);
    machine.run(0, &[every(10_000, TIME)]);
    machine.pass(7_500_000);
    assert_eq!(machine.counted()[0], 7);
}

/// A tick that comes a little early ends the slice all the same: from three quarters of it on.
fn a_slice_is_over_after_three_quarters_of_its_time<B: Backend>() {
    for (ran, over) in [(2_999_999, 0), (3_000_000, 1), (4_000_000, 1)] {
        let mut machine = Stepped::<B>::new("skylake", 1);
        machine.configure(0, &TWO_SLICES.map(spec), 40_000);
        machine.processor(0).set_timestamp(1_000_000);
        machine.start();
        machine.processor(0).set_timestamp(1_000_000 + ran);
        machine.tick();
        let counts = machine.snapshot();
        let slices = counts.iter().map(|count| count.slices).max();
        assert_eq!(slices, Some(over), "{ran}");
    }
}

/// A slice of a second is not over at the looks within it, however early they come.
fn a_long_slice_is_looked_at_as_often_as_any_session<B: Backend>() {
    const SECOND: u32 = 10_000_000;
    let skylake = first("skylake");
    let narrow = with_quirks(&skylake, "narrow-counters");
    let specs = &TWO_SLICES.map(spec)[..6];
    for (leaves, flags, looks) in [(skylake, SAMPLE, 4), (narrow, 0, 45)] {
        let mut machine = Stepped::<B>::of(&[leaves]);
        machine.configure(flags, specs, SECOND);
        machine.processor(0).set_timestamp(1_000_000);
        machine.start();
        let timer = Timer { period: SECOND / looks, precise: true };
        assert_eq!(machine.client.model.timer(), Some(timer), "{looks}");
        let look = 1_000_000_000 / u64::from(looks);
        for number in 1..=u64::from(looks) {
            let early = look / 5;
            let now = 1_000_000 + number * look - early;
            machine.processor(0).set_timestamp(now);
            machine.tick();
            let slices = machine.snapshot().iter().map(|count| count.slices).max();
            assert_eq!(slices, Some(number / u64::from(looks)), "{number} of {looks}");
        }
        machine.stop();
    }
}

/// Counters are read in a quarter of the time in which 48 events a nanosecond would wrap them, and
/// at least every 5 s; while sampling, overflows are looked for every 250 ms. Only the timer of slices is
/// precise.
fn the_timer_is_as_frequent_as_the_session_needs<B: Backend>() {
    let skylake = || first("skylake");
    let narrow = with_quirks(&skylake(), "narrow-counters");
    let quarter = ((1_u64 << 32) / 4_800 / 4) as u32;
    let two = &TWO_SLICES.map(spec)[..6];
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
        let mut machine = Stepped::<B>::of(&[leaves]);
        machine.configure(flags, specs, 40_000);
        assert_eq!(machine.client.model.timer(), None, "{timer:?}");
        machine.start();
        let now = machine.client.model.timer();
        assert_eq!(now.map(|one| (one.period, one.precise)), timer);
        machine.stop();
        assert_eq!(machine.client.model.timer(), None, "{timer:?}");
    }
}

/// Slices of 2^33 events in 2^34 ticks: each sum is above 2^64, and what a later slice adds comes on
/// top of that.
fn sums_of_squares_have_128_bits<B: Backend>() {
    let mut machine = Stepped::<B>::new("skylake", 1);
    machine.configure(0, &TWO_SLICES.map(spec), 40_000);
    let mut now = 1_000_000;
    machine.processor(0).set_timestamp(now);
    machine.start();
    for slice in 1..=8 {
        machine.retire(0, &[(Event::Branches, slice << 33)]);
        now += 1 << 34;
        machine.processor(0).set_timestamp(now);
        machine.tick();
        // The first source and the last but one have branches, in different slices.
        let counts = machine.snapshot().into_iter();
        for count in counts.filter(|count| count.counted != 0 && count.slices != 0) {
            let slices = count.slices;
            assert_eq!(count.counted, slices << 33);
            assert_eq!(count.count_squared, [0, slices << 2]);
            assert_eq!(count.count_by_time, [0, slices << 3]);
            assert_eq!(count.time_squared, [0, slices << 4]);
        }
    }
    let slices: u64 = machine.snapshot().iter().map(|count| count.slices).sum();
    assert_eq!(slices, 8 * 3, "three counters are used in each");
}

/// Two sources that sample, each in a slice of its own.
fn alone() -> [Spec; 2] {
    [TOTAL_ISSUES, 0x06].map(|source| Spec { flags: Spec::ALONE, ..every(5_000, source) })
}

fn both(total: u64) -> [(Event, u64); 2] {
    [(Event::Instructions, total), (Event::Branches, total)]
}

/// The interrupt of a slice's last overflow is taken when its tick has stopped the counters, or
/// never comes.
fn an_overflow_at_the_end_of_a_slice_is_told_and_the_next_slice_begins<B: Backend>() {
    for lost in [false, true] {
        let mut machine = Stepped::<B>::new("skylake", 1);
        machine.configure(SAMPLE, &alone(), 40_000);
        machine.start();
        machine.retire(0, &both(5_000));
        let processor = machine.processor(0);
        if lost {
            assert!(processor.acknowledge_interrupt().is_some());
        }
        machine.pass(4_000_000);
        machine.tick();
        let missed = LossCause::Missed as usize;
        let statistics = machine.statistics();
        assert_eq!(statistics.generated, 1);
        assert_eq!(statistics.lost[missed], u64::from(lost));
        machine.retire(0, &both(5_700));
        machine.stop();
        let mut counted = machine.counted();
        counted.sort_unstable();
        assert_eq!(counted, [700, 5_000]);
    }
}

/// What ends the session while the counters are stopped between two slices: the next does not begin.
fn no_slice_begins_after_the_end<B: Backend>() {
    const DEBUGCTL: u32 = 0x1D9;
    let mut machine = Stepped::<B>::new("skylake", 1);
    machine.settings.branches = 8;
    machine.configure(SAMPLE, &alone(), 40_000);
    machine.start();
    machine.retire(0, &both(5_000));
    let processor = machine.processor(0);
    // Someone else stops recording.
    processor.wrmsr(DEBUGCTL, 0).expect("a register");
    machine.pass(4_000_000);
    machine.tick();
    machine.retire(0, &both(20_000));
    assert!(!machine.take_interrupt(0), "nothing counts");
    assert_eq!(machine.ended_by(), Some(ErrorCode::BranchesChanged));
}

/// An overflow has frozen the counters, and its interrupt was lost.
fn no_slice_begins_frozen<B: Backend>() {
    const GLOBAL_STATUS: u32 = 0x38E;
    const CTR_FRZ: u64 = 1 << 59;
    let mut machine = Stepped::<B>::of(&[with_quirks(&first("skylake"), "frozen")]);
    let specs = TWO_SLICES.map(|source| every(100_000, source));
    machine.configure(SAMPLE, &specs[..6], 40_000);
    machine.processor(0).set_timestamp(1_000_000);
    machine.start();
    let processor = machine.processor(0);
    processor.show_status(CTR_FRZ);
    processor.set_timestamp(5_000_000);
    machine.tick();
    assert_eq!(machine.processor(0).rdmsr(GLOBAL_STATUS), Ok(0));
}

/// The timer's callback queues a DPC for every processor at 0.5 us each, on one of them: a tenth of
/// that one's time at most.
fn slices_lengthen_with_the_processors<B: Backend>() {
    let two = &TWO_SLICES.map(spec)[..6];
    for (processors, requested, slice) in
        [(1, 10_000, 10_000), (200, 10_000, 10_000), (300, 10_000, 15_000), (300, 0, 40_000)]
    {
        let mut machine = Stepped::<B>::new("skylake", processors);
        let configured = machine.configure(0, two, requested);
        assert_eq!(configured.slice_100ns, slice, "{processors}, {requested}");
        machine.start();
        let timer = |period| Some(Timer { period, precise: true });
        assert_eq!(machine.client.model.timer(), timer(slice));
        if (processors, requested) == (200, 10_000) {
            machine.client.add_processor(&first("skylake"));
            assert_eq!(machine.client.model.timer(), timer(201 * 50));
        }
        machine.stop();
    }
}

/// A guest that is moved or restored finds a lower time-stamp counter. From the last look to the next
/// one, time stands still: no time is enormous, and the slice is as long as ever.
fn a_time_that_goes_back_adds_none<B: Backend>() {
    let mut machine = Stepped::<B>::new("skylake", 1);
    machine.configure(0, &TWO_SLICES.map(spec), 40_000);
    machine.processor(0).set_timestamp(1_000_000_000);
    machine.start();
    machine.processor(0).set_timestamp(1_001_000_000);
    machine.tick();
    for (now, enabled, slices) in [
        (5_000_000, 1_000_000, 0),
        (6_000_000, 2_000_000, 0),
        (2_000_000, 2_000_000, 0),
        (2_900_000, 2_900_000, 0),
        (3_100_000, 3_100_000, 1),
    ] {
        machine.processor(0).set_timestamp(now);
        machine.tick();
        let counts = machine.snapshot();
        assert!(counts.iter().all(|count| count.enabled == enabled), "{now}");
        assert!(counts.iter().all(|count| count.running <= enabled), "{now}");
        assert_eq!(counts.iter().map(|count| count.slices).max(), Some(slices), "{now}");
    }
    machine.processor(0).set_timestamp(1_000);
    machine.stop();
    let counts = machine.snapshot();
    assert!(counts.iter().all(|count| count.enabled == 3_100_000));
    assert!(counts.iter().all(|count| count.running <= 3_100_000));
}
