//! Which registers the driver may write, and what it must leave as it was.
//!
//! The counters are the driver's from HalAllocateHardwareCounters to HalFreeHardwareCounters. The
//! control registers that all counters share are not: another owner's bits in them (Windows' own,
//! a hypervisor's agent's) stay as they are. A counter is the driver's once it has written it. When
//! it gives the counters back, and when the machine goes to sleep, every bit of its own is clear
//! and every other bit is what it was.

use crate::rules::{Rule, Violation};
use hal_profile::machine::Machine as _;
use sim::cpuid::Leaves;
use sim::host::Cpu;

/// The mask bit of LVTPC (SDM vol. 3A, 10.5.1): the one that the driver may change there.
const LVTPC_MASK: u64 = 1 << 16;
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

/// What a register is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Counter number of the row's offset.
    Counter,
    /// The same, fixed.
    Fixed,
    /// The select of a counter; nothing counts with it while it has this value.
    Select(u64),
    /// One bit for each counter, fixed ones from 32 on.
    Global,
    /// Four bits for each fixed counter.
    FixedControl,
    /// 16 bits for each counter.
    Halves,
    /// Nothing to look at: what is written is an acknowledgement, or goes with a select.
    Other,
}

/// Registers of one role: unit, first, how many, stride.
struct Row(Unit, u32, u32, u32, Role);

/// A CCCR that is off: ACTIVE_THREAD is 3 always.
const CCCR_OFF: u64 = 3 << 16;

/// What may be written. Intel: SDM vol. 4, the table of each family; AMD: APM vol. 2, 13.2, and the
/// PPR's "Core Performance Monitor Counters".
const WRITABLE: &[Row] = &[
    // IA32_PERFEVTSELx, IA32_PMCx, IA32_A_PMCx (table 2-2).
    Row(Unit::Architectural, 0x186, 10, 1, Role::Select(0)),
    Row(Unit::Architectural, 0xC1, 10, 1, Role::Counter),
    Row(Unit::Architectural, 0x4C1, 10, 1, Role::Counter),
    // IA32_FIXED_CTRx, IA32_FIXED_CTR_CTRL.
    Row(Unit::Architectural, 0x309, 7, 1, Role::Fixed),
    Row(Unit::Architectural, 0x38D, 1, 1, Role::FixedControl),
    // IA32_PERF_GLOBAL_CTRL, IA32_PERF_GLOBAL_STATUS_RESET.
    Row(Unit::Architectural, 0x38F, 1, 1, Role::Global),
    Row(Unit::Architectural, 0x390, 1, 1, Role::Other),
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
    Row(Unit::Amd, 0xC000_0302, 1, 1, Role::Other),
];

/// Where fixed counters begin in the global registers.
const FIXED: u32 = 32;

impl Row {
    fn index(&self, msr: u32) -> Option<u32> {
        let offset = msr.checked_sub(self.1)?;
        (offset % self.3 == 0 && offset / self.3 < self.2).then_some(offset / self.3)
    }
}

/// The unit by vendor, family and leaf 0x0A: what the manuals go by, whatever the driver thinks.
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

/// Whether processors have counters that the shipped driver does not serve: Pentium's or P6's.
#[must_use]
pub fn is_legacy(leaves: &[Leaves]) -> bool {
    sim::machine::processors(leaves)
        .into_iter()
        .any(|processor| matches!(unit(&Cpu::new(processor)), Some(Unit::P6 | Unit::Pentium)))
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
    /// What the shared registers were when the counters were given.
    before: Vec<(u32, u64)>,
    lvtpc: u64,
    /// The registers were lost since.
    was_reset: bool,
}

/// All processors' registers.
#[derive(Default)]
pub struct Registers {
    reserved: bool,
    watched: Vec<Watched>,
}

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
            return self.write_lvtpc(cpu, value);
        }
        let found = rows(cpu).find_map(|row| Some((row.4, row.index(msr)?)));
        let Some((role, number)) = found else {
            let what = format!("WRMSR of {msr:#x} with {value:#x}, which is not the driver's");
            return Err(Violation::new(Rule::AllowList, what));
        };
        self.must_be_reserved(msr)?;
        let bit = match role {
            Role::Counter => number,
            Role::Fixed => FIXED + number,
            _ => return Ok(()),
        };
        if let Some(watched) = self.watched.get_mut(index) {
            watched.ours |= 1 << bit;
        }
        Ok(())
    }

    /// The driver is about to write a register of the local APIC's page.
    pub fn write_apic(&self, cpu: &mut Cpu, offset: u32, value: u32) -> Result<(), Violation> {
        if offset == LVTPC_OFFSET {
            return self.write_lvtpc(cpu, value.into());
        }
        let what = format!("the local APIC's register {offset:#x} is written with {value:#x}");
        Err(Violation::new(Rule::AllowList, what))
    }

    fn write_lvtpc(&self, cpu: &mut Cpu, value: u64) -> Result<(), Violation> {
        self.must_be_reserved(LVTPC_MSR)?;
        let changed = (lvtpc(cpu) ^ value) & !LVTPC_MASK;
        if changed == 0 {
            return Ok(());
        }
        let what = format!("LVTPC is the HAL's: bits {changed:#x} are changed, to {value:#x}");
        Err(Violation::new(Rule::ForeignBits, what))
    }

    fn must_be_reserved(&self, msr: u32) -> Result<(), Violation> {
        if self.reserved {
            return Ok(());
        }
        let what = format!("register {msr:#x} is written, and the counters are not reserved");
        Err(Violation::new(Rule::Unreserved, what))
    }

    /// The counters are the driver's now.
    pub fn reserve(&mut self, cpus: &mut [Cpu]) {
        self.reserved = true;
        self.watched = cpus.iter_mut().map(Watched::new).collect();
    }

    /// All registers were lost in sleep. The counters that were the driver's still are, and what
    /// reset has set for them is not for the driver to clear, nor to leave (SDM vol. 3A, table 10-1:
    /// IA32_PERF_GLOBAL_CTRL has a bit set for each general counter).
    pub fn renew(&mut self, cpus: &mut [Cpu]) {
        for (watched, cpu) in self.watched.iter_mut().zip(cpus) {
            let ours = watched.ours;
            *watched = Watched::new(cpu);
            (watched.ours, watched.was_reset) = (ours, true);
        }
    }

    /// A processor was added.
    pub fn add(&mut self, cpu: &mut Cpu) {
        if self.reserved {
            self.watched.push(Watched::new(cpu));
        }
    }

    /// The driver gives the counters back.
    pub fn release(&mut self, cpus: &mut [Cpu]) -> Result<(), Violation> {
        self.check(cpus)?;
        self.reserved = false;
        Ok(())
    }

    /// Nothing of the driver's may be left, and nothing of another's changed.
    pub fn check(&self, cpus: &mut [Cpu]) -> Result<(), Violation> {
        if !self.reserved {
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
        let rows = rows(cpu);
        let shared = rows.filter(|row| !matches!(row.4, Role::Counter | Role::Fixed | Role::Other));
        let shared = shared.flat_map(|row| (0..row.2).map(move |i| row.1 + i * row.3));
        let msrs: Vec<u32> = shared.collect();
        let read = |msr| Some((msr, read(cpu, msr)?));
        Self {
            ours: 0,
            was_reset: false,
            before: msrs.into_iter().filter_map(read).collect(),
            lvtpc: lvtpc(cpu),
        }
    }

    fn check(&self, cpu: &mut Cpu) -> Result<(), (Rule, String)> {
        for &(msr, before) in &self.before {
            let Some((role, number)) = rows(cpu).find_map(|row| Some((row.4, row.index(msr)?)))
            else {
                continue;
            };
            let now = read(cpu, msr).unwrap_or(before);
            let (ours, clear) = self.ours_in(role, number);
            let by_reset = role == Role::Global && self.was_reset;
            let clear = if by_reset { clear | before } else { clear };
            let nobodys = if role == Role::Global {
                self.nobodys(cpu)
            } else {
                0
            };
            let changed = (now ^ before) & !ours & !(before & nobodys);
            let left = now & ours & !clear;
            if left != 0 {
                let what = format!("bits {left:#x} of register {msr:#x} are left set");
                return Err((Rule::BitsLeft, what));
            }
            if changed != 0 {
                let what = format!("bits {changed:#x} of register {msr:#x} are another's");
                return Err((Rule::ForeignBits, what));
            }
        }
        // An interrupt that waits has masked it, and its handler lets it through.
        let masked = lvtpc(cpu) & !self.lvtpc & LVTPC_MASK != 0;
        if masked && cpu.processor.interrupt_pending().is_none() {
            return Err((Rule::BitsLeft, "LVTPC is left masked".to_owned()));
        }
        Ok(())
    }

    /// Bits of the global registers whose counters nobody had turned on: reset sets them.
    fn nobodys(&self, cpu: &Cpu) -> u64 {
        let mut nobodys = u64::MAX;
        for &(msr, value) in &self.before {
            for row in rows(cpu) {
                let Some(number) = row.index(msr) else {
                    continue;
                };
                match row.4 {
                    Role::Select(off) if value & !off != 0 => nobodys &= !(1 << number),
                    Role::FixedControl => {
                        let on = (0..8).filter(|fixed| value >> (4 * fixed) & 0xF != 0);
                        on.for_each(|fixed| nobodys &= !(1 << (FIXED + fixed)));
                    }
                    _ => {}
                }
            }
        }
        nobodys
    }

    /// Which bits of a register are the driver's, and which of them it need not clear.
    fn ours_in(&self, role: Role, number: u32) -> (u64, u64) {
        let parts = |first: u32, bits: u32| {
            let all = (0..64 / bits).filter(|part| self.ours >> (first + part) & 1 != 0);
            all.fold(0, |ours, part| ours | ((1 << bits) - 1) << (part * bits))
        };
        match role {
            Role::Select(off) if self.ours >> number & 1 != 0 => (u64::MAX, off),
            // Off is off, whoever has it: the driver turns those off that it could be given.
            Role::Select(off) => (off, off),
            Role::Global => (self.ours, 0),
            Role::FixedControl => (parts(FIXED, 4), 0),
            Role::Halves => (parts(0, 16), 0),
            Role::Counter | Role::Fixed | Role::Other => (0, 0),
        }
    }
}

/// A register, where it is there.
fn read(cpu: &mut Cpu, msr: u32) -> Option<u64> {
    cpu.processor
        .unobserved(|processor| processor.rdmsr(msr))
        .ok()
}

/// LVTPC; 0 where there is no local APIC.
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
