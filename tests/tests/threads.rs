//! What may be counted by thread, on which counters, and who may start it?

use halprof_tests::cases::by_thread;
use halprof_tests::requests::{configure, spec};
use halprof_tests::wire::{Wire, leaves};
use shared_types::ErrorCode::{
    self, BadValue, DoesNotFit, NoMemory, NotByThread, NotConfigured, ThreadsKept, ThreadsOwned,
    TooManySources, UnknownFlags,
};
use shared_types::request::machine::Machine;
use shared_types::request::rdpmc::ALLOW;
use shared_types::request::session::{self, SAMPLE, START, STOP, Spec, THREADS};
use shared_types::request::threads::{self, ThreadCounter, Threads};
use sim::cpu::cpuid::{CpuidResult, Leaves};
use sim::machine::Model;

const TIME: u32 = 0;
const INSTRUCTIONS: u32 = 2;
const BRANCHES: u32 = 6;
const MISPREDICTIONS: u32 = 11;
/// Intel's third fixed counter, whose event no general counter has.
const REFERENCE_CYCLES: u32 = 0x8000_0102;

/// The error that refuses a configuration; `None` if it is accepted.
fn refused(model: &str, flags: u32, specs: &[Spec]) -> Option<(ErrorCode, u32)> {
    let mut wire = Wire::new(model, 2);
    let number = wire.open();
    let reply = wire.send(session::CONFIGURE, &configure(number, flags, specs));
    reply.refusal().map(|(error, subject, _)| (error, subject))
}

fn by_source(sources: &[u32]) -> Vec<Spec> {
    sources.iter().copied().map(spec).collect()
}

#[test]
fn each_source_takes_a_general_counter_all_the_time() {
    for (model, sources, expected) in [
        ("skylake", &[INSTRUCTIONS, BRANCHES][..], None),
        ("zen4", &[INSTRUCTIONS, BRANCHES], None),
        ("skylake", &[TIME], Some((NotByThread, TIME))),
        ("skylake", &[INSTRUCTIONS, REFERENCE_CYCLES], Some((NotByThread, REFERENCE_CYCLES))),
    ] {
        assert_eq!(refused(model, THREADS, &by_source(sources)), expected, "{model}");
    }
    let raw = |event: u64| Spec::of_raw(event);
    let five: Vec<Spec> = (0..5).map(|unit| raw(0xC4 | unit << 8)).collect();
    let unfit = refused("skylake", THREADS, &five).map(|(error, _)| error);
    assert_eq!(unfit, Some(DoesNotFit), "there are four counters");
    assert_eq!(refused("skylake", THREADS, &five[..4]), None);
    let many: Vec<Spec> = (0..17).map(|unit| raw(0xC4 | unit << 8)).collect();
    assert_eq!(refused("skylake", THREADS, &many), Some((TooManySources, 17)));
    let unfit = refused("skylake", THREADS, &many[..16]).map(|(error, _)| error);
    assert_eq!(unfit, Some(DoesNotFit), "Windows takes sixteen");
}

#[test]
fn nothing_is_sampled_and_no_processor_left_out() {
    let specs = by_source(&[INSTRUCTIONS]);
    let sampled = refused("skylake", THREADS | SAMPLE, &specs);
    assert_eq!(sampled, Some((UnknownFlags, SAMPLE)));
    let mut wire = Wire::new("skylake", 2);
    let mut request = configure(wire.open(), THREADS, &specs);
    request[40] = 1;
    let reply = wire.send(session::CONFIGURE, &request);
    assert_eq!(reply.refusal(), Some((BadValue, 40, 1)));
}

#[test]
fn the_counters_are_told_in_the_order_of_the_sources() {
    for model in ["skylake", "zen4", "hybrid"] {
        let mut wire = Wire::new(model, 12);
        let number = wire.open();
        let sources = [MISPREDICTIONS, INSTRUCTIONS, BRANCHES];
        let request = configure(number, THREADS, &by_source(&sources));
        assert_eq!(wire.send(session::CONFIGURE, &request).refusal(), None);
        let reply = wire.about(threads::THREADS, number);
        let head: Threads = reply.done();
        assert_eq!((head.count, head.mask, head.sleeps), (3, 0b111, 0), "{model}");
        let counters: Vec<ThreadCounter> = reply.elements::<Threads, _>();
        let told: Vec<u32> = counters.iter().map(|counter| counter.source).collect();
        assert_eq!(told, sources, "{model}");
        assert!(counters.iter().all(|one| one.counter == one.rdpmc && one.width == 48));
        assert_eq!(wire.about(START, number).refusal(), None, "{model}");
        let list: Vec<u32> = counters.iter().map(|one| one.counter).collect();
        assert_eq!(wire.model.counted_by_thread(), list);
        wire.model.sleep_and_wake();
        let head: Threads = wire.about(threads::THREADS, number).done();
        assert_eq!(head.sleeps, 1);
        assert_eq!(wire.about(STOP, number).refusal(), None);
        assert!(wire.model.counted_by_thread().is_empty());
        assert_eq!(wire.model.faults(), []);
    }
}

#[test]
fn another_session_has_no_thread_counters() {
    let mut wire = Wire::new("skylake", 1);
    let number = wire.open();
    let error = wire.about(threads::THREADS, number).error();
    assert_eq!(error, Some(NotConfigured), "not configured at all");
    wire.configure(number, &by_source(&[INSTRUCTIONS]));
    let error = wire.about(threads::THREADS, number).error();
    assert_eq!(error, Some(NotConfigured), "not by thread");
}

#[test]
fn while_another_profiles_it_does_not_start() {
    let mut wire = Wire::new("skylake", 2);
    let number = by_thread(&mut wire);
    wire.model.profile_a_thread(true);
    assert_eq!(wire.about(START, number).error(), Some(ThreadsOwned));
    wire.model.profile_a_thread(false);
    assert_eq!(wire.about(START, number).refusal(), None, "nothing was kept");
}

#[test]
fn what_a_thread_still_uses_is_kept_told_and_asked_for_at_the_next_start() {
    let mut wire = Wire::new("skylake", 2);
    let number = by_thread(&mut wire);
    assert_eq!(wire.about(START, number).refusal(), None);
    wire.work("instructions=1000,cycles=1000,processors=all");
    wire.model.profile_a_thread(true);
    let killed = wire.handle;
    wire.model.close(killed);
    wire.handle = wire.other(78);
    assert!(!wire.model.is_counting());
    assert_eq!(wire.machine().flags, Machine::THREADS_KEPT);
    let other = wire.open();
    wire.configure(other, &by_source(&[INSTRUCTIONS]));
    let kept = (ThreadsKept, 0, 0xC000_0303);
    assert_eq!(wire.about(START, other).refusal(), Some(kept));
    assert_eq!(wire.machine().flags, Machine::THREADS_KEPT);
    wire.model.profile_a_thread(false);
    assert_eq!(wire.about(START, other).refusal(), None);
    assert_eq!(wire.machine().flags, 0);
}

#[test]
fn a_processor_of_another_kind_that_was_added_before_start_refuses_it() {
    let mut wire = Wire::on(Model::new(&leaves("skylake", 2)));
    let number = by_thread(&mut wire);
    wire.model.add_processor(&leaves("haswell", 1)[0]);
    let refusal = (NotByThread, INSTRUCTIONS, 2);
    assert_eq!(wire.about(START, number).refusal(), Some(refusal));
    assert!(!wire.model.is_counting());
    assert_eq!(wire.model.faults(), []);
}

/// A thread that moves to it would not be counted there.
#[test]
fn an_added_processor_of_another_kind_ends_it() {
    for (kind, joins) in [("skylake", true), ("haswell", false)] {
        let mut wire = Wire::on(Model::new(&leaves("skylake", 2)));
        let number = by_thread(&mut wire);
        assert_eq!(wire.about(START, number).refusal(), None);
        wire.model.add_processor(&leaves(kind, 1)[0]);
        assert_eq!(wire.model.is_counting(), joins, "{kind}");
        assert_eq!(wire.model.counted_by_thread().is_empty(), !joins, "{kind}");
        let stopped = wire.about(STOP, number).refusal();
        let told = (NotByThread, INSTRUCTIONS, 2);
        assert_eq!(stopped, (!joins).then_some(told), "{kind}");
        assert_eq!(wire.model.faults(), []);
    }
}

/// A thread that moves to it would be counted by nobody, and RDPMC would end a program there.
#[test]
fn an_added_processor_without_memory_ends_it_and_no_other_begins() {
    let mut wire = Wire::on(Model::new(&leaves("skylake", 2)));
    let number = by_thread(&mut wire);
    assert_eq!(wire.about(START, number).refusal(), None);
    wire.model.add_processor_without_memory();
    assert!(!wire.model.is_counting());
    assert!(wire.model.counted_by_thread().is_empty());
    for request in [STOP, START, ALLOW] {
        let refusal = wire.about(request, number).refusal();
        let (error, processor, bytes) = refusal.expect("a refusal");
        assert_eq!((error, processor), (NoMemory, 2), "{request:?}");
        assert_ne!(bytes, 0);
    }
    assert_eq!(wire.model.faults(), []);
}

/// Leaf 0x23.1 EAX: four counters, and three of them without the second.
#[test]
fn only_counters_that_every_kind_has_are_taken() {
    let hybrid = leaves("hybrid", 12);
    let with = |leaves: &Leaves, counters| {
        let mut leaves = leaves.clone();
        let masks = leaves.get(0x23, 1);
        let masks = CpuidResult { eax: counters, ..masks };
        leaves.insert_subleaf(0x23, 1, masks);
        leaves
    };
    let machine = [with(&hybrid[0], 0b1111), with(&hybrid[4], 0b1101)];
    let mut wire = Wire::on(Model::new(&machine));
    let number = wire.open();
    let request = configure(number, THREADS, &by_source(&[INSTRUCTIONS, BRANCHES]));
    assert_eq!(wire.send(session::CONFIGURE, &request).refusal(), None);
    let counters: Vec<ThreadCounter> =
        wire.about(threads::THREADS, number).elements::<Threads, _>();
    let taken: Vec<u32> = counters.iter().map(|one| one.counter).collect();
    assert!(taken.iter().all(|&one| one != 1), "{taken:?}");
}

/// The list of counters is not its business.
#[test]
fn a_session_that_does_not_count_by_thread_keeps_nothing() {
    let mut wire = Wire::new("skylake", 1);
    let number = wire.run(spec(INSTRUCTIONS), 0);
    wire.model.profile_a_thread(true);
    for code in [STOP, START, STOP] {
        assert_eq!(wire.about(code, number).refusal(), None);
        assert_eq!(wire.machine().flags & Machine::THREADS_KEPT, 0);
    }
}
