//! The P6 family: Pentium Pro, II, III, Celeron and Pentium M.
//!
//! SDM vol. 3B (September 2016), sections 18.22, 19.16 and 19.17.

mod events;
#[cfg(test)]
mod tests;

use crate::cpu::counter::{Counter, Input, Value};
use crate::cpu::cpuid::Leaves;
use crate::cpu::event::{Counts, Feed};
use crate::cpu::event_select::EventSelect;
use crate::cpu::fault::Fault;
use crate::cpu::signature::Signature;
use crate::cpu::unit::{Unit, Watch};

const PERF_CTR0: u32 = 0xC1;
const PERF_CTR1: u32 = 0xC2;
const PERF_EVT_SEL0: u32 = 0x186;
const PERF_EVT_SEL1: u32 = 0x187;
/// IA32_MISC_ENABLE, on Pentium M only.
const MISC_ENABLE: u32 = 0x1A0;

const WIDTH: u32 = 40;
/// PerfEvtSel 21 and 63:32.
const SELECT_RESERVED: u64 = 0xFFFF_FFFF_0020_0000;
/// Bit 22 is EN in PerfEvtSel0 only.
const SELECT1_RESERVED: u64 = SELECT_RESERVED | 1 << 22;
/// Models of the Pentium M; 15H is a system on a chip around one.
const PENTIUM_M: [u32; 3] = [0x09, 0x0D, 0x15];
/// IA32_MISC_ENABLE\[7\], read only: performance monitoring available.
const PERFMON_AVAILABLE: u64 = 1 << 7;

/// The unit of a family 6 processor without CPUID leaf 0AH.
#[derive(Clone, Debug)]
pub(crate) struct P6 {
    pentium_m: bool,
    /// EN exists only in PerfEvtSel0, and enables both counters.
    selects: [EventSelect; 2],
    counters: [Counter; 2],
    /// An overflow seen during a register access, to be reported by the next count.
    pending: bool,
}

impl P6 {
    /// The unit of the processor with these leaves, as after power-on.
    pub(crate) fn new(leaves: &Leaves) -> Self {
        Self {
            pentium_m: PENTIUM_M.contains(&Signature::of(leaves).model),
            selects: [EventSelect::new(); 2],
            counters: [Counter::new(WIDTH), Counter::new(WIDTH)],
            pending: false,
        }
    }

    fn advance(&mut self, now: &Counts) {
        for (counter, select) in self.counters.iter_mut().zip(&self.selects) {
            let wraps = counter.advance(now);
            // There is no status register: an overflow leaves nothing behind but its interrupt.
            self.pending |= wraps > 0 && select.int();
        }
    }

    fn feed(&self, counter: usize) -> Option<Feed> {
        if !self.selects[0].en() {
            return None;
        }
        let select = self.selects[counter];
        let event = events::lookup(select.event(), select.unit_mask(), counter)?;
        Some(select.feed(event))
    }

    fn write_select(&mut self, select: usize, value: u64, now: &Counts) {
        self.selects[select] = EventSelect::from_bits(value);
        // Both counters follow, because EN of PerfEvtSel0 starts and stops counter 1 too.
        for counter in 0..self.counters.len() {
            let feed = self.feed(counter);
            self.counters[counter].connect(feed, now);
        }
    }

    /// Bits that may not be written as ones; `None` if there is no such register.
    fn reserved(&self, msr: u32) -> Option<u64> {
        match msr {
            PERF_CTR0 | PERF_CTR1 => Some(0),
            PERF_EVT_SEL0 => Some(SELECT_RESERVED),
            PERF_EVT_SEL1 => Some(SELECT1_RESERVED),
            MISC_ENABLE if self.pentium_m => Some(!PERFMON_AVAILABLE),
            _ => None,
        }
    }
}

impl Unit for P6 {
    fn read_msr(&mut self, _thread: usize, msr: u32) -> Option<u64> {
        let value = match msr {
            PERF_CTR0 => self.counters[0].value(),
            PERF_CTR1 => self.counters[1].value(),
            PERF_EVT_SEL0 => self.selects[0].into_bits(),
            PERF_EVT_SEL1 => self.selects[1].into_bits(),
            MISC_ENABLE if self.pentium_m => PERFMON_AVAILABLE,
            _ => return None,
        };
        Some(value)
    }

    /// The model has only the read-only bit of IA32_MISC_ENABLE, which a write does not change.
    fn write_msr(&mut self, _thread: usize, msr: u32, value: u64, now: &Counts) -> Option<bool> {
        if value & self.reserved(msr)? != 0 {
            return Some(false);
        }
        self.advance(now);
        match msr {
            // WRMSR takes 32 bits and copies bit 31 above them, so a preset reaches 2^31 events at
            // most.
            PERF_CTR0 => self.counters[0].set_extended(value),
            PERF_CTR1 => self.counters[1].set_extended(value),
            PERF_EVT_SEL0 => self.write_select(0, value, now),
            PERF_EVT_SEL1 => self.write_select(1, value, now),
            _ => {}
        }
        Some(true)
    }

    fn read_pmc(&mut self, _thread: usize, counter: u32) -> Result<u64, Fault> {
        let read = self.counters.get(counter as usize).map(Counter::value);
        read.ok_or(Fault::ReadPmc { counter })
    }

    fn count(&mut self, _thread: usize, now: &Counts) -> u8 {
        self.advance(now);
        u8::from(std::mem::take(&mut self.pending))
    }

    fn watches(&self, _thread: usize, visit: &mut dyn FnMut(Watch)) {
        self.counters
            .iter()
            .zip(&self.selects)
            .filter(|(_, select)| select.int())
            .filter_map(|(counter, _)| Watch::of(counter))
            .for_each(visit);
    }

    fn counter_width(&self) -> u32 {
        WIDTH
    }

    /// Pentium M and later mask it; the older ones leave LVTPC as it is (perfctr, oprofile).
    fn masks_on_delivery(&self) -> bool {
        self.pentium_m
    }

    fn each_counter(&mut self, visit: &mut dyn FnMut(&mut Value, &mut [Input])) {
        self.counters.iter_mut().for_each(|counter| counter.parts(visit));
    }

    fn reset(&mut self) {
        self.selects = [EventSelect::new(); 2];
        self.counters.iter_mut().for_each(Counter::reset);
        self.pending = false;
    }
}
