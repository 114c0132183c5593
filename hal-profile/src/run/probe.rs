//! The first touch of each register of a program, before START relies on any of them.
//!
//! CPUID may promise what is not there: a hypervisor that emulates a part, a guest that has moved to
//! another host. Windows answers the #GP of a plain access with a bug check, so each register is
//! first read and written by instructions whose #GP is an error. What is written is harmless, and
//! of the program's own counters alone:
//!
//! | register | first write | left |
//! |---|---|---|
//! | select, and Merge in the second of a pair | its value without the enable bit | off |
//! | counter | its preset; nothing counts yet | 0 |
//! | IA32_FIXED_CTR_CTRL | the nibbles of the program without OS and USR | those nibbles 0 |
//! | global control | the program's bits set, while every select and nibble is off | as found |
//! | acknowledgement | the program's bits, as before each slice | |
//! | IA32_DEBUGCTL | FREEZE_LBRS_ON_PMI, while nobody records | as found |
//! | filter, switch and depth of branch records | its value without the enable bit | as found |
//! | branch record | 0 | 0 |
//! | LVTPC | what it holds | as found |
//!
//! Where the registers belong to the family, before leaf 0x0A, there is nothing to promise:
//! Pentium and P6 are not probed.

use crate::cpu::capabilities::{Apic, Capabilities, Gate};
use crate::cpu::counter::Counter;
use crate::cpu::machine::Machine;
use crate::cpu::registers::amd;
use crate::cpu::registers::apic::IA32_X2APIC_LVT_PMI;
use crate::cpu::registers::intel;
use crate::historic::pmu as historic;
use crate::plan::counter_config::{CountedBy, CounterConfig};
use crate::plan::program::{CpuProgram, Program};
use crate::run::first_touch::FirstTouch;
use crate::run::host::Local;
use crate::run::{lbr, pmu};
use shared_types::ErrorCode;

/// OS and USR in every nibble of IA32_FIXED_CTR_CTRL.
const FIXED_COUNTS: u64 = pmu::COUNTS * 0x1111_1111_1111_1111;

/// Calls `visit` for each register that START, any slice or an interrupt of the program uses, once
/// for each counter, until it fails. `resets`: counters are reset before each slice.
pub(crate) fn each_register<E>(
    capabilities: &Capabilities,
    program: &Program,
    cpu_program: &CpuProgram,
    resets: bool,
    visit: &mut impl FnMut(FirstTouch) -> Result<(), E>,
) -> Result<(), E> {
    if capabilities.gate == Gate::Historic {
        return Ok(());
    }
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
            each_of_counter(capabilities, config, visit)?;
            mask |= config.fixed_control();
            fixed |= config.select & config.fixed_control() & !FIXED_COUNTS;
        }
    }
    let others = Counter::each(capabilities.counters.into()).zip(pmu::RESET_SELECTS);
    let others = others.filter(|(counter, _)| resets && !cpu_program.uses(*counter));
    for (counter, select) in others {
        let select = select & !capabilities.enable;
        visit(FirstTouch::select(capabilities.select_msr(counter), select, capabilities.off))?;
        visit(FirstTouch::own(capabilities.write_msr(counter), 0, 0))?;
    }
    if cfg!(feature = "historic") && capabilities.errata.turn_all_off_first {
        for counter in Counter::each(u64::from(capabilities.counters) & !cpu_program.counters) {
            let (select, off) = (capabilities.select_msr(counter), capabilities.off);
            visit(FirstTouch::own(select, off, off))?;
        }
    }
    if mask != 0 {
        visit(FirstTouch::part(intel::IA32_FIXED_CTR_CTRL, mask, fixed, Some(0)))?;
    }
    if capabilities.gate == Gate::Global {
        let counters = cpu_program.counters;
        visit(FirstTouch::read(global.status))?;
        visit(FirstTouch::borrow(global.control, counters, counters))?;
        if counters != 0 {
            visit(FirstTouch::acknowledge(global.acknowledge, counters))?;
        }
    }
    let samples = program.settings.samples;
    if samples && global.freeze != 0 && global.freeze_control != 0 {
        visit(FirstTouch::read(global.freeze_control))?;
    }
    if samples && capabilities.apic == Apic::X2Apic {
        visit(FirstTouch::borrow(IA32_X2APIC_LVT_PMI, 0, 0))?;
    }
    lbr::each_register(capabilities, &cpu_program.recording, visit)
}

/// The registers of one counter, and of the next if it takes that too.
fn each_of_counter<E>(
    capabilities: &Capabilities,
    config: &CounterConfig,
    visit: &mut impl FnMut(FirstTouch) -> Result<(), E>,
) -> Result<(), E> {
    let (off, stride) = (capabilities.off, capabilities.layout.stride);
    historic::each_upstream(config, &mut |msr, value| visit(FirstTouch::own(msr, value, 0)))?;
    if config.select_msr != 0 {
        visit(FirstTouch::select(config.select_msr, config.select, off))?;
    }
    let preset = config.width.preset(config.period.into());
    visit(FirstTouch::own(config.write_msr, preset, 0))?;
    if config.pair {
        // mistake: probe-without-merge
        visit(FirstTouch::select(config.select_msr + stride, amd::MERGE_SELECT, off))?;
        visit(FirstTouch::own(config.write_msr + stride, pmu::upper_half(preset), 0))?;
    }
    if config.read_msr != 0 {
        visit(FirstTouch::read(config.read_msr))?;
    }
    Ok(())
}

/// Reads a register; if it is not there, returns its number.
#[inline(never)]
fn read(machine: &mut impl Machine, touch: &FirstTouch) -> Result<(), u32> {
    if touch.reads { machine.try_read_msrs(touch.msr, touch.count) } else { Ok(()) }
}

/// Writes a register, which has been read. `select`: the select that was turned off last, until its
/// counter is written, and its value before.
#[inline(never)]
fn write(
    machine: &mut impl Machine,
    touch: &FirstTouch,
    select: &mut Option<(u32, u64)>,
) -> Result<(), u32> {
    let FirstTouch { msr, count, reads, write: Some(write) } = *touch else {
        return Ok(());
    };
    if count > 1 {
        return machine.try_write_msrs(msr, count, write.value);
    }
    let kept = reads && (write.select || write.left.is_none() || write.mask != u64::MAX);
    let found = if kept { machine.read_msr(msr) } else { 0 };
    let value = found & !write.mask | write.value;
    if machine.try_write_msr(msr, value).is_err() {
        // Without its counter it is not the session's.
        if let Some((select, found)) = *select {
            machine.write_msr(select, found);
        }
        return Err(msr);
    }
    let left = write.left.map_or(found, |left| found & !write.mask | left);
    if left != value {
        // What it held may be what it does not take: the depth of branch records.
        let _ = machine.try_write_msr(msr, left);
    }
    *select = write.select.then_some((msr, found));
    Ok(())
}

impl<M: Machine> Local<'_, M> {
    /// Reads each register of the program; nothing is written.
    pub(crate) fn read_each(&mut self) -> Result<(), ErrorCode> {
        let capabilities = &self.state.capabilities;
        let resets = capabilities.errata.reset_at_start;
        let machine = &mut *self.machine;
        let Some(cpu_program) = self.program.cpu_program(self.state.cpu_type) else {
            return Ok(());
        };
        let read = each_register(capabilities, self.program, cpu_program, resets, &mut |touch| {
            read(machine, &touch)
        });
        read.map_err(|msr| self.absent(msr))
    }

    /// Writes each register of the program. If one is not there, nothing of the others is left
    /// changed, but that counters which have been written are off and 0, as after a session.
    pub(crate) fn write_each(&mut self) -> Result<(), ErrorCode> {
        let capabilities = &self.state.capabilities;
        let resets = self.state.saved.resets;
        let machine = &mut *self.machine;
        let Some(cpu_program) = self.program.cpu_program(self.state.cpu_type) else {
            return Ok(());
        };
        let mut select = None;
        let wrote = each_register(capabilities, self.program, cpu_program, resets, &mut |touch| {
            write(machine, &touch, &mut select)
        });
        wrote.map_err(|msr| self.absent(msr))
    }

    fn absent(&mut self, msr: u32) -> ErrorCode {
        self.state.register_value = msr.into();
        ErrorCode::CountersDead
    }
}
