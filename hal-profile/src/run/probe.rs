//! The first touch of each register of a program, before START relies on any of them.
//!
//! CPUID may promise what is not there: a hypervisor that emulates a part, a guest that has moved to
//! another host. Windows answers the exception of a plain access with a bug check, so each register is
//! first read and written by instructions whose exception is an error, and RDPMC, which a hypervisor
//! intercepts apart from RDMSR, is tried on each counter. What is written comes from the functions by
//! which START writes, less the bits that start counters:
//!
//! | register | first write | left |
//! |---|---|---|
//! | select, and Merge in the second of a pair | what [`pmu::select`] gives, without the enable bit | off |
//! | counter | its preset, and above it that of a pair; nothing counts yet | 0 |
//! | IA32_FIXED_CTR_CTRL | what [`pmu::fixed_control`] gives, without OS and USR | those bits 0 |
//! | global control | the program's bits set, while every select and nibble is off | as found |
//! | acknowledgement | the program's bits, as before each slice | |
//! | IA32_DEBUGCTL | what records branches and freezes them, while nobody records | as found |
//! | filter, switch and depth of branch records | its value, the switch on | as found |
//! | branch record | 0, after the switch | 0 |
//! | LVTPC | what it holds | as found |
//!
//! Two refusals have another way, and are noted in [`Refusals`]: counters that RDPMC does not reach are
//! read by RDMSR, and where a counter cannot be hidden from user mode it is shown.
//!
//! Untried are the bits that start counters (EN of a select, OS and USR of a fixed counter): with them
//! the counter would run. Every processor of the family has them, and a hypervisor that took the rest
//! of a select has no reason to refuse them.
//!
//! Where the registers belong to the family, before leaf 0x0A, there is nothing to promise: on Pentium
//! and P6 only RDPMC is tried, because a hypervisor intercepts it by a control of its own.

use crate::cpu::capabilities::{Apic, Capabilities, Gate};
use crate::cpu::counter::Counter;
use crate::cpu::machine::Machine;
use crate::cpu::registers::amd;
use crate::cpu::registers::apic::IA32_X2APIC_LVT_PMI;
use crate::cpu::registers::intel;
use crate::historic::pmu as historic;
use crate::plan::counter_config::{CountedBy, CounterConfig};
use crate::plan::program::{CpuProgram, Program};
use crate::run::host::Local;
use crate::run::state::Refusals;
use crate::run::touch::{self, Touch};
use crate::run::{lbr, pmu};
use shared_types::ErrorCode;

/// OS and USR in every nibble of IA32_FIXED_CTR_CTRL.
const FIXED_COUNTS: u64 = pmu::COUNTS * 0x1111_1111_1111_1111;

/// Calls `visit` for each register that START, any slice or an interrupt of the program uses, once
/// for each counter, until it fails. `shown`: see [`pmu::select`]. `resets`: counters are reset before
/// each slice.
pub(crate) fn each_register<E>(
    capabilities: &Capabilities,
    program: &Program,
    cpu_program: &CpuProgram,
    shown: bool,
    resets: bool,
    visit: &mut impl FnMut(Touch) -> Result<(), E>,
) -> Result<(), E> {
    let global = &capabilities.global;
    let (mut left, mut mask, mut fixed) = (cpu_program.counters, 0, 0);
    let configs = cpu_program.configs.each.iter().take(program.settings.count);
    for config in configs.filter(|config| config.counted_by == CountedBy::Counter) {
        if left == 0 {
            break;
        }
        if config.bits() & left != 0 {
            left &= !config.bits();
            // mistake: probe-without-counters
            each_of_counter(capabilities, config, shown, visit)?;
            let (bits, value) = pmu::fixed_control(capabilities, shown, config);
            mask |= bits;
            fixed |= value & !FIXED_COUNTS;
        }
    }
    if capabilities.gate == Gate::Historic {
        return Ok(());
    }
    let others = Counter::each(capabilities.counters.into()).zip(pmu::RESET_SELECTS);
    let others = others.filter(|(counter, _)| resets && !cpu_program.uses(*counter));
    for (counter, select) in others {
        visit(Touch::Counter {
            select_msr: capabilities.select_msr(counter),
            select: select & !capabilities.enable,
            counter_msr: capabilities.write_msr(counter),
            value: 0,
        })?;
    }
    if cfg!(feature = "historic") && capabilities.errata.turn_all_off_first {
        for counter in Counter::each(u64::from(capabilities.counters) & !cpu_program.counters) {
            let (msr, off) = (capabilities.select_msr(counter), capabilities.off);
            visit(Touch::Own { msr, value: off, left: off })?;
        }
    }
    if mask != 0 {
        visit(Touch::Part { msr: intel::IA32_FIXED_CTR_CTRL, mask, value: fixed })?;
    }
    if capabilities.gate == Gate::Global {
        let counters = cpu_program.counters;
        visit(Touch::read(global.status))?;
        visit(Touch::Borrow { msr: global.control, mask: counters, value: counters })?;
        if counters != 0 {
            visit(Touch::Acknowledge { msr: global.acknowledge, bits: counters })?;
        }
    }
    let samples = program.settings.samples;
    if samples && global.freeze != 0 && global.freeze_control != 0 {
        visit(Touch::read(global.freeze_control))?;
    }
    if samples && capabilities.apic == Apic::X2Apic {
        visit(Touch::Borrow { msr: IA32_X2APIC_LVT_PMI, mask: 0, value: 0 })?;
    }
    lbr::each_register(capabilities, &cpu_program.recording, visit)
}

/// Visits the registers of one counter, and of the next if it takes that too. On Pentium and P6 it visits
/// only RDPMC.
fn each_of_counter<E>(
    capabilities: &Capabilities,
    config: &CounterConfig,
    shown: bool,
    visit: &mut impl FnMut(Touch) -> Result<(), E>,
) -> Result<(), E> {
    if capabilities.gate == Gate::Historic {
        return rdpmc_of(config, visit);
    }
    historic::each_upstream(config, &mut |msr, value| visit(Touch::Own { msr, value, left: 0 }))?;
    let (counter_msr, preset) = (config.write_msr, config.width.preset(config.period.into()));
    if config.select_msr == 0 {
        visit(Touch::Own { msr: counter_msr, value: preset, left: 0 })?;
    } else {
        let select = pmu::select(capabilities, shown, config) & !capabilities.enable;
        let (select_msr, value) = (config.select_msr, preset);
        visit(Touch::Counter { select_msr, select, counter_msr, value })?;
    }
    if config.pair {
        let stride = capabilities.layout.stride;
        let next = Touch::Counter {
            select_msr: config.select_msr + stride,
            select: amd::MERGE_SELECT,
            counter_msr: counter_msr + stride,
            value: pmu::upper_half(preset),
        };
        // mistake: probe-without-merge
        visit(next)?;
    }
    rdpmc_of(config, visit)
}

/// Visits RDPMC of one counter, if the counter is read by RDPMC.
fn rdpmc_of<E>(
    config: &CounterConfig,
    visit: &mut impl FnMut(Touch) -> Result<(), E>,
) -> Result<(), E> {
    // mistake: rdpmc-untried
    if config.by_msr { Ok(()) } else { visit(Touch::ReadPmc(config.pmc)) }
}

impl<M: Machine> Local<'_, M> {
    /// Reads each register of the program; nothing is written.
    pub(crate) fn read_each(&mut self) -> Result<(), ErrorCode> {
        let resets = self.state.capabilities.errata.reset_at_start;
        self.touch_each(resets, |machine, _, one, refusals| touch::read(machine, one, refusals))
    }

    /// Writes each register of the program. If one is not there, nothing of the others is left
    /// changed, but that counters which have been written are off and 0, as after a session.
    pub(crate) fn write_each(&mut self) -> Result<(), ErrorCode> {
        self.touch_each(self.state.saved.resets, touch::write)
    }

    fn touch_each(
        &mut self,
        resets: bool,
        touch: impl Fn(&mut M, &Capabilities, &Touch, &mut Refusals) -> Result<(), u32>,
    ) -> Result<(), ErrorCode> {
        let shown = self.shows_counters();
        let state = &mut *self.state;
        let (machine, capabilities) = (&mut *self.machine, &state.capabilities);
        let Some(cpu_program) = self.program.cpu_program(state.cpu_type) else {
            return Ok(());
        };
        let refusals = &mut state.refusals;
        let visit = &mut |one| touch(machine, capabilities, &one, refusals);
        let touched = each_register(capabilities, self.program, cpu_program, shown, resets, visit);
        touched.map_err(|msr| {
            state.register_value = msr.into();
            ErrorCode::CountersDead
        })
    }
}
