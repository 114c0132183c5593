//! Access to the registers in which Pentium, P6 and NetBurst differ from later processors. As in
//! [`run::pmu`](crate::run::pmu), interrupts are masked.
//!
//! - Pentium: CESR has a half for each counter; CC = 0 stops it.
//! - P6: EN of PerfEvtSel0 starts and stops both counters, so that register is written last.
//! - NetBurst: each CCCR has its own ENABLE; the ESCR that feeds it is written before it.

use crate::cpu::capabilities::Capabilities;
use crate::cpu::counter::Counter;
use crate::cpu::machine::Machine;
use crate::cpu::registers::intel;
use crate::historic::encode::Register;
use crate::historic::registers::netburst::{self, Cccr};
use crate::historic::registers::pentium::{CESR, CESR_HALF, CESR_HALF_MASK};
use crate::plan::counter_config::{Active, CounterConfig};
use shared_types::{Delivery, ProfileInterface};

/// Pentium, P6: stops every counter before its preset is written.
pub(crate) fn stop_each(
    machine: &mut impl Machine,
    capabilities: &Capabilities,
    active: &[Active],
) {
    for counter in active {
        match capabilities.interface() {
            ProfileInterface::Pentium => write_half(machine, counter.config.counter, 0),
            _ => machine.write_msr(counter.config.select_msr, counter.config.select),
        }
    }
}

/// Pentium, P6: starts every counter.
pub(crate) fn start(machine: &mut impl Machine, capabilities: &Capabilities, active: &[Active]) {
    if capabilities.interface() == ProfileInterface::Pentium {
        for counter in active {
            write_half(machine, counter.config.counter, counter.config.select);
        }
    } else {
        let select = first_select(active) | capabilities.enable;
        machine.write_msr(capabilities.layout.select, select);
    }
}

/// Pentium, P6: stops every counter; their values are kept.
pub(crate) fn stop(machine: &mut impl Machine, capabilities: &Capabilities, active: &[Active]) {
    if capabilities.interface() == ProfileInterface::Pentium {
        stop_each(machine, capabilities, active);
    } else {
        machine.write_msr(capabilities.layout.select, first_select(active));
    }
}

/// P6: clears what [`stop`] has left; the Pentium's halves are clear.
pub(crate) fn clear(machine: &mut impl Machine, capabilities: &Capabilities, active: &[Active]) {
    if capabilities.interface() == ProfileInterface::P6 {
        // EN is cleared first, so that nothing counts while the selects change.
        machine.write_msr(capabilities.layout.select, 0);
        for counter in active {
            machine.write_msr(counter.config.select_msr, capabilities.off);
        }
    }
}

/// NetBurst: writes the registers that come before a select, or clears them.
pub(crate) fn write_upstream(machine: &mut impl Machine, config: &CounterConfig, clear: bool) {
    for Register { msr, value } in config.upstream {
        if msr != 0 {
            machine.write_msr(msr, if clear { 0 } else { value.into() });
        }
    }
}

/// NetBurst: calls `visit` for each register that comes before a select, with its value.
pub(crate) fn each_upstream<E>(
    config: &CounterConfig,
    visit: &mut impl FnMut(u32, u64) -> Result<(), E>,
) -> Result<(), E> {
    let mut upstream = config.upstream.iter().filter(|register| register.msr != 0);
    upstream.try_for_each(|register| visit(register.msr, register.value.into()))
}

/// NetBurst: whether OVF is set in the counter's CCCR.
pub(crate) fn flags_overflow(
    machine: &mut impl Machine,
    capabilities: &Capabilities,
    counter: &Active,
) -> bool {
    capabilities.delivery == Delivery::CccrFlag
        && Cccr::from_bits(machine.read_msr(counter.config.select_msr) as u32).ovf()
}

/// PerfEvtSel0's value without EN: the select of counter 0, or one that counts nothing if counter 0
/// is free.
fn first_select(active: &[Active]) -> u64 {
    let first = active.iter().find(|counter| counter.config.counter == Counter::FIRST);
    first.map_or(0, |counter| counter.config.select)
}

fn write_half(machine: &mut impl Machine, counter: Counter, half: u64) {
    let shift = u32::from(counter.index() % 2) * CESR_HALF;
    // CESR is written as a whole: the other counter's half goes back as it was read.
    let others = machine.read_msr(CESR) & !(CESR_HALF_MASK << shift);
    machine.write_msr(CESR, others | half << shift);
}

/// The registers of selects and counters, for REGISTERS.
pub(crate) fn each_register(capabilities: &Capabilities, visit: &mut impl FnMut(u32)) {
    let layout = &capabilities.layout;
    if capabilities.interface() == ProfileInterface::Pentium {
        [layout.select, layout.counter, layout.counter + 1].into_iter().for_each(visit);
        return;
    }
    visit(intel::IA32_MISC_ENABLE);
    for index in 0..u32::from(netburst::COUNTERS) {
        visit(layout.select + index * layout.stride);
        visit(layout.counter + index * layout.stride);
    }
    netburst::escr_msrs(capabilities.identity.model).for_each(visit);
}
