//! Which registers the driver may write, and what it must restore.
//!
//! The counters belong to the driver from HalAllocateHardwareCounters to HalFreeHardwareCounters:
//! all of them, or those of the ranges that it has requested. The control registers that all
//! counters share do not: another owner's bits in them (Windows' own, a hypervisor's agent's) stay
//! as they are. A counter is the driver's once it has written it. When it releases the counters,
//! and when the machine goes to sleep, its selects, its fields of the fixed counters' control and
//! its counters are 0, its bits of the global control are what they were when it reserved the
//! counters or the machine woke, branch recording is as it was and its records are empty, and every
//! other bit is what it was.

use crate::rules::{Rule, Violation};
use hal_profile::cpu::machine::{CR4_PCE, Machine as _};
use sim::cpu::Cpu;
use sim::cpu::cpuid::Leaves;
use sim::quirks::{LATE_STOP, Quirk};
use std::collections::{BTreeMap, BTreeSet};

/// The mask bit of LVTPC (SDM, "Local Vector Table"): the only bit that the driver may change
/// there.
const LVTPC_MASK: u64 = 1 << 16;
/// CPUID.1 ECX: a hypervisor is present.
const HYPERVISOR: u32 = 1 << 31;
/// LVTPC, in x2APIC mode and in the page.
const LVTPC_MSR: u32 = 0x834;
const LVTPC_OFFSET: u32 = 0x340;
const IA32_APIC_BASE: u32 = 0x1B;
/// IA32_APIC_BASE: EXTD and EN.
const X2APIC: u64 = 0b11 << 10;
const XAPIC: u64 = 0b10 << 10;

/// Kinds of performance-monitoring unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Architectural,
    P6,
    NetBurst,
    Pentium,
    Amd,
}

/// The role of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// A counter, numbered by its offset in the row.
    Counter,
    /// The same for a fixed counter.
    Fixed,
    /// The select of a counter, which counts nothing while it has this value.
    Select(u64),
    /// One bit for each counter, fixed ones from 32 on.
    Global,
    /// Four bits for each fixed counter.
    FixedControl,
    /// 16 bits for each counter.
    Halves,
    /// Who records branches, and how: these bits are the driver's while it records, and must be
    /// restored in the end.
    Branches(u64),
    /// A part of a branch record: the driver clears it, and must leave it empty.
    Record,
    /// Acknowledges the status bits that are 1 in the value: those of the driver's counters, and the
    /// conditions of [`CONDITIONS`] that the status register with this number shows.
    Acknowledge(u32),
    /// A write accompanies a select; in the end it is as it was.
    Other,
}

/// Registers with one role: unit, first, number, stride.
struct Row(Unit, u32, u32, u32, Role);

/// A CCCR that is off: ACTIVE_THREAD is always 3.
const CCCR_OFF: u64 = 3 << 16;

/// What may be written. Intel: SDM, "Model-Specific Registers (MSRs)"; AMD: APM, "Performance
/// Monitoring Counters", and the PPR's "Core Performance Monitor Counters".
const WRITABLE: &[Row] = &[
    // IA32_PERFEVTSELx, IA32_PMCx, IA32_A_PMCx (architectural MSRs).
    Row(Unit::Architectural, 0x186, 10, 1, Role::Select(0)),
    Row(Unit::Architectural, 0xC1, 10, 1, Role::Counter),
    Row(Unit::Architectural, 0x4C1, 10, 1, Role::Counter),
    // IA32_FIXED_CTRx, IA32_FIXED_CTR_CTRL.
    Row(Unit::Architectural, 0x309, 7, 1, Role::Fixed),
    Row(Unit::Architectural, 0x38D, 1, 1, Role::FixedControl),
    // IA32_PERF_GLOBAL_CTRL, IA32_PERF_GLOBAL_STATUS_RESET.
    Row(Unit::Architectural, 0x38F, 1, 1, Role::Global),
    Row(Unit::Architectural, 0x390, 1, 1, Role::Acknowledge(0x38E)),
    // IA32_DEBUGCTL's LBR and FREEZE_LBRS_ON_PMI, MSR_LBR_SELECT, IA32_LBR_CTL, IA32_LBR_DEPTH.
    Row(Unit::Architectural, 0x1D9, 1, 1, Role::Branches(1 << 0 | 1 << 11)),
    Row(Unit::Architectural, 0x1C8, 1, 1, Role::Branches(u64::MAX)),
    Row(Unit::Architectural, 0x14CE, 2, 1, Role::Branches(u64::MAX)),
    // MSR_LASTBRANCH_x_FROM_IP and TO_IP, MSR_LBR_INFO_x; IA32_LBR_x_FROM_IP, TO_IP and INFO, which
    // a write to IA32_LBR_DEPTH clears.
    Row(Unit::Architectural, 0x680, 32, 1, Role::Record),
    Row(Unit::Architectural, 0x6C0, 32, 1, Role::Record),
    Row(Unit::Architectural, 0xDC0, 32, 1, Role::Record),
    Row(Unit::Architectural, 0x1500, 32, 1, Role::Record),
    Row(Unit::Architectural, 0x1600, 32, 1, Role::Record),
    Row(Unit::Architectural, 0x1200, 32, 1, Role::Record),
    // PerfEvtSel0 and 1, PerfCtr0 and 1 (P6 family).
    Row(Unit::P6, 0x186, 2, 1, Role::Select(0)),
    Row(Unit::P6, 0xC1, 2, 1, Role::Counter),
    // Counters, CCCRs, ESCRs, PEBS_ENABLE and PEBS_MATRIX_VERT (NetBurst).
    Row(Unit::NetBurst, 0x300, 18, 1, Role::Counter),
    Row(Unit::NetBurst, 0x360, 18, 1, Role::Select(CCCR_OFF)),
    Row(Unit::NetBurst, 0x3A0, 0x42, 1, Role::Other),
    Row(Unit::NetBurst, 0x3F1, 2, 1, Role::Other),
    // CESR, CTR0 and 1 (Pentium).
    Row(Unit::Pentium, 0x11, 1, 1, Role::Halves),
    Row(Unit::Pentium, 0x12, 2, 1, Role::Counter),
    // PERF_LEGACY_CTLx and CTRx, PERF_CTLx and CTRx, PerfCntrGlobalCtl and StatusClr.
    Row(Unit::Amd, 0xC001_0000, 4, 1, Role::Select(0)),
    Row(Unit::Amd, 0xC001_0004, 4, 1, Role::Counter),
    Row(Unit::Amd, 0xC001_0200, 16, 2, Role::Select(0)),
    Row(Unit::Amd, 0xC001_0201, 16, 2, Role::Counter),
    Row(Unit::Amd, 0xC000_0301, 1, 1, Role::Global),
    Row(Unit::Amd, 0xC000_0302, 1, 1, Role::Acknowledge(0xC000_0300)),
    // DebugCtl's FREEZE_LBRS_ON_PMI, LBR_SELECT, DBG_EXTN_CFG's LBRV2EN, LastBranchFromIp and ToIp.
    Row(Unit::Amd, 0x1D9, 1, 1, Role::Branches(1 << 11)),
    Row(Unit::Amd, 0xC000_010E, 1, 1, Role::Branches(u64::MAX)),
    Row(Unit::Amd, 0xC000_010F, 1, 1, Role::Branches(1 << 6)),
    Row(Unit::Amd, 0xC001_0300, 32, 1, Role::Record),
];

/// The first bit of fixed counters in the global registers.
pub const FIXED: u32 = 32;
/// The status bits that belong to no counter: metrics overflow, Trace_ToPA_PMI, LBR_FRZ, CTR_FRZ,
/// ASCI, OvfUncore, OvfBuf, CondChgd (SDM vol. 4, IA32_PERF_GLOBAL_STATUS).
const CONDITIONS: u64 = 1 << 48 | 1 << 55 | 0x3F << 58;
/// Conditions whose owner is somebody else, who looks for them on the same interrupt: the driver
/// never programs PERF_METRICS (48) nor Intel PT (55), whose handler is another
/// (HAL_SET_INFORMATION_CLASS of ntddk.h, HalProcessorTraceInterruptHandler). ASCI (60) describes
/// counts and asks for nothing.
const ANOTHERS: u64 = 1 << 48 | 1 << 55 | 1 << 60;
/// Conditions that an interrupt sets while IA32_DEBUGCTL has the bit beside them: LBR_FRZ and
/// FREEZE_LBRS_ON_PMI, CTR_FRZ and FREEZE_PERFMON_ON_PMI.
const FREEZES: [(u64, u64); 2] = [(LBR_FRZ, FREEZE_LBRS_ON_PMI), (CTR_FRZ, 1 << 12)];
const FREEZE_LBRS_ON_PMI: u64 = 1 << 11;
/// CTR_FRZ, which stops every counter.
const CTR_FRZ: u64 = 1 << 59;
/// LBR_FRZ, which stops the records of branches.
const LBR_FRZ: u64 = 1 << 58;
const DEBUGCTL: u32 = 0x1D9;
const FIXED_CONTROL: u32 = 0x38D;

impl Row {
    fn index(&self, msr: u32) -> Option<u32> {
        let offset = msr.checked_sub(self.1)?;
        (offset % self.3 == 0 && offset / self.3 < self.2).then_some(offset / self.3)
    }
}

/// The unit by vendor, family and leaf 0x0A, as the manuals define it, whatever the driver thinks.
fn unit(cpu: &Cpu) -> Option<Unit> {
    let vendor = cpu.cpuid(0, 0).ebx.to_le_bytes();
    let signature = cpu.cpuid(1, 0).eax;
    let architectural = cpu.cpuid(0, 0).eax >= 0x0A && cpu.cpuid(0x0A, 0).eax & 0xFF != 0;
    match (&vendor, signature >> 8 & 0xF) {
        (b"Auth" | b"Hygo", _) => Some(Unit::Amd),
        (b"Genu", _) if architectural => Some(Unit::Architectural),
        (b"Genu", 5) => Some(Unit::Pentium),
        (b"Genu", 6) => Some(Unit::P6),
        (b"Genu", 15) => Some(Unit::NetBurst),
        _ => None,
    }
}

/// Whether processors have counters that the shipped driver does not serve.
pub fn is_historic(leaves: &[Leaves]) -> bool {
    sim::cpu::topology::processors(leaves).into_iter().any(|processor| {
        matches!(unit(&Cpu::new(processor)), Some(Unit::P6 | Unit::Pentium | Unit::NetBurst))
    })
}

fn rows(cpu: &Cpu) -> impl Iterator<Item = &'static Row> {
    let unit = unit(cpu);
    WRITABLE.iter().filter(move |row| Some(row.0) == unit)
}

/// One processor's registers, watched.
#[derive(Clone, Default)]
pub struct Watched {
    /// The counters that the driver has written, as bits of the global registers.
    ours: u64,
    /// What the driver has last written to the select of a counter.
    selects: BTreeMap<u32, u64>,
    /// Whether the driver has written a register of branch recording.
    branches: bool,
    /// Role, number and MSR of each register, and its value when the counters were reserved, or when
    /// the machine woke. The status registers stand for those that acknowledge.
    before: Vec<(Role, u32, u32, u64)>,
    /// Bits of the global control that somebody else has written while the counter was theirs by its
    /// select. Once the driver has the counter again, it may leave such a bit as it found it or as the
    /// other wrote it: nothing tells which of the two still counts on it.
    disputed: u64,
}

#[derive(Default)]
pub struct Registers {
    /// The reserved counters, as bits of the global registers; `None` without a reservation.
    reserved: Option<u64>,
    watched: Vec<Watched>,
    /// CR4.PCE of the processors where the driver has written CR4, as it was before the first such
    /// write.
    pce_found: BTreeMap<usize, u64>,
    /// Whether the driver has had its own handler while the counters were reserved: only then may
    /// it change LVTPC's mask.
    pub handled: bool,
    /// The processors where LVTPC was masked and a status bit set when the device started, as the
    /// storm of an earlier session leaves them, and where the driver has not opened it since.
    old_storms: BTreeSet<usize>,
}

/// Every counter: the whole unit is reserved.
pub const WHOLE_UNIT: u64 = u64::MAX;

impl Registers {
    /// The driver is about to write an MSR.
    pub fn write(
        &mut self,
        cpu: &mut Cpu,
        index: usize,
        msr: u32,
        value: u64,
    ) -> Result<(), Violation> {
        if msr == LVTPC_MSR {
            return self.write_lvtpc(cpu, index, value);
        }
        let found = rows(cpu).find_map(|row| Some((row.4, row.index(msr)?)));
        let Some((role, number)) = found else {
            let what = format!("WRMSR of {msr:#x} with {value:#x}, which is not the driver's");
            return Err(Violation::new(Rule::AllowList, what));
        };
        let touched = touched(cpu, role, number, msr, value);
        self.must_be_reserved(msr, touched)?;
        let before = read(cpu, msr).unwrap_or(value);
        let others = match role {
            Role::Branches(ours) => (before ^ value) & !ours,
            Role::Record => value,
            Role::Acknowledge(status) => value & !self.may_acknowledge(cpu, index, status),
            _ => 0,
        };
        if others != 0 {
            let what = format!("bits {others:#x} of register {msr:#x} are changed, to {value:#x}");
            return Err(Violation::new(Rule::ForeignBits, what));
        }
        Ok(())
    }

    /// The driver has written an MSR; what silicon refuses stays as it was.
    pub fn wrote(&mut self, cpu: &mut Cpu, index: usize, msr: u32) {
        let found = rows(cpu).find_map(|row| Some((row.4, row.index(msr)?)));
        if let (Some(watched), Some((role, number))) = (self.watched.get_mut(index), found) {
            match role {
                Role::Counter => watched.ours |= 1 << number,
                Role::Fixed => watched.ours |= 1 << (FIXED + number),
                Role::Select(_) => {
                    watched.selects.insert(number, read(cpu, msr).unwrap_or(0));
                }
                // From now on the records must be empty in the end.
                Role::Branches(_) | Role::Record => watched.branches = true,
                _ => {}
            }
        }
    }

    /// The driver is about to write CR4: only PCE may change, and nothing under a hypervisor, which
    /// decides the outcome (SDM, "Instructions That Cause VM Exits Conditionally").
    pub fn write_cr4(&mut self, cpu: &Cpu, index: usize, value: u64) -> Result<(), Violation> {
        let before = cpu.processor.cr4();
        if cpu.cpuid(1, 0).ecx & HYPERVISOR != 0 {
            let what = format!("CR4 is written with {value:#x} under a hypervisor");
            return Err(Violation::new(Rule::Register, what));
        }
        if (before ^ value) & !CR4_PCE != 0 {
            let what = format!("CR4 is changed from {before:#x} to {value:#x}");
            return Err(Violation::new(Rule::ForeignBits, what));
        }
        self.pce_found.entry(index).or_insert(before & CR4_PCE);
        Ok(())
    }

    /// CR4.PCE must be as the driver found it, on every processor.
    pub fn check_cr4(&self, cpus: &[Cpu]) -> Result<(), Violation> {
        for (&index, &found) in &self.pce_found {
            let cr4 = cpus.get(index).map_or(0, |cpu| cpu.processor.cr4());
            if cr4 & CR4_PCE != found {
                let what = format!("CR4 is left {cr4:#x} on processor {index}: PCE was {found:#x}");
                return Err(Violation::new(Rule::BitsLeft, what));
            }
        }
        Ok(())
    }

    /// The driver is about to write a register of the local APIC's page.
    pub fn write_apic(
        &mut self,
        cpu: &mut Cpu,
        index: usize,
        offset: u32,
        value: u32,
    ) -> Result<(), Violation> {
        // EOI is the HAL's too: a second one would end somebody else's interrupt.
        if offset == LVTPC_OFFSET {
            return self.write_lvtpc(cpu, index, value.into());
        }
        let what = format!("the local APIC's register {offset:#x} is written with {value:#x}");
        Err(Violation::new(Rule::AllowList, what))
    }

    fn write_lvtpc(&mut self, cpu: &mut Cpu, index: usize, value: u64) -> Result<(), Violation> {
        self.must_be_reserved(LVTPC_MSR, 0)?;
        if value & LVTPC_MASK == 0 {
            self.old_storms.remove(&index);
            if !sends_interrupt(value) {
                let what = format!("LVTPC is unmasked as {value:#x}, which sends no interrupt");
                return Err(Violation::new(Rule::ForeignBits, what));
            }
        }
        let own = if self.handled { LVTPC_MASK } else { 0 };
        let changed = (lvtpc(cpu) ^ value) & !own;
        if changed == 0 {
            return Ok(());
        }
        let what = format!("LVTPC is the HAL's: bits {changed:#x} are changed, to {value:#x}");
        Err(Violation::new(Rule::ForeignBits, what))
    }

    /// The status bits that the driver may acknowledge: those of general counters, which are
    /// reserved; of fixed counters that it has written or that nobody has on; of conditions that
    /// are shown, or that an interrupt brings, LBR_FRZ where the driver records branches. Without
    /// the handler it may acknowledge only a freeze, which would stop its counters too: the other
    /// conditions belong to whoever gets the interrupt.
    fn may_acknowledge(&self, cpu: &mut Cpu, index: usize, status: u32) -> u64 {
        let watched = self.watched.get(index);
        let ours = watched.map_or(0, |watched| watched.ours);
        let records = watched.is_some_and(|watched| watched.branches);
        let control = read(cpu, FIXED_CONTROL).unwrap_or(0);
        let on = (0..16)
            .filter(|counter| control >> (4 * counter) & 0b11 != 0)
            .fold(0, |on, counter| on | 1 << (FIXED + counter));
        let debugctl = read(cpu, DEBUGCTL).unwrap_or(0);
        let brought = FREEZES
            .iter()
            .filter(|(_, cause)| debugctl & cause != 0)
            .fold(0, |bits, (bit, _)| bits | bit);
        let unrecorded = if records { 0 } else { LBR_FRZ };
        let shown = (read(cpu, status).unwrap_or(0) | brought) & CONDITIONS;
        let shown = shown & !ANOTHERS & !unrecorded;
        let conditions = if self.handled { shown } else { shown & CTR_FRZ };
        !(CONDITIONS | on & !ours) | conditions
    }

    fn must_be_reserved(&self, msr: u32, counters: u64) -> Result<(), Violation> {
        let what = match self.reserved {
            None => {
                format!("register {msr:#x} is written, and the counters are not reserved")
            }
            Some(reserved) if counters & !reserved != 0 => {
                let others = counters & !reserved;
                format!("register {msr:#x} is written for counters {others:#x}, not reserved")
            }
            Some(_) => return Ok(()),
        };
        Err(Violation::new(Rule::Unreserved, what))
    }

    /// The device starts: what masks LVTPC there may be a storm of a session before it was stopped.
    pub fn device_starts(&mut self, cpus: &mut [Cpu]) {
        let cpus = cpus.iter_mut().enumerate();
        self.old_storms = cpus.filter_map(|(index, cpu)| may_storm(cpu).then_some(index)).collect();
    }

    /// Whether LVTPC is still masked as an old storm left it.
    pub fn is_old_storm(&self, index: usize) -> bool {
        self.old_storms.contains(&index)
    }

    /// These counters now belong to the driver, as bits of the global registers.
    pub fn reserve(&mut self, cpus: &mut [Cpu], counters: u64) {
        self.reserved = Some(counters);
        self.handled = false;
        self.watched = cpus.iter_mut().map(Watched::new).collect();
    }

    /// All registers were lost in sleep, or someone else has written some meanwhile. Their state now is
    /// what the driver finds, and a counter is the driver's again only once it has written it.
    pub fn renew(&mut self, cpus: &mut [Cpu]) {
        self.old_storms.retain(|&index| cpus.get_mut(index).is_some_and(may_storm));
        for (watched, cpu) in self.watched.iter_mut().zip(cpus) {
            *watched = Watched::new(cpu);
        }
    }

    /// Someone else has written registers while the device works: the driver must leave what was
    /// written, but for its own bits.
    pub fn others_wrote(&mut self, cpus: &mut [Cpu]) {
        for (watched, cpu) in self.watched.iter_mut().zip(cpus) {
            watched.others_wrote(cpu);
        }
    }

    /// A processor was added.
    pub fn add(&mut self, cpu: &mut Cpu) {
        if self.reserved.is_some() {
            self.watched.push(Watched::new(cpu));
        }
    }

    /// The driver releases the counters.
    ///
    /// If the driver has had a handler, returns the processors on which LVTPC is masked.
    pub fn release(&mut self, cpus: &mut [Cpu]) -> Result<Option<Vec<usize>>, Violation> {
        self.check(cpus)?;
        self.reserved = None;
        // An entry that sends no interrupt must stay as it is.
        let masked = |(index, cpu): (usize, &mut Cpu)| {
            let entry = lvtpc(cpu);
            (entry & LVTPC_MASK != 0 && sends_interrupt(entry)).then_some(index)
        };
        let masked = cpus.iter_mut().enumerate().filter_map(masked);
        Ok(self.handled.then(|| masked.collect()))
    }

    /// Nothing of the driver's may be left, and nothing of others' may have changed.
    pub fn check(&self, cpus: &mut [Cpu]) -> Result<(), Violation> {
        if self.reserved.is_none() {
            return Ok(());
        }
        for (index, (cpu, watched)) in cpus.iter_mut().zip(&self.watched).enumerate() {
            let checked = watched.check(cpu);
            checked.map_err(|(rule, what)| {
                Violation::new(rule, format!("{what} on processor {index}"))
            })?;
        }
        Ok(())
    }
}

impl Watched {
    fn new(cpu: &mut Cpu) -> Self {
        let numbered = |&Row(_, first, count, stride, role): &'static Row| {
            (0..count).map(move |number| match role {
                Role::Acknowledge(status) => (role, number, status),
                _ => (role, number, first + number * stride),
            })
        };
        let all: Vec<(Role, u32, u32)> = rows(cpu).flat_map(numbered).collect();
        let value = |(role, number, msr)| Some((role, number, msr, read(cpu, msr)?));
        Self {
            ours: 0,
            selects: BTreeMap::new(),
            branches: false,
            disputed: 0,
            before: all.into_iter().filter_map(value).collect(),
        }
    }

    /// A counter belongs to whoever has written its select last, unless the driver then writes the
    /// counter again.
    fn others_wrote(&mut self, cpu: &mut Cpu) {
        for &(role, number, msr, _) in &self.before {
            if let (Role::Select(_), Some(&written)) = (role, self.selects.get(&number))
                && read(cpu, msr) != Some(written)
            {
                self.ours &= !(1 << number);
            }
        }
        let mut disputed = 0;
        let found = |&(role, number, msr, before): &(Role, u32, u32, u64)| {
            let (ours, _) = self.end_of(role, number, before);
            let now = read(cpu, msr).unwrap_or(before);
            if matches!(role, Role::Global) {
                disputed = (before ^ now) & !ours;
            }
            (role, number, msr, before & ours | now & !ours)
        };
        self.before = self.before.iter().map(found).collect();
        self.disputed |= disputed;
        self.branches = false;
    }

    fn check(&self, cpu: &mut Cpu) -> Result<(), (Rule, String)> {
        for &(role, number, msr, before) in &self.before {
            let now = read(cpu, msr).unwrap_or(before);
            if matches!(role, Role::Branches(_) | Role::Record) {
                self.check_branches(cpu, role, msr, (before, now))?;
                continue;
            }
            if matches!(role, Role::Acknowledge(_)) {
                self.check_freeze(cpu, msr, now & !before)?;
                continue;
            }
            let (ours, end) = self.end_of(role, number, before);
            let either = match role {
                Role::Select(off) => off,
                Role::Global => self.disputed & ours,
                _ => 0,
            };
            let left = (now ^ end) & ours & !either;
            let counts = matches!(role, Role::Counter | Role::Fixed);
            // A counter that stops late goes on counting after it was written.
            let late = counts && cpu.processor.quirks().has(Quirk::LateStop);
            if left != 0 && !(late && now.wrapping_sub(end) <= LATE_STOP) {
                let what = format!("register {msr:#x} is left {now:#x}, not {end:#x} in {ours:#x}");
                return Err((Rule::BitsLeft, what));
            }
            let changed = (now ^ before) & !ours & !either;
            // Another owner's counter may count on.
            if changed != 0 && !counts {
                let what = format!("bits {changed:#x} of register {msr:#x} are another's");
                return Err((Rule::ForeignBits, what));
            }
        }
        Ok(())
    }

    /// They must be as they were found, with no record left; what someone else has begun meanwhile
    /// belongs to them, while they record.
    fn check_branches(
        &self,
        cpu: &mut Cpu,
        role: Role,
        msr: u32,
        (before, now): (u64, u64),
    ) -> Result<(), (Rule, String)> {
        let end = match role {
            Role::Record if self.branches => 0,
            Role::Record => now,
            _ => before,
        };
        // Bits that the driver must not write are not its to put back.
        let judged = match role {
            Role::Branches(ours) => ours,
            _ => u64::MAX,
        };
        let taken = cpu.processor.quirks().has(Quirk::BranchesChanged) && records_branches(cpu);
        if (now ^ end) & judged == 0 || taken {
            return Ok(());
        }
        let what = format!("register {msr:#x} is left {now:#x}, not {end:#x}");
        Err((Rule::BitsLeft, what))
    }

    /// A freeze stops all counters, or the records of branches, whoever has them next. That of the
    /// records is the driver's if it recorded, unless somebody else records by now or has asked for
    /// it.
    fn check_freeze(&self, cpu: &mut Cpu, status: u32, new: u64) -> Result<(), (Rule, String)> {
        let asked = read(cpu, DEBUGCTL).unwrap_or(0) & FREEZE_LBRS_ON_PMI != 0;
        let ours = self.branches && !asked && !records_branches(cpu);
        let records = if ours { LBR_FRZ } else { 0 };
        if new & (CTR_FRZ | records) == 0 {
            return Ok(());
        }
        Err((Rule::BitsLeft, format!("status {status:#x} is left with new bits {new:#x}")))
    }

    /// RDPMC user disable of the driver's fixed counters: bit 33 + 4n of their control register.
    fn user_disable(&self) -> u64 {
        let ours = (0..8).filter(|counter| self.ours >> (FIXED + counter) & 1 != 0);
        ours.fold(0, |bits, counter| bits | 1 << (33 + 4 * counter))
    }

    /// Which bits of a register are the driver's, and what they must be in the end.
    fn end_of(&self, role: Role, number: u32, before: u64) -> (u64, u64) {
        let parts = |first: u32, bits: u32| {
            let all = (0..64 / bits).filter(|part| self.ours >> (first + part) & 1 != 0);
            all.fold(0, |ours, part| ours | ((1 << bits) - 1) << (part * bits))
        };
        let whole = |bit: u32| {
            if self.ours >> bit & 1 == 0 { 0 } else { u64::MAX }
        };
        match role {
            // ACTIVE_THREAD must be written as ones, whatever its value after reset.
            Role::Select(off) => (whole(number), off),
            Role::Counter => (whole(number), 0),
            Role::Fixed => (whole(FIXED + number), 0),
            // Reset leaves ones here, and software that knows only version 1 never writes them: so
            // the bits go back to what they were, and not to 0.
            Role::Global => (self.ours, before),
            Role::FixedControl => (parts(FIXED, 4) | self.user_disable(), 0),
            Role::Halves => (parts(0, 16), 0),
            Role::Other => (u64::MAX, before),
            Role::Branches(_) | Role::Record | Role::Acknowledge(_) => (0, 0),
        }
    }
}

/// The counters that a write affects, as bits of the global registers. In a register that several
/// counters share, those whose part changes; an acknowledgement affects those whose bits are set.
fn touched(cpu: &mut Cpu, role: Role, number: u32, msr: u32, value: u64) -> u64 {
    let changed = value ^ read(cpu, msr).unwrap_or(value);
    let parts = |first: u32, bits: u32| {
        let one = |part: &u32| changed >> (part * bits) & ((1 << bits) - 1) != 0;
        let parts = (0..(64 - first) / bits).filter(one);
        parts.fold(0, |all, part| all | 1 << (first + part))
    };
    match role {
        Role::Counter | Role::Select(_) => 1 << number,
        Role::Fixed => 1 << (FIXED + number),
        Role::Global => changed,
        Role::FixedControl => parts(FIXED, 4),
        Role::Halves => parts(0, 16),
        // Branches are recorded only with the overflow interrupt, and so with the whole unit.
        Role::Branches(_) | Role::Record => WHOLE_UNIT,
        Role::Acknowledge(_) => value & !CONDITIONS,
        Role::Other => 0,
    }
}

/// Whether recording is on: LBRV2EN, LBREn or IA32_DEBUGCTL.LBR, by what the processor has.
fn records_branches(cpu: &mut Cpu) -> bool {
    let switches = [(0xC000_010F, 1 << 6), (0x14CE, 1), (DEBUGCTL, 1)];
    let there = switches.into_iter().find_map(|(msr, on)| Some(read(cpu, msr)? & on != 0));
    there.unwrap_or(false)
}

/// The value of a register, if it exists.
fn read(cpu: &mut Cpu, msr: u32) -> Option<u64> {
    cpu.processor.unobserved(|processor| processor.rdmsr(msr)).ok()
}

/// Whether an entry of the local vector table sends an interrupt: delivery mode fixed, a vector that
/// is no exception's (SDM vol. 3, "Local Vector Table", "Valid Interrupt Vectors").
fn sends_interrupt(entry: u64) -> bool {
    let (mode, vector) = (entry >> 8 & 0b111, entry & 0xFF);
    mode == 0 && vector >= 16
}

/// Whether LVTPC is masked, and the global status register shows a bit that may hold its line active.
fn may_storm(cpu: &mut Cpu) -> bool {
    let status = rows(cpu).find_map(|row| match row.4 {
        Role::Acknowledge(status) => Some(status),
        _ => None,
    });
    let status = status.and_then(|status| read(cpu, status)).unwrap_or(0);
    lvtpc(cpu) & LVTPC_MASK != 0 && status != 0
}

/// LVTPC; 0 if there is no local APIC.
fn lvtpc(cpu: &mut Cpu) -> u64 {
    let page = |cpu: &mut Cpu| {
        let processor = &mut cpu.processor;
        processor.unobserved(|processor| processor.read_apic(LVTPC_OFFSET))
    };
    match read(cpu, IA32_APIC_BASE).unwrap_or(0) & X2APIC {
        X2APIC => read(cpu, LVTPC_MSR).unwrap_or(0),
        XAPIC => page(cpu).unwrap_or(0).into(),
        _ => 0,
    }
}
