//! Pentium and Pentium MMX: CESR and two counters that cannot interrupt.
//!
//! SDM vol. 3B (September 2016), sections 18.23 and 19.18.

mod events;
#[cfg(test)]
mod tests;

use crate::cpu::counter::{Counter, Input, Value};
use crate::cpu::cpuid::Leaves;
use crate::cpu::event::{Compare, Counts, Feed, Threads};
use crate::cpu::fault::Fault;
use crate::cpu::unit::{Unit, Watch};
use bitfield_struct::bitfield;

/// Control and event select, for both counters: 32 bits.
const CESR: u32 = 0x11;
const CTR0: u32 = 0x12;
const CTR1: u32 = 0x13;

const WIDTH: u32 = 40;
/// CESR 15:10, 31:26 and 63:32.
const CESR_RESERVED: u64 = 0xFFFF_FFFF_FC00_FC00;
/// CPUID.1:EDX\[23\]: MMX.
const MMX: u32 = 1 << 23;

/// The half of CESR that controls one counter: bits 15:0 for CTR0, 31:16 for CTR1.
#[bitfield(u16)]
struct Half {
    /// ES: the event code.
    #[bits(6)]
    code: u8,
    /// CC bit 0: count at CPL 0 to 2.
    kernel: bool,
    /// CC bit 1: count at CPL 3.
    user: bool,
    /// CC bit 2: count clocks instead of events.
    clocks: bool,
    /// PC: the pin pulses on overflow instead of on each increment. The model has no pins.
    pin_on_overflow: bool,
    #[bits(6)]
    __: u8,
}

/// The unit of a family 5 processor of Intel.
#[derive(Clone, Debug)]
pub(crate) struct Pentium {
    /// Whether this is a Pentium MMX (P55C), which has RDPMC and more events.
    mmx: bool,
    cesr: u32,
    counters: [Counter; 2],
}

impl Pentium {
    /// The unit of the processor with these leaves, as after power-on.
    pub(crate) fn new(leaves: &Leaves) -> Self {
        Self {
            mmx: leaves.get(1, 0).edx & MMX != 0,
            cesr: 0,
            counters: [Counter::new(WIDTH), Counter::new(WIDTH)],
        }
    }

    fn advance(&mut self, now: &Counts) {
        for counter in &mut self.counters {
            counter.advance(now);
        }
    }

    fn half(&self, counter: usize) -> Half {
        Half::from_bits((self.cesr >> (16 * counter)) as u16)
    }

    fn feed(&self, counter: usize) -> Option<Feed> {
        let half = self.half(counter);
        let row = events::lookup(half.code(), counter, self.mmx)?;
        // An event counted as a duration, or a duration counted as an event, is something else, and
        // no manual says what.
        let fits = row.clocks == half.clocks();
        fits.then(|| Feed {
            event: row.event,
            user: half.user(),
            kernel: half.kernel(),
            compare: Compare::Off,
            threads: Threads::Own,
        })
    }

    fn write_cesr(&mut self, value: u32, now: &Counts) {
        self.cesr = value;
        // Both counters follow, because CESR can only be written as a whole.
        for counter in 0..self.counters.len() {
            let feed = self.feed(counter);
            self.counters[counter].connect(feed, now);
        }
    }
}

impl Unit for Pentium {
    fn read_msr(&mut self, _thread: usize, msr: u32) -> Option<u64> {
        let value = match msr {
            CESR => u64::from(self.cesr),
            CTR0 => self.counters[0].value(),
            CTR1 => self.counters[1].value(),
            _ => return None,
        };
        Some(value)
    }

    /// Ones in bits 63:40 of a counter are refused too: no manual says what they would do, so a
    /// driver must write zeros there.
    fn write_msr(&mut self, _thread: usize, msr: u32, value: u64, now: &Counts) -> Option<bool> {
        let reserved = match msr {
            CESR => CESR_RESERVED,
            CTR0 | CTR1 => !self.counters[0].mask(),
            _ => return None,
        };
        if value & reserved != 0 {
            return Some(false);
        }
        self.advance(now);
        match msr {
            CTR0 => self.counters[0].set(value),
            CTR1 => self.counters[1].set(value),
            _ => self.write_cesr(value as u32, now),
        }
        Some(true)
    }

    fn read_pmc(&mut self, _thread: usize, counter: u32) -> Result<u64, Fault> {
        // RDPMC came with the Pentium MMX.
        if !self.mmx {
            return Err(Fault::InvalidOpcode);
        }
        let read = self.counters.get(counter as usize).map(Counter::value);
        read.ok_or(Fault::ReadPmc { counter })
    }

    fn count(&mut self, _thread: usize, now: &Counts) -> u8 {
        self.advance(now);
        0
    }

    /// None: an overflow shows only on a pin.
    fn watches(&self, _thread: usize, _visit: &mut dyn FnMut(Watch)) {}

    fn counter_width(&self) -> u32 {
        WIDTH
    }

    fn masks_on_delivery(&self) -> bool {
        false
    }

    fn each_counter(&mut self, visit: &mut dyn FnMut(&mut Value, &mut [Input])) {
        self.counters.iter_mut().for_each(|counter| counter.parts(visit));
    }

    fn reset(&mut self) {
        self.cesr = 0;
        self.counters.iter_mut().for_each(Counter::reset);
    }
}
