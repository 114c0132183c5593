//! A whole modelled machine: processors, the service that the driver would run, and modelled time.
//!
//! A workload is run in stretches that end where something happens: an interrupt, a timer tick, a
//! counter that would otherwise wrap unseen. Within a stretch all counters advance at once.

use crate::cpuid::Leaves;
use crate::event::{Counts, Event};
use crate::fault::Fault;
use crate::host::{Cpu, Host, INTERRUPT_COST};
use crate::machine::processors;
use crate::processor::Processor;
use crate::workload::Workload;
use hal_profile::overflow::Interrupted;
use hal_profile::service::{About, Service};
use hal_profile::session::{Client, Session};
use shared_types::request::{Access, RequestCode};
use shared_types::{Mode, NtStatus};
use std::collections::BTreeMap;
use std::fmt;

/// Sessions that can be open at once.
const SESSIONS: usize = 7;
/// Memory that all sample rings together may take, in bytes.
const RING_BYTES_MAX: u64 = 256 << 20;
/// A modelled timer ticks once in a modelled millisecond,
const TICK: u64 = 1_000_000;
/// but not more often than this in one workload, as time is free to pass in larger steps.
const TICKS_MAX: u64 = 1 << 16;
/// Interrupts taken one after the other before anything else happens.
const INTERRUPTS_IN_A_ROW: usize = 100;
/// What modelled samples were taken in.
const PROCESS: u32 = 4096;
const THREAD: u32 = 4100;

/// A handle on the modelled device: what a file object is to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(pub u64);

/// A modelled machine with the service on it.
pub struct Model {
    service: Service<Host, Vec<Session>>,
    handles: BTreeMap<Handle, Opened>,
    next_handle: u64,
    buffer: Vec<u8>,
    run: Option<Run>,
}

#[derive(Clone, Debug)]
struct Opened {
    process: u32,
    granted: Vec<Access>,
}

/// A workload being run.
struct Run {
    workload: Workload,
    runners: Vec<Runner>,
    tick: u64,
    /// Workload time up to which every processor has come.
    time: u64,
}

/// One processor's progress.
#[derive(Clone, Copy, Debug)]
struct Runner {
    position: u64,
    /// The time-stamp counter when the workload began.
    began: u64,
    /// It runs the workload; the others only let time pass.
    works: bool,
    /// The other thread of its package.
    sibling: Option<usize>,
    /// Time since then that was not the workload's: interrupts, and waiting for others.
    overhead: u64,
    next_tick: u64,
    /// The position at which its counters were last read.
    read_at: u64,
    /// An interrupt has been asked for and comes at this position, by this event.
    interrupt: Option<(u64, Event)>,
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model")
            .field("handles", &self.handles)
            .finish_non_exhaustive()
    }
}

impl Model {
    /// A machine of these processors, as Windows leaves it after booting.
    #[must_use]
    pub fn new(leaves: &[Leaves]) -> Self {
        Self::with_sessions(leaves, SESSIONS)
    }

    /// The same with memory for so many sessions; 0 is a machine without any for counters.
    #[must_use]
    pub fn with_sessions(leaves: &[Leaves], sessions: usize) -> Self {
        let mut processors = processors(leaves);
        processors.iter_mut().for_each(Processor::boot_windows);
        let about = About {
            answerer: concat!("modelled machine (halprof ", env!("CARGO_PKG_VERSION"), ")"),
            modelled: true,
            ring_bytes_max: RING_BYTES_MAX,
        };
        let places = if sessions == 0 { 0 } else { sessions + 1 };
        let sessions = std::iter::repeat_with(|| Session::EMPTY)
            .take(places)
            .collect();
        Self {
            service: Service::new(Host::new(processors), sessions, about),
            handles: BTreeMap::new(),
            next_handle: 1,
            buffer: Vec::new(),
            run: None,
        }
    }

    /// Opens the device for a client process with these rights.
    pub fn open(&mut self, process: u32, granted: &[Access]) -> Handle {
        let handle = Handle(self.next_handle);
        self.next_handle += 1;
        self.handles.insert(
            handle,
            Opened {
                process,
                granted: granted.to_vec(),
            },
        );
        handle
    }

    /// Closes a handle, as the I/O manager does for a process that ends.
    pub fn close(&mut self, handle: Handle) {
        if self.handles.remove(&handle).is_some() {
            self.service.handle_closed(handle.0);
        }
    }

    /// One DeviceIoControl: the status it completes with, and the bytes written to `output`.
    pub fn device_control(
        &mut self,
        handle: Handle,
        code: RequestCode,
        input: &[u8],
        output: &mut [u8],
    ) -> (NtStatus, usize) {
        let Some(opened) = self.handles.get(&handle) else {
            return (NtStatus::ACCESS_DENIED, 0);
        };
        let client = Client {
            handle: handle.0,
            process: opened.process,
        };
        self.buffer.clear();
        self.buffer.extend_from_slice(input);
        self.buffer.resize(input.len().max(output.len()), 0);
        let completion = self.service.handle(
            client,
            &opened.granted,
            code,
            &mut self.buffer,
            input.len(),
            output.len(),
        );
        let length = completion.length.min(output.len());
        output[..length].copy_from_slice(&self.buffer[..length]);
        (completion.status, length)
    }

    /// Begins a workload on its processors, in place of one that has not ended.
    pub fn begin(&mut self, workload: &Workload) {
        let length = workload.time_at(workload.length());
        let tick = TICK.max(length / TICKS_MAX);
        let cpus = &mut self.service.processors().cpus;
        for cpu in cpus.iter_mut() {
            cpu.processor.begin_anew();
        }
        let runner = |index: usize| Runner {
            position: 0,
            began: cpus[index].processor.timestamp(),
            works: workload.runs_on(index as u32),
            sibling: sibling(cpus, index),
            overhead: 0,
            next_tick: tick,
            read_at: 0,
            interrupt: None,
        };
        let runners = (0..cpus.len()).map(runner).collect();
        self.run = Some(Run {
            workload: workload.clone(),
            runners,
            tick,
            time: 0,
        });
    }

    /// Runs the workload for at most so many nanoseconds of its time on every processor. Answers
    /// whether any of it is left.
    pub fn advance(&mut self, nanoseconds: u64) -> bool {
        let Some(mut run) = self.run.take() else {
            return false;
        };
        run.time = run.time.saturating_add(nanoseconds);
        let limit = run
            .workload
            .position_at(run.time)
            .unwrap_or(run.workload.length());
        for index in 0..run.runners.len() {
            self.run_to(&mut run, index, limit);
        }
        self.wait_for_slowest(&mut run);
        let left = limit < run.workload.length();
        self.run = Some(run);
        left
    }

    /// Modelled time since the workload began, interrupts included.
    pub fn elapsed_ns(&mut self) -> u64 {
        let Some(run) = &self.run else { return 0 };
        let cpus = &self.service.processors().cpus;
        let elapsed = cpus.iter().zip(&run.runners);
        elapsed
            .map(|(cpu, runner)| cpu.processor.timestamp().wrapping_sub(runner.began))
            .max()
            .unwrap_or(0)
    }

    /// What silicon refused the core: on a real machine each would have been a bug check.
    pub fn faults(&mut self) -> Vec<Fault> {
        self.service
            .processors()
            .cpus
            .iter()
            .flat_map(|cpu| cpu.faults.iter().copied())
            .collect()
    }

    /// A processor, to look at its registers or to disturb them.
    pub fn processor(&mut self, index: usize) -> Option<&mut Processor> {
        self.service
            .processors()
            .cpus
            .get_mut(index)
            .map(|cpu| &mut cpu.processor)
    }

    /// Somebody else takes the counters, and no session can start; or gives them back.
    pub fn take_counters(&mut self, taken: bool) {
        self.service.processors().counters_taken = taken;
    }

    /// Somebody else handles the overflow interrupt, and no session can sample addresses; or stops
    /// doing so.
    pub fn take_interrupt(&mut self, taken: bool) {
        self.service.processors().interrupt_taken = taken;
    }

    /// Leaves so many bytes of memory for sample rings.
    pub fn limit_ring_memory(&mut self, bytes: usize) {
        self.service.processors().ring_words_max = bytes / 8;
    }

    /// Sleeps and wakes: every register is lost.
    pub fn sleep_and_wake(&mut self) {
        self.sleep();
        self.wake();
    }

    /// Goes to sleep; the machine still answers requests, as a driver does on its way down.
    pub fn sleep(&mut self) {
        self.service.suspend();
    }

    /// Wakes from [`Self::sleep`] with every register lost.
    pub fn wake(&mut self) {
        for cpu in &mut self.service.processors().cpus {
            let now = cpu.processor.timestamp();
            cpu.processor.reset();
            cpu.processor.set_timestamp(now);
            cpu.processor.boot_windows();
        }
        self.service.resume();
    }

    /// Adds a processor to the running machine.
    pub fn add_processor(&mut self, leaves: &Leaves) {
        for mut processor in processors(std::slice::from_ref(leaves)) {
            processor.boot_windows();
            let host = self.service.processors();
            host.add(processor);
            let index = host.cpus.len() - 1;
            self.service.processor_added(index);
        }
    }

    /// Whether a session is running.
    #[must_use]
    pub fn is_counting(&self) -> bool {
        self.service.is_running()
    }

    fn run_to(&mut self, run: &mut Run, index: usize, limit: u64) {
        let rotates = self.service.rotates();
        while run.runners[index].position < limit {
            let runner = &mut run.runners[index];
            let start = runner.position;
            let mut next = limit;
            if rotates && let Some(tick) = run.workload.position_at(runner.next_tick) {
                next = next.min(tick);
            }
            let works = runner.works;
            let (width, fired) = if works {
                self.look_ahead(&run.workload, index, start)
            } else {
                (u64::MAX, None)
            };
            next = next.min(runner.read_at.saturating_add(width));
            let runner = &mut run.runners[index];
            if let Some((at, event)) = fired
                && runner.interrupt.is_none()
                && at <= next
            {
                runner.interrupt = Some((at.saturating_add(run.workload.skid()), event));
            }
            if let Some((at, _)) = runner.interrupt {
                next = next.min(at);
            }
            let next = next.max(start + 1).min(limit);
            self.retire(run, index, next);
            self.tick(run, index, width);
        }
    }

    /// How far a processor may go before a counter could wrap unseen, and which event asks for the
    /// next interrupt, where.
    fn look_ahead(
        &mut self,
        workload: &Workload,
        index: usize,
        position: u64,
    ) -> (u64, Option<(u64, Event)>) {
        let Some(processor) = self.processor(index) else {
            return (u64::MAX, None);
        };
        let mut first: Option<(u64, Event)> = None;
        processor.watches(|watch| {
            if let Some(at) = workload.position_of(watch.feed, watch.at)
                && at > position
                && first.is_none_or(|(other, _)| at < other)
            {
                first = Some((at, watch.feed.event));
            }
        });
        let width = match processor.counter_width() {
            width @ 1..=63 => (1 << width) - 1,
            _ => u64::MAX,
        };
        (width, first)
    }

    /// Lets everything up to a position happen on one processor, and takes the interrupts that are
    /// due there.
    fn retire(&mut self, run: &mut Run, index: usize, next: u64) {
        let end = run.workload.length();
        let runner = &mut run.runners[index];
        runner.position = next;
        let now = runner.began + run.workload.time_at(next) + runner.overhead;
        let counts = if runner.works {
            run.workload.counts_at(next)
        } else {
            Counts::default()
        };
        if let Some(processor) = self.processor(index) {
            processor.set_timestamp(now);
            processor.retire(counts);
        }
        let due = run.runners[index]
            .interrupt
            .is_none_or(|(at, _)| at <= next)
            || next == end;
        if due {
            let event = run.runners[index].interrupt.take().map(|(_, event)| event);
            self.interrupt(run, index, event);
        }
        if let Some(sibling) = run.runners[index].sibling {
            self.interrupt(run, sibling, None);
        }
    }

    fn interrupt(&mut self, run: &mut Run, index: usize, event: Option<Event>) {
        for _ in 0..INTERRUPTS_IN_A_ROW {
            let taken = self
                .processor(index)
                .and_then(Processor::acknowledge_interrupt);
            if taken.is_none() {
                return;
            }
            let position = run.runners[index].position;
            let (ip, user) = match event {
                Some(event) => run.workload.ip_of(event, position),
                None => run.workload.ip_at(position),
            };
            let mode = if user { Mode::User } else { Mode::Kernel };
            let interrupted = Interrupted {
                ip,
                mode,
                process: PROCESS,
                thread: THREAD,
            };
            if let Some(cpu) = self.service.processors().cpus.get_mut(index) {
                cpu.interrupt_cost = INTERRUPT_COST;
            }
            self.service.processors().interrupt(index, &interrupted);
            if let Some(cpu) = self.service.processors().cpus.get_mut(index) {
                cpu.end_interrupt();
            }
            run.runners[index].overhead += INTERRUPT_COST;
        }
    }

    /// Ticks one processor's timer where it is due, or where a counter could wrap `width` positions
    /// after it was last read.
    fn tick(&mut self, run: &mut Run, index: usize, width: u64) {
        let runner = &mut run.runners[index];
        let time = run.workload.time_at(runner.position);
        let due = time >= runner.next_tick;
        if due {
            runner.next_tick = time - time % run.tick + run.tick;
        }
        if due || runner.position - runner.read_at >= width {
            runner.read_at = runner.position;
            self.service.processors().tick(index);
        }
    }

    /// Processors that have less to do wait for the one that has most.
    fn wait_for_slowest(&mut self, run: &mut Run) {
        let elapsed = self.run_elapsed(run);
        for (cpu, runner) in self
            .service
            .processors()
            .cpus
            .iter_mut()
            .zip(&mut run.runners)
        {
            let now = cpu.processor.timestamp();
            runner.overhead += (runner.began + elapsed).wrapping_sub(now);
            cpu.processor.set_timestamp(runner.began + elapsed);
        }
    }

    fn run_elapsed(&mut self, run: &Run) -> u64 {
        let cpus = &self.service.processors().cpus;
        cpus.iter()
            .zip(&run.runners)
            .map(|(cpu, runner)| cpu.processor.timestamp().wrapping_sub(runner.began))
            .max()
            .unwrap_or(0)
            .max(run.time.min(run.workload.time_at(run.workload.length())))
    }
}

/// The processor that shares its unit with this one.
fn sibling(cpus: &[Cpu], index: usize) -> Option<usize> {
    let own = &cpus[index].processor;
    let shares = |other: &usize| *other != index && own.shares_unit_with(&cpus[*other].processor);
    (0..cpus.len()).find(shares)
}
