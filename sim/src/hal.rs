//! What Windows' HAL does around its overflow callback.
//!
//! Documented: the callback receives the bits of the counters that have overflowed, at
//! PROFILE_LEVEL, and the HAL clears the overflow registers itself (HalAllocateHardwareCounters,
//! ResourceTypeOverflow; Windows 10 1903 and later, ntddk.h). If a processor has such registers,
//! the modelled HAL stops all counters, makes the call, clears the overflows and the freeze
//! (CTR_FRZ) that it has seen, and writes back the global control register as it found it, which a
//! freeze up to version 3 has cleared. If it has none, no document says what the HAL does: the
//! modelled HAL stops nothing and passes every bit, so that the counter values decide; on NetBurst
//! it clears the OVF flags, which hold the interrupt line.

use crate::cpu::Cpu;
use crate::unkind::Behaviour;
use hal_profile::machine::Machine as _;

/// The global overflow registers that all counters share.
#[derive(Clone, Copy)]
struct Global {
    status: u32,
    control: u32,
    clear: u32,
}

/// IA32_PERF_GLOBAL_STATUS, _CTRL and _OVF_CTRL (SDM volume 3, 20.2.2).
const INTEL: Global = Global {
    status: 0x38E,
    control: 0x38F,
    clear: 0x390,
};
/// PerfCntrGlobalStatus, -Ctl and -StatusClr (APM volume 2, 13.2.1).
const AMD: Global = Global {
    status: 0xC000_0300,
    control: 0xC000_0301,
    clear: 0xC000_0302,
};
/// MSR_BPU_CCCR0, the number of CCCRs, and OVF (SDM volume 3, 20.6.3.3).
const CCCR0: u32 = 0x360;
const CCCRS: u32 = 18;
const OVF: u64 = 1 << 31;
/// IA32_APIC_BASE and its x2APIC bit; LVTPC in the page and as an MSR, and its mask bit.
const APIC_BASE: u32 = 0x1B;
const X2APIC: u64 = 1 << 10;
const LVTPC: u32 = 0x340;
const X2APIC_LVTPC: u32 = 0x834;
const MASK: u32 = 1 << 16;

/// CTR_FRZ, PMCFreeze.
const FROZEN: u64 = 1 << 59;

/// What the HAL must restore.
#[derive(Clone, Copy, Debug)]
pub struct Stopped {
    /// The counters that have overflowed, as passed to the callback.
    pub overflowed: u64,
    /// The freeze to be acknowledged.
    frozen: u64,
    control: u64,
}

/// An overflow interrupt has arrived: stops the counters if it can, and returns which overflowed.
pub fn stop(cpu: &mut Cpu) -> Stopped {
    let Some(global) = global(cpu) else {
        return Stopped {
            overflowed: u64::MAX,
            frozen: 0,
            control: 0,
        };
    };
    let control = cpu.read_msr(global.control);
    cpu.write_msr(global.control, 0);
    let status = cpu.read_msr(global.status);
    let acknowledges = !cpu.processor.unkind().has(Behaviour::HalKeepsFreeze);
    Stopped {
        overflowed: status & cpu.processor.counter_status(),
        frozen: if acknowledges { status & FROZEN } else { 0 },
        control,
    }
}

/// The callback has returned: clears the overflows, starts the counters, unmasks LVTPC.
pub fn go_on(cpu: &mut Cpu, stopped: Stopped) {
    match global(cpu) {
        Some(global) => {
            cpu.write_msr(global.clear, stopped.overflowed | stopped.frozen);
            cpu.write_msr(global.control, stopped.control);
        }
        None if is_netburst(cpu) => clear_ovf(cpu),
        None => {}
    }
    unmask(cpu);
}

/// EBX of leaf 0: `Genu` and `Auth`.
const GENUINE_INTEL: u32 = 0x756E_6547;
const AUTHENTIC_AMD: u32 = 0x6874_7541;

/// The registers of version 2 and later (leaf 0x0A, EAX bits 7:0), or of PerfMonV2 (leaf
/// 0x80000022, EAX bit 0).
fn global(cpu: &Cpu) -> Option<Global> {
    match cpu.cpuid(0, 0).ebx {
        GENUINE_INTEL if cpu.cpuid(0, 0).eax >= 0xA && cpu.cpuid(0xA, 0).eax & 0xFF >= 2 => {
            Some(INTEL)
        }
        AUTHENTIC_AMD
            if cpu.cpuid(0x8000_0000, 0).eax >= 0x8000_0022
                && cpu.cpuid(0x8000_0022, 0).eax & 1 != 0 =>
        {
            Some(AMD)
        }
        _ => None,
    }
}

/// Family 15 of GenuineIntel.
fn is_netburst(cpu: &Cpu) -> bool {
    cpu.cpuid(0, 0).ebx == GENUINE_INTEL && cpu.cpuid(1, 0).eax >> 8 & 0xF == 0xF
}

fn clear_ovf(cpu: &mut Cpu) {
    for cccr in CCCR0..CCCR0 + CCCRS {
        let value = cpu.read_msr(cccr);
        if value & OVF != 0 {
            cpu.write_msr(cccr, value & !OVF);
        }
    }
}

fn unmask(cpu: &mut Cpu) {
    let x2apic = cpu.read_msr(APIC_BASE) & X2APIC != 0;
    if x2apic {
        let entry = cpu.read_msr(X2APIC_LVTPC);
        cpu.write_msr(X2APIC_LVTPC, entry & !u64::from(MASK));
    } else {
        let entry = cpu.read_apic(LVTPC);
        cpu.write_apic(LVTPC, entry & !MASK);
    }
}
