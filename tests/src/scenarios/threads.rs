//! What may be counted by thread, on which counters, and who may start it?

use crate::backend::Backend;
use crate::requests::{configure, spec};
use crate::wire::{RawClient, leaves};
use shared_types::ErrorCode::{
    self, BadValue, DoesNotFit, NotByThread, NotConfigured, ThreadsKept, ThreadsOwned,
    TooManySources, UnknownFlags,
};
use shared_types::request::machine::Machine;
use shared_types::request::session::{self, SAMPLE, START, STOP, Spec, THREADS};
use shared_types::request::threads::{self, ThreadCounter, Threads};
use sim::cpu::cpuid::{CpuidResult, Leaves};

scenarios![
    each_source_takes_a_general_counter_all_the_time,
    nothing_is_sampled_and_no_processor_left_out,
    the_counters_are_told_in_the_order_of_the_sources,
    another_session_has_no_thread_counters,
    while_another_profiles_it_does_not_start,
    what_a_thread_still_uses_is_kept_told_and_asked_for_at_the_next_start,
    a_processor_of_another_kind_that_was_added_before_start_refuses_it,
    an_added_processor_of_another_kind_ends_it,
    only_counters_that_every_kind_has_are_taken,
    a_session_that_does_not_count_by_thread_keeps_nothing,
];

const IA32_PERFEVTSEL0: u32 = 0x186;
const IA32_FIXED_CTR_CTRL: u32 = 0x38D;
const TIME: u32 = 0;
const INSTRUCTIONS: u32 = 2;
const BRANCHES: u32 = 6;
const MISPREDICTIONS: u32 = 11;
/// Intel's third fixed counter, whose event no general counter has.
const REFERENCE_CYCLES: u32 = 0x8000_0102;

/// The error that refuses a configuration; `None` if it is accepted.
fn refused<B: Backend>(model: &str, flags: u32, specs: &[Spec]) -> Option<(ErrorCode, u32)> {
    let mut client = RawClient::<B>::new(model, 2);
    let number = client.open();
    let reply = client.send(session::CONFIGURE, &configure(number, flags, specs));
    reply.refusal().map(|(error, subject, _)| (error, subject))
}

fn by_source(sources: &[u32]) -> Vec<Spec> {
    sources.iter().copied().map(spec).collect()
}

fn each_source_takes_a_general_counter_all_the_time<B: Backend>() {
    for (model, sources, expected) in [
        ("skylake", &[INSTRUCTIONS, BRANCHES][..], None),
        ("zen4", &[INSTRUCTIONS, BRANCHES], None),
        ("skylake", &[TIME], Some((NotByThread, TIME))),
        ("skylake", &[INSTRUCTIONS, REFERENCE_CYCLES], Some((NotByThread, REFERENCE_CYCLES))),
    ] {
        assert_eq!(refused::<B>(model, THREADS, &by_source(sources)), expected, "{model}");
    }
    let raw = |event: u64| Spec::of_raw(event);
    let five: Vec<Spec> = (0..5).map(|unit| raw(0xC4 | unit << 8)).collect();
    let unfit = refused::<B>("skylake", THREADS, &five).map(|(error, _)| error);
    assert_eq!(unfit, Some(DoesNotFit), "there are four counters");
    assert_eq!(refused::<B>("skylake", THREADS, &five[..4]), None);
    let many: Vec<Spec> = (0..17).map(|unit| raw(0xC4 | unit << 8)).collect();
    assert_eq!(refused::<B>("skylake", THREADS, &many), Some((TooManySources, 17)));
    let unfit = refused::<B>("skylake", THREADS, &many[..16]).map(|(error, _)| error);
    assert_eq!(unfit, Some(DoesNotFit), "Windows takes sixteen");
}

fn nothing_is_sampled_and_no_processor_left_out<B: Backend>() {
    let specs = by_source(&[INSTRUCTIONS]);
    let sampled = refused::<B>("skylake", THREADS | SAMPLE, &specs);
    assert_eq!(sampled, Some((UnknownFlags, SAMPLE)));
    let mut client = RawClient::<B>::new("skylake", 2);
    let mut request = configure(client.open(), THREADS, &specs);
    request[40] = 1;
    let reply = client.send(session::CONFIGURE, &request);
    assert_eq!(reply.refusal(), Some((BadValue, 40, 1)));
    client.end();
}

fn the_counters_are_told_in_the_order_of_the_sources<B: Backend>() {
    for model in ["skylake", "zen4", "hybrid"] {
        let mut client = RawClient::<B>::new(model, 12);
        let number = client.open();
        let sources = [MISPREDICTIONS, INSTRUCTIONS, BRANCHES];
        let request = configure(number, THREADS, &by_source(&sources));
        assert_eq!(client.send(session::CONFIGURE, &request).refusal(), None);
        let reply = client.about(threads::THREADS, number);
        let head: Threads = reply.done();
        assert_eq!((head.count, head.mask, head.sleeps), (3, 0b111, 0), "{model}");
        let counters: Vec<ThreadCounter> = reply.elements::<Threads, _>();
        let told: Vec<u32> = counters.iter().map(|counter| counter.source).collect();
        assert_eq!(told, sources, "{model}");
        assert!(counters.iter().all(|one| one.counter == one.rdpmc && one.width == 48));
        assert_eq!(client.about(START, number).refusal(), None, "{model}");
        let list: Vec<u32> = counters.iter().map(|one| one.counter).collect();
        assert_eq!(client.model.counted_by_thread(), list);
        client.sleep();
        client.wake();
        let head: Threads = client.about(threads::THREADS, number).done();
        assert_eq!(head.sleeps, 1);
        client.granted(STOP, number);
        assert!(client.model.counted_by_thread().is_empty());
        client.end();
    }
}

fn another_session_has_no_thread_counters<B: Backend>() {
    let mut client = RawClient::<B>::new("skylake", 1);
    let number = client.open();
    let error = client.about(threads::THREADS, number).error();
    assert_eq!(error, Some(NotConfigured), "not configured at all");
    client.configure(number, &by_source(&[INSTRUCTIONS]));
    let error = client.about(threads::THREADS, number).error();
    assert_eq!(error, Some(NotConfigured), "not by thread");
    client.end();
}

fn while_another_profiles_it_does_not_start<B: Backend>() {
    let mut client = RawClient::<B>::new("skylake", 2);
    let number = client.configured(THREADS, &[spec(INSTRUCTIONS)]);
    client.model.profile_a_thread(true);
    assert_eq!(client.about(START, number).error(), Some(ThreadsOwned));
    client.model.profile_a_thread(false);
    assert_eq!(client.about(START, number).refusal(), None, "nothing was kept");
    client.end();
}

fn what_a_thread_still_uses_is_kept_told_and_asked_for_at_the_next_start<B: Backend>() {
    let mut client = RawClient::<B>::new("skylake", 2);
    let number = client.configured(THREADS, &[spec(INSTRUCTIONS)]);
    client.granted(START, number);
    client.work("instructions=1000,cycles=1000,processors=all");
    client.model.profile_a_thread(true);
    client.replace_client(78);
    for msr in [IA32_PERFEVTSEL0, IA32_FIXED_CTR_CTRL] {
        assert_eq!(client.read(0, msr), 0, "nothing counts");
    }
    assert_eq!(client.machine().flags, Machine::THREADS_KEPT);
    let other = client.open();
    client.configure(other, &by_source(&[INSTRUCTIONS]));
    let kept = (ThreadsKept, 0, 0xC000_0303);
    assert_eq!(client.about(START, other).refusal(), Some(kept));
    assert_eq!(client.machine().flags, Machine::THREADS_KEPT);
    client.model.profile_a_thread(false);
    assert_eq!(client.machine().flags, Machine::THREADS_KEPT, "a description changes nothing");
    assert!(!client.model.counted_by_thread().is_empty());
    client.granted(START, other);
    assert_eq!(client.machine().flags, 0);
    client.end();
}

fn a_processor_of_another_kind_that_was_added_before_start_refuses_it<B: Backend>() {
    let mut client = RawClient::<B>::new("skylake", 2);
    let number = client.configured(THREADS, &[spec(INSTRUCTIONS)]);
    client.add_processor(&leaves("haswell", 1)[0]);
    let refusal = (NotByThread, INSTRUCTIONS, 2);
    assert_eq!(client.about(START, number).refusal(), Some(refusal));
    assert!(!client.model.holds_counters());
    client.end();
}

/// A thread that moves to it would not be counted there.
fn an_added_processor_of_another_kind_ends_it<B: Backend>() {
    for (kind, joins) in [("skylake", true), ("haswell", false)] {
        let mut client = RawClient::<B>::new("skylake", 2);
        let number = client.configured(THREADS, &[spec(INSTRUCTIONS)]);
        client.granted(START, number);
        client.add_processor(&leaves(kind, 1)[0]);
        assert_eq!(client.model.holds_counters(), joins, "{kind}");
        assert_eq!(client.model.counted_by_thread().is_empty(), !joins, "{kind}");
        let stopped = client.about(STOP, number).refusal();
        let told = (NotByThread, INSTRUCTIONS, 2);
        assert_eq!(stopped, (!joins).then_some(told), "{kind}");
        client.end();
    }
}

/// Leaf 0x23.1 EAX: four counters, and three of them without the second.
fn only_counters_that_every_kind_has_are_taken<B: Backend>() {
    let hybrid = leaves("hybrid", 12);
    let with = |leaves: &Leaves, counters| {
        let mut leaves = leaves.clone();
        let masks = leaves.get(0x23, 1);
        let masks = CpuidResult { eax: counters, ..masks };
        leaves.insert_subleaf(0x23, 1, masks);
        leaves
    };
    let machine = [with(&hybrid[0], 0b1111), with(&hybrid[4], 0b1101)];
    let mut client = RawClient::<B>::of(&machine);
    let number = client.open();
    let request = configure(number, THREADS, &by_source(&[INSTRUCTIONS, BRANCHES]));
    assert_eq!(client.send(session::CONFIGURE, &request).refusal(), None);
    let counters: Vec<ThreadCounter> =
        client.about(threads::THREADS, number).elements::<Threads, _>();
    let taken: Vec<u32> = counters.iter().map(|one| one.counter).collect();
    assert!(taken.iter().all(|&one| one != 1), "{taken:?}");
    client.end();
}

/// The list of counters is not its business.
fn a_session_that_does_not_count_by_thread_keeps_nothing<B: Backend>() {
    let mut client = RawClient::<B>::new("skylake", 1);
    let number = client.run(spec(INSTRUCTIONS), 0);
    client.model.profile_a_thread(true);
    for code in [STOP, START, STOP] {
        client.granted(code, number);
        assert_eq!(client.machine().flags & Machine::THREADS_KEPT, 0);
    }
    client.end();
}
