//! Threads on the processors of a machine, as a real-time session of Windows' tracing sees them.
//!
//! A program is threads that work, one after the other, and each of them is somewhere: it is
//! interrupted, preempted and moved, and waits where it is told to. What each has done is known.
//! Each processor writes its context switches to a buffer of its own, which is delivered when the
//! session is flushed; buffers and events can be lost.

use fastrand::Rng;
use halprof_etw::bytes::{Layout, Output};
use halprof_etw::payload::processor::Switch;
use halprof_etw::{EventId, Guid, PointerSize};
use halprof_measure::tracing::live::{Consumer, Record, Scheduler};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Ticks of the performance counter in a second, as on today's Windows.
const PERF_HZ: u64 = 10_000_000;
/// How long a wait lasts, in ticks.
const WAIT: i64 = 10_000;
/// Counters have so many bits.
const WIDTH: u64 = 1 << 48;
/// The idle thread, and the first of those that others run: one for each processor.
const IDLE: u32 = 0;
const OTHERS: u32 = 900_000;
/// `ThreadGuid` (evntrace.h), as real-time consumers get it.
const THREAD: Guid = Guid(0x3d6fa8d1_fe05_11d0_9dda_00c04fd7ba7c);
/// `RT_LostEvent` (evntrace.h).
const LOST_EVENT: Guid = Guid(0x6a399ae0_4bc6_4de9_870b_3657f8947e7e);
const RT_LOST_EVENT: u8 = 32;

/// How the machine treats threads.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Habits {
    /// A thread that works is preempted, and may be moved, once in so many pieces of work; 0 never.
    pub(crate) preempts_one_in: u32,
    /// An interrupt hits it once in so many pieces of work; 0 never.
    pub(crate) interrupts_one_in: u32,
    /// What the kernel does for a thread on either side of a wait.
    pub(crate) switch_cost: u64,
    /// The most that it does on top of that, by chance.
    pub(crate) switch_noise: u64,
    /// The switches at the beginning of a session that have no values.
    pub(crate) first_without_values: u32,
    /// A wait does not take the thread off its processor.
    pub(crate) never_waits: bool,
}

/// What happens to an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The session says how many it has lost.
    Counted,
    /// An event says so.
    Said,
    /// Nobody says so.
    Silent,
}

/// The threads of a machine. What they do is as the thread that is chosen.
#[derive(Clone, Debug)]
pub(crate) struct Threads(Arc<Mutex<Schedule>>);

#[derive(Debug)]
struct Schedule {
    habits: Habits,
    rng: Rng,
    now: i64,
    processors: Vec<Processor>,
    chosen: u32,
    /// What each thread has done: its own work, and the interrupts that hit it.
    done: std::collections::BTreeMap<u32, u64>,
    session: Option<Session>,
}

#[derive(Debug)]
struct Processor {
    running: u32,
    /// What it counted, in units of work.
    value: u64,
    written: Vec<Event>,
}

#[derive(Debug)]
struct Session {
    consumer: Arc<dyn Consumer>,
    /// The sources that switches carry.
    sources: u64,
    switches: u32,
    lost: u32,
    losing: Option<Loss>,
}

#[derive(Debug)]
struct Event {
    time: i64,
    id: EventId,
    payload: Vec<u8>,
    values: Vec<u8>,
}

impl Threads {
    /// The threads of a machine of so many processors. `seed` decides everything that Windows would.
    pub(crate) fn new(processors: u16, seed: u64, habits: Habits) -> Self {
        let mut rng = Rng::with_seed(seed);
        let processors = (0..processors.max(1))
            // Counters begin anywhere, some just before they wrap.
            .map(|_| Processor { running: IDLE, value: WIDTH - rng.u64(..50_000), written: vec![] })
            .collect();
        Self(Arc::new(Mutex::new(Schedule {
            habits,
            rng,
            now: 1_000_000,
            processors,
            chosen: IDLE,
            done: std::collections::BTreeMap::new(),
            session: None,
        })))
    }

    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes on as another thread. The one before stays where it is, and does nothing.
    pub(crate) fn choose(&self, thread: u32) {
        self.schedule().chosen = thread;
        self.schedule().run_chosen();
    }

    /// The chosen thread does so much; of each source it counts [`count_of`] as much.
    pub(crate) fn work(&self, units: u64) {
        self.schedule().work(units);
    }

    /// What a thread has done so far, with the interrupts that hit it.
    pub(crate) fn done(&self, thread: u32) -> u64 {
        self.schedule().done.get(&thread).copied().unwrap_or(0)
    }

    /// The chosen thread ends.
    pub(crate) fn end_chosen(&self) {
        let mut schedule = self.schedule();
        let processor = schedule.run_chosen();
        schedule.put(processor, IDLE, Switch::TERMINATED);
    }

    /// The next switch is lost.
    pub(crate) fn lose(&self, loss: Loss) {
        if let Some(session) = &mut self.schedule().session {
            session.losing = Some(loss);
        }
    }

    /// Time passes in which nothing is measured: by the flush timer buffers are delivered each second,
    /// until the consumer wants no more.
    pub(crate) fn pass(&self, seconds: u32) {
        for _ in 0..seconds {
            let consumer = {
                let mut schedule = self.schedule();
                schedule.now += PERF_HZ.cast_signed();
                schedule.others_run();
                schedule.deliver();
                drop(schedule);
                self.consumer()
            };
            if let Some(consumer) = consumer.filter(|consumer| !consumer.goes_on()) {
                consumer.ended();
            }
        }
    }

    /// What takes the events of the session, if one runs.
    pub(crate) fn consumer(&self) -> Option<Arc<dyn Consumer>> {
        self.schedule().session.as_ref().map(|session| Arc::clone(&session.consumer))
    }

    /// Another program stops the session.
    pub(crate) fn stop(&self) {
        let session = self.schedule().session.take();
        self.end_session();
        if let Some(Session { consumer, .. }) = session {
            consumer.ended();
        }
    }

    /// A session begins, whose switches carry so many sources.
    pub(crate) fn begin_session(&self, sources: usize, consumer: Arc<dyn Consumer>) {
        let sources = sources as u64;
        let session = Session { consumer, sources, switches: 0, lost: 0, losing: None };
        self.schedule().session = Some(session);
    }

    /// The session ends. Events that were not delivered are gone.
    pub(crate) fn end_session(&self) {
        let mut schedule = self.schedule();
        schedule.session = None;
        schedule.processors.iter_mut().for_each(|processor| processor.written.clear());
    }

    /// Delivers what was written; returns how many events were lost.
    pub(crate) fn flush(&self) -> u32 {
        let mut schedule = self.schedule();
        schedule.deliver();
        schedule.session.as_ref().map_or(0, |session| session.lost)
    }
}

/// What a source counts of so much work. Sources differ, so that none is taken for another.
pub(crate) const fn count_of(source: usize, units: u64) -> u64 {
    units * (source as u64 + 1)
}

impl Schedule {
    /// Where the chosen thread runs. It is put on a processor if it is on none.
    fn run_chosen(&mut self) -> usize {
        let chosen = self.chosen;
        let own = |processor: &Processor| processor.running == chosen;
        if let Some(processor) = self.processors.iter().position(own) {
            return processor;
        }
        // The chosen thread does not take the place of another thread that is measured.
        let is_free = |&processor: &usize| {
            let running = self.processors[processor].running;
            running == IDLE || running >= OTHERS
        };
        let free: Vec<usize> = (0..self.processors.len()).filter(is_free).collect();
        let processor = match free.as_slice() {
            [] => 0,
            free => free[self.rng.usize(..free.len())],
        };
        self.put(processor, chosen, Switch::WAITING);
        processor
    }

    /// A processor goes to another thread.
    fn put(&mut self, processor: usize, thread: u32, old_state: i8) {
        self.now += 1;
        let own = &mut self.processors[processor];
        let old_thread = std::mem::replace(&mut own.running, thread);
        if old_thread == thread {
            return;
        }
        let Some(session) = &mut self.session else { return };
        session.switches += 1;
        let has_values = session.switches > self.habits.first_without_values;
        let values = (0..session.sources).filter(|_| has_values);
        let values = values.map(|source| count_of(source as usize, own.value) % WIDTH);
        let mut payload = Output { bytes: Vec::new(), pointer_size: PointerSize::Eight };
        let switch = Switch { new_thread: thread, old_thread, old_state, ..Switch::default() };
        switch.write(&mut payload);
        let event = Event {
            time: self.now,
            id: EventId::Classic { guid: THREAD, opcode: 36, version: 4 },
            payload: payload.bytes,
            values: values.flat_map(u64::to_le_bytes).collect(),
        };
        match session.losing.take() {
            None => own.written.push(event),
            Some(Loss::Counted) => session.lost += 1,
            Some(Loss::Said) => own.written.push(Event {
                id: EventId::Classic { guid: LOST_EVENT, opcode: RT_LOST_EVENT, version: 2 },
                payload: Vec::new(),
                values: Vec::new(),
                ..event
            }),
            Some(Loss::Silent) => {}
        }
    }

    fn count(&mut self, processor: usize, units: u64) {
        self.processors[processor].value += units;
        self.now += 1 + (units / 16).cast_signed();
    }

    fn work(&mut self, units: u64) {
        let mut left = units;
        while left > 0 {
            let piece = self.rng.u64(1..=left);
            left -= piece;
            let processor = self.run_chosen();
            self.count(processor, piece);
            *self.done.entry(self.chosen).or_default() += piece;
            let happens = |rng: &mut Rng, one_in: u32| one_in != 0 && rng.u32(..one_in) == 0;
            if happens(&mut self.rng, self.habits.interrupts_one_in) {
                let interrupt = self.rng.u64(1..500);
                self.count(processor, interrupt);
                *self.done.entry(self.chosen).or_default() += interrupt;
            }
            if happens(&mut self.rng, self.habits.preempts_one_in) {
                self.put(processor, OTHERS + processor as u32, Switch::WAITING);
                self.others_run();
            }
        }
    }

    /// Others come, work and go where no measured thread is.
    fn others_run(&mut self) {
        for processor in 0..self.processors.len() {
            let running = self.processors[processor].running;
            if running == IDLE || running >= OTHERS {
                let other = OTHERS + processor as u32;
                let next = if self.rng.bool() { other } else { IDLE };
                let units = self.rng.u64(..2000);
                self.count(processor, units);
                self.put(processor, next, Switch::WAITING);
            }
        }
    }

    fn wait(&mut self) {
        let processor = self.run_chosen();
        let mut cost = || self.habits.switch_cost + self.rng.u64(..=self.habits.switch_noise);
        let (before, after) = (cost(), cost());
        self.count(processor, before);
        if self.habits.never_waits {
            self.now += WAIT;
            return;
        }
        self.put(processor, IDLE, Switch::WAITING);
        self.others_run();
        self.now += WAIT;
        let processor = self.run_chosen();
        self.count(processor, after);
    }

    /// Delivers the buffers of all processors, in any order of these.
    fn deliver(&mut self) {
        let Some(session) = &self.session else { return };
        let mut order: Vec<usize> = (0..self.processors.len()).collect();
        self.rng.shuffle(&mut order);
        for processor in order {
            for event in self.processors[processor].written.drain(..) {
                let Event { time, id, payload, values } = &event;
                let processor = processor as u16;
                let record = Record { time: *time, processor, id: *id, payload, values };
                session.consumer.record(&record);
            }
        }
    }
}

impl Scheduler for Threads {
    fn now(&self) -> i64 {
        let mut schedule = self.schedule();
        schedule.now += 1;
        schedule.now
    }

    fn frequency(&self) -> u64 {
        PERF_HZ
    }

    fn clock(&self) -> &'static str {
        "modelled time"
    }

    fn thread(&self) -> u32 {
        self.schedule().chosen
    }

    fn switch(&self) {
        self.schedule().wait();
    }

    fn slept_ms(&self) -> u64 {
        0
    }
}
