//! A modelled processor as the core's machine.

pub(crate) mod apic;
pub(crate) mod counter;
pub mod cpuid;
pub(crate) mod delivery;
#[cfg(test)]
pub(crate) mod distinct_counts;
pub mod event;
pub(crate) mod event_select;
pub mod fault;
pub(crate) mod lbr;
pub(crate) mod processor;
pub(crate) mod signature;
pub mod topology;
pub(crate) mod unit;

use crate::cpu::event::Counts;
use crate::cpu::fault::Fault;
use crate::cpu::processor::Processor;
use hal_profile::cpu::machine::{AccessRefused, CR4_PCE, CpuidResult, Machine};

/// Refused accesses kept for each processor: the first ones are enough to diagnose it.
const FAULTS_KEPT: usize = 16;

/// LVTPC in x2APIC mode.
const X2APIC_LVTPC: u32 = 0x834;

/// One processor, with the accesses that silicon refused on it.
///
/// The core cannot be informed of a #GP: on Windows it would be a bug check. It is kept here
/// instead.
pub struct Cpu {
    pub processor: Processor,
    /// What silicon refused, in order.
    pub faults: Vec<Fault>,
    /// Cost of the interrupt being handled that has not yet passed: the first reading of the clock
    /// in a handler is its entry, and the cost lies between that and the next.
    pub interrupt_cost: u64,
    /// What happens just before LVTPC is next written: the totals of all events from then on.
    pub before_lvtpc: Option<Counts>,
    /// Events that happen before each write of an MSR.
    pub before_each_write: Counts,
}

impl Cpu {
    /// A processor on which nothing has been refused yet.
    pub fn new(processor: Processor) -> Self {
        Self {
            processor,
            faults: Vec::new(),
            interrupt_cost: 0,
            before_lvtpc: None,
            before_each_write: Counts::default(),
        }
    }

    fn writes_msr(&mut self, msr: u32) {
        self.processor.exercise(self.before_each_write);
        if msr == X2APIC_LVTPC {
            self.writes_lvtpc();
        }
    }

    fn writes_lvtpc(&mut self) {
        if let Some(counts) = self.before_lvtpc.take() {
            self.processor.retire(counts);
        }
    }

    fn refuse<T: Default>(&mut self, result: Result<T, Fault>) -> T {
        result.unwrap_or_else(|fault| {
            if self.faults.len() < FAULTS_KEPT {
                self.faults.push(fault);
            }
            // The core has no way to be told of a #GP: it continues with 0, and the fault is kept
            // for whoever drives the model.
            T::default()
        })
    }

    /// Ends the interrupt being handled: its cost has passed.
    pub(crate) fn end_interrupt(&mut self) {
        let now = self.processor.timestamp();
        self.processor.set_timestamp(now.wrapping_add(self.interrupt_cost));
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
        self.writes_msr(msr);
        let result = self.processor.wrmsr(msr, value);
        self.refuse(result);
    }

    fn try_read_msr(&mut self, msr: u32) -> Result<u64, AccessRefused> {
        // The refusal is not kept as a fault: the core asks this way where it can handle one.
        self.processor.rdmsr(msr).map_err(|_| AccessRefused)
    }

    fn try_write_msr(&mut self, msr: u32, value: u64) -> Result<(), AccessRefused> {
        self.writes_msr(msr);
        self.processor.wrmsr(msr, value).map_err(|_| AccessRefused)
    }

    fn read_pmc(&mut self, counter: u32) -> u64 {
        let result = self.processor.rdpmc(counter);
        self.refuse(result)
    }

    fn try_read_pmc(&mut self, counter: u32) -> Result<u64, AccessRefused> {
        self.processor.rdpmc(counter).map_err(|_| AccessRefused)
    }

    fn read_apic(&mut self, offset: u32) -> u32 {
        let result = self.processor.read_apic(offset);
        self.refuse(result)
    }

    fn write_apic(&mut self, offset: u32, value: u32) {
        // LVTPC is the only register of the page that accepts a write.
        self.writes_lvtpc();
        let result = self.processor.write_apic(offset, value);
        self.refuse(result);
    }

    fn read_cr4(&mut self) -> u64 {
        self.processor.cr4()
    }

    fn set_pce(&mut self, on: bool) {
        let other = self.processor.cr4() & !CR4_PCE;
        self.processor.set_cr4(if on { other | CR4_PCE } else { other });
    }

    fn timestamp(&mut self) -> u64 {
        let now = self.processor.timestamp();
        self.end_interrupt();
        now
    }
}
