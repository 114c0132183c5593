//! Modelled processors as the core sees them: what the driver's DPCs and memory are on Windows.

use crate::event::{Counts, Event};
use crate::fault::Fault;
use crate::hal;
use crate::processor::Processor;
use hal_profile::machine::{
    CpuidResult, Local, Machine, Overflows, ProcessorSet, Processors, Unreserved,
};
use hal_profile::overflow::{self, Interrupted};
use hal_profile::processor::ProcessorState;
use hal_profile::ring::Word;
use hal_profile::session::Program;

/// Modelled time runs at 1 GHz, and so do all time-stamp counters.
pub const TIMESTAMP_FREQUENCY: u64 = 1_000_000_000;
/// What an interrupt costs, in modelled nanoseconds.
pub const INTERRUPT_COST: u64 = 1000;

/// A status for a handler that is registered already; no document says which Windows gives.
const STATUS_UNSUCCESSFUL: u32 = 0xC000_0001;
/// Instructions and cycles of an exercise.
const EXERCISE: u64 = 1000;

/// What HalAllocateHardwareCounters answers where somebody else has them.
const STATUS_INSUFFICIENT_RESOURCES: u32 = 0xC000_009A;

/// Refused accesses that are kept of one processor: the first ones tell.
const FAULTS_KEPT: usize = 16;

/// One processor, with what silicon refused on it.
///
/// The core cannot be told of a #GP: on Windows it would be a bug check. It is kept here.
pub struct Cpu {
    /// The processor.
    pub processor: Processor,
    /// What silicon refused, in order.
    pub faults: Vec<Fault>,
    /// Cost of the interrupt being handled, that has not passed yet: the first look at the clock
    /// in a handler is its entry, the cost lies between that and the next.
    pub interrupt_cost: u64,
}

impl Cpu {
    /// A processor on which nothing was refused yet.
    #[must_use]
    pub fn new(processor: Processor) -> Self {
        Self {
            processor,
            faults: Vec::new(),
            interrupt_cost: 0,
        }
    }

    fn refuse<T: Default>(&mut self, result: Result<T, Fault>) -> T {
        result.unwrap_or_else(|fault| {
            if self.faults.len() < FAULTS_KEPT {
                self.faults.push(fault);
            }
            T::default()
        })
    }

    /// The interrupt that was handled ends; what it cost has passed.
    pub(crate) fn end_interrupt(&mut self) {
        let now = self.processor.timestamp();
        self.processor
            .set_timestamp(now.wrapping_add(self.interrupt_cost));
        self.interrupt_cost = 0;
    }
}

impl Machine for Cpu {
    fn cpuid(&self, leaf: u32, subleaf: u32) -> CpuidResult {
        self.processor.cpuid(leaf, subleaf)
    }

    fn read_msr(&mut self, msr: u32) -> u64 {
        let result = self.processor.rdmsr(msr);
        self.refuse(result)
    }

    fn write_msr(&mut self, msr: u32, value: u64) {
        let result = self.processor.wrmsr(msr, value);
        self.refuse(result);
    }

    fn read_pmc(&mut self, counter: u32) -> u64 {
        let result = self.processor.rdpmc(counter);
        self.refuse(result)
    }

    fn read_apic(&mut self, offset: u32) -> u32 {
        let result = self.processor.read_apic(offset);
        self.refuse(result)
    }

    fn write_apic(&mut self, offset: u32, value: u32) {
        let result = self.processor.write_apic(offset, value);
        self.refuse(result);
    }

    fn timestamp(&mut self) -> u64 {
        let now = self.processor.timestamp();
        self.end_interrupt();
        now
    }

    fn exercise(&mut self) {
        let mut events = Counts::default();
        events.set(Event::Instructions, EXERCISE, 0);
        events.set(Event::Cycles, EXERCISE, 0);
        self.processor.exercise(events);
    }
}

/// All processors, with the memory that they lend the core.
pub struct Host {
    /// The processors, in order of their index.
    pub cpus: Vec<Cpu>,
    states: Vec<ProcessorState>,
    rings: Vec<Vec<Word>>,
    program: Box<Program>,
    /// Somebody else owns the counters and does not give them.
    pub(crate) counters_taken: bool,
    /// Somebody else handles the overflow interrupt.
    pub(crate) interrupt_taken: bool,
    /// The service has reserved the counters: it must give them back before it can again.
    counters_reserved: bool,
    /// The HAL tells of overflows by its callback.
    calls_back: bool,
    /// Most words that rings may take in all; above it there is no memory.
    pub(crate) ring_words_max: usize,
}

impl Host {
    /// These processors, with memory for each.
    #[must_use]
    pub fn new(processors: Vec<Processor>) -> Self {
        let mut host = Self {
            cpus: Vec::with_capacity(processors.len()),
            states: Vec::with_capacity(processors.len()),
            rings: Vec::new(),
            program: Box::new(Program::EMPTY),
            counters_taken: false,
            interrupt_taken: false,
            counters_reserved: false,
            calls_back: false,
            ring_words_max: usize::MAX,
        };
        for processor in processors {
            host.add(processor);
        }
        host
    }

    pub(crate) fn add(&mut self, processor: Processor) {
        self.cpus.push(Cpu::new(processor));
        self.states.push(ProcessorState::EMPTY);
        self.rings.push(Vec::new());
    }

    /// The timer of one processor.
    pub fn tick(&mut self, index: usize) {
        if let Some(mut local) = self.local(index) {
            local.tick();
        }
    }

    /// An overflow interrupt has come to one processor: to our handler, or to the HAL, where that
    /// calls us back.
    pub fn interrupt(&mut self, index: usize, interrupted: &Interrupted) {
        if self.calls_back
            && let Some(cpu) = self.cpus.get_mut(index)
        {
            let stopped = hal::stop(cpu);
            self.callback(index, stopped.overflowed);
            hal::go_on(&mut self.cpus[index], stopped);
        } else if let Some(mut local) = self.local(index) {
            overflow::interrupt(&mut local, interrupted);
        }
    }

    /// The HAL's overflow callback has come to one processor.
    pub fn callback(&mut self, index: usize, overflowed: u64) {
        if let Some(mut local) = self.local(index) {
            overflow::callback(&mut local, overflowed);
        }
    }

    fn local(&mut self, index: usize) -> Option<Local<'_, Cpu>> {
        Some(Local {
            index,
            machine: self.cpus.get_mut(index)?,
            state: self.states.get_mut(index)?,
            ring: self.rings.get(index)?,
            program: &self.program,
        })
    }
}

impl Processors for Host {
    type Machine = Cpu;

    fn count(&self) -> usize {
        self.cpus.len()
    }

    fn number(&self, index: usize) -> (u16, u16) {
        ((index / 64) as u16, (index % 64) as u16)
    }

    fn run_on<T: Send>(
        &mut self,
        index: usize,
        work: impl FnOnce(&mut Local<'_, Cpu>) -> T + Send,
    ) -> Option<T> {
        self.local(index).map(|mut local| work(&mut local))
    }

    fn run_on_each<T: Send>(
        &mut self,
        wanted: &ProcessorSet,
        slots: &mut [T],
        work: impl Fn(&mut Local<'_, Cpu>, &mut [T]) + Sync,
    ) {
        let part = slots.len() / self.count().max(1);
        for index in (0..self.count()).filter(|&index| wanted.contains(index)) {
            let own = slots
                .get_mut(index * part..(index + 1) * part)
                .unwrap_or_default();
            if let Some(mut local) = self.local(index) {
                work(&mut local, own);
            }
        }
    }

    fn ring(&self, index: usize) -> &[Word] {
        self.rings.get(index).map_or(&[], Vec::as_slice)
    }

    fn lend_rings(&mut self, wanted: &ProcessorSet, words: usize) -> bool {
        let count = (0..self.rings.len())
            .filter(|&index| wanted.contains(index))
            .count();
        if words.saturating_mul(count) > self.ring_words_max {
            return false;
        }
        for (index, ring) in self.rings.iter_mut().enumerate() {
            if wanted.contains(index) {
                *ring = (0..words).map(|_| Word::new(0)).collect();
            }
        }
        true
    }

    fn return_rings(&mut self) {
        self.rings.fill_with(Vec::new);
    }

    fn load(&mut self, program: &Program) {
        self.program.copy_from(program);
    }

    fn reserve_counters(&mut self, overflows: Overflows) -> Result<(), Unreserved> {
        if self.counters_taken || self.counters_reserved {
            return Err(Unreserved::Counters(STATUS_INSUFFICIENT_RESOURCES));
        }
        if self.interrupt_taken && overflows == Overflows::Interrupt {
            return Err(Unreserved::Interrupt(STATUS_UNSUCCESSFUL));
        }
        self.counters_reserved = true;
        self.calls_back = matches!(overflows, Overflows::Callback { .. });
        Ok(())
    }

    fn release_counters(&mut self) {
        self.counters_reserved = false;
        self.calls_back = false;
    }

    fn timestamp_frequency(&self) -> u64 {
        TIMESTAMP_FREQUENCY
    }

    fn timer_resolution(&self) -> u32 {
        1
    }
}
