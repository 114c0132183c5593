//! Modelled processors as the core sees them: the counterpart of the driver's DPCs and memory on
//! Windows.

use crate::cpu::Cpu;
use crate::cpu::event::{Counts, Event};
use crate::cpu::processor::Processor;
use crate::load::workload::ShortChange;
use hal_profile::plan::cpu_set::ProcessorSet;
use hal_profile::plan::program::{Program, Scratch};
use hal_profile::run::event_ring::EventRing;
use hal_profile::run::host::{Local, Overflows, Processors, Unreserved};
use hal_profile::run::overflow::Interrupted;
use hal_profile::run::ring::Word;
use hal_profile::run::state::ProcessorState;
use hal_profile::service;
use hal_profile::service::session::Session;
use shared_types::request::counts::Count;
use shared_types::{ErrorCode, Mode, SystemEvent};
use zerocopy::FromZeros;

/// Modelled time runs at 1 GHz, and so do all time-stamp counters.
pub const TIMESTAMP_FREQUENCY: u64 = 1_000_000_000;
/// What an interrupt costs, in modelled nanoseconds.
pub const INTERRUPT_COST: u64 = 1000;

/// A status for a handler that is already registered; no document says which one Windows returns.
const STATUS_UNSUCCESSFUL: u32 = 0xC000_0001;

/// What HalAllocateHardwareCounters returns if someone else has them.
const STATUS_INSUFFICIENT_RESOURCES: u32 = 0xC000_009A;

/// What KeSetHardwareCounterConfiguration returns while a thread profiles itself.
const STATUS_WMI_ALREADY_ENABLED: u32 = 0xC000_0303;

/// What a modelled machine's service is built from.
pub struct Modelled;

impl service::Host for Modelled {
    type Processors = ServiceHost;
    type Sessions = Vec<Session>;
    type Scratch = Box<Scratch>;
    type Counts = Vec<Count>;

    fn counts(count: usize) -> Option<Vec<Count>> {
        Some(vec![Count::default(); count])
    }
}

/// Where a processor is while it does the core's work: in the kernel, in a DPC.
const IN_A_DPC: Interrupted =
    Interrupted { ip: 0xFFFF_F800_0000_1000, mode: Mode::Kernel, process: 0, thread: 0 };
/// Instructions of START's self-test after which interrupts are let in: its counters overflow at the
/// end of one such step, are stopped there, and so found at 0.
const EXERCISED_AT_ONCE: u64 = 40;
/// The most interrupts taken one after the other before the work goes on.
const INTERRUPTS_IN_A_ROW: usize = 1000;

/// All processors, with the memory that the core uses.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, which a test sets")]
pub struct ServiceHost {
    /// The processors, in order of their index.
    pub cpus: Vec<Cpu>,
    states: Vec<Box<ProcessorState>>,
    rings: Vec<Vec<Word>>,
    events: Vec<Word>,
    /// The starts and ends of short programs that nobody has taken yet.
    pub short_changes: Vec<ShortChange>,
    program: Box<Program>,
    /// Nothing to run: what an interrupt gets where no session runs.
    idle: Box<Program>,
    /// Someone else owns the counters and does not release them.
    pub counters_taken: bool,
    /// Someone else handles the overflow interrupt.
    pub interrupt_taken: bool,
    /// A thread profiles itself: the list of counters cannot change.
    pub thread_profiles: bool,
    /// The general counters that Windows accumulates for each thread, in order.
    pub by_thread: Vec<u32>,
    /// Windows does not remove our overflow handler.
    pub keeps_handler: bool,
    /// Windows has not let go of all that was reserved.
    left: bool,
    /// How overflows are delivered while the service has reserved the counters: it must release
    /// them before it can reserve them again.
    reserved: Option<Overflows>,
    /// The most words that all rings together may take; beyond that there is no memory.
    pub ring_words_max: usize,
}

impl ServiceHost {
    /// These processors, with memory for each.
    pub fn new(processors: Vec<Processor>) -> Self {
        let mut host = Self {
            cpus: Vec::with_capacity(processors.len()),
            states: Vec::with_capacity(processors.len()),
            rings: Vec::new(),
            events: Vec::new(),
            short_changes: Vec::new(),
            program: zeroed(),
            idle: zeroed(),
            counters_taken: false,
            interrupt_taken: false,
            thread_profiles: false,
            by_thread: Vec::new(),
            keeps_handler: false,
            left: false,
            reserved: None,
            ring_words_max: usize::MAX,
        };
        for processor in processors {
            host.add(processor);
        }
        host
    }

    pub(crate) fn add(&mut self, processor: Processor) {
        self.cpus.push(Cpu::new(processor));
        self.states.push(zeroed());
        self.rings.push(Vec::new());
    }

    /// The timer of one processor fires.
    pub fn tick(&mut self, index: usize) {
        let ticked = self.happened(index);
        let Some((waits, notes)) = ticked.map(|mut local| (local.tick(), local.take_deferred()))
        else {
            return;
        };
        // A counter below its preset may have its interrupt pending: the interrupt is let in before
        // the poll reports it missed.
        if waits {
            self.let_in(index);
            if let Some(mut local) = self.local(index) {
                local.settle();
            }
        }
        for event in notes.events(index) {
            self.put_event(&event);
        }
    }

    /// Interrupts are no longer masked: those pending are taken.
    fn let_in(&mut self, index: usize) {
        for _ in 0..INTERRUPTS_IN_A_ROW {
            let taken =
                self.cpus.get_mut(index).and_then(|cpu| cpu.processor.acknowledge_interrupt());
            if taken.is_none() {
                break;
            }
            self.interrupt(index, &IN_A_DPC);
        }
    }

    /// An overflow interrupt has arrived at one processor. While the service only counts, it has no
    /// handler: the interrupt goes to somebody else.
    pub fn interrupt(&mut self, index: usize, interrupted: &Interrupted) {
        if self.reserved == Some(Overflows::Ignored) {
            return;
        }
        if let Some(mut local) = self.happened(index) {
            local.interrupt(interrupted);
        }
    }

    /// What a tick or an interrupt gets: where no session runs, nothing to run and no ring.
    fn happened(&mut self, index: usize) -> Option<Local<'_, Cpu>> {
        if self.states.get(index)?.is_running() {
            return self.local(index);
        }
        Some(Local {
            index,
            machine: self.cpus.get_mut(index)?,
            state: self.states.get_mut(index)?.as_mut(),
            ring: &[],
            program: &self.idle,
        })
    }

    fn local(&mut self, index: usize) -> Option<Local<'_, Cpu>> {
        Some(Local {
            index,
            machine: self.cpus.get_mut(index)?,
            state: self.states.get_mut(index)?.as_mut(),
            ring: self.rings.get(index)?,
            program: &self.program,
        })
    }
}

impl Processors for ServiceHost {
    type Machine = Cpu;

    fn count(&self) -> usize {
        self.cpus.len()
    }

    fn number(&self, index: usize) -> (u16, u16) {
        // A group of Windows holds up to 64 processors.
        ((index / 64) as u16, (index % 64) as u16)
    }

    fn run_on<T: Send>(
        &mut self,
        index: usize,
        work: impl FnOnce(&mut Local<'_, Cpu>) -> T + Send,
    ) -> Option<T> {
        let result = self.local(index).map(|mut local| work(&mut local));
        // The work ran with interrupts masked, as in the driver's DPC.
        self.let_in(index);
        result
    }

    fn run_on_each<T: Send>(
        &mut self,
        processors: &ProcessorSet,
        slots: &mut [T],
        work: impl Fn(&mut Local<'_, Cpu>, &mut [T]) + Sync,
    ) {
        let part = slots.len() / self.count().max(1);
        for index in (0..self.count()).filter(|&index| processors.contains(index)) {
            let own = slots.get_mut(index * part..(index + 1) * part).unwrap_or_default();
            if let Some(mut local) = self.local(index) {
                work(&mut local, own);
            }
            self.let_in(index);
        }
    }

    fn exercise(
        &mut self,
        processors: &ProcessorSet,
        instructions: u32,
        before: impl Fn(&mut Local<'_, Cpu>) + Sync,
        after: impl Fn(&mut Local<'_, Cpu>) + Sync,
    ) {
        for index in (0..self.count()).filter(|&index| processors.contains(index)) {
            if let Some(mut local) = self.local(index) {
                before(&mut local);
            }
            let mut left = u64::from(instructions);
            while left != 0 {
                let step = left.min(EXERCISED_AT_ONCE);
                left -= step;
                if let Some(cpu) = self.cpus.get_mut(index) {
                    cpu.processor.exercise(instructions_in_kernel(step));
                }
                self.let_in(index);
            }
            if let Some(mut local) = self.local(index) {
                after(&mut local);
            }
            self.let_in(index);
        }
    }

    fn ring(&self, index: usize) -> &[Word] {
        self.rings.get(index).map_or(&[], Vec::as_slice)
    }

    fn attach_rings(&mut self, processors: &ProcessorSet, words: usize) -> bool {
        let count = (0..self.rings.len()).filter(|&index| processors.contains(index)).count();
        if words.saturating_mul(count) > self.ring_words_max {
            return false;
        }
        for (index, ring) in self.rings.iter_mut().enumerate() {
            if processors.contains(index) {
                *ring = (0..words).map(|_| Word::new(0)).collect();
            }
        }
        true
    }

    fn detach_rings(&mut self) {
        self.rings.fill_with(Vec::new);
        self.events = Vec::new();
    }

    fn event_ring(&self) -> &[Word] {
        &self.events
    }

    fn attach_event_ring(&mut self, words: usize) -> bool {
        let attached = words <= self.ring_words_max;
        self.events =
            if attached { (0..words).map(|_| Word::new(0)).collect() } else { Vec::new() };
        attached
    }

    fn put_event(&mut self, event: &SystemEvent) {
        if let Some(ring) = EventRing::new(&self.events) {
            ring.push(event);
        }
    }

    fn load(&mut self, program: &Program) {
        self.program.copy_from(program);
    }

    fn reserve_counters(&mut self, overflows: Overflows) -> Result<(), Unreserved> {
        if self.left {
            // What an earlier session could not give back is given back first, if that works now,
            // as in the driver.
            self.release_counters();
        }
        let refused = |error, status| Err(Unreserved { error, status });
        let interrupts = overflows == Overflows::Interrupt;
        if self.left && self.threads_kept() {
            return refused(ErrorCode::ThreadsKept, STATUS_WMI_ALREADY_ENABLED);
        }
        if self.left && interrupts {
            return refused(ErrorCode::HandlerStuck, STATUS_UNSUCCESSFUL);
        }
        if self.left {
            // Only the handler is left, which a session that counts does not need; the counters are
            // reserved.
            return Ok(());
        }
        if self.counters_taken || self.reserved.is_some() {
            return refused(ErrorCode::CountersReserved, STATUS_INSUFFICIENT_RESOURCES);
        }
        if self.interrupt_taken && interrupts {
            return refused(ErrorCode::InterruptTaken, STATUS_UNSUCCESSFUL);
        }
        self.reserved = Some(overflows);
        Ok(())
    }

    fn release_counters(&mut self) {
        self.unregister_threads();
        let handled = self.reserved == Some(Overflows::Interrupt);
        self.left = !self.by_thread.is_empty() || handled && self.keeps_handler;
        if self.left {
            return;
        }
        self.reserved = None;
        // The last interrupt may have left LVTPC masked, and nobody handles it any more.
        for index in (0..self.count()).filter(|_| handled) {
            if let Some(mut local) = self.local(index) {
                local.unmask();
            }
        }
    }

    fn register_threads(&mut self, counters: &[u32]) -> Result<(), u32> {
        if self.thread_profiles || !self.by_thread.is_empty() {
            return Err(STATUS_WMI_ALREADY_ENABLED);
        }
        self.by_thread = counters.to_vec();
        Ok(())
    }

    fn unregister_threads(&mut self) {
        if !self.thread_profiles {
            self.by_thread.clear();
        }
    }

    fn handler_stuck(&self) -> bool {
        self.left && self.reserved == Some(Overflows::Interrupt)
    }

    fn threads_kept(&self) -> bool {
        self.left && !self.by_thread.is_empty()
    }

    fn timestamp_frequency(&self) -> u64 {
        TIMESTAMP_FREQUENCY
    }

    fn timer_resolution(&self) -> u32 {
        1
    }
}

/// So many instructions, of one cycle each.
fn instructions_in_kernel(number: u64) -> Counts {
    let mut events = Counts::default();
    for event in [Event::Instructions, Event::Cycles, Event::RefCycles] {
        events.set(event, number, 0);
    }
    events
}

/// Zeroed memory, as the driver's pool gives it.
#[expect(
    clippy::unnecessary_box_returns,
    reason = "what the core is given is too large for a stack"
)]
pub(crate) fn zeroed<T: FromZeros>() -> Box<T> {
    T::new_box_zeroed().unwrap_or_else(|_| std::process::abort())
}
