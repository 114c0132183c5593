//! Do whole buffers and single events give a reader the same?

use halprof_etw::clock::ClockType;
use halprof_etw::{Event, PointerSize};
use halprof_measure::Result;
use halprof_measure::tracing::analysis::counts::{Counter, Query, TraceCounts, TraceFacts};
use halprof_measure::tracing::live::{Consumer, Delivery, Record, deliver_buffer, deliver_record};
use halprof_measure::tracing::session::{
    DeliverEvents, Flushed, SampledSource, Started, TIMER, TraceRequest, TraceState,
};
use sim_etw::generator::{LiveRun, Run, TracedSource};
use sim_etw::write::{self, LiveBuffers, Session};
use std::sync::{Arc, Mutex};

/// A run, and until when each flush delivers it, in microseconds.
fn run(seed: u64) -> (Run, [u64; 3]) {
    let source = |id, name: &str, interval, events: u64| TracedSource {
        name: name.to_owned(),
        source: SampledSource { id, interval },
        events: vec![events; 3],
    };
    let run = Run {
        seed,
        processors: 3,
        clock: ClockType::PerformanceCounter,
        pointer_size: PointerSize::Eight,
        length_us: 0,
        counted: vec![source(2, "TotalIssues", 0, 0), source(19, "TotalCycles", 0, 0)],
        sampled: vec![source(TIMER, "Timer", 1221, 0), source(10, "CacheMisses", 100_000, 0)],
        stacks: true,
        wakings: seed.is_multiple_of(2),
        branches: None,
        lost_buffers_one_in: 0,
        program: None,
    };
    (run, [5_000, 7_000, 20_000])
}

/// How Windows delivers events.
#[derive(Clone, Copy)]
enum Form {
    Buffers,
    Records,
}

/// A session that delivers a run in one form.
struct Delivers {
    form: Form,
    run: Run,
    live: LiveRun,
    lengths: std::array::IntoIter<u64, 3>,
    buffers: LiveBuffers,
    consumer: Option<Arc<dyn Consumer>>,
}

impl Delivers {
    fn new(form: Form, seed: u64) -> Self {
        let (run, lengths) = run(seed);
        let session = Session { processors: 3, ..Session::default() };
        Self {
            form,
            live: LiveRun::new(run.clone()),
            run,
            lengths: lengths.into_iter(),
            buffers: LiveBuffers::new(session),
            consumer: None,
        }
    }

    fn deliver(&mut self, length_us: u64, goes_on: bool) {
        let Self { form, run, live, buffers, consumer, .. } = self;
        let consumer = consumer.as_deref().expect("a session");
        let events = |source: &mut TracedSource| source.events.fill(length_us * 2_000);
        run.length_us = length_us;
        run.counted.iter_mut().chain(&mut run.sampled).for_each(events);
        live.events_until(run, goes_on, |origin, kind, counters| match form {
            Form::Buffers => buffers.event(origin, kind, counters).expect("it fits"),
            Form::Records => {
                let single = write::single(origin, kind, counters, PointerSize::Eight);
                let single = single.expect("it can be written");
                deliver_record(&single.record, &single.payload, &single.values, consumer);
            }
        });
        for buffer in buffers.flush() {
            deliver_buffer(&buffer, consumer);
        }
    }
}

impl DeliverEvents for Delivers {
    fn start_delivery(&mut self, _: &TraceRequest, to: Arc<dyn Consumer>) -> Result<Started> {
        self.consumer = Some(to);
        Ok(Started { sampled: Vec::new(), clock: self.live.clock().expect("a clock") })
    }

    fn flush_delivery(&mut self) -> Result<Flushed> {
        let length = self.lengths.next().expect("a flush");
        self.deliver(length, true);
        Ok(Flushed { time: self.live.now(), is_delivered: true, lost: 0 })
    }

    fn stop_delivery(&mut self) -> Result<TraceState> {
        let length = self.lengths.next().expect("the end");
        self.deliver(length, false);
        self.consumer.as_deref().expect("a session").ended();
        Ok(TraceState::default())
    }
}

/// An event without the name of what it is, which each form has its own of, and the counts.
type Read = (Vec<String>, TraceCounts);

fn read(form: Form, seed: u64) -> Read {
    let mut session = Delivers::new(form, seed);
    let (mut delivery, _) =
        Delivery::start(&mut session, &TraceRequest::default()).expect("it starts");
    let query = Query::default();
    let mut counter = Counter::new(&query, delivery.clock(), 3);
    let mut events = Vec::new();
    let mut visit = |event: &Event<'_>| {
        let counters: Vec<u64> = event.counters.iter().collect();
        let (time, processor) = (event.time, event.processor);
        events.push(format!("{time} {processor} {counters:?} {:?}", event.kind));
        counter.event(event);
    };
    for _ in 0..2 {
        delivery.flush(&mut session, &mut visit).expect("flushed");
    }
    delivery.stop(&mut session, &mut visit).expect("stopped");
    assert_eq!(delivery.missing().dropped, 0);
    // At one time, the order among processors is that of delivery.
    events.sort();
    (events, counter.finish(TraceFacts::default()).expect("counts"))
}

#[test]
fn whole_buffers_and_single_events_are_the_same() {
    for seed in 0..10 {
        let (of_buffers, counts) = read(Form::Buffers, seed);
        let (of_records, same) = read(Form::Records, seed);
        assert!(of_buffers.len() > 200, "{}", of_buffers.len());
        assert_eq!(of_buffers, of_records, "seed {seed}");
        assert!(!of_buffers.iter().any(|event| event.ends_with("Unknown")), "seed {seed}");
        assert_eq!(counts, same, "seed {seed}");
    }
}

/// Keeps what it gets.
#[derive(Debug, Default)]
struct Kept(Mutex<Vec<String>>);

impl Consumer for Kept {
    fn record(&self, record: &Record<'_>) {
        let kind = halprof_etw::payload::decode(record.id, PointerSize::Eight, record.payload);
        let Record { time, processor, values, .. } = record;
        self.0.lock().expect("no panic").push(format!("{time} {processor} {values:?} {kind:?}"));
    }

    fn goes_on(&self) -> bool {
        true
    }

    fn ended(&self) {}
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| {
        let pair = str::from_utf8(pair).expect("digits");
        u8::from_str_radix(pair, 16).expect("a byte")
    };
    digits.chunks(2).map(byte).collect()
}

/// A context switch from thread 8 to thread 12 at 0x1122334455 on processor 3, with the counters 5 and 6, byte
/// by byte: in a buffer of 136 bytes, all used, and as a single event.
const BUFFER: &str = "
    88000000 88000000 88000000 00000000  5644332211000000 0100000000000000
    0000000000000000 0300 0100 00000000  88000000 2000 0000 0000000000000000 0000000000000000
    0402 11C0 3800 24 05  5544332211000000
    0500000000000000 0600000000000000
    0C000000 08000000 08 08 00 00 06 01 05 00 00000000 00000000
    FFFFFFFFFFFFFFFF";
const RECORD: &str = "
    7000 0000 4002 0000 FFFFFFFF FFFFFFFF 5544332211000000
    D1A86F3D 05FE D011 9DDA00C04FD7BA7C
    0000 04 00 00 24 0000 0000000000000000 0000000000000000 00000000000000000000000000000000
    0300 0100 0100 1800";
const PAYLOAD: &str = "0C000000 08000000 08 08 00 00 06 01 05 00 00000000 00000000";
const VALUES: &str = "0500000000000000 0600000000000000";

#[test]
fn the_bytes_of_both_forms_are_those_of_evntrace_h() {
    let (whole, single) = (Kept::default(), Kept::default());
    deliver_buffer(&bytes(BUFFER), &whole);
    deliver_record(&bytes(RECORD), &bytes(PAYLOAD), &bytes(VALUES), &single);
    let [whole, single] = [whole, single].map(|kept| kept.0.into_inner().expect("no panic"));
    assert_eq!(whole, single);
    let expected = format!("{} 3 {:?} Some(Switch", 0x11_2233_4455_u64, bytes(VALUES));
    assert!(whole.len() == 1 && whole[0].starts_with(&expected), "{whole:?}");
}

/// What cannot be read of a buffer, and what was lost before it, are losses.
#[test]
fn a_buffer_that_cannot_be_read_is_a_loss() {
    let whole = bytes(BUFFER);
    let mut after_loss = whole.clone();
    after_loss[52] |= 4;
    let mut cut = whole.clone();
    cut.truncate(100);
    let mut too_long = whole.clone();
    too_long[76] = 0xFF;
    let mut compressed = whole.clone();
    compressed[52] |= 0x40;
    for (name, buffer, losses, switches) in [
        ("whole", &whole, 0, 1),
        ("after a loss", &after_loss, 1, 1),
        ("cut", &cut, 1, 0),
        ("with an event that ends behind it", &too_long, 1, 0),
        ("compressed", &compressed, 1, 0),
        ("empty", &Vec::new(), 1, 0),
    ] {
        let kept = Kept::default();
        deliver_buffer(buffer, &kept);
        let kept = kept.0.into_inner().expect("no panic");
        let count = |what: &str| kept.iter().filter(|event| event.contains(what)).count();
        assert_eq!((count("Some(Lost)"), count("Some(Switch")), (losses, switches), "{name}");
    }
}
