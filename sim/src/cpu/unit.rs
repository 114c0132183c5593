//! What every performance-monitoring unit does, whatever its family.

use crate::cpu::counter::{Counter, Input, Value};
use crate::cpu::event::{Code, Counts, Feed};
use crate::cpu::fault::Fault;
use crate::cpu::lbr::Recording;

/// A counter that will request an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// What the counter adds up.
    pub feed: Feed,
    /// The interrupt is requested when the feed's [`amount`](Feed::amount) reaches this.
    pub at: u64,
    /// Counts left to the wrap when the counter was last written.
    pub span: u64,
}

impl Watch {
    /// The overflow that `counter` is counting towards; `None` if nothing is connected.
    pub(crate) fn of(counter: &Counter) -> Option<Self> {
        let feed = counter.feed()?;
        Some(Self { feed, at: counter.amount_at_wrap(), span: counter.span() })
    }
}

/// A performance-monitoring unit of one logical processor, or shared by two threads.
///
/// `thread` is 0, or 1 for the second logical processor of a NetBurst package with Hyper-Threading.
/// `now` is all that has happened on that thread so far, and every access first counts up to it, so
/// that a register write takes effect only for what happens afterwards.
pub(crate) trait Unit: Send {
    /// How many logical processors share it.
    fn threads(&self) -> usize {
        1
    }
    /// RDMSR; `None` if the register does not belong to this unit.
    fn read_msr(&mut self, thread: usize, msr: u32) -> Option<u64>;
    /// WRMSR: whether the value is accepted; `None` if the register does not belong to this unit.
    fn write_msr(&mut self, thread: usize, msr: u32, value: u64, now: &Counts) -> Option<bool>;
    fn read_pmc(&mut self, thread: usize, counter: u32) -> Result<u64, Fault>;
    /// Whether RDPMC reads 0 from a counter at CPL 3.
    fn hides(&self, _counter: u32) -> bool {
        false
    }
    /// Counts what has happened on `thread` up to `now`; returns the threads whose local APIC gets
    /// a performance interrupt, one bit each.
    fn count(&mut self, thread: usize, now: &Counts) -> u8;
    /// Calls `visit` for each counter fed by `thread` that will request an interrupt.
    fn watches(&self, thread: usize, visit: &mut dyn FnMut(Watch));
    /// Threads whose interrupt line is held active now: NetBurst holds it while OVF is set.
    fn asserted(&self) -> u8 {
        0
    }
    /// Whether the status bit of a counter that interrupts is set.
    fn holds_interrupt(&self) -> bool {
        false
    }
    /// The width of its general counters in bits.
    fn counter_width(&self) -> u32;
    /// Whether the local APIC sets LVTPC's mask bit when it delivers the interrupt.
    fn masks_on_delivery(&self) -> bool;
    /// Calls `visit` for each counter, with its inputs: one from each thread.
    fn each_counter(&mut self, visit: &mut dyn FnMut(&mut Value, &mut [Input]));
    /// Takes `now` as the state of all events on `thread`, whatever it was; counter values stay.
    fn count_from(&mut self, thread: usize, now: &Counts) {
        self.each_counter(&mut |_, inputs| inputs[thread].count_from(now));
    }
    /// Makes a bit stuck at 0 in every counter.
    fn break_counter_bit(&mut self, bit: u32) {
        self.each_counter(&mut |value, _| value.break_bit(bit));
    }
    /// Makes overflows interrupt without setting their flag, if that is a known erratum.
    fn unflag_overflows(&mut self) {}
    /// Sets bits of its global status register; without the register nothing happens.
    fn set_status(&mut self, _bits: u64) {}
    /// The bits of its global status register that belong to counters; 0 without the register.
    fn counter_status(&self) -> u64 {
        0
    }
    /// These selects and fixed counters count what a workload names.
    fn name_events(&mut self, _codes: &[Code], _now: &Counts) {}
    fn recording(&mut self) -> Option<Recording<'_>> {
        None
    }
    /// From now on its counters stop a few events late.
    fn stop_late(&mut self) {
        self.each_counter(&mut |_, inputs| inputs.iter_mut().for_each(Input::stop_late));
    }
    /// What has leaked out of each general counter since the last call: [`Quirk::ThreadLeak`].
    ///
    /// [`Quirk::ThreadLeak`]: crate::quirks::Quirk::ThreadLeak
    fn take_leaked(&mut self) -> Vec<u64> {
        Vec::new()
    }
    /// This has leaked from another thread's counters into those of the same numbers; returns as
    /// [`Self::count`] does.
    fn leak(&mut self, _thread: usize, _events: &[u64], _now: &Counts) -> u8 {
        0
    }
    fn reset(&mut self);
}
