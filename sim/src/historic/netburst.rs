//! NetBurst: Pentium 4 and its Xeons. Counter, CCCR and ESCR in a chain, shared by two threads.
//!
//! SDM vol. 3B (September 2016), sections 18.15 to 18.17 and 19.15.
//!
//! Not modelled: cascading (CASCADE and the extended-cascade bits are accepted and start nothing),
//! tagging other than of replays for misses of the first-level data cache, and the errata of
//! counters written or stopped while they count. With COMPARE and COMPLEMENT silicon also counts
//! the clocks of unselected modes; the model does so only at threshold 15, where every clock
//! counts.

mod counter;
pub mod events;
mod registers;
pub mod tables;
#[cfg(test)]
mod tests;

use crate::cpu::counter::{Input, Value};
use crate::cpu::cpuid::Leaves;
use crate::cpu::event::{Compare, Counts, Event, Feed, Threads};
use crate::cpu::fault::Fault;
use crate::cpu::unit::{Unit, Watch};
use counter::{Counter, WIDTH};
use events::{Replay, Row};
use registers::{
    CCCR_EXTENDED_CASCADE, CCCR_OVF_PMI_T1, CCCR_RESERVED, Cccr, ESCR_RESERVED, ESCR_T1, Escr,
};
use tables::{COUNTERS, ESCRS, EXTENDED_CASCADE};

const MISC_ENABLE: u32 = 0x1A0;
const PEBS_ENABLE: u32 = 0x3F1;
const PEBS_MATRIX_VERT: u32 = 0x3F2;
/// IA32_DS_AREA, one for each thread.
const DS_AREA: u32 = 0x600;

/// IA32_MISC_ENABLE\[7\], read only: performance monitoring available.
const PERFMON_AVAILABLE: u64 = 1 << 7;
/// IA32_MISC_ENABLE\[12:11\], read only: neither branch trace store nor PEBS is available.
const NO_BTS_NO_PEBS: u64 = 0b11 << 11;
/// IA32_MISC_ENABLE\[22\]: limit CPUID's highest leaf.
const LIMIT_CPUID: u64 = 1 << 22;
/// MSR_PEBS_ENABLE\[24\] and \[12:0\]: tagging, and the tag.
const REPLAY_TAG: u64 = 1 << 24 | 0x1FFF;
/// MSR_PEBS_ENABLE\[26:25\]: which of the two threads it applies to.
const PEBS_THREADS: u64 = 0b11 << 25;
/// MSR_PEBS_MATRIX_VERT\[12:0\].
const MATRIX_BITS: u64 = 0x1FFF;
/// CPUID.1:EDX\[21\]: debug store.
const DS: u32 = 1 << 21;
/// CPUID.1:EDX\[28\]: EBX\[23:16\] holds the number of logical processors in a package.
const HTT: u32 = 1 << 28;
/// RDPMC's ECX\[31\]: read the low 32 bits only.
const FAST_READ: u32 = 1 << 31;

/// A register of the unit; array registers by index.
#[derive(Clone, Copy)]
enum Register {
    Counter(usize),
    Cccr(usize),
    Escr(usize),
    MiscEnable,
    PebsEnable,
    PebsMatrixVert,
    DsArea,
}

/// What software can set.
#[derive(Clone, Debug)]
struct Registers {
    cccrs: [Cccr; COUNTERS],
    escrs: [Escr; 45],
    limit_cpuid: u64,
    pebs_enable: u64,
    pebs_matrix_vert: u64,
    ds_area: [u64; 2],
}

/// The unit of a NetBurst core: a whole package, except on the Pentium D.
#[derive(Clone, Debug)]
pub(crate) struct NetBurst {
    model: u8,
    /// Threads that share it: 2 with Hyper-Threading.
    threads: usize,
    debug_store: bool,
    /// Whether an overflow sets OVF, as it does without the erratum.
    flags_overflow: bool,
    registers: Registers,
    counters: [Counter; COUNTERS],
    /// Up to where each thread's events have been counted.
    counted: [Counts; 2],
    /// Threads to be interrupted for what was counted during a register access.
    pending: u8,
}

impl Registers {
    fn power_on() -> Self {
        Self {
            cccrs: [Cccr::new(); COUNTERS],
            escrs: [Escr::new(); 45],
            limit_cpuid: 0,
            pebs_enable: 0,
            pebs_matrix_vert: 0,
            ds_area: [0; 2],
        }
    }

    fn tags(&self, replay: Replay) -> bool {
        self.pebs_enable & REPLAY_TAG == replay.pebs_enable
            && self.pebs_matrix_vert == replay.matrix_vert
    }
}

impl NetBurst {
    /// The unit of a core with these leaves, as after power-on.
    pub(crate) fn new(leaves: &Leaves) -> Self {
        let version = leaves.get(1, 0);
        Self {
            model: (version.eax >> 4 & 0xF) as u8,
            threads: threads(leaves),
            debug_store: version.edx & DS != 0,
            flags_overflow: true,
            registers: Registers::power_on(),
            counters: std::array::from_fn(|_| Counter::new()),
            counted: [Counts::default(); 2],
            pending: 0,
        }
    }

    fn register(&self, msr: u32) -> Option<Register> {
        let escr =
            |msr| ESCRS.iter().position(|escr| escr.msr == msr && escr.exists_on(self.model));
        match msr {
            0x300..=0x311 => Some(Register::Counter(msr as usize - 0x300)),
            0x360..=0x371 => Some(Register::Cccr(msr as usize - 0x360)),
            MISC_ENABLE => Some(Register::MiscEnable),
            PEBS_ENABLE => Some(Register::PebsEnable),
            PEBS_MATRIX_VERT => Some(Register::PebsMatrixVert),
            DS_AREA => self.debug_store.then_some(Register::DsArea),
            _ => escr(msr).map(Register::Escr),
        }
    }

    fn misc_enable(&self) -> u64 {
        let unavailable = if self.debug_store { 0 } else { NO_BTS_NO_PEBS };
        PERFMON_AVAILABLE | unavailable | self.registers.limit_cpuid
    }

    fn load(&self, register: Register, thread: usize) -> u64 {
        let registers = &self.registers;
        match register {
            Register::Counter(n) => self.counters[n].value(),
            Register::Cccr(n) => u64::from(registers.cccrs[n].into_bits()),
            Register::Escr(n) => u64::from(registers.escrs[n].into_bits()),
            Register::MiscEnable => self.misc_enable(),
            Register::PebsEnable => registers.pebs_enable,
            Register::PebsMatrixVert => registers.pebs_matrix_vert,
            Register::DsArea => registers.ds_area[thread],
        }
    }

    fn store(&mut self, register: Register, thread: usize, value: u64) {
        let registers = &mut self.registers;
        match register {
            Register::Counter(n) => self.counters[n].set(value),
            Register::Cccr(n) => self.write_cccr(n, value),
            Register::Escr(n) => registers.escrs[n] = Escr::from_bits(value as u32),
            Register::MiscEnable => registers.limit_cpuid = value & LIMIT_CPUID,
            Register::PebsEnable => registers.pebs_enable = value,
            Register::PebsMatrixVert => registers.pebs_matrix_vert = value,
            Register::DsArea => registers.ds_area[thread] = value,
        }
    }

    fn write_cccr(&mut self, counter: usize, value: u64) {
        let cccr = Cccr::from_bits(value as u32);
        self.registers.cccrs[counter] = cccr;
        if !cccr.ovf() {
            // The request line stays up while OVF is 1.
            self.counters[counter].acknowledge();
        }
    }

    /// Bits that may not be written as ones. Bits 63:40 of a counter are ignored.
    fn reserved(&self, register: Register) -> u64 {
        let without_threads = |bits| if self.threads == 2 { 0 } else { bits };
        match register {
            Register::Counter(_) | Register::DsArea => 0,
            Register::Cccr(n) => {
                let cascade = if self.has_extended_cascade(n) { 0 } else { CCCR_EXTENDED_CASCADE };
                CCCR_RESERVED | cascade | without_threads(CCCR_OVF_PMI_T1)
            }
            Register::Escr(_) => ESCR_RESERVED | without_threads(ESCR_T1),
            Register::MiscEnable => !(PERFMON_AVAILABLE | NO_BTS_NO_PEBS | LIMIT_CPUID),
            Register::PebsEnable => !(REPLAY_TAG | PEBS_THREADS),
            Register::PebsMatrixVert => !MATRIX_BITS,
        }
    }

    fn has_extended_cascade(&self, counter: usize) -> bool {
        EXTENDED_CASCADE.contains(&counter) && matches!(self.model, 2 | 3 | 4 | 6)
    }

    fn accepts(&self, register: Register, value: u64) -> bool {
        match register {
            Register::DsArea => is_canonical(value),
            _ => value & self.reserved(register) == 0,
        }
    }

    fn advance(&mut self, thread: usize, now: &Counts) {
        self.counted[thread] = *now;
        for (counter, cccr) in self.counters.iter_mut().zip(&mut self.registers.cccrs) {
            let step = counter.advance(thread, now, cccr.force_ovf());
            if step.overflowed && self.flags_overflow {
                cccr.set_ovf(true);
            }
            if step.interrupts {
                self.pending |= cccr.ovf_pmi();
            }
        }
    }

    /// Connects the counters as the registers now specify.
    fn connect(&mut self) {
        for counter in 0..COUNTERS {
            for thread in 0..self.threads {
                let feed = self.feed(counter, thread);
                self.counters[counter].connect(thread, feed, &self.counted[thread]);
            }
        }
    }

    fn feed(&self, counter: usize, thread: usize) -> Option<Feed> {
        let cccr = self.registers.cccrs[counter];
        if !cccr.counts(self.threads) {
            // CCCR.ENABLE is clear, or ACTIVE_THREAD does not name the threads that run.
            return None;
        }
        let place = tables::selected(counter, cccr.escr_select(), self.model)?;
        let escr = self.registers.escrs[place];
        // Even a counter of every clock needs an event in the connected ESCR: without one it has no
        // power and counts 0.
        let row = events::selected(ESCRS[place].msr, escr.event_select(), self.model)?;
        // Undocumented mask bits must be 0; the manual does not say what they would count.
        if escr.event_mask() & !row.mask != 0 {
            return None;
        }
        if cccr.counts_every_clock() {
            // With EDGE a comparison that always holds never becomes true.
            let edges = cccr.edge();
            return (!edges && thread == escr.clock_thread()).then_some(EVERY_CLOCK);
        }
        let (user, kernel) = modes(escr, row, thread);
        let (event, compare) = (self.event(escr, row)?, cccr.comparison());
        Some(Feed { event, user, kernel, compare, threads: Threads::Own })
    }

    fn event(&self, escr: Escr, row: &Row) -> Option<Event> {
        let tagged = row.tagging.is_none_or(|replay| self.registers.tags(replay));
        tagged.then(|| row.counted(escr.event_mask()))?
    }
}

/// Logical processors of one core: 2 with Hyper-Threading, which is present if the package has more
/// logical processors (CPUID.1:EBX\[23:16\]) than cores (CPUID.4:EAX\[31:26\] + 1).
fn threads(leaves: &Leaves) -> usize {
    let version = leaves.get(1, 0);
    let logical = version.ebx >> 16 & 0xFF;
    let cores = (leaves.get(4, 0).eax >> 26) + 1;
    if version.edx & HTT != 0 && logical / cores > 1 { 2 } else { 1 }
}

/// Every clock, in any mode.
const EVERY_CLOCK: Feed = Feed {
    event: Event::Cycles,
    user: true,
    kernel: true,
    compare: Compare::Off,
    threads: Threads::Own,
};

/// Whether user and kernel mode of `thread` count. An event of the package counts in the merged
/// modes, each thread's share of it in that thread's own mode.
fn modes(escr: Escr, row: &Row, thread: usize) -> (bool, bool) {
    if row.thread_specific { escr.modes(thread) } else { escr.merged_modes() }
}

/// Whether bits 63:47 are all the same, as in any linear address.
fn is_canonical(address: u64) -> bool {
    matches!(address.cast_signed() >> 47, 0 | -1)
}

impl Unit for NetBurst {
    fn threads(&self) -> usize {
        self.threads
    }

    fn read_msr(&mut self, thread: usize, msr: u32) -> Option<u64> {
        let register = self.register(msr)?;
        Some(self.load(register, thread))
    }

    /// The other thread must first be counted up to the present: what it did until now still
    /// belongs to the old register values.
    fn write_msr(&mut self, thread: usize, msr: u32, value: u64, now: &Counts) -> Option<bool> {
        let register = self.register(msr)?;
        if !self.accepts(register, value) {
            return Some(false);
        }
        self.advance(thread, now);
        self.store(register, thread, value);
        self.connect();
        Some(true)
    }

    fn read_pmc(&mut self, _thread: usize, counter: u32) -> Result<u64, Fault> {
        let number = (counter & !FAST_READ) as usize;
        let value = self.counters.get(number).map(Counter::value);
        let value = value.ok_or(Fault::ReadPmc { counter })?;
        let fast = counter & FAST_READ != 0;
        Ok(if fast { u64::from(value as u32) } else { value })
    }

    fn count(&mut self, thread: usize, now: &Counts) -> u8 {
        self.advance(thread, now);
        std::mem::take(&mut self.pending)
    }

    /// The interrupt comes one count after the overflow. If both threads feed a counter, it may
    /// come earlier than either thread's watch says.
    fn watches(&self, thread: usize, visit: &mut dyn FnMut(Watch)) {
        for (counter, cccr) in self.counters.iter().zip(&self.registers.cccrs) {
            if cccr.ovf_pmi() != 0 {
                counter.watch(thread, cccr.force_ovf()).into_iter().for_each(&mut *visit);
            }
        }
    }

    fn asserted(&self) -> u8 {
        // A handler that unmasks LVTPC before it clears OVF is interrupted a second time.
        self.counters
            .iter()
            .zip(&self.registers.cccrs)
            .filter(|(counter, cccr)| counter.raised() && cccr.ovf())
            .fold(0, |threads, (_, cccr)| threads | cccr.ovf_pmi())
    }

    fn counter_width(&self) -> u32 {
        WIDTH
    }

    fn masks_on_delivery(&self) -> bool {
        true
    }

    fn each_counter(&mut self, visit: &mut dyn FnMut(&mut Value, &mut [Input])) {
        self.counters.iter_mut().for_each(|counter| counter.parts(visit));
    }

    fn count_from(&mut self, thread: usize, now: &Counts) {
        self.counted[thread] = *now;
        self.each_counter(&mut |_, inputs| inputs[thread].count_from(now));
    }

    fn unflag_overflows(&mut self) {
        self.flags_overflow = false;
    }

    fn reset(&mut self) {
        self.registers = Registers::power_on();
        self.counters.iter_mut().for_each(Counter::reset);
        self.pending = 0;
    }
}
