//! Events in the order in which processors deliver them, on a backend that delivers what a test says.

use super::*;
use crate::tracing::session::Flushed;
use halprof_etw::bytes::{Layout, Output};
use halprof_etw::clock::ClockType;
use halprof_etw::id::group;
use halprof_etw::payload::processor::Switch;

/// An event that is about to be delivered: its time, its processor, and its payload.
type Coming = (i64, u16, Vec<u8>);

#[derive(Default)]
struct Scripted {
    consumer: Option<Arc<dyn Consumer>>,
    /// What each flush delivers, and when it is.
    flushes: Vec<(Vec<Coming>, i64)>,
    last: Vec<Coming>,
    lost: u64,
}

impl Scripted {
    fn deliver(&self, events: &[Coming]) {
        let consumer = self.consumer.as_deref().expect("a session");
        for (time, processor, payload) in events {
            let id = EventId::Kernel { group: group::THREAD, opcode: 36, version: 4 };
            let values = time.to_le_bytes();
            let (time, processor) = (*time, *processor);
            consumer.record(&Record { time, processor, id, payload, values: &values });
        }
    }
}

impl DeliverEvents for Scripted {
    fn start_delivery(&mut self, _: &TraceRequest, to: Arc<dyn Consumer>) -> Result<Started> {
        self.consumer = Some(to);
        let clock = Clock::new(ClockType::PerformanceCounter, 1_000_000_000, 0).expect("a clock");
        Ok(Started { sampled: Vec::new(), clock })
    }

    fn flush_delivery(&mut self) -> Result<Flushed> {
        let (events, time) = self.flushes.remove(0);
        self.deliver(&events);
        Ok(Flushed { time, is_delivered: true, lost: self.lost })
    }

    fn stop_delivery(&mut self) -> Result<TraceState> {
        self.deliver(&self.last);
        self.consumer.take().expect("a session").ended();
        Ok(TraceState { events_lost: 7, ..TraceState::default() })
    }
}

fn switch() -> Vec<u8> {
    let mut output = Output { bytes: Vec::new(), pointer_size: PointerSize::Eight };
    Switch::default().write(&mut output);
    output.bytes
}

fn at(times: &[(i64, u16)]) -> Vec<Coming> {
    times.iter().map(|&(time, processor)| (time, processor, switch())).collect()
}

fn started(backend: &mut Scripted) -> Delivery {
    Delivery::start(backend, &TraceRequest::default()).expect("it starts").0
}

/// What is newer than a flush waits for the next one: another processor may still have something older.
#[test]
fn events_are_in_the_order_of_time_across_processors_and_flushes() {
    let mut backend = Scripted {
        flushes: vec![
            (at(&[(1, 0), (4, 0), (12, 0), (2, 1), (3, 1)]), 10),
            (at(&[(13, 0), (11, 1), (21, 1)]), 20),
        ],
        last: at(&[(22, 0)]),
        ..Scripted::default()
    };
    let mut delivery = started(&mut backend);
    let mut read = Vec::new();
    for expected in [&[1, 2, 3, 4][..], &[11, 12, 13]] {
        delivery
            .flush(&mut backend, &mut |event| {
                assert_eq!(event.counters.iter().collect::<Vec<_>>(), [event.time.cast_unsigned()]);
                read.push(event.time);
            })
            .expect("flushed");
        assert_eq!(std::mem::take(&mut read), expected);
    }
    let state = delivery.stop(&mut backend, &mut |event| read.push(event.time)).expect("stopped");
    assert_eq!((read, state.events_lost, delivery.missing().lost), (vec![21, 22], 7, 7));
}

/// A switch that comes when later ones have been read would count their time twice.
#[test]
fn a_switch_that_comes_too_late_is_dropped_and_said() {
    let mut backend = Scripted {
        flushes: vec![
            (at(&[(1, 0), (4, 0), (2, 1)]), 10),
            (at(&[(3, 0), (12, 0), (13, 0), (14, 1)]), 20),
        ],
        ..Scripted::default()
    };
    let mut delivery = started(&mut backend);
    let mut read = Vec::new();
    for _ in 0..2 {
        let mut visit = |event: &Event<'_>| read.push((event.time, event.is_after_gap));
        delivery.flush(&mut backend, &mut visit).expect("flushed");
    }
    let expected = [(1, false), (2, false), (4, false), (12, true), (13, false), (14, false)];
    assert_eq!((read.as_slice(), delivery.missing().dropped), (&expected[..], 1));
}

/// What is kept for a later flush counts too: events of a time that never comes would fill the memory.
#[test]
fn what_waits_for_a_later_flush_is_bounded() {
    let large = vec![0; 60_000];
    let events = WAITING_BYTES / large.len() + 10;
    let flood = |time| -> Vec<Coming> { vec![(time, 3, large.clone()); events] };
    let flushes = vec![(flood(i64::MAX), 10), (flood(i64::MAX), 20), (at(&[(15, 3)]), 20)];
    let mut backend = Scripted { flushes, ..Scripted::default() };
    let mut delivery = started(&mut backend);
    let mut read = 0;
    for _ in 0..3 {
        delivery.flush(&mut backend, &mut |_| read += 1).expect("flushed");
        assert!(delivery.waiting.length() <= WAITING_BYTES);
    }
    let dropped = delivery.missing().dropped;
    assert!(dropped as usize > events, "{dropped} of {}", 2 * events);
    delivery.stop(&mut backend, &mut |_| read += 1).expect("stopped");
    assert_eq!(read + dropped, 2 * events as u64 + 1);
}

#[test]
fn what_comes_faster_than_it_is_read_is_dropped_and_counted() {
    let large = vec![0; 60_000];
    let events = WAITING_BYTES / large.len() + 10;
    let flood: Vec<Coming> = (1..).take(events).map(|time| (time, 3, large.clone())).collect();
    let flushes = vec![(flood, 4_000), (at(&[(5_000, 3), (5_001, 3)]), 6_000)];
    let mut backend = Scripted { flushes, lost: 2, ..Scripted::default() };
    let mut delivery = started(&mut backend);
    let mut read = 0;
    delivery.flush(&mut backend, &mut |_| read += 1).expect("flushed");
    let Missing { lost, dropped, .. } = delivery.missing();
    assert_eq!((read + dropped, lost), (events as u64, 2));
    assert!((10..30).contains(&dropped), "{dropped}");
    let mut gaps = Vec::new();
    delivery.flush(&mut backend, &mut |event| gaps.push(event.is_after_gap)).expect("flushed");
    assert_eq!(gaps, [true, false]);
}

#[test]
fn a_payload_that_is_too_short_is_damage() {
    let flushes = vec![(vec![(1, 0, vec![0; 5])], 10)];
    let mut backend = Scripted { flushes, ..Scripted::default() };
    let mut delivery = started(&mut backend);
    let mut kinds = Vec::new();
    delivery
        .flush(&mut backend, &mut |event| kinds.push(event.kind == EventKind::Damaged))
        .expect("flushed");
    assert_eq!((kinds, delivery.missing().damage.count(Cause::Payload)), (vec![true], 1));
}
