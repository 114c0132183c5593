//! AMD's units: K7's four counters, the core extension of family 15h, PerfMonV2 of Zen 4, and the
//! event that takes two counters from family 17h on.
//!
//! Such a pair is one counter of 64 bits, of which the second counter holds the upper 16. It overflows,
//! and interrupts, on the carry out of all 64 (PPR for AMD Family 17h, "Large Increment per Cycle
//! Events"; Linux 26e52558ead4, which corrects 5738891229a2: with 0 above its preset, the pair would
//! overflow after 2^64 events). The documents do not say what Merge does that is enabled after the
//! select of the counter before it; the model takes what shows the mistake best: nothing.
//!
//! Not modelled: northbridge, L2 and L3 counters.

pub mod events;

use crate::cpu::counter::{Counter, Input, Value};
use crate::cpu::cpuid::Leaves;
use crate::cpu::event::{Code, Compare, Counts, Feed};
use crate::cpu::event_select::EventSelect;
use crate::cpu::fault::Fault;
use crate::cpu::lbr::{FREEZE_LBRS_ON_PMI, LBR_FRZ, LastBranches, Recording};
use crate::cpu::signature::Signature;
use crate::cpu::unit::{Unit, Watch};
use crate::quirks::{OVERCOUNT_EACH, Quirk};
use events::Generation;
use std::ops::RangeInclusive;

/// The window of K7: four selects, then four counters (AMD 22007E, appendix D).
const PERF_EVT_SEL0: u32 = 0xC001_0000;
const PERF_CTR0: u32 = 0xC001_0004;
const LEGACY_COUNTERS: u32 = 4;
/// The core extension: select and counter in turns (CPUID 0x80000001, ECX[23] PerfCtrExtCore).
const PERF_CTL0: u32 = 0xC001_0200;
const EXTENDED_COUNTERS: u32 = 6;
/// PerfMonV2 (CPUID 0x80000022, EAX[0]).
const PERF_CNTR_GLOBAL_STATUS: u32 = 0xC000_0300;
const PERF_CNTR_GLOBAL_CTL: u32 = 0xC000_0301;
const PERF_CNTR_GLOBAL_STATUS_CLR: u32 = 0xC000_0302;
const PERF_CNTR_GLOBAL_STATUS_SET: u32 = 0xC000_0303;

/// The first family in which [`LARGE_INCREMENT`] takes two counters.
const ZEN: u32 = 0x17;
/// The event of which a cycle can have more than [`MOST_IN_A_CYCLE`]: retired SSE/AVX FLOPs.
const LARGE_INCREMENT: u16 = 0x003;
/// What one counter takes in a cycle.
const MOST_IN_A_CYCLE: u64 = 15;
/// The event that makes a counter the upper half of the one before it.
const MERGE: u16 = 0xFFF;
/// All ones in that upper half, which has 16 bits.
const UPPER: u64 = 0xFFFF;
/// Events of retirement that [`Quirk::Zen3Overcount`] concerns (erratum 1292).
const RETIREMENT: [u16; 13] =
    [0xC0, 0xC1, 0xC2, 0xC3, 0xC4, 0xC5, 0xC8, 0xC9, 0xCA, 0xCC, 0xD1, 0x1C7, 0x1D0];
/// RDPMC's first six indexes are core counters; the counters of the northbridge follow, and then
/// those of the L3 or L2 cache (APM vol. 3, RDPMC).
const RDPMC_NORTHBRIDGE: RangeInclusive<u32> = 6..=9;
const RDPMC_CACHE: RangeInclusive<u32> = 10..=15;
/// The feature bits that say that these counters exist (CPUID 0x80000001, ECX[24] PerfCtrExtNB,
/// ECX[28] PerfCtrExtLLC).
const NORTHBRIDGE_COUNTERS: u32 = 1 << 24;
const CACHE_COUNTERS: u32 = 1 << 28;

/// DebugCtl; modelled where its bit 12 can freeze (CPUID 0x80000022, EAX[2] LbrAndPmcFreeze).
const DEBUG_CTL: u32 = 0x1D9;
/// LBR, BTF, the four pins, and both freezes.
const DEBUG_CTL_BITS: u64 = 0x3F | 0b11 << 11;
const FREEZE_ON_PMI: u64 = 1 << 12;

const WIDTH: u32 = 48;
/// Bit 21 of a select is always reserved; before family 10h so are all bits above 31.
const SELECT_BITS: u64 = 0xFFDF_FFFF;
/// From family 10h: event bits 11:8, guest-only, host-only.
const SELECT_BITS_10H: u64 = SELECT_BITS | 0xF << 32 | 0b11 << 40;
/// PerfCntrGlobalStatus: LBR frozen (58), counters frozen (59).
const FROZEN: u64 = 0b11 << 58;
const COUNTERS_FROZEN: u64 = 1 << 59;

/// A register of this unit that is known to exist.
#[derive(Clone, Copy, Debug)]
enum Register {
    Select(usize),
    Counter(usize),
    Status,
    Control,
    StatusClear,
    StatusSet,
    DebugCtl,
}

/// The unit of one logical processor.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of the processor")]
#[derive(Clone, Debug)]
pub(crate) struct Amd {
    family: u32,
    /// ECX of leaf 0x80000001.
    features: u32,
    generation: Option<Generation>,
    select_bits: u64,
    extended: bool,
    perf_mon_v2: bool,
    freezes: bool,
    /// [`Quirk::Zen3Overcount`].
    overcounts: bool,
    /// The status bits that belong to no counter and may be acknowledged at any time. A hypervisor
    /// that emulates the register need not accept any that it does not show.
    conditions: u64,
    selects: Vec<EventSelect>,
    counters: Vec<Counter>,
    /// Whether the next counter is the upper half of each.
    merged: Vec<bool>,
    control: u64,
    status: u64,
    debug_ctl: u64,
    /// The events that the workload names.
    named: Vec<Code>,
    branches: Option<LastBranches>,
}

impl Amd {
    /// The unit of an AMD or Hygon processor, after power-on; `None` before K7.
    pub(crate) fn new(leaves: &Leaves) -> Option<Self> {
        let Signature { family, model, .. } = Signature::of(leaves);
        if family < 6 {
            return None;
        }
        let features = leaves.get(0x8000_0001, 0).ecx;
        let extended = features >> 23 & 1 == 1;
        let perf_mon_v2 = extended && leaves.get(0x8000_0022, 0).eax & 1 == 1;
        let counters = counters(leaves, extended, perf_mon_v2);
        let mut unit = Self {
            family,
            features,
            generation: Generation::of(family, model),
            select_bits: if family < 0x10 { SELECT_BITS } else { SELECT_BITS_10H },
            extended,
            perf_mon_v2,
            freezes: perf_mon_v2 && leaves.get(0x8000_0022, 0).eax >> 2 & 1 == 1,
            overcounts: leaves.quirks().has(Quirk::Zen3Overcount),
            conditions: if leaves.has_hypervisor() { 0 } else { FROZEN },
            selects: vec![EventSelect::new(); counters],
            counters: vec![Counter::new(WIDTH); counters],
            merged: vec![false; counters],
            control: 0,
            status: 0,
            debug_ctl: 0,
            named: Vec::new(),
            // The freeze of branch records is a bit of PerfMonV2's status register.
            branches: LastBranches::of_amd(leaves).filter(|_| perf_mon_v2),
        };
        unit.reset();
        Some(unit)
    }

    fn register(&self, msr: u32) -> Option<Register> {
        match msr {
            PERF_CNTR_GLOBAL_STATUS if self.perf_mon_v2 => Some(Register::Status),
            PERF_CNTR_GLOBAL_CTL if self.perf_mon_v2 => Some(Register::Control),
            PERF_CNTR_GLOBAL_STATUS_CLR if self.perf_mon_v2 => Some(Register::StatusClear),
            PERF_CNTR_GLOBAL_STATUS_SET if self.perf_mon_v2 => Some(Register::StatusSet),
            DEBUG_CTL if self.freezes => Some(Register::DebugCtl),
            PERF_CTL0.. if self.extended => {
                let offset = msr - PERF_CTL0;
                let i = self.index(offset / 2)?;
                Some(if offset.is_multiple_of(2) {
                    Register::Select(i)
                } else {
                    Register::Counter(i)
                })
            }
            // K7's window shows the first four of the extended counters (kvm-unit-tests runs its
            // whole suite through it again).
            PERF_CTR0.. if msr < PERF_CTR0 + LEGACY_COUNTERS => {
                self.index(msr - PERF_CTR0).map(Register::Counter)
            }
            PERF_EVT_SEL0..PERF_CTR0 => self.index(msr - PERF_EVT_SEL0).map(Register::Select),
            _ => None,
        }
    }

    fn index(&self, i: u32) -> Option<usize> {
        let i = i as usize;
        (i < self.counters.len()).then_some(i)
    }

    fn read(&self, register: Register) -> u64 {
        match register {
            Register::Select(i) => self.selects[i].into_bits(),
            Register::Counter(i) => self.value(i),
            Register::Status => self.status,
            Register::Control => self.control,
            Register::StatusClear | Register::StatusSet => 0,
            Register::DebugCtl => self.debug_ctl,
        }
    }

    /// Returns whether the value is accepted.
    fn write(&mut self, register: Register, value: u64) -> bool {
        if !self.accepts(register, value) {
            return false;
        }
        match register {
            Register::Select(i) => self.select(i, EventSelect::from_bits(value)),
            Register::Counter(i) => self.counters[i].set(value),
            // The register is read-only: a write is ignored (PPR 55901, PerfCntrGlobalStatus).
            Register::Status => {}
            Register::Control => self.control = value,
            Register::StatusClear => self.status &= !value,
            Register::StatusSet => self.status |= value,
            Register::DebugCtl => self.debug_ctl = value,
        }
        true
    }

    fn select(&mut self, i: usize, select: EventSelect) {
        self.selects[i] = select;
        // Merge must be on before the select of its partner is written (Linux 26e52558ead4): only
        // then do the two counters become one.
        self.merged[i] = i.is_multiple_of(2)
            && self.is_large(select)
            && self.selects.get(i + 1).is_some_and(|next| is_merge(*next));
        if i % 2 == 1 && !is_merge(select) {
            self.merged[i - 1] = false;
        }
    }

    fn is_large(&self, select: EventSelect) -> bool {
        self.family >= ZEN && event_code(select) == LARGE_INCREMENT
    }

    /// A counter's value, with that of its upper half above it.
    fn value(&self, i: usize) -> u64 {
        let upper = if self.merged[i] { self.counters[i + 1].value() & UPPER } else { 0 };
        upper << WIDTH | self.counters[i].value()
    }

    /// Counts what has happened up to `now` on one counter; returns whether it has overflowed.
    fn advance(&mut self, i: usize, now: &Counts) -> bool {
        let carried = self.counters[i].advance(now);
        if !self.merged[i] {
            return carried > 0;
        }
        let upper = &mut self.counters[i + 1];
        let sum = (upper.value() & UPPER) + carried;
        upper.set(sum & UPPER);
        sum > UPPER
    }

    /// The overflow that a counter is counting towards; of a pair the carry out of both halves.
    fn watch(&self, i: usize) -> Option<Watch> {
        let watch = Watch::of(&self.counters[i])?;
        let above = if self.merged[i] { UPPER - (self.counters[i + 1].value() & UPPER) } else { 0 };
        let rounds = above.saturating_mul(1 << WIDTH);
        Some(Watch {
            at: watch.at.saturating_add(rounds),
            span: watch.span.saturating_add(rounds),
            ..watch
        })
    }

    fn accepts(&self, register: Register, value: u64) -> bool {
        match register {
            Register::Select(_) => value & !self.select_bits == 0,
            Register::Counter(_) => fits_counter(value),
            Register::Status => true,
            Register::Control => value & !self.all_counters() == 0,
            Register::StatusClear => {
                value & !(self.all_counters() | self.conditions | self.status & FROZEN) == 0
            }
            Register::StatusSet => value & !(self.all_counters() | self.conditions) == 0,
            Register::DebugCtl => value & !DEBUG_CTL_BITS == 0,
        }
    }

    /// One bit for each counter.
    fn all_counters(&self) -> u64 {
        (1 << self.counters.len()) - 1
    }

    fn reconnect(&mut self, now: &Counts) {
        for i in 0..self.counters.len() {
            let feed = self.feed(i);
            self.counters[i].connect(feed, now);
        }
    }

    fn feed(&self, i: usize) -> Option<Feed> {
        let feed = self.selected_feed(i)?;
        let overcounts = self.overcounts
            && feed.compare == Compare::Off
            && RETIREMENT.contains(&event_code(self.selects[i]));
        let compare = if overcounts { Compare::OneMoreEvery(OVERCOUNT_EACH) } else { feed.compare };
        Some(Feed { compare, ..feed })
    }

    fn selected_feed(&self, i: usize) -> Option<Feed> {
        let select = self.selects[i];
        let frozen = self.status & COUNTERS_FROZEN != 0;
        let globally_on = !self.perf_mon_v2 || self.control >> i & 1 == 1 && !frozen;
        if !(select.en() && globally_on && counts_here(select)) {
            return None;
        }
        let event = event_code(select);
        // Merge counts nothing by itself: its counter holds the carries of the one below.
        if self.family >= ZEN && event == MERGE {
            return None;
        }
        if let Some(named) = Code::of_select(&self.named, select.into_bits()) {
            // Without Merge each cycle adds what one counter takes: too little, and it looks right
            // (likwid issues 703 and 767).
            let capped = self.is_large(select) && !self.merged[i];
            let compare = if capped { Compare::AtMost(MOST_IN_A_CYCLE) } else { Compare::Off };
            return Some(Feed { compare, ..select.feed(named) });
        }
        let generation = self.generation?;
        let row = events::find(generation, event, select.unit_mask())?;
        let counts_it = events::counters(generation, event) >> i & 1 == 1;
        counts_it.then(|| select.feed(row.counts))
    }
}

impl Unit for Amd {
    fn read_msr(&mut self, _thread: usize, msr: u32) -> Option<u64> {
        let register = self.register(msr)?;
        Some(self.read(register))
    }

    fn write_msr(&mut self, _thread: usize, msr: u32, value: u64, now: &Counts) -> Option<bool> {
        let register = self.register(msr)?;
        if !self.write(register, value) {
            return Some(false);
        }
        self.reconnect(now);
        Some(true)
    }

    fn read_pmc(&mut self, _thread: usize, counter: u32) -> Result<u64, Fault> {
        // These counters exist, but what they count is not modelled: they read 0.
        let has = |feature| self.features & feature != 0;
        let of_others = RDPMC_NORTHBRIDGE.contains(&counter) && has(NORTHBRIDGE_COUNTERS)
            || RDPMC_CACHE.contains(&counter) && has(CACHE_COUNTERS);
        if of_others {
            return Ok(0);
        }
        let core = self.index(counter).filter(|_| counter < *RDPMC_NORTHBRIDGE.start());
        core.map(|i| self.value(i)).ok_or(Fault::ReadPmc { counter })
    }

    fn count(&mut self, thread: usize, now: &Counts) -> u8 {
        let mut pmi = false;
        for i in 0..self.counters.len() {
            if self.advance(i, now) {
                self.status |= 1 << i;
                pmi |= self.selects[i].int();
            }
        }
        if pmi && self.branches.is_some() && self.debug_ctl & FREEZE_LBRS_ON_PMI != 0 {
            self.status |= LBR_FRZ;
        }
        if pmi && self.debug_ctl & FREEZE_ON_PMI != 0 {
            self.status |= COUNTERS_FROZEN;
            self.reconnect(now);
        }
        u8::from(pmi) << thread
    }

    fn watches(&self, _thread: usize, visit: &mut dyn FnMut(Watch)) {
        let interrupting = (0..self.counters.len()).filter(|&i| self.selects[i].int());
        interrupting.filter_map(|i| self.watch(i)).for_each(visit);
    }

    fn counter_width(&self) -> u32 {
        WIDTH
    }

    /// AMD's local APIC leaves LVTPC as it is (Linux, events/amd/core.c).
    fn masks_on_delivery(&self) -> bool {
        false
    }

    fn each_counter(&mut self, visit: &mut dyn FnMut(&mut Value, &mut [Input])) {
        self.counters.iter_mut().for_each(|counter| counter.parts(visit));
    }

    fn set_status(&mut self, bits: u64) {
        if self.perf_mon_v2 {
            self.status |= bits;
        }
    }

    fn counter_status(&self) -> u64 {
        if self.perf_mon_v2 { self.all_counters() } else { 0 }
    }

    fn recording(&mut self) -> Option<Recording<'_>> {
        let records = self.branches.as_mut()?;
        Some(Recording { records, debugctl: &mut self.debug_ctl, status: self.status })
    }

    fn name_events(&mut self, codes: &[Code], now: &Counts) {
        self.named = codes.to_vec();
        self.reconnect(now);
    }

    /// PerfCntrGlobalCtl has every counter's bit set: software written for K7's registers, such as
    /// the HAL, does not know the register and must still count (Intel's version 2 does the same;
    /// Linux, arch/x86/kvm/pmu.c, says so of both).
    fn reset(&mut self) {
        self.counters.iter_mut().for_each(Counter::reset);
        self.selects.fill(EventSelect::new());
        self.merged.fill(false);
        self.control = if self.perf_mon_v2 { self.all_counters() } else { 0 };
        self.status = 0;
        self.debug_ctl = 0;
        if let Some(branches) = &mut self.branches {
            branches.reset();
        }
    }
}

/// The 12 bits of the event (APM vol. 2, "Performance Event-Select MSRs").
fn event_code(select: EventSelect) -> u16 {
    u16::from(select.event()) | (select.high() as u16 & 0xF) << 8
}

fn is_merge(select: EventSelect) -> bool {
    select.en() && event_code(select) == MERGE
}

/// How many core counters there are: at most 15, the largest number EBX[3:0] can hold.
fn counters(leaves: &Leaves, extended: bool, perf_mon_v2: bool) -> usize {
    let counters = match (extended, perf_mon_v2) {
        (false, _) => LEGACY_COUNTERS,
        (true, false) => EXTENDED_COUNTERS,
        (true, true) => leaves.get(0x8000_0022, 0).ebx & 0xF,
    };
    counters as usize
}

/// The model runs as a host with SVM disabled: guest-only or host-only alone counts nothing, both
/// together count as if neither were set (Linux, `amd_pmu_disable_virt`).
fn counts_here(select: EventSelect) -> bool {
    matches!(select.high() >> 8 & 0b11, 0b00 | 0b11)
}

/// Whether a value fits 48 bits, with copies of its sign or zeros above them.
fn fits_counter(value: u64) -> bool {
    value >> WIDTH == 0 || value.cast_signed() >> (WIDTH - 1) == -1
}
