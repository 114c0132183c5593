//! A session of Windows' own tracing that delivers what it should not: payloads of wrong sizes, events
//! that are late, twice, lost or nobody's, flushes that fail, and an end in the middle.

use fastrand::Rng;
use halprof_etw::buffer::{BufferHeader, HEADER_LENGTH, flag};
use halprof_etw::bytes::{Layout, Output};
use halprof_etw::clock::ClockType;
use halprof_etw::header::{COUNTERS_SHIFT, PerfInfo};
use halprof_etw::id::group;
use halprof_etw::payload::processor::{CounterSample, Switch};
use halprof_etw::{Clock, Event, EventId, EventKind, Guid, PointerSize};
use halprof_measure::tracing::analysis::counts::{Counter, Query, TraceCounts, TraceFacts};
use halprof_measure::tracing::live::{Consumer, Delivery, Missing, Record, deliver_buffer};
use halprof_measure::tracing::session::{
    DeliverEvents, Flushed, SampledSource, Started, TraceRequest, TraceState,
};
use halprof_measure::{Error, Result};
use halprof_profile::file::{DeliveredSamples, Metadata, Source};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a processor counts in a tick of 100 ns, at most: no more than is possible.
const MOST_PER_TICK: u64 = 1000;
/// The source that is sampled.
const SAMPLED: u16 = 19;
/// The most memory that a session may take: 64 MB that wait, twice while they are read, and what growing
/// lists take beside.
pub const MEMORY: u64 = 512 << 20;

/// An event that is about to be delivered.
#[derive(Clone)]
struct Coming {
    time: i64,
    processor: u16,
    id: EventId,
    payload: Vec<u8>,
    values: Vec<u8>,
}

/// One of the two forms in which Windows delivers.
enum Given {
    Single(Coming),
    Buffer(Vec<u8>),
}

/// A flush, or the end.
struct Part {
    events: Vec<Given>,
    /// When it is; events after it may come with it.
    until: i64,
    lost: u64,
    fails: bool,
}

/// A backend that delivers the parts that a case has made.
struct Scripted {
    parts: std::vec::IntoIter<Part>,
    consumer: Option<Arc<dyn Consumer>>,
    /// The session ends before it is stopped.
    ends_early: bool,
}

impl Scripted {
    fn deliver(&self, events: &[Given]) {
        let Some(consumer) = &self.consumer else { return };
        for given in events {
            match given {
                Given::Single(Coming { time, processor, id, payload, values }) => {
                    let (time, processor, id) = (*time, *processor, *id);
                    consumer.record(&Record { time, processor, id, payload, values });
                }
                Given::Buffer(buffer) => deliver_buffer(buffer, &**consumer),
            }
        }
    }
}

/// The length of a buffer, with which a session has several.
const BUFFER: usize = 1024;

/// Events in whole buffers, as far as buffers can have them.
fn in_buffers(events: Vec<Coming>) -> Vec<Given> {
    let mut given = Vec::new();
    let (mut processor, mut open) = (0, Vec::new());
    for event in events {
        let bytes = in_buffer(&event);
        let fits = open.len() + bytes.as_ref().map_or(BUFFER, Vec::len) <= BUFFER;
        if !open.is_empty() && (!fits || processor != event.processor) {
            given.push(Given::Buffer(buffer(processor, &std::mem::take(&mut open))));
        }
        processor = event.processor;
        match bytes {
            Some(bytes) => open.extend(bytes),
            None => given.push(Given::Single(event)),
        }
    }
    if !open.is_empty() {
        given.push(Given::Buffer(buffer(processor, &open)));
    }
    given
}

fn buffer(processor: u16, events: &[u8]) -> Vec<u8> {
    let used = (HEADER_LENGTH + events.len()) as u32;
    let flags = flag::PROCESSOR_INDEX;
    let header =
        BufferHeader { buffer_size: used, used, processor, flags, ..BufferHeader::default() };
    [bytes_of(&header), events.to_vec()].concat()
}

/// An event of the kernel as a buffer has it.
fn in_buffer(event: &Coming) -> Option<Vec<u8>> {
    let EventId::Kernel { group, opcode, version } = event.id else { return None };
    let counters = event.values.len() / 8;
    if counters > 7 || !event.values.len().is_multiple_of(8) {
        return None;
    }
    let header = PerfInfo {
        word: version & 0xFF | (counters as u16) << COUNTERS_SHIFT,
        header_type: 17,
        flags: 0xC0,
        size: u16::try_from(16 + event.values.len() + event.payload.len()).ok()?,
        opcode,
        group,
        time: event.time,
    };
    let mut bytes = [bytes_of(&header), event.values.clone(), event.payload.clone()].concat();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    Some(bytes)
}

/// Any bytes in a buffer, or fewer of them.
fn damage(rng: &mut Rng, given: &mut Given) {
    let Given::Buffer(buffer) = given else { return };
    for _ in 0..rng.usize(..4) {
        let at = rng.usize(..buffer.len());
        buffer[at] = rng.u8(..);
    }
    if rng.u8(..8) == 0 {
        buffer.truncate(rng.usize(..buffer.len()));
    }
}

fn clock() -> Clock {
    Clock::new(ClockType::PerformanceCounter, 10_000_000, 0).expect("a frequency")
}

impl DeliverEvents for Scripted {
    fn start_delivery(&mut self, _: &TraceRequest, to: Arc<dyn Consumer>) -> Result<Started> {
        self.consumer = Some(to);
        Ok(Started { sampled: Vec::new(), clock: clock() })
    }

    fn flush_delivery(&mut self) -> Result<Flushed> {
        let no_more = || Error::Internal("the session is gone".to_owned());
        let Part { events, until, lost, fails } = self.parts.next().ok_or_else(no_more)?;
        self.deliver(&events);
        if fails {
            return Err(no_more());
        }
        Ok(Flushed { time: until, is_delivered: true, lost })
    }

    fn stop_delivery(&mut self) -> Result<TraceState> {
        let rest = self.parts.by_ref().collect::<Vec<_>>();
        for part in &rest {
            self.deliver(&part.events);
        }
        if let Some(consumer) = &self.consumer {
            consumer.ended();
        }
        let events_lost = rest.last().map_or(0, |part| part.lost);
        if self.ends_early {
            return Err(Error::Internal("another program ended it".to_owned()));
        }
        Ok(TraceState { events_lost, ..TraceState::default() })
    }
}

fn bytes_of(layout: &impl Layout) -> Vec<u8> {
    let mut output = Output { bytes: Vec::new(), pointer_size: PointerSize::Eight };
    layout.write(&mut output);
    output.bytes
}

fn kernel(group: u8, opcode: u8, version: u16) -> EventId {
    EventId::Kernel { group, opcode, version }
}

/// What a machine did: context switches with the values of its counters, and samples.
struct Machine {
    events: Vec<Coming>,
    /// What each processor and each thread counted, by source, between the first and the last switch of
    /// each processor.
    of_processors: BTreeMap<u16, Vec<u128>>,
    of_threads: BTreeMap<u32, Vec<u128>>,
    samples: u64,
    end: i64,
}

impl Machine {
    fn run(rng: &mut Rng) -> Self {
        let (processors, sources) = (rng.u16(1..=4), rng.usize(1..=3));
        let mut values: Vec<Vec<u64>> = (0..processors)
            .map(|_| (0..sources).map(|_| (1 << 48) - 1 - rng.u64(..1_000_000)).collect())
            .collect();
        // The thread that runs, and when it was switched in, if it was.
        let mut running: Vec<(u32, Option<i64>)> = vec![(0, None); processors.into()];
        let mut machine = Self {
            events: Vec::new(),
            of_processors: BTreeMap::new(),
            of_threads: BTreeMap::new(),
            samples: 0,
            end: 0,
        };
        for time in (1..).map(|step| 20 * step).take(rng.usize(2..400)) {
            let number = rng.usize(..running.len());
            let (thread, since) = running[number];
            let (time, processor) = (time + rng.i64(0..20), number as u16);
            machine.end = time;
            if rng.u8(..4) == 0 {
                let sample =
                    CounterSample { ip: rng.u64(..), thread, source: SAMPLED, reserved: 0 };
                machine.add(
                    time,
                    processor,
                    kernel(group::PERFINFO, 47, 2),
                    bytes_of(&sample),
                    &[],
                );
                machine.samples += 1;
                continue;
            }
            let new = 4 * rng.u32(0..12);
            if new == thread || new != 0 && running.iter().any(|&(other, _)| other == new) {
                continue;
            }
            let ticks = since.map_or(1, |since| (time - since).unsigned_abs());
            let mut counts = Vec::new();
            for value in &mut values[number] {
                let count = rng.u64(..=ticks * MOST_PER_TICK);
                *value = (*value + count) % (1 << 48);
                counts.push(u128::from(count));
            }
            if since.is_some() {
                add(machine.of_processors.entry(processor).or_default(), &counts);
                add(machine.of_threads.entry(thread).or_default(), &counts);
            }
            running[number] = (new, Some(time));
            let switch =
                Switch { new_thread: new, old_thread: thread, old_state: 5, ..Switch::default() };
            let id = kernel(group::THREAD, 36, 4);
            machine.add(time, processor, id, bytes_of(&switch), &values[number]);
        }
        machine
    }

    fn add(&mut self, time: i64, processor: u16, id: EventId, payload: Vec<u8>, values: &[u64]) {
        let values = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.events.push(Coming { time, processor, id, payload, values });
    }
}

fn add(sums: &mut Vec<u128>, counts: &[u128]) {
    sums.resize(sums.len().max(counts.len()), 0);
    for (sum, count) in sums.iter_mut().zip(counts) {
        *sum += count;
    }
}

/// How far what is delivered is from what the machine wrote.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Delivered {
    /// All of it, in the order that Windows promises.
    Whole,
    /// Late, twice, cut or lost.
    Disturbed,
    /// Anything.
    Hostile,
}

/// What was done to events.
#[derive(Clone, Copy, Default)]
struct Done {
    anything: bool,
    /// Something of which no reader can know.
    silent: bool,
}

/// Divides events into what each flush delivers, each processor's buffers after those of another.
fn parts(rng: &mut Rng, machine: &Machine, how: Delivered) -> (Vec<Part>, Done) {
    let mut all: Vec<Coming> = machine.events.clone();
    let mut untils: Vec<i64> = (0..rng.usize(1..6)).map(|_| rng.i64(0..=machine.end)).collect();
    untils.sort_unstable();
    untils.push(i64::MAX);
    let (mut parts, mut lost) = (Vec::new(), 0);
    let mut done = Done::default();
    let has_buffers = rng.bool();
    for until in untils {
        // What is newer may come with it or with the next one; of a processor all that came before it
        // does too.
        let ahead = until.saturating_add(rng.i64(0..100));
        let ahead: Vec<i64> = (0..4).map(|_| if rng.bool() { ahead } else { until }).collect();
        let comes = |event: &Coming| event.time <= ahead[usize::from(event.processor) % 4];
        let (mut now, mut later): (Vec<_>, Vec<_>) = all.into_iter().partition(comes);
        now.sort_by_key(|event| event.processor);
        if how != Delivered::Whole {
            let before = lost;
            now = now
                .into_iter()
                .flat_map(|event| disturbed(rng, event, how, &mut later, (&mut lost, &mut done)))
                .collect();
            if lost != before && rng.bool() {
                let id = EventId::Classic { guid: LOST, opcode: 32, version: 0 };
                let (payload, values) = (Vec::new(), Vec::new());
                now.push(Coming {
                    time: until.min(machine.end),
                    processor: 0,
                    id,
                    payload,
                    values,
                });
            }
        }
        if how == Delivered::Hostile && rng.bool() {
            rng.shuffle(&mut now);
        }
        let fails = how != Delivered::Whole && rng.u8(..20) == 0;
        let mut events = if has_buffers {
            in_buffers(now)
        } else {
            now.into_iter().map(Given::Single).collect()
        };
        if how == Delivered::Hostile {
            for given in &mut events {
                damage(rng, given);
            }
        }
        parts.push(Part { events, until, lost, fails });
        all = later;
    }
    // What was to come later never comes.
    done.silent |= !all.is_empty();
    (parts, done)
}

/// `RT_LostEvent`.
const LOST: Guid = Guid(0x6a399ae0_4bc6_4de9_870b_3657f8947e7e);

/// What becomes of an event on its way.
fn disturbed(
    rng: &mut Rng,
    mut event: Coming,
    how: Delivered,
    later: &mut Vec<Coming>,
    (lost, done): (&mut u64, &mut Done),
) -> Vec<Coming> {
    let choice = rng.u8(..40);
    done.anything |= choice < 7;
    done.silent |= choice == 5;
    match choice {
        0 => {
            *lost += 1;
            return Vec::new();
        }
        1 => {
            later.push(event);
            return Vec::new();
        }
        2 => return vec![event.clone(), event],
        3 => event.payload.truncate(rng.usize(..=event.payload.len())),
        4 => event.payload.extend((0..rng.usize(..50)).map(|_| rng.u8(..))),
        5 => event.values.truncate(rng.usize(..=event.values.len())),
        6 => event.values.clear(),
        7..16 if how == Delivered::Hostile => anything(rng, &mut event),
        _ => {}
    }
    vec![event]
}

/// Whatever bytes.
fn anything(rng: &mut Rng, event: &mut Coming) {
    match rng.u8(..7) {
        0 => event.time = rng.i64(..),
        1 => event.processor = rng.u16(..),
        2 => event.id = kernel(rng.u8(..), rng.u8(..), rng.u16(..)),
        3 => {
            let known = [(3, 1), (3, 10), (5, 1), (5, 50), (5, 72), (15, 46), (15, 48), (15, 49)];
            let (group, opcode) = known[rng.usize(..known.len())];
            event.id = kernel(group, opcode, rng.u16(..5));
        }
        4 => event.payload = (0..rng.usize(..300)).map(|_| rng.u8(..)).collect(),
        5 => event.values = (0..rng.usize(..80)).map(|_| rng.u8(..)).collect(),
        _ => {
            let (guid, opcode) = (Guid(u128::from(rng.u64(..))), rng.u8(..));
            event.id = EventId::Classic { guid, opcode, version: rng.u16(..) };
        }
    }
}

/// What is done with the events: what `stat -I` and `top` do.
struct Read<'a> {
    counter: Counter<'a>,
    samples: DeliveredSamples,
    /// The counts of the intervals, by processor.
    parts: BTreeMap<u16, Vec<u128>>,
    shown: u64,
    read: u64,
}

impl Read<'_> {
    fn event(&mut self, event: &Event<'_>) {
        let is_sample = matches!(event.kind, EventKind::CounterSample(_) | EventKind::Sample(_));
        self.read += u64::from(is_sample);
        self.counter.event(event);
        self.samples.event(event);
    }

    fn interval(&mut self) {
        let part = self.counter.take(TraceFacts::default());
        merge(&mut self.parts, &by_processor(&part));
        let (recording, samples) = self.samples.take(1, 0).expect("in memory");
        self.shown += samples.len() as u64 + recording.idle_samples();
    }
}

fn by_processor(counts: &TraceCounts) -> BTreeMap<u16, Vec<u128>> {
    let mut sums: BTreeMap<u16, Vec<u128>> = BTreeMap::new();
    for cell in &counts.cells {
        add(sums.entry(cell.processor).or_default(), &cell.sums.counts);
    }
    // A source that no switch has a value of is no difference.
    for counts in sums.values_mut() {
        let length = counts.iter().rposition(|&count| count != 0).map_or(0, |last| last + 1);
        counts.truncate(length);
    }
    sums.retain(|_, counts| !counts.is_empty());
    sums
}

fn merge(sums: &mut BTreeMap<u16, Vec<u128>>, part: &BTreeMap<u16, Vec<u128>>) {
    for (&processor, counts) in part {
        add(sums.entry(processor).or_default(), counts);
    }
}

/// A session of a random machine, more or less as Windows delivers one: nothing panics, intervals add up to
/// the total, nothing is counted that did not happen, and what is missing is said.
///
/// # Panics
/// With the rule that was broken.
pub fn case(rng: &mut Rng) {
    let how = [Delivered::Whole, Delivered::Disturbed, Delivered::Hostile][rng.usize(..3)];
    let machine = Machine::run(rng);
    let (parts, mut done) = parts(rng, &machine, how);
    let ends_early = how != Delivered::Whole && rng.u8(..10) == 0;
    let mut session = Scripted { parts: parts.into_iter(), consumer: None, ends_early };
    let request = TraceRequest::default();
    let (mut delivery, _) = Delivery::start(&mut session, &request).expect("it starts");
    let query = Query::default();
    let source = SampledSource { id: SAMPLED.into(), interval: 1 };
    let metadata = Metadata { sources: vec![Source::default()], ..Metadata::default() };
    let mut read = Read {
        counter: Counter::new(&query, clock(), 4),
        samples: DeliveredSamples::new(metadata, vec![source], Box::new(str::to_owned)),
        parts: BTreeMap::new(),
        shown: 0,
        read: 0,
    };
    // As many flushes as there are, or fewer.
    for _ in 0..rng.usize(..7) {
        if rng.u8(..4) == 0 {
            delivery.read_settled(&mut |event| read.event(event));
        }
        if session.parts.len() <= 1
            || delivery.flush(&mut session, &mut |event| read.event(event)).is_err()
        {
            break;
        }
        read.interval();
    }
    let stopped = delivery.stop(&mut session, &mut |event| read.event(event));
    read.interval();
    // What comes when nobody reads any more.
    let missing = delivery.missing();
    drop(delivery);
    session.deliver(&in_buffers(machine.events.clone()));
    done.anything |= stopped.is_err();
    done.silent |= stopped.is_err();
    check(read, &missing, &machine, (how, done));
}

fn check(read: Read<'_>, missing: &Missing, machine: &Machine, (how, done): (Delivered, Done)) {
    let Read { counter, parts, shown, read, .. } = read;
    let counts = counter.finish(TraceFacts::default());
    assert!(shown <= read, "samples from nowhere");
    let Ok(counts) = counts else { return };
    let found = by_processor(&counts);
    assert_eq!(parts, found, "intervals add up to the total");
    if how == Delivered::Hostile {
        return;
    }
    let mut is_less = false;
    for (processor, sums) in &machine.of_processors {
        let own = found.get(processor).cloned().unwrap_or_default();
        let own = own.iter().copied().chain(std::iter::repeat(0));
        for (&truth, counted) in sums.iter().zip(own) {
            assert!(counted <= truth, "{counted} of {truth} on processor {processor}");
            is_less |= counted < truth;
        }
    }
    let Missing { lost, dropped, ref damage } = *missing;
    let is_said = lost != 0
        || dropped != 0
        || damage.counts().next().is_some()
        || counts.unknown.lost_switches != 0
        || counts.unknown.slices_without_counts != 0;
    assert!(!is_less || is_said || done.silent, "counts are missing, and nothing says so");
    if done.anything {
        return;
    }
    assert_eq!((shown, read), (machine.samples, machine.samples), "each sample once");
    let mut of_threads: BTreeMap<u32, Vec<u128>> = BTreeMap::new();
    for cell in &counts.cells {
        let thread = counts.threads[cell.thread].thread.id;
        add(of_threads.entry(thread).or_default(), &cell.sums.counts);
    }
    for (thread, sums) in &machine.of_threads {
        let found = of_threads.get(thread).cloned().unwrap_or_default();
        assert!(found == *sums, "thread {thread}: {found:?} for {sums:?}");
    }
}

/// Delivers more events than anybody reads, of any time: what waits is bounded, and the rest is counted.
///
/// # Panics
/// With the rule that was broken.
pub fn flood(rng: &mut Rng) {
    let large = vec![0; 60_000];
    let id = kernel(group::THREAD, 36, 4);
    let mut sent = 0;
    let mut session = Scripted { parts: Vec::new().into_iter(), consumer: None, ends_early: false };
    let request = TraceRequest::default();
    let (mut delivery, _) = Delivery::start(&mut session, &request).expect("it starts");
    let consumer = session.consumer.clone().expect("a consumer");
    let mut read = 0;
    for _ in 0..4 {
        for _ in 0..rng.usize(1100..1300) {
            let (time, processor) = (rng.i64(..), 0);
            consumer.record(&Record { time, processor, id, payload: &large, values: &[] });
            sent += 1;
        }
        let until = rng.i64(..);
        session.parts = vec![Part { events: Vec::new(), until, lost: 0, fails: false }].into_iter();
        delivery.flush(&mut session, &mut |_| read += 1).expect("flushed");
    }
    delivery.stop(&mut session, &mut |_| read += 1).expect("stopped");
    assert_eq!(read + delivery.missing().dropped, sent, "each event is read or counted as dropped");
}
