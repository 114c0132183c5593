//! Answers HELLO, DESCRIBE, PROCESSORS and REGISTERS.

use super::io_buffer::{Answer, IoBuffer, refused};
use super::{Host, Service, now};
use crate::cpu::capabilities::{Apic, Capabilities, Gate};
use crate::cpu::counter::MAX_COUNTERS;
use crate::cpu::machine::{AccessRefused, Machine};
use crate::cpu::registers::apic::{IA32_APIC_BASE, IA32_X2APIC_LVT_PMI, LVTPC_OFFSET};
use crate::cpu::registers::intel;
use crate::cpu::selection::{Hv1, Hypervisor, Selection};
use crate::historic::pmu as historic;
use crate::run::host::Processors;
use crate::run::state::ProcessorState;
use crate::run::throttle::BUDGET;
use crate::service::session::Session;
use crate::source::MAX_SOURCES;
use shared_types::hal::OverflowStatus;
use shared_types::request::Plain;
use shared_types::request::machine::{
    Hello, Machine as Description, Processor, Register, Registers,
};
use shared_types::{ErrorCode, ProfileInterface, Text};

const IA32_TIME_STAMP_COUNTER: u32 = 0x10;
/// Marks a [`Register`]'s number as an offset, in the low bits, into the local APIC's page.
const APIC_PAGE: u32 = 0xFFFF_0000;
/// The most registers shown for one processor: 106 with 32 general and 32 fixed counters.
const MAX_REGISTERS: usize = 112;

impl<H: Host> Service<H> {
    pub(super) fn hello(&self, io: &mut IoBuffer<'_>) -> Answer {
        io.request::<Plain>(0)?;
        io.reply(|header| Hello {
            header,
            driver_name: Text::new(self.about.driver_name),
            modelled: self.about.modelled.into(),
            reserved: 0,
        })
    }

    pub(super) fn describe(&mut self, io: &mut IoBuffer<'_>) -> Answer {
        io.request::<Plain>(0)?;
        let active_session = self.active_session;
        let session = super::running(active_session, &self.sessions);
        let process = session.and_then(Session::owner).map(|owner| owner.process);
        let process = process.unwrap_or(0);
        let now = now(&mut self.processors);
        let boot = self.cpu_types.boot();
        let Selection { hal, used } = boot.selection;
        io.reply(|header| Description {
            header,
            hal_interface: hal.interface as u32,
            hal_reason: hal.reason as u32,
            interface: used.interface as u32,
            reason: used.reason as u32,
            delivery: boot.delivery as u32,
            processors: self.cpu_types.processors() as u32,
            timestamp_frequency: self.processors.timestamp_frequency(),
            ring_bytes_max: self.about.ring_bytes_max,
            ring_bytes: self.ring_bytes,
            active_process: process,
            active_session: active_session
                .map_or(0, |active_session| self.number(active_session.slot)),
            active_ticks: active_session
                .map_or(0, |active_session| now.saturating_sub(active_session.since)),
            sources_max: MAX_SOURCES as u32,
            interrupt_budget: BUDGET,
            flags: flags([
                (self.processors.handler_stuck(), Description::HANDLER_STUCK),
                (self.processors.threads_kept(), Description::THREADS_KEPT),
            ]),
            reserved: 0,
        })
    }

    pub(super) fn list_processors(&mut self, io: &mut IoBuffer<'_>) -> Answer {
        let first = io.from(0)?.first as usize;
        let total = self.cpu_types.processors();
        if first > total {
            return Err(refused(ErrorCode::ProcessorUnknown, first as u32, total as u64));
        }
        io.page(first, total, (first..total).map(|index| self.processor(index)))
    }

    fn processor(&mut self, index: usize) -> Processor {
        let cpu_type = self.cpu_types.cpu_type_of(index);
        let (group, number) = self.processors.number(index);
        let state = self.processors.run_on(index, |local| (local.state.saved, local.state.storm));
        let (Some(capabilities), Some((before, storm))) =
            (self.cpu_types.list().get(cpu_type), state)
        else {
            return Processor::default();
        };
        let identity = &capabilities.identity;
        Processor {
            index: index as u32,
            group,
            number,
            vendor: identity.vendor,
            family: identity.family,
            model: identity.model,
            stepping: identity.stepping,
            core_type: capabilities.core_type,
            native_model: capabilities.native_model,
            select_bits: (capabilities.select_bits >> 16) as u32,
            pmu_version: capabilities.pmu_version,
            counters: capabilities.declared_counters,
            counter_width: capabilities.width.bits(),
            fixed_counters: capabilities.declared_fixed,
            fixed_width: capabilities.fixed_width.bits(),
            cpu_type: cpu_type as u8,
            interface: capabilities.interface() as u32,
            reason: capabilities.selection.used.reason as u32,
            delivery: capabilities.delivery as u32,
            hypervisor: identity.hypervisor_vendor,
            counter_mask: capabilities.counters,
            fixed_mask: capabilities.fixed,
            counters_in_use: before.counters,
            fixed_in_use: before.fixed,
            flags: hypervisor_flags(capabilities)
                | flags([
                    (storm, Processor::STORM),
                    (capabilities.shares_core, Processor::SHARES_CORE),
                    (capabilities.tsx_force_abort, Processor::TSX_FORCE_ABORT),
                ]),
            underlying_hypervisor: identity.underlying_hypervisor,
            branch_records: capabilities.branches.records as u16,
            branch_reason: capabilities.branches.reason as u16,
            branch_depth: capabilities.branches.most().into(),
            branch_info: capabilities.branches.info,
        }
    }

    pub(super) fn registers(&mut self, io: &mut IoBuffer<'_>) -> Answer {
        let index = io.from(0)?.first as usize;
        let mut list = [Register::default(); MAX_REGISTERS];
        let mut sources = [0; MAX_COUNTERS];
        let read = self.processors.run_on(index, |local| {
            let ProcessorState { capabilities, known: true, .. } = &*local.state else {
                return (0, 0);
            };
            let count = read_registers(local.machine, capabilities, &mut list);
            (count, local.check_overflow_status(&mut sources))
        });
        let Some((count, number)) = read else {
            let total = self.cpu_types.processors() as u64;
            return Err(refused(ErrorCode::ProcessorUnknown, index as u32, total));
        };
        let list = list.get(..count).unwrap_or_default();
        let sources = sources.get(..number).unwrap_or_default();
        let at = size_of::<Registers>() + size_of_val(list);
        let length = at + size_of_val(sources);
        // A client cannot ask for the rest of a processor's registers, so all must fit.
        io.need(length)?;
        io.put(size_of::<Registers>(), list);
        io.put(at, sources);
        io.finish(length, |header| Registers {
            header,
            count: count as u32,
            reserved: 0,
            overflow: OverflowStatus { number: number as u32, padding: 0, sources: at as u64 },
        })
    }
}

/// What an Hv#1 hypervisor reports about itself.
fn hypervisor_flags(capabilities: &Capabilities) -> u32 {
    let Hypervisor::Hv1(Hv1 { counters, architectural, root, uses_counters, .. }) =
        capabilities.identity.hypervisor
    else {
        return 0;
    };
    flags([
        (true, Processor::HV1),
        (root, Processor::HV1_ROOT),
        (counters, Processor::HV1_COUNTERS),
        (architectural, Processor::HV1_ARCHITECTURAL),
        (uses_counters, Processor::HV1_USES_COUNTERS),
    ])
}

/// The bits whose conditions hold.
pub(super) fn flags<const N: usize>(all: [(bool, u32); N]) -> u32 {
    all.iter().filter(|(is_set, _)| *is_set).fold(0, |bits, (_, bit)| bits | bit)
}

/// Reads the performance-monitoring registers of this processor that are there, and its time-stamp
/// counter.
fn read_registers(
    machine: &mut impl Machine,
    capabilities: &Capabilities,
    list: &mut [Register],
) -> usize {
    let mut list = list.iter_mut();
    let mut count = 0;
    let mut add = |number, value| {
        if let Some(register) = list.next() {
            *register = Register { value, number, reserved: 0 };
            count += 1;
        }
    };
    each_register(capabilities, &mut |number| {
        let value = match number {
            Register::CR4 => machine.read_cr4(),
            APIC_PAGE.. => machine.read_apic(number - APIC_PAGE).into(),
            msr => match machine.try_read_msr(msr) {
                Ok(value) => value,
                Err(AccessRefused) => return,
            },
        };
        add(number, value);
    });
    // RDTSC reads it on every processor, so the MSR need not be read.
    add(IA32_TIME_STAMP_COUNTER, machine.timestamp());
    count
}

fn each_register(capabilities: &Capabilities, visit: &mut impl FnMut(u32)) {
    let layout = &capabilities.layout;
    let at = |base: u32, index: u32| base + index * layout.stride;
    match capabilities.interface() {
        ProfileInterface::Default => return,
        ProfileInterface::Pentium | ProfileInterface::NetBurst => {
            historic::each_register(capabilities, visit);
        }
        ProfileInterface::Emon | ProfileInterface::Amd64 | ProfileInterface::P6 => {
            for index in (0..32).filter(|index| capabilities.counters >> index & 1 != 0) {
                visit(at(layout.select, index));
                visit(at(layout.counter, index));
            }
        }
    }
    if capabilities.fixed != 0 {
        visit(intel::IA32_FIXED_CTR_CTRL);
        (0..32)
            .filter(|index| capabilities.fixed >> index & 1 != 0)
            .for_each(|index| visit(intel::IA32_FIXED_CTR0 + index));
    }
    if capabilities.gate == Gate::Global {
        visit(capabilities.global.control);
        visit(capabilities.global.status);
    }
    // The records themselves contain kernel addresses and are not shown.
    capabilities.branches.controls().iter().for_each(|&msr| visit(msr));
    visit(Register::CR4);
    match capabilities.apic {
        Apic::None => {}
        Apic::XApic => [IA32_APIC_BASE, APIC_PAGE + LVTPC_OFFSET].into_iter().for_each(visit),
        Apic::X2Apic => [IA32_APIC_BASE, IA32_X2APIC_LVT_PMI].into_iter().for_each(visit),
    }
}
