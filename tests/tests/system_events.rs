//! Are system events what happened, in order, bounded, and is each loss counted?

use halprof_tests::bare::Bare;
use halprof_tests::requests::{configure, spec};
use halprof_tests::wire::{PROCESS, Reply, Wire, about};
use shared_types::request::events::{DRAIN_EVENTS, DrainedEvents, EVENTS_BYTES_MAX};
use shared_types::request::machine::Machine;
use shared_types::request::samples;
use shared_types::request::session::{self, Configured, EVENTS, SAMPLE, Spec, THREADS};
use shared_types::{ErrorCode, EventKind, LossCause, SystemEvent};

const TOTAL_ISSUES: u32 = 2;
const CAPACITY: usize = 2048;
/// The size of the ring: 2048 events, and two cache lines.
const RING_BYTES: u64 = 2048 * 32 + 128;

fn events(reply: &Reply) -> Vec<SystemEvent> {
    let head: DrainedEvents = reply.done();
    let events = reply.elements::<DrainedEvents, SystemEvent>();
    assert_eq!(events.len(), head.count as usize);
    events
}

fn drained(wire: &mut Wire, session: u32) -> Vec<(EventKind, SystemEvent)> {
    let reply = wire.about(DRAIN_EVENTS, session);
    let events = events(&reply).into_iter();
    let named = events.map(|event| {
        let kind = EventKind::from_wire(event.kind).expect("a known kind");
        (kind, event)
    });
    named.collect()
}

fn kinds(events: &[(EventKind, SystemEvent)]) -> Vec<EventKind> {
    events.iter().map(|(kind, _)| *kind).collect()
}

/// The machine sleeps and wakes until this many events have happened.
fn put_events(wire: &mut Wire, events: usize) {
    for number in 0..events {
        if number % 2 == 0 { wire.model.sleep() } else { wire.model.wake() }
    }
}

/// One sample for every `interval` instructions.
fn sampled(interval: u64) -> Spec {
    Spec { interval, ..spec(TOTAL_ISSUES) }
}

#[test]
fn a_session_that_did_not_ask_has_none() {
    let mut wire = Wire::new("skylake", 1);
    let number = wire.run(spec(TOTAL_ISSUES), 0);
    let error = wire.about(DRAIN_EVENTS, number).error();
    assert_eq!(error, Some(ErrorCode::NoEvents));
    assert_eq!(wire.machine().ring_bytes, 0);
}

/// Started, asleep, awake, processor added, stopped: as it happened, with time stamps that do not
/// go back.
#[test]
fn the_session_power_and_processors_are_told_of() {
    use EventKind::{Asleep, Awake, ProcessorAdded, SessionStarted, SessionStopped};
    let mut wire = Wire::new("skylake", 2);
    let number = wire.run(spec(TOTAL_ISSUES), EVENTS);
    assert_eq!(wire.machine().ring_bytes, RING_BYTES);
    wire.work("instructions=40000,cycles=50000");
    wire.model.sleep_and_wake();
    let leaves = halprof_tests::wire::leaves("skylake", 1);
    wire.model.add_processor(&leaves[0]);
    wire.work("instructions=40000,cycles=50000");
    assert_eq!(wire.about(session::STOP, number).refusal(), None);
    let events = drained(&mut wire, number);
    let expected = [SessionStarted, Asleep, Awake, ProcessorAdded, SessionStopped];
    assert_eq!(kinds(&events), expected);
    assert!(events.is_sorted_by_key(|(_, event)| event.timestamp));
    let clients = events.iter().map(|(_, event)| event.process);
    assert_eq!(clients.collect::<Vec<_>>(), [PROCESS, 0, 0, 0, PROCESS]);
    assert_eq!(events[3].1.subject, 2);
    assert_eq!(drained(&mut wire, number), []);
    wire.about(session::CLOSE, number);
    assert_eq!(wire.machine().ring_bytes, 0);
}

/// What the handler only notes is written by the tick, and what no tick has written by the end of
/// the session: the sum over the events equals the statistics.
#[test]
fn what_interrupts_note_adds_up() {
    let mut wire = Wire::new("skylake", 2);
    let number = wire.open();
    let mut request = configure(number, SAMPLE | EVENTS, &[sampled(1000)]);
    let at = std::mem::offset_of!(session::Configure, ring_samples);
    request[at..at + 4].copy_from_slice(&64_u32.to_le_bytes());
    let _: Configured = wire.send(session::CONFIGURE, &request).done();
    assert_eq!(wire.about(session::START, number).refusal(), None);
    wire.work("instructions=3000000000,cycles=4000000000,processors=all");
    wire.about(session::STOP, number);
    let statistics: samples::Statistics = wire.about(samples::STATISTICS, number).done();
    let events = drained(&mut wire, number);
    let sum = |wanted| {
        let of_kind = events.iter().filter(|(kind, _)| *kind == wanted);
        of_kind.map(|(_, event)| event.amount).sum::<u64>()
    };
    let full = statistics.lost[LossCause::RingFull as usize];
    assert!(full > 0 && statistics.throttled > 0, "{statistics:?}");
    assert_eq!(sum(EventKind::SamplesLost), full);
    assert_eq!(sum(EventKind::Throttled), statistics.throttled);
    let processors = events[1..events.len() - 1].iter();
    assert!(processors.clone().count() > 2);
    assert!(processors.clone().any(|(_, event)| event.subject == 1));
    assert!(processors.clone().all(|(_, event)| event.subject < 2));
}

/// A storm ends the session on its processor before any tick comes.
#[test]
fn a_storm_is_told_of() {
    let mut bare = Bare::new("skylake", 1);
    bare.configure(SAMPLE | EVENTS, &[sampled(100_000)], 0);
    bare.start();
    for _ in 0..100 {
        bare.spurious_interrupt(0);
    }
    let storm = ErrorCode::InterruptStorm as u32;
    assert_eq!(bare.statistics().ended, storm);
    let events = bare.system_events();
    let told: Vec<_> = events.iter().map(|event| (event.kind, event.subject)).collect();
    let expected =
        [(EventKind::SessionStarted, 0), (EventKind::Storm, 0), (EventKind::SessionStopped, storm)];
    assert_eq!(told, expected.map(|(kind, subject)| (kind as u32, subject)));
}

#[test]
fn a_reply_is_bounded_and_says_what_is_left() {
    let most = (EVENTS_BYTES_MAX - size_of::<DrainedEvents>()) / size_of::<SystemEvent>();
    assert!(most < CAPACITY);
    let mut wire = Wire::new("skylake", 1);
    let number = wire.run(spec(TOTAL_ISSUES), EVENTS);
    put_events(&mut wire, CAPACITY - 1);
    let mut left = CAPACITY;
    while left > 0 {
        let reply = wire.about(DRAIN_EVENTS, number);
        let taken = events(&reply).len();
        assert_eq!(taken, left.min(most));
        left -= taken;
        assert_eq!(reply.done::<DrainedEvents>().left, left as u64);
    }
    let short = size_of::<DrainedEvents>() + size_of::<SystemEvent>() - 1;
    let reply = wire.send_by(wire.handle, DRAIN_EVENTS, &about(number), short);
    assert_eq!(reply.error(), Some(ErrorCode::ReplyTooSmall));
    let reply = wire.send_by(wire.handle, DRAIN_EVENTS, &about(number), short + 1);
    assert_eq!(reply.refusal(), None);
}

/// 2048 events fit; later ones are counted, and those before them are not overwritten.
#[test]
fn events_that_do_not_fit_are_counted_as_lost() {
    let mut wire = Wire::new("skylake", 1);
    let number = wire.run(spec(TOTAL_ISSUES), EVENTS);
    put_events(&mut wire, 2050);
    let (mut told, mut lost) = (Vec::new(), 0);
    loop {
        let reply = wire.about(DRAIN_EVENTS, number);
        lost += reply.done::<DrainedEvents>().lost;
        told.extend(events(&reply));
        if reply.done::<DrainedEvents>().left == 0 {
            break;
        }
    }
    assert_eq!((told.len(), lost), (2048, 3), "START is the first");
    assert_eq!(told[0].kind, EventKind::SessionStarted as u32);
    let asleep = told.iter().filter(|event| event.kind == EventKind::Asleep as u32);
    assert_eq!(asleep.count(), 1024, "START, and then each sleep and its end");
    assert_eq!(wire.about(DRAIN_EVENTS, number).done::<DrainedEvents>().lost, 0);
}

/// Each kind of note alone, with the time at which it first happened; by the tick, or at the end.
#[test]
fn each_note_is_told_at_its_time() {
    for ticks in [false, true] {
        for throttled in [false, true] {
            let mut bare = Bare::new("skylake", 1);
            bare.configure(SAMPLE | EVENTS, &[sampled(5_000)], 0);
            bare.start();
            let mut at = 0;
            for period in 1..=67 {
                at = 5_000 * period;
                let cpu = bare.cpu(0);
                cpu.processor.set_timestamp(at);
                if throttled {
                    cpu.interrupt_cost = 1_000_000;
                }
                bare.retire(0, &[(sim::cpu::event::Event::Instructions, at)]);
                assert!(bare.take_interrupt(0));
                if throttled {
                    break;
                }
            }
            if ticks {
                bare.service.processors().tick(0);
            } else {
                bare.stop();
            }
            let events = bare.system_events();
            // The ring holds 64 samples, so the 65th is the first of three that are lost.
            let (kind, since, amount) = if throttled {
                (EventKind::Throttled, at + 1_000_000, 1)
            } else {
                (EventKind::SamplesLost, 65 * 5_000, 3)
            };
            let note = events[1];
            assert_eq!((note.kind, note.amount), (kind as u32, amount));
            assert_eq!(note.timestamp, since, "{kind:?}");
            assert_eq!(events.len(), if ticks { 2 } else { 3 });
        }
    }
}

/// Nothing is left of a start that is refused.
#[test]
fn what_cannot_be_had_is_refused_and_left() {
    let mut wire = Wire::new("skylake", 1);
    let number = wire.open();
    let request = configure(number, SAMPLE | EVENTS, &[spec(TOTAL_ISSUES)]);
    let _: Configured = wire.send(session::CONFIGURE, &request).done();
    wire.model.limit_ring_memory(RING_BYTES as usize - 8);
    let told = wire.about(session::START, number).refusal();
    assert_eq!(told, Some((ErrorCode::NoMemory, 0, RING_BYTES)));
    // There is room for events, but none for samples.
    wire.model.limit_ring_memory(RING_BYTES as usize);
    let error = wire.about(session::START, number).error();
    assert_eq!(error, Some(ErrorCode::NoMemory));
    assert_eq!(wire.machine().ring_bytes, 0);
    wire.model.limit_ring_memory(usize::MAX);
    assert_eq!(wire.about(session::START, number).refusal(), None);
}

/// The ring counts towards the limit for all rings.
#[test]
fn the_cap_holds_with_it() {
    let mut wire = Wire::new("skylake", 4);
    let number = wire.open();
    let mut request = configure(number, SAMPLE | EVENTS, &[spec(TOTAL_ISSUES)]);
    let at = std::mem::offset_of!(session::Configure, ring_samples);
    request[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    let _: Configured = wire.send(session::CONFIGURE, &request).done();
    assert_eq!(wire.about(session::START, number).refusal(), None);
    let machine: Machine = wire.machine();
    assert!(machine.ring_bytes > RING_BYTES && machine.ring_bytes <= machine.ring_bytes_max);
}

/// What a session has left stays until its results are discarded, and blocks others as samples do.
#[test]
fn another_session_waits_until_they_are_gone() {
    let mut wire = Wire::new("skylake", 1);
    let first = wire.run(spec(TOTAL_ISSUES), EVENTS);
    wire.about(session::STOP, first);
    let second = wire.open();
    let request = configure(second, THREADS | EVENTS, &[spec(TOTAL_ISSUES)]);
    let _: Configured = wire.send(session::CONFIGURE, &request).done();
    let error = wire.about(session::START, second).error();
    assert_eq!(error, Some(ErrorCode::Busy));
    wire.about(session::CLOSE, first);
    assert_eq!(wire.about(session::START, second).refusal(), None);
    let error = wire.about(DRAIN_EVENTS, first).error();
    assert_eq!(error, Some(ErrorCode::UnknownSession));
    let other = wire.other(PROCESS + 8);
    let error = wire.about_by(other, DRAIN_EVENTS, second).error();
    assert_eq!(error, Some(ErrorCode::UnknownSession));
}
