//! What Pentium, P6 and NetBurst can do.

use crate::cpu::capabilities::{Capabilities, Errata, Gate, Layout};
use crate::cpu::counter::CounterWidth;
use crate::cpu::machine::Machine;
use crate::cpu::registers::cpuid::leaf1_edx;
use crate::cpu::registers::intel;
use crate::historic::registers::netburst::{CCCR_OFF, Cccr};
use crate::historic::registers::{netburst, p6, pentium};
use crate::historic::select::NetBurst;
use shared_types::ProfileInterface;

/// Completes the capabilities of a processor with one of these interfaces.
pub(crate) fn discover(capabilities: &mut Capabilities, machine: &impl Machine) {
    match capabilities.interface() {
        ProfileInterface::Pentium => discover_pentium(capabilities),
        ProfileInterface::P6 => discover_p6(capabilities),
        ProfileInterface::NetBurst => discover_netburst(capabilities, machine),
        ProfileInterface::Default | ProfileInterface::Emon | ProfileInterface::Amd64 => {}
    }
}

/// Whether a NetBurst or Pentium M processor's IA32_MISC_ENABLE says that monitoring is unavailable
/// (SDM, "Model-Specific Registers").
pub(crate) fn monitoring_disabled(machine: &mut impl Machine, capabilities: &Capabilities) -> bool {
    let has_monitor_bit = match capabilities.interface() {
        ProfileInterface::NetBurst => true,
        ProfileInterface::P6 => is_pentium_m(capabilities),
        _ => false,
    };
    has_monitor_bit
        && machine
            .try_read_msr(intel::IA32_MISC_ENABLE)
            .is_ok_and(|value| value & intel::MISC_ENABLE_PERFMON == 0)
}

fn is_pentium_m(capabilities: &Capabilities) -> bool {
    matches!(capabilities.identity.model, 9 | 0x0D | 0x15)
}

fn discover_pentium(capabilities: &mut Capabilities) {
    capabilities.declared_counters = pentium::COUNTERS;
    capabilities.counters = 0b11;
    capabilities.width = CounterWidth::new(pentium::COUNTER_WIDTH).unwrap_or_default();
    (capabilities.gate, capabilities.handler_gate) = (Gate::Historic, Gate::Historic);
    capabilities.layout = Layout {
        select: pentium::CESR,
        counter: pentium::CTR0,
        counter_write: pentium::CTR0,
        stride: 1,
    };
}

fn discover_p6(capabilities: &mut Capabilities) {
    capabilities.declared_counters = p6::COUNTERS;
    capabilities.counters = 0b11;
    capabilities.width = CounterWidth::new(p6::COUNTER_WIDTH).unwrap_or_default();
    (capabilities.gate, capabilities.handler_gate) = (Gate::Historic, Gate::Historic);
    capabilities.layout = Layout {
        select: intel::IA32_PERFEVTSEL0,
        counter: intel::IA32_PMC0,
        counter_write: intel::IA32_PMC0,
        stride: 1,
    };
    // P6 processors before the Pentium M leave LVTPC as it is (perfctr, oprofile).
    capabilities.masks_lvtpc = is_pentium_m(capabilities);
}

fn discover_netburst(capabilities: &mut Capabilities, machine: &impl Machine) {
    let logical = machine.cpuid(1, 0).ebx;
    let cores =
        1 + if capabilities.identity.max_leaf >= 4 { machine.cpuid(4, 0).eax >> 26 } else { 0 };
    // Two cores in one package (Smithfield) each have their own counters.
    let hyper_threading =
        capabilities.identity.leaf1_edx & leaf1_edx::HTT != 0 && (logical >> 16 & 0xFF) / cores > 1;
    let thread = if hyper_threading { (logical >> 24 & 1) as u8 } else { 0 };
    capabilities.netburst = NetBurst { hyper_threading, thread };
    capabilities.declared_counters = netburst::COUNTERS;
    capabilities.counters = netburst::USABLE
        & match (hyper_threading, thread) {
            (false, _) => u32::MAX,
            (true, 0) => netburst::EVEN_SIDE,
            (true, _) => netburst::ODD_SIDE,
        };
    capabilities.width = CounterWidth::new(netburst::COUNTER_WIDTH).unwrap_or_default();
    capabilities.enable = Cccr::new().with_enable(true).into_bits().into();
    capabilities.off = CCCR_OFF.into_bits().into();
    capabilities.errata = Errata {
        write_counter_twice: true,
        interrupts_one_late: true,
        turn_all_off_first: true,
        ..Errata::default()
    };
    capabilities.layout = Layout {
        select: netburst::CCCR0,
        counter: netburst::COUNTER0,
        counter_write: netburst::COUNTER0,
        stride: 1,
    };
    capabilities.masks_lvtpc = true;
}
