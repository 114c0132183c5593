//! A modelled machine without a driver: its context switches arrive as Windows' own tracing delivers
//! them.
//!
//! A workload counts as the work of the thread that makes the machine run it, on whatever processors of
//! the model it runs. Each thread has a processor of its own, which it leaves only to wait.

use super::{InProcess, ModelledMachine};
use crate::connection::{Connection, Setup};
use crate::error::{Error, Result};
use crate::live_tracing::{Consumer, Countable, Live, LiveTracing, Record, Scheduler, locked};
use crate::profile_source::ProfileSource;
use crate::session::Session;
use crate::source::Source;
use crate::transport::Transport;
use halprof_etw::bytes::{Layout, Output};
use halprof_etw::id::group;
use halprof_etw::payload::processor::Switch;
use halprof_etw::{EventId, PointerSize};
use shared_types::request::session::Spec;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// What the kernel does for a thread on either side of a wait.
const SWITCH_WORK: &str = "instructions=1500,cycles=3000,branches=300,user=0";
/// How long a wait lasts.
const WAIT_NS: i64 = 1_000_000;
const NANOSECONDS: u64 = 1_000_000_000;
/// The idle thread.
const IDLE: u32 = 0;

/// The machine that this transport leads to, as tracing sees it.
pub(crate) fn live(machine: InProcess) -> Result<Live> {
    let model = TracedModel {
        session: Session::owning(Connection::new(machine)?, true, false)?,
        consumer: None,
        counted: 0,
        threads: HashMap::new(),
        now: 0,
        fault: None,
    };
    let model = Arc::new(Mutex::new(model));
    let scheduler = Arc::new(ModelScheduler(Arc::clone(&model)));
    Ok(Live { tracing: model, scheduler })
}

/// What Windows would list of a modelled machine: the HAL's sources that its processor counts.
pub fn listed<T: Transport>(connection: &mut Connection<T>) -> Result<Countable> {
    let is_listed =
        |source: &&Source| source.flags & Source::SUPPORTED != 0 && source.flags & Source::HAL != 0;
    let source = |source: &Source| ProfileSource {
        id: source.id,
        name: source.name.to_owned(),
        min_interval: source.min_interval,
        max_interval: source.max_interval,
        interval: source.default_interval,
    };
    let sources = connection.sources(false)?.iter().filter(is_listed).map(source).collect();
    let processors = connection.processors()?;
    // Windows has one answer for the machine (class 22), so it is that of the processor with the
    // fewest.
    let counters = processors.iter().map(|processor| processor.counter_mask.count_ones()).min();
    Ok(Countable { sources, counters })
}

#[derive(Debug)]
struct TracedModel {
    session: Session<'static, InProcess>,
    consumer: Option<Arc<dyn Consumer>>,
    /// How many sources the switches carry.
    counted: usize,
    threads: HashMap<u32, OwnProcessor>,
    /// The time in nanoseconds.
    now: i64,
    /// The first error of a wait, which cannot return it; the next flush does.
    fault: Option<Error>,
}

/// The processor of a thread.
#[derive(Debug, Default)]
struct OwnProcessor {
    number: u16,
    runs_thread: bool,
    /// What it has counted.
    values: Vec<u64>,
}

impl TracedModel {
    fn own(&mut self, thread: u32) -> &mut OwnProcessor {
        let (number, values) = (self.threads.len() as u16, vec![0; self.counted]);
        let new = || OwnProcessor { number, runs_thread: false, values };
        self.threads.entry(thread).or_insert_with(new)
    }

    /// Puts a thread on its processor, or takes it off.
    fn switch(&mut self, thread: u32, is_on: bool) {
        // No two events are at one time.
        self.now += 1;
        let time = self.now;
        let own = self.own(thread);
        if std::mem::replace(&mut own.runs_thread, is_on) == is_on {
            return;
        }
        let values: Vec<u8> = own.values.iter().copied().flat_map(u64::to_le_bytes).collect();
        let processor = own.number;
        let Some(consumer) = &self.consumer else { return };
        let (old_thread, new_thread) = if is_on { (IDLE, thread) } else { (thread, IDLE) };
        let waits = Switch { old_state: Switch::WAITING, ..Switch::default() };
        let mut payload = Output { bytes: Vec::new(), pointer_size: PointerSize::Eight };
        Switch { new_thread, old_thread, ..waits }.write(&mut payload);
        let id = EventId::Kernel { group: group::THREAD, opcode: 36, version: 4 };
        consumer.record(&Record { time, processor, id, payload: &payload.bytes, values: &values });
    }

    /// What the machine has counted.
    fn totals(&mut self) -> Result<Vec<u64>> {
        let mut totals = vec![0_u64; self.counted];
        if self.consumer.is_some() {
            for counts in self.session.snapshot()? {
                for (total, count) in totals.iter_mut().zip(counts) {
                    *total = total.wrapping_add(count.counted);
                }
            }
        }
        Ok(totals)
    }

    fn work(&mut self, thread: u32, workload: &str) -> Result<()> {
        self.switch(thread, true);
        let before = self.totals()?;
        let machine = self.session.transport();
        machine.run(workload)?;
        self.now = self.now.saturating_add_unsigned(machine.elapsed_ns());
        let after = self.totals()?;
        let counts = after.iter().zip(before).map(|(after, before)| after.wrapping_sub(before));
        for (value, count) in self.own(thread).values.iter_mut().zip(counts) {
            *value = value.wrapping_add(count);
        }
        Ok(())
    }

    fn wait(&mut self, thread: u32) -> Result<()> {
        self.work(thread, SWITCH_WORK)?;
        self.switch(thread, false);
        self.now += WAIT_NS;
        self.work(thread, SWITCH_WORK)
    }
}

impl LiveTracing for TracedModel {
    fn is_modelled(&self) -> bool {
        true
    }

    fn countable(&mut self) -> Result<Countable> {
        listed(self.session.connection())
    }

    fn start_live(&mut self, counted: &[u32], consumer: Arc<dyn Consumer>) -> Result<()> {
        let spec = |&source| Spec { source, filter: Spec::USER | Spec::KERNEL, ..Spec::default() };
        let specs: Vec<Spec> = counted.iter().map(spec).collect();
        let effective = self.session.configure(&Setup { specs, ..Setup::default() }, false)?;
        // A session of Windows' tracing counts all its sources at once; none of them take turns.
        if effective.head.slices > 1 {
            return Err(Error::NoFreeCounters { sources: counted.len() });
        }
        self.session.start()?;
        self.counted = counted.len();
        self.threads.clear();
        self.consumer = Some(consumer);
        Ok(())
    }

    fn flush(&mut self) -> Result<u64> {
        self.fault.take().map_or(Ok(0), Err)
    }

    fn stop_live(&mut self) -> Result<()> {
        self.consumer = None;
        self.session.stop()
    }

    fn run(&mut self, workload: &str) -> Result<()> {
        self.work(number_of_thread(), workload)
    }
}

/// The machine, as its threads see it.
#[derive(Debug)]
struct ModelScheduler(Arc<Mutex<TracedModel>>);

impl Scheduler for ModelScheduler {
    fn now(&self) -> i64 {
        let mut model = locked(&self.0);
        model.now += 1;
        model.now
    }

    fn frequency(&self) -> u64 {
        NANOSECONDS
    }

    fn clock(&self) -> &'static str {
        "modelled time"
    }

    fn thread(&self) -> u32 {
        number_of_thread()
    }

    fn switch(&self) {
        let mut model = locked(&self.0);
        if let Err(error) = model.wait(number_of_thread()) {
            model.fault.get_or_insert(error);
        }
    }

    fn slept_ms(&self) -> u64 {
        0
    }
}

/// A number that no other thread of the process has.
fn number_of_thread() -> u32 {
    // Windows' own identifiers are multiples of 4.
    static NEXT: AtomicU32 = AtomicU32::new(IDLE + 4);
    thread_local! {
        static NUMBER: Cell<u32> = const { Cell::new(IDLE) };
    }
    // The destructors at the end of a thread may ask, too.
    if NUMBER.get() == IDLE {
        NUMBER.set(NEXT.fetch_add(4, Ordering::Relaxed));
    }
    NUMBER.get()
}
