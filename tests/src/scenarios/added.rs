//! Do processors that are added to a running machine join its session, with a ring if it samples?

use super::leftovers::{LAYOUTS, assert_all_off};
use crate::backend::Backend;
use crate::requests::{bytes, configuration, spec};
use crate::wire::{RawClient, leaves};
use shared_types::ErrorCode;
use shared_types::request::samples::{self, Drained};
use shared_types::request::session::{self, Configure, Spec};

scenarios![
    it_joins,
    added_asleep_it_joins_at_waking,
    it_samples_too_where_there_is_memory,
    added_asleep_it_samples_too,
    a_session_that_counts_takes_no_ring_for_it,
    one_that_does_not_join_takes_no_ring,
    a_session_on_named_processors_keeps_to_them,
    rings_stay_below_the_cap_where_it_comes_after_the_configuration,
    another_of_a_known_type_joins,
];

const TOTAL_ISSUES: u32 = 2;
const WORK: &str = "instructions=400000,cycles=500000,processors=all";

/// A session of one source on these processors, of which the first 64 are bits (0: all), with rings
/// for this many samples.
fn configured<B: Backend>(
    client: &mut RawClient<B>,
    flags: u32,
    processors: u64,
    ring_samples: u32,
) -> u32 {
    let session = client.open();
    let mut head = Configure { session, sources: 1, ring_samples, ..configuration(flags) };
    head.processors[0] = processors;
    let request = bytes(&head, &[spec(TOTAL_ISSUES)]);
    assert_eq!(client.send(session::CONFIGURE, &request).refusal(), None);
    session
}

/// The same, running.
fn started<B: Backend>(
    client: &mut RawClient<B>,
    flags: u32,
    processors: u64,
    ring_samples: u32,
) -> u32 {
    let number = configured(client, flags, processors, ring_samples);
    client.granted(session::START, number);
    number
}

fn it_joins<B: Backend>() {
    for layout in LAYOUTS.iter().filter(|layout| layout.model != "pentium4-ht") {
        let all = leaves(layout.model, 2);
        let mut client = RawClient::<B>::of(&all[..1]);
        let number = client.run(spec(TOTAL_ISSUES), 0);
        assert_eq!(client.snapshot(number).len(), 1);
        client.add_processor(&all[1]);
        assert_eq!(client.machine().processors, 2);
        client.work(WORK);
        assert_eq!(client.counted(number), [400_000, 400_000], "{}", layout.model);
        client.granted(session::STOP, number);
        assert_all_off(&mut client, layout, "with one added");
        client.end();
    }
}

fn added_asleep_it_joins_at_waking<B: Backend>() {
    let all = leaves("skylake", 2);
    let mut client = RawClient::<B>::of(&all[..1]);
    let number = client.run(spec(TOTAL_ISSUES), 0);
    client.sleep();
    client.add_processor(&all[1]);
    client.wake();
    client.work(WORK);
    assert_eq!(client.counted(number), [400_000, 400_000]);
    client.end();
}

/// It gets its own ring, if there is room; otherwise its samples are counted as lost.
fn it_samples_too_where_there_is_memory<B: Backend>() {
    let all = leaves("skylake", 2);
    for (ring_samples, stored) in [(64, 12), (1 << 14, 12), (1 << 22, 6)] {
        let mut client = RawClient::<B>::of(&all[..1]);
        let number = started(&mut client, session::SAMPLE, 0, ring_samples);
        let one = client.machine().ring_bytes;
        client.add_processor(&all[1]);
        let room = 2 * one <= client.machine().ring_bytes_max;
        assert_eq!(room, stored == 12);
        assert_eq!(client.machine().ring_bytes, if room { 2 * one } else { one });
        client.work(WORK);
        let statistics = client.statistics(number);
        // 400,000 / 65,536 on each.
        assert_eq!((statistics.generated, statistics.stored), (12, stored));
        assert_eq!(statistics.lost.iter().sum::<u64>(), 12 - stored);
        let drained: Drained = client.about(samples::DRAIN, number).done();
        assert_eq!(u64::from(drained.count), stored);
        client.end();
    }
}

fn added_asleep_it_samples_too<B: Backend>() {
    let all = leaves("skylake", 2);
    let mut client = RawClient::<B>::of(&all[..1]);
    let interval = Spec { interval: 10_000, ..spec(TOTAL_ISSUES) };
    let number = client.run(interval, session::SAMPLE);
    client.sleep();
    client.add_processor(&all[1]);
    client.wake();
    client.work("instructions=405000,cycles=500000,processors=all");
    assert_eq!(client.statistics(number).generated, 2 * 40);
    client.end();
}

fn a_session_that_counts_takes_no_ring_for_it<B: Backend>() {
    let all = leaves("skylake", 2);
    let mut client = RawClient::<B>::of(&all[..1]);
    client.run(spec(TOTAL_ISSUES), 0);
    client.add_processor(&all[1]);
    assert_eq!(client.machine().ring_bytes, 0);
    client.end();
}

fn one_that_does_not_join_takes_no_ring<B: Backend>() {
    let all = leaves("hybrid", 12);
    for (named, added) in [(1, 1), (0, 4)] {
        let mut client = RawClient::<B>::of(&all[..1]);
        started(&mut client, session::SAMPLE, named, 0);
        let one = client.machine().ring_bytes;
        client.add_processor(&all[added]);
        assert_eq!(client.machine().processors, 2);
        assert_eq!(client.machine().ring_bytes, one, "{named} {added}");
        client.end();
    }
}

fn a_session_on_named_processors_keeps_to_them<B: Backend>() {
    const IA32_PERFEVTSEL0: u32 = 0x186;
    let all = leaves("skylake", 2);
    let mut client = RawClient::<B>::of(&all[..1]);
    let number = started(&mut client, 0, 1, 0);
    client.add_processor(&all[1]);
    client.work(WORK);
    assert_eq!(client.read(1, IA32_PERFEVTSEL0), 0);
    assert_eq!(client.counted(number), [400_000, 0]);
    client.end();
}

fn rings_stay_below_the_cap_where_it_comes_after_the_configuration<B: Backend>() {
    let all = leaves("skylake", 2);
    let mut client = RawClient::<B>::of(&all[..1]);
    let number = configured(&mut client, session::SAMPLE, 0, u32::MAX);
    let most = client.machine().ring_bytes_max;
    client.add_processor(&all[1]);
    let (error, _, bytes) = client.about(session::START, number).refusal().expect("a refusal");
    assert_eq!(error, ErrorCode::NoMemory);
    assert!(bytes > most);
    let machine = client.machine();
    assert_eq!((machine.ring_bytes, machine.active_session), (0, 0));
    client.end();
}

/// Another efficiency core.
fn another_of_a_known_type_joins<B: Backend>() {
    let all = leaves("hybrid", 12);
    let mut client = RawClient::<B>::of(&all[3..5]);
    let number = client.run(spec(TOTAL_ISSUES), 0);
    client.add_processor(&all[5]);
    client.work(WORK);
    assert_eq!(client.counted(number), [400_000; 3]);
    client.end();
}
