//! Are system events what happened, in order, bounded, and is each loss counted?

use crate::backend::Backend;
use crate::requests::{bytes, configuration, configure, spec};
use crate::wire::{PROCESS, RawClient, Reply, about, leaves};
use shared_types::request::events::{DRAIN_EVENTS, DrainedEvents, EVENTS_BYTES_MAX};
use shared_types::request::machine::Machine;
use shared_types::request::session::{self, Configure, Configured, EVENTS, SAMPLE, Spec, THREADS};
use shared_types::{ErrorCode, EventKind, LossCause, SystemEvent};

scenarios![
    a_session_that_did_not_ask_has_none,
    the_session_power_and_processors_are_told_of,
    what_interrupts_note_adds_up,
    a_storm_is_told_of,
    a_reply_is_bounded_and_says_what_is_left,
    events_that_do_not_fit_are_counted_as_lost,
    the_cap_holds_with_it,
    another_session_waits_until_they_are_gone,
];

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

fn drained<B: Backend>(client: &mut RawClient<B>, session: u32) -> Vec<(EventKind, SystemEvent)> {
    let reply = client.about(DRAIN_EVENTS, session);
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
fn put_events<B: Backend>(client: &mut RawClient<B>, events: usize) {
    for number in 0..events {
        if number % 2 == 0 { client.sleep() } else { client.wake() }
    }
}

/// One sample for every `interval` instructions.
fn sampled(interval: u64) -> Spec {
    Spec { interval, ..spec(TOTAL_ISSUES) }
}

/// A session that samples, with rings for this many samples, and records system events.
fn started_with_rings<B: Backend>(client: &mut RawClient<B>, ring_samples: u32, spec: Spec) -> u32 {
    let session = client.open();
    let settings = configuration(SAMPLE | EVENTS);
    let head = Configure { session, sources: 1, ring_samples, ..settings };
    assert_eq!(client.send(session::CONFIGURE, &bytes(&head, &[spec])).refusal(), None);
    client.granted(session::START, session);
    session
}

fn a_session_that_did_not_ask_has_none<B: Backend>() {
    let mut client = RawClient::<B>::new("skylake", 1);
    let number = client.run(spec(TOTAL_ISSUES), 0);
    let error = client.about(DRAIN_EVENTS, number).error();
    assert_eq!(error, Some(ErrorCode::NoEvents));
    assert_eq!(client.machine().ring_bytes, 0);
    client.end();
}

/// Started, asleep, awake, processor added, stopped: as it happened, with time stamps that do not
/// go back.
fn the_session_power_and_processors_are_told_of<B: Backend>() {
    use EventKind::{Asleep, Awake, ProcessorAdded, SessionStarted, SessionStopped};
    let mut client = RawClient::<B>::new("skylake", 2);
    let number = client.run(spec(TOTAL_ISSUES), EVENTS);
    assert_eq!(client.machine().ring_bytes, RING_BYTES);
    client.work("instructions=40000,cycles=50000");
    client.sleep();
    client.wake();
    client.add_processor(&leaves("skylake", 1)[0]);
    client.work("instructions=40000,cycles=50000");
    client.granted(session::STOP, number);
    let events = drained(&mut client, number);
    let expected = [SessionStarted, Asleep, Awake, ProcessorAdded, SessionStopped];
    assert_eq!(kinds(&events), expected);
    assert!(events.is_sorted_by_key(|(_, event)| event.timestamp));
    let clients = events.iter().map(|(_, event)| event.process);
    assert_eq!(clients.collect::<Vec<_>>(), [PROCESS, 0, 0, 0, PROCESS]);
    assert_eq!(events[3].1.subject, 2);
    assert_eq!(drained(&mut client, number), []);
    client.about(session::CLOSE, number);
    assert_eq!(client.machine().ring_bytes, 0);
    client.end();
}

/// What the handler only notes is written by the tick, and what no tick has written by the end of
/// the session: the sum over the events equals the statistics.
fn what_interrupts_note_adds_up<B: Backend>() {
    let mut client = RawClient::<B>::new("skylake", 2);
    let number = started_with_rings(&mut client, 64, sampled(1000));
    client.work("instructions=300000000,cycles=400000000,processors=all");
    client.about(session::STOP, number);
    let statistics = client.statistics(number);
    let events = drained(&mut client, number);
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
    client.end();
}

/// A storm ends the session on its processor before any tick comes.
fn a_storm_is_told_of<B: Backend>() {
    use EventKind::{SessionStarted, SessionStopped, Storm};
    let mut client = RawClient::<B>::new("skylake", 1);
    let number = client.run(sampled(100_000), SAMPLE | EVENTS);
    for _ in 0..100 {
        client.spurious_interrupt(0);
    }
    let storm = ErrorCode::InterruptStorm as u32;
    assert_eq!(client.statistics(number).ended, storm);
    let events = drained(&mut client, number);
    let events = events.iter().map(|(kind, event)| (*kind, event.subject));
    let expected = [(SessionStarted, 0), (Storm, 0), (SessionStopped, storm)];
    assert_eq!(events.collect::<Vec<_>>(), expected);
    client.end();
}

fn a_reply_is_bounded_and_says_what_is_left<B: Backend>() {
    let most = (EVENTS_BYTES_MAX - size_of::<DrainedEvents>()) / size_of::<SystemEvent>();
    assert!(most < CAPACITY);
    let mut client = RawClient::<B>::new("skylake", 1);
    let number = client.run(spec(TOTAL_ISSUES), EVENTS);
    put_events(&mut client, CAPACITY - 1);
    let mut left = CAPACITY;
    while left > 0 {
        let reply = client.about(DRAIN_EVENTS, number);
        let taken = events(&reply).len();
        assert_eq!(taken, left.min(most));
        left -= taken;
        assert_eq!(reply.done::<DrainedEvents>().left, left as u64);
    }
    let short = size_of::<DrainedEvents>() + size_of::<SystemEvent>() - 1;
    let reply = client.send_with_room(DRAIN_EVENTS, &about(number), short);
    assert_eq!(reply.error(), Some(ErrorCode::ReplyTooSmall));
    let reply = client.send_with_room(DRAIN_EVENTS, &about(number), short + 1);
    assert_eq!(reply.refusal(), None);
    client.end();
}

/// 2048 events fit; later ones are counted, and those before them are not overwritten.
fn events_that_do_not_fit_are_counted_as_lost<B: Backend>() {
    let mut client = RawClient::<B>::new("skylake", 1);
    let number = client.run(spec(TOTAL_ISSUES), EVENTS);
    put_events(&mut client, 2050);
    let (mut told, mut lost) = (Vec::new(), 0);
    loop {
        let reply = client.about(DRAIN_EVENTS, number);
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
    assert_eq!(client.about(DRAIN_EVENTS, number).done::<DrainedEvents>().lost, 0);
    client.end();
}

/// The ring counts towards the limit for all rings.
fn the_cap_holds_with_it<B: Backend>() {
    let mut client = RawClient::<B>::new("skylake", 4);
    started_with_rings(&mut client, u32::MAX, spec(TOTAL_ISSUES));
    let machine: Machine = client.machine();
    assert!(machine.ring_bytes > RING_BYTES && machine.ring_bytes <= machine.ring_bytes_max);
    client.end();
}

/// What a session has left stays until its results are discarded, and blocks others as samples do.
fn another_session_waits_until_they_are_gone<B: Backend>() {
    let mut client = RawClient::<B>::new("skylake", 1);
    let first = client.run(spec(TOTAL_ISSUES), EVENTS);
    client.about(session::STOP, first);
    let second = client.open();
    let request = configure(second, THREADS | EVENTS, &[spec(TOTAL_ISSUES)]);
    let _: Configured = client.send(session::CONFIGURE, &request).done();
    let error = client.about(session::START, second).error();
    assert_eq!(error, Some(ErrorCode::Busy));
    client.about(session::CLOSE, first);
    client.granted(session::START, second);
    let error = client.about(DRAIN_EVENTS, first).error();
    assert_eq!(error, Some(ErrorCode::UnknownSession));
    let other = client.other(PROCESS + 8);
    let error = client.about_by(&other, DRAIN_EVENTS, second).error();
    assert_eq!(error, Some(ErrorCode::UnknownSession));
    client.end();
}
