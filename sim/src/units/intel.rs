//! Intel's architectural performance monitoring, versions 1 to 6 (SDM vol. 3, "Architectural
//! Performance Monitoring").
//!
//! Not modelled: PEBS but for the interrupts that it takes, top-down metrics, transactions (a
//! counter restricted to events inside one counts nothing), the EQ comparison and UMASK2
//! (likewise).

mod capabilities;
mod constraints;
mod errata;
pub mod events;

use crate::cpu::counter::{Counter, Input, Value};
use crate::cpu::cpuid::Leaves;
use crate::cpu::event::{Code, Compare, Counts, Event, Feed, Threads};
use crate::cpu::event_select::EventSelect;
use crate::cpu::fault::Fault;
use crate::cpu::lbr::{FREEZE_LBRS_ON_PMI, LBR_FRZ, LastBranches, Recording};
use crate::cpu::signature::Signature;
use crate::cpu::unit::{Unit, Watch};
use capabilities::{Capabilities, USER_DISABLE, fixed_user_disable};
use constraints::Constraint;
use errata::Errata;
use events::{FIXED, FIXED_TOP_DOWN, REFERENCE_CYCLES, ROWS, TOP_DOWN, reference_ratio};

const IA32_PMC0: u32 = 0xC1;
const IA32_PERFEVTSEL0: u32 = 0x186;
const IA32_MISC_ENABLE: u32 = 0x1A0;
const IA32_DEBUGCTL: u32 = 0x1D9;
const IA32_FIXED_CTR0: u32 = 0x309;
const IA32_PERF_CAPABILITIES: u32 = 0x345;
const IA32_FIXED_CTR_CTRL: u32 = 0x38D;
const IA32_PERF_GLOBAL_STATUS: u32 = 0x38E;
const IA32_PERF_GLOBAL_CTRL: u32 = 0x38F;
const IA32_PERF_GLOBAL_STATUS_RESET: u32 = 0x390;
const IA32_PERF_GLOBAL_STATUS_SET: u32 = 0x391;
const IA32_PERF_GLOBAL_INUSE: u32 = 0x392;
const IA32_A_PMC0: u32 = 0x4C1;
const IA32_PEBS_ENABLE: u32 = 0x3F1;
/// IA32_PMC_GP0_CFG_B and IA32_PMC_FX0_CFG_B, the masks of auto counter reload; the others follow.
const IA32_PMC_GP0_CFG_B: u32 = 0x1902;
const IA32_PMC_FX0_CFG_B: u32 = 0x1982;
const CFG_STRIDE: u32 = 4;

/// RDPMC: the fixed counters.
const RDPMC_FIXED: u32 = 1 << 30;

/// IA32_MISC_ENABLE: performance monitoring available (7), BTS (11) and PEBS (12) unavailable. All
/// three are read-only.
const MISC_ENABLE_READ_ONLY: u64 = 1 << 7 | 1 << 11 | 1 << 12;
/// Its other documented bits (SDM vol. 4, "IA-32 Architectural MSRs"): fast strings, thermal
/// control, SpeedStep, MONITOR, CPUID limit, xTPR, execute disable.
const MISC_ENABLE_WRITABLE: u64 = 1 << 0 | 1 << 3 | 1 << 16 | 1 << 18 | 1 << 22 | 1 << 23 | 1 << 34;
/// After reset: fast strings on.
const MISC_ENABLE_RESET: u64 = MISC_ENABLE_READ_ONLY | 1;

/// IA32_DEBUGCTL (SDM vol. 4, "IA-32 Architectural MSRs"): LBR, BTF, TR, BTS and its modes, both
/// freezes, FREEZE_WHILE_SMM.
const DEBUGCTL_WRITABLE: u64 = 0b11 | 0x1FC0 | 1 << 14;
/// The bit of IA32_DEBUGCTL with which an interrupt stops all counters.
const FREEZE_PERFMON_ON_PMI: u64 = 1 << 12;
/// IA32_PERF_GLOBAL_STATUS: CTR_FRZ.
const CTR_FRZ: u64 = 1 << 59;

/// IA32_PERF_GLOBAL_STATUS_SET refuses CondChgd; in IA32_PERF_GLOBAL_INUSE the bit is PMI.
const BIT_63: u64 = 1 << 63;
/// Event and unit mask of INST_RETIRED.ALL.
const INST_RETIRED_ALL: (u8, u8) = (0xC0, 0x01);
/// The bits of a nibble of IA32_FIXED_CTR_CTRL.
const FIXED_OS: u64 = 1;
const FIXED_USR: u64 = 2;
const FIXED_ANY: u64 = 4;
const FIXED_PMI: u64 = 8;

/// A register of this unit that is known to exist.
#[derive(Clone, Copy, Debug)]
enum Register {
    Select(usize),
    Counter(usize),
    FullWidth(usize),
    Fixed(usize),
    FixedControl,
    Status,
    Control,
    StatusReset,
    StatusSet,
    InUse,
    PerfCapabilities,
    MiscEnable,
    DebugCtl,
    PebsEnable,
    /// The mask of the counter with this bit in the global registers.
    ReloadMask(usize),
}

/// The unit of one logical processor.
#[derive(Clone, Debug)]
pub(crate) struct Architectural {
    capabilities: Capabilities,
    selects: Vec<EventSelect>,
    general: Vec<Counter>,
    fixed: Vec<Counter>,
    fixed_control: u64,
    control: u64,
    status: u64,
    misc_enable: u64,
    debugctl: u64,
    pebs_enable: u64,
    /// For each counter, by its bit in the global registers: those whose overflow starts it again.
    reload_masks: [u64; 64],
    /// EAX of leaf 0x1A.
    core: u32,
    cpu: halprof_events::Cpu,
    /// Cycles of fixed counter 2 per reference-cycles event.
    reference_ratio: u64,
    /// The events that the workload names.
    named: Vec<Code>,
    /// What some of them need.
    constraints: Vec<Constraint>,
    branches: Option<LastBranches>,
    errata: Errata,
}

impl Architectural {
    /// The unit that leaf 0x0A declares, after power-on; `None` if it declares none.
    pub(crate) fn new(leaves: &Leaves) -> Option<Self> {
        let mut capabilities = Capabilities::of(leaves)?;
        let branches = LastBranches::of_intel(leaves);
        let Signature { family, model, .. } = Signature::of(leaves);
        // LBR_FMT is a field of IA32_PERF_CAPABILITIES, and the form of the records decides it.
        if let (Some(branches), Some(bits)) = (&branches, &mut capabilities.perf_caps) {
            *bits |= branches.format();
        }
        let general = vec![Counter::new(capabilities.general_width); slots(capabilities.general)];
        let mut unit = Self {
            selects: vec![EventSelect::new(); general.len()],
            general,
            fixed: vec![Counter::new(capabilities.fixed_width); slots(capabilities.fixed)],
            capabilities,
            fixed_control: 0,
            control: 0,
            status: 0,
            misc_enable: 0,
            debugctl: 0,
            pebs_enable: 0,
            reload_masks: [0; 64],
            core: leaves.get(0x1A, 0).eax,
            cpu: constraints::cpu(leaves),
            reference_ratio: reference_ratio(family, model),
            named: Vec::new(),
            constraints: Vec::new(),
            branches,
            errata: Errata::new(leaves.quirks()),
        };
        unit.reset();
        Some(unit)
    }

    fn register(&self, msr: u32) -> Option<Register> {
        let version = self.capabilities.version;
        match msr {
            IA32_MISC_ENABLE => Some(Register::MiscEnable),
            IA32_DEBUGCTL if self.capabilities.freezes() => Some(Register::DebugCtl),
            IA32_PERF_CAPABILITIES => {
                self.capabilities.perf_caps.map(|_| Register::PerfCapabilities)
            }
            IA32_FIXED_CTR_CTRL if version >= 2 => Some(Register::FixedControl),
            IA32_PERF_GLOBAL_STATUS if version >= 2 => Some(Register::Status),
            IA32_PERF_GLOBAL_CTRL if version >= 2 => Some(Register::Control),
            IA32_PERF_GLOBAL_STATUS_RESET if version >= 2 => Some(Register::StatusReset),
            IA32_PERF_GLOBAL_STATUS_SET if version >= 4 => Some(Register::StatusSet),
            IA32_PERF_GLOBAL_INUSE if version >= 4 => Some(Register::InUse),
            IA32_PEBS_ENABLE if self.capabilities.pebs != 0 => Some(Register::PebsEnable),
            _ => self.counter_register(msr),
        }
    }

    fn counter_register(&self, msr: u32) -> Option<Register> {
        let Capabilities { general, fixed, .. } = self.capabilities;
        let full_width = if self.capabilities.has_full_width() { general } else { 0 };
        let reload_mask = || {
            let bases = [(IA32_PMC_GP0_CFG_B, 0), (IA32_PMC_FX0_CFG_B, 32)];
            bases.into_iter().find_map(|(base, first)| {
                let offset = msr.checked_sub(base).filter(|offset| offset % CFG_STRIDE == 0)?;
                let bit = first + (offset / CFG_STRIDE) as usize;
                let there = bit < first + 32 && self.capabilities.reloads >> bit & 1 == 1;
                there.then_some(Register::ReloadMask(bit))
            })
        };
        index(general, IA32_PERFEVTSEL0, msr)
            .map(Register::Select)
            .or_else(|| index(general, IA32_PMC0, msr).map(Register::Counter))
            .or_else(|| index(full_width, IA32_A_PMC0, msr).map(Register::FullWidth))
            .or_else(|| index(fixed, IA32_FIXED_CTR0, msr).map(Register::Fixed))
            .or_else(reload_mask)
    }

    fn read(&self, register: Register) -> u64 {
        match register {
            Register::Select(i) => self.selects[i].into_bits(),
            Register::Counter(i) | Register::FullWidth(i) => self.general[i].value(),
            Register::Fixed(i) => self.fixed[i].value(),
            Register::FixedControl => self.fixed_control,
            Register::Status => self.status,
            Register::Control => self.control,
            Register::StatusReset | Register::StatusSet => 0,
            Register::InUse => self.in_use(),
            Register::PerfCapabilities => self.capabilities.perf_caps.unwrap_or(0),
            Register::MiscEnable => self.misc_enable,
            Register::DebugCtl => self.debugctl,
            Register::PebsEnable => self.pebs_enable,
            Register::ReloadMask(bit) => self.reload_masks[bit],
        }
    }

    /// Returns whether the value is accepted.
    fn write(&mut self, register: Register, value: u64) -> bool {
        let refused = value & !self.writable(register) != 0;
        if refused {
            return false;
        }
        match register {
            Register::Select(i) => {
                // Only a change brings the erratum of Nehalem: a select written again counts as
                // before.
                if self.selects[i].into_bits() != value {
                    self.errata.reset.select_changed(i);
                }
                self.selects[i] = EventSelect::from_bits(value);
            }
            Register::Counter(i) => {
                self.general[i].set_extended(value);
                self.lose_low_bits(i);
            }
            Register::FullWidth(i) => {
                self.general[i].set(value);
                self.lose_low_bits(i);
            }
            Register::Fixed(i) => self.fixed[i].set(value),
            Register::FixedControl => self.fixed_control = value,
            Register::Control => {
                self.control = value;
                self.errata.reset.control_written(value, &self.selects, &self.general);
            }
            Register::StatusReset => self.status &= !value,
            Register::StatusSet => self.status |= value,
            Register::MiscEnable if value & MISC_ENABLE_READ_ONLY != MISC_ENABLE_READ_ONLY => {
                return false;
            }
            Register::MiscEnable => self.misc_enable = value,
            Register::DebugCtl => {
                let branches = self.branches.as_ref();
                self.debugctl = branches.map_or(value, |branches| branches.debugctl(value));
            }
            Register::PebsEnable => self.pebs_enable = value,
            Register::ReloadMask(bit) => self.reload_masks[bit] = value,
            Register::Status | Register::InUse | Register::PerfCapabilities => return false,
        }
        true
    }

    /// Bits that may be 1 in a written value.
    fn writable(&self, register: Register) -> u64 {
        match register {
            Register::Select(_) => self.capabilities.select_bits,
            Register::Counter(_) => u64::MAX,
            Register::FullWidth(i) => self.general[i].mask(),
            Register::Fixed(i) => self.fixed[i].mask(),
            Register::FixedControl => self.capabilities.fixed_control_bits(),
            Register::Control | Register::ReloadMask(_) => self.capabilities.global_bits(),
            Register::StatusReset => self.capabilities.status_reset_bits(self.status),
            Register::StatusSet => self.capabilities.status_set_bits() & !BIT_63,
            Register::MiscEnable => MISC_ENABLE_READ_ONLY | MISC_ENABLE_WRITABLE,
            Register::DebugCtl => DEBUGCTL_WRITABLE,
            Register::PebsEnable => self.capabilities.pebs,
            Register::Status | Register::InUse | Register::PerfCapabilities => 0,
        }
    }

    /// IA32_PERF_GLOBAL_INUSE: which selects and nibbles are not 0.
    fn in_use(&self) -> u64 {
        let modes = FIXED_OS | FIXED_USR;
        let general = bits(self.general.len(), |i| self.selects[i].event() != 0);
        let fixed = bits(self.fixed.len(), |i| self.nibble(i) & modes != 0);
        let pmi = self.selects.iter().any(EventSelect::int)
            || (0..self.fixed.len()).any(|i| self.nibble(i) & FIXED_PMI != 0);
        general | fixed << 32 | u64::from(pmi) << 63
    }

    /// The control of one fixed counter.
    fn nibble(&self, i: usize) -> u64 {
        self.fixed_control >> (4 * i) & 0xF
    }

    fn reconnect(&mut self, now: &Counts) {
        for i in 0..self.general.len() {
            let feed = self.general_feed(i);
            self.general[i].connect(feed, now);
        }
        for i in 0..self.fixed.len() {
            let feed = self.fixed_feed(i);
            self.fixed[i].connect(feed, now);
        }
    }

    /// With [`Quirk::BroadwellPeriod`], a counter of INST_RETIRED.ALL loses the low six bits of a
    /// value that is near its overflow.
    fn lose_low_bits(&mut self, i: usize) {
        let select = self.selects[i];
        let value = self.general[i].value();
        let is_near = self.general[i].mask() - value < 4096;
        let is_event = (select.event(), select.unit_mask()) == INST_RETIRED_ALL;
        if self.errata.loses_low_bits && is_event && is_near {
            self.general[i].set(value & !0x3F);
        }
    }

    fn general_feed(&self, i: usize) -> Option<Feed> {
        let feed = self.selected_feed(i)?;
        let wrong = self.errata.taken_counter == Some(i);
        let event = if wrong { Event::Cycles } else { feed.event };
        let compare = if self.errata.reset.halves(i) { Compare::Every(2) } else { feed.compare };
        Some(Feed { event, compare, ..feed })
    }

    fn selected_feed(&self, i: usize) -> Option<Feed> {
        let select = self.selects[i];
        // The bit changes what RDPMC reads, not what is counted.
        let select = EventSelect::from_bits(select.into_bits() & !USER_DISABLE);
        let on = select.en() && self.globally_on(i);
        // A workload's name means this select whatever the architectural table says.
        let named = Code::of_select(&self.named, select.into_bits());
        if let Some(event) = named.or_else(|| self.top_down(select)) {
            let threads = threads(select.any_thread(), counts_cycles(select));
            // The amount of a name is what its select counts, CMASK, INV and E included.
            let feed = Feed { compare: Compare::Off, threads, ..select.feed(event) };
            let mut constraints = self.constraints.iter();
            let constraint = constraints.find(|one| one.is_of(select.event(), select.unit_mask()));
            let feed = constraint.map_or(Some(feed), |constraint| constraint.apply(i, feed));
            return feed.filter(|_| on);
        }
        let event = event_of(select, self.capabilities.absent_events)?;
        let threads = threads(select.any_thread(), counts_cycles(select));
        on.then(|| Feed { compare: self.compare(select, event), threads, ..select.feed(event) })
    }

    /// The architectural top-down event of a select, if the processor has it and the workload names it.
    fn top_down(&self, select: EventSelect) -> Option<Event> {
        let own = (select.event(), select.unit_mask());
        let is = |&&(_, event, mask): &&(u32, u8, u8)| (event, mask) == own && select.high() == 0;
        let &(bit, ..) = TOP_DOWN.iter().find(is)?;
        let there = self.capabilities.absent_events >> bit & 1 == 0;
        Code::of_architectural(&self.named, bit).filter(|_| there)
    }

    /// On many processors, the reference-cycles event ticks more slowly than fixed counter 2.
    fn compare(&self, select: EventSelect, event: Event) -> Compare {
        let compare = select.feed(event).compare;
        let reference = (select.event(), select.unit_mask()) == REFERENCE_CYCLES;
        if reference && self.reference_ratio != 1 && compare == Compare::Off {
            Compare::Every(self.reference_ratio)
        } else {
            compare
        }
    }

    fn fixed_feed(&self, i: usize) -> Option<Feed> {
        let event = FIXED.get(i).copied();
        let event = event.or_else(|| Code::of_fixed(&self.named, i)).or_else(|| {
            let (slots, bit) = FIXED_TOP_DOWN;
            Code::of_architectural(&self.named, bit).filter(|_| i == slots)
        })?;
        let nibble = self.nibble(i);
        self.globally_on(32 + i).then_some(Feed {
            event,
            user: nibble & FIXED_USR != 0,
            kernel: nibble & FIXED_OS != 0,
            compare: Compare::Off,
            threads: threads(nibble & FIXED_ANY != 0, event.is_clock()),
        })
    }

    fn counters_mut(&mut self) -> impl Iterator<Item = &mut Counter> {
        self.general.iter_mut().chain(&mut self.fixed)
    }

    fn globally_on(&self, bit: usize) -> bool {
        !self.capabilities.has_global() || self.control >> bit & 1 == 1 && !self.is_frozen()
    }

    /// CTR_FRZ stops all counters, whoever set it.
    fn is_frozen(&self) -> bool {
        self.capabilities.version >= 4 && self.status & CTR_FRZ != 0
    }

    /// What a counter's request of its interrupt freezes. FREEZE_PERFMON_ON_PMI stops all counters:
    /// up to version 3 by clearing IA32_PERF_GLOBAL_CTRL, from version 4 on by setting CTR_FRZ (SDM
    /// vol. 3, "Freezing LBR and Performance Counters on PMI").
    ///
    /// FREEZE_LBRS_ON_PMI stops the branch records by setting LBR_FRZ, from version 4 on.
    fn freeze(&mut self, now: &Counts) {
        let sets_bits = self.capabilities.version >= 4;
        if sets_bits && self.branches.is_some() && self.debugctl & FREEZE_LBRS_ON_PMI != 0 {
            self.status |= LBR_FRZ;
        }
        if self.debugctl & FREEZE_PERFMON_ON_PMI == 0 {
            return;
        }
        if sets_bits {
            self.status |= CTR_FRZ;
        } else {
            self.control = 0;
        }
        self.reconnect(now);
    }

    /// Takes the overflow of the counters with these status bits; returns the threads that get an
    /// interrupt, as a mask.
    fn overflow(&mut self, overflowed: u64, now: &Counts, thread: usize) -> u8 {
        self.status |= overflowed;
        for bit in (0..64).filter(|&bit| self.reload_masks[bit] & overflowed != 0) {
            let counter = match bit.checked_sub(32) {
                Some(i) => self.fixed.get_mut(i),
                None => self.general.get_mut(bit),
            };
            // The counter starts at 0 and not at a preset: the reload value (IA32_PMC_GPn_CFG_C) is
            // not modelled.
            if let Some(counter) = counter {
                counter.set(0);
            }
        }
        let pmi = (0..64).any(|bit| overflowed >> bit & 1 == 1 && self.interrupts(bit));
        if pmi {
            self.freeze(now);
        }
        u8::from(pmi) << thread
    }

    /// Whether the overflow of the counter with this status bit requests an interrupt.
    fn interrupts(&self, bit: usize) -> bool {
        // The overflow writes a record and does not interrupt (SDM vol. 3, "Processor Event Based
        // Sampling (PEBS)").
        if self.pebs_enable >> bit & 1 == 1 {
            return false;
        }
        match bit.checked_sub(32) {
            Some(i) => {
                let asks = i < self.fixed.len() && self.nibble(i) & FIXED_PMI != 0;
                asks && !self.errata.silent_fixed
            }
            None => self.selects.get(bit).is_some_and(EventSelect::int),
        }
    }
}

/// All counters with their status bits.
fn by_status_bit<'a>(
    general: &'a [Counter],
    fixed: &'a [Counter],
) -> impl Iterator<Item = (usize, &'a Counter)> {
    general.iter().enumerate().chain((32..).zip(fixed))
}

impl Unit for Architectural {
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
        let register = if counter & RDPMC_FIXED == 0 {
            index(self.capabilities.general, 0, counter).map(Register::Counter)
        } else {
            index(self.capabilities.fixed, RDPMC_FIXED, counter).map(Register::Fixed)
        };
        let register = register.ok_or(Fault::ReadPmc { counter })?;
        Ok(self.read(register))
    }

    fn hides(&self, counter: u32) -> bool {
        match counter.checked_sub(RDPMC_FIXED) {
            Some(fixed) => self.fixed_control & fixed_user_disable(fixed) != 0,
            None => self
                .selects
                .get(counter as usize)
                .is_some_and(|select| select.into_bits() & USER_DISABLE != 0),
        }
    }

    fn count(&mut self, thread: usize, now: &Counts) -> u8 {
        let mut overflowed = 0;
        for (i, counter) in self.general.iter_mut().enumerate() {
            let before = counter.value();
            overflowed |= u64::from(counter.advance(now) > 0) << i;
            let added = counter.value().wrapping_sub(before) & counter.mask();
            self.errata.counted(i, self.selects[i], added);
        }
        for (bit, counter) in (32..).zip(&mut self.fixed) {
            overflowed |= u64::from(counter.advance(now) > 0) << bit;
        }
        self.overflow(overflowed, now, thread)
    }

    fn take_leaked(&mut self) -> Vec<u64> {
        self.errata.take_leaked()
    }

    fn leak(&mut self, thread: usize, events: &[u64], now: &Counts) -> u8 {
        let mut overflowed = 0;
        for (i, &events) in events.iter().enumerate().take(self.general.len()) {
            if self.general[i].feed().is_some() {
                overflowed |= u64::from(self.general[i].add(events) > 0) << i;
            }
        }
        self.overflow(overflowed, now, thread)
    }

    fn watches(&self, _thread: usize, visit: &mut dyn FnMut(Watch)) {
        by_status_bit(&self.general, &self.fixed)
            .filter(|&(bit, _)| self.interrupts(bit))
            .filter_map(|(_, counter)| Watch::of(counter))
            .for_each(visit);
    }

    fn counter_width(&self) -> u32 {
        self.capabilities.general_width
    }

    /// Intel's local APIC does so since Pentium M (SDM vol. 3, "Local Vector Table").
    fn masks_on_delivery(&self) -> bool {
        true
    }

    fn each_counter(&mut self, visit: &mut dyn FnMut(&mut Value, &mut [Input])) {
        self.counters_mut().for_each(|counter| counter.parts(visit));
    }

    fn set_status(&mut self, bits: u64) {
        if self.capabilities.has_global() {
            self.status |= bits;
        }
    }

    fn holds_interrupt(&self) -> bool {
        (0..64).any(|bit| self.status >> bit & 1 == 1 && self.interrupts(bit))
    }

    fn counter_status(&self) -> u64 {
        if self.capabilities.has_global() { self.capabilities.global_bits() } else { 0 }
    }

    fn recording(&mut self) -> Option<Recording<'_>> {
        let records = self.branches.as_mut()?;
        Some(Recording { records, debugctl: &mut self.debugctl, status: self.status })
    }

    fn name_events(&mut self, codes: &[Code], now: &Counts) {
        let own = |code: &&Code| code.core.is_none_or(|core| core == self.core);
        self.named = codes.iter().filter(own).copied().collect();
        self.constraints = constraints::of_codes(&self.cpu, &self.named);
        self.reconnect(now);
    }

    /// A reset enables the general counters in IA32_PERF_GLOBAL_CTRL, for software that knows only
    /// version 1 (SDM vol. 3, "Processor State After Reset").
    fn reset(&mut self) {
        self.counters_mut().for_each(Counter::reset);
        self.selects.fill(EventSelect::new());
        self.fixed_control = 0;
        self.control = u64::from(self.capabilities.general);
        self.status = 0;
        self.misc_enable = MISC_ENABLE_RESET;
        self.debugctl = 0;
        self.pebs_enable = 0;
        self.reload_masks = [0; 64];
        if let Some(branches) = &mut self.branches {
            branches.reset();
        }
    }
}

/// The threads that a counter counts with AnyThread.
fn threads(any: bool, is_cycles: bool) -> Threads {
    match (any, is_cycles) {
        (false, _) => Threads::Own,
        (true, false) => Threads::All,
        (true, true) => Threads::Any,
    }
}

/// Whether a counter with this select adds up cycles, which the threads of a core have in common:
/// the cycles of a clock, those that satisfy a comparison, and those in which the core recovers
/// (INT_MISC, 0Dh).
fn counts_cycles(select: EventSelect) -> bool {
    select.cmask() != 0 || matches!(select.event(), 0x3C | 0x0D)
}

/// What a select counts; `None` for an undocumented select and for an event that does not exist.
fn event_of(select: EventSelect, absent_events: u32) -> Option<Event> {
    let row = ROWS.iter().find(|row| {
        (row.event, row.unit_mask) == (select.event(), select.unit_mask()) && select.high() == 0
    })?;
    (absent_events >> row.bit & 1 == 0).then_some(row.counts)
}

/// The index of `msr` in the block at `base`, if that index's bit in `there` is set.
fn index(there: u32, base: u32, msr: u32) -> Option<usize> {
    let i = msr.checked_sub(base).filter(|&i| i < u32::BITS)?;
    (there >> i & 1 == 1).then_some(i as usize)
}

/// The number of registers in a block whose highest index is the highest bit of `there`.
fn slots(there: u32) -> usize {
    (u32::BITS - there.leading_zeros()) as usize
}

/// One bit for each of `n` indices for which `yes` holds.
fn bits(n: usize, yes: impl Fn(usize) -> bool) -> u64 {
    (0..n).filter(|&i| yes(i)).fold(0, |bits, i| bits | 1_u64 << i)
}
