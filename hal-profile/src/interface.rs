//! What each interface does to the registers: addresses and bits, no policy.
//!
//! The operations of the HAL design note, for every interface. Each runs on the processor that it
//! concerns, with interrupts masked (PROFILE_LEVEL on x64).
//!
//! - [`initialize`]: once when a session starts there. Touches only registers that are reserved.
//! - [`enable_monitoring`]: sets up every counter at its preset, with no overflow pending, then
//!   starts all of them, as close together as the hardware can.
//! - [`disable_monitoring`]: stops all of them, reads each a last time, and leaves no bit of ours
//!   set in any select or shared register.
//! - [`check_overflow_status`]: answers a mask of the counters that have overflowed, stopped and
//!   read. Where only the value can tell, the value tells: it is below the preset.
//! - SetInterval and QueryInformation touch no register: see
//!   [`service`](crate::service).
//!
//! An overflow interrupt is answered by [`hold`], [`check_overflow_status`], [`reload`] for each
//! counter of the mask, [`resume`]. [`read`] reads a counter, running or not.
//!
//! Registers shared with others are changed by read-modify-write; bits that are not ours are never
//! written from a saved copy. Status registers are acknowledged, not read: RDPMC costs less than
//! RDMSR, and the value is needed anyway.

use crate::capabilities::{Apic, Capabilities, Global};
use crate::control::Control;
use crate::counter::{Counter, CounterWidth};
use crate::machine::Machine;
use crate::registers::apic::{IA32_X2APIC_LVT_PMI, LVTPC_OFFSET, LvtPc};
use crate::registers::netburst::{CCCR_OFF, Cccr};
use crate::registers::pentium::{CESR, CESR_HALF, CESR_HALF_MASK};
use crate::registers::{amd, intel};
use shared_types::ProfileInterface;

/// A counter in use: where, with what, from which value, and how far it has come. Values are in its
/// own width.
#[derive(Clone, Copy, Debug)]
pub struct Seated {
    /// The counter.
    pub counter: Counter,
    /// Its width.
    pub width: CounterWidth,
    /// It interrupts when it overflows.
    pub interrupts: bool,
    /// The source that it counts: its index among the session's.
    pub source: u16,
    /// The MSR that its control value is written to, but for fixed counters.
    pub select_msr: u32,
    /// The MSR that its value is written to.
    pub write_msr: u32,
    /// Its control value.
    pub control: Control,
    /// The bit that starts it, where each counter has one.
    pub enable: u64,
    /// The value it was started from.
    pub preset: u64,
    /// The value it was last read as.
    pub value: u64,
    /// The value up to which its source's total has it.
    pub last: u64,
}

impl Seated {
    /// No counter.
    pub const NONE: Self = Self {
        counter: Counter::general(0),
        width: CounterWidth::NARROWEST,
        interrupts: false,
        source: 0,
        select_msr: 0,
        write_msr: 0,
        control: Control {
            select: 0,
            before: [(0, 0); 3],
        },
        enable: 0,
        preset: 0,
        value: 0,
        last: 0,
    };

    /// A counter that counts from 0, for the first source, and does not interrupt.
    #[must_use]
    pub fn new(capabilities: &Capabilities, counter: Counter, control: Control) -> Self {
        Self {
            counter,
            width: capabilities.width_of(counter),
            select_msr: select_msr(capabilities, counter),
            write_msr: write_msr(capabilities, counter),
            control,
            enable: enable_bit(capabilities),
            ..Self::NONE
        }
    }

    /// Its next value is this one.
    pub fn start_from(&mut self, preset: u64) {
        self.preset = preset;
        self.last = preset;
    }
}

/// What [`hold`] has to tell those that come after it.
#[derive(Clone, Copy, Debug)]
pub struct Hold {
    /// What the counters were stopped by.
    gate: Gate,
    /// The global control register as it was found.
    control: u64,
}

const EVENT_SELECT_EN: u64 = intel::PerfEvtSel::new().with_en(true).into_bits();
const CCCR_ENABLE: u64 = Cccr::new().with_enable(true).into_bits() as u64;

/// How counters are started and stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    /// Each by a bit of its own select.
    Each,
    /// All by PerfEvtSel0's EN.
    First,
    /// Each by a bit of its own select, all by the global control register.
    Global(Global),
    /// CESR: a half with CC 0 is off.
    Cesr,
}

fn gate(capabilities: &Capabilities) -> Gate {
    match (capabilities.interface(), capabilities.global) {
        (ProfileInterface::Pentium, _) => Gate::Cesr,
        (ProfileInterface::P6, _) => Gate::First,
        (_, Some(global)) => Gate::Global(global),
        _ => Gate::Each,
    }
}

fn enable_bit(capabilities: &Capabilities) -> u64 {
    match capabilities.interface() {
        ProfileInterface::NetBurst => CCCR_ENABLE,
        _ => EVENT_SELECT_EN,
    }
}

/// See the module's contract.
///
/// NetBurst: a counter that was left armed keeps running, and interrupts a thread that did not arm
/// it (seen by Linux after a crash), so all CCCRs of this logical processor's side are turned off.
pub fn initialize(machine: &mut impl Machine, capabilities: &Capabilities) {
    if capabilities.interface() == ProfileInterface::NetBurst {
        for index in (0..32).filter(|index| capabilities.counters >> index & 1 != 0) {
            let msr = select_msr(capabilities, Counter::general(index));
            machine.write_msr(msr, CCCR_OFF.into_bits().into());
        }
    }
}

/// See the module's contract.
pub fn enable_monitoring(
    machine: &mut impl Machine,
    capabilities: &Capabilities,
    seated: &[Seated],
) {
    set_up(machine, capabilities, seated);
    start(machine, capabilities, seated);
}

/// See the module's contract.
pub fn disable_monitoring(
    machine: &mut impl Machine,
    capabilities: &Capabilities,
    seated: &mut [Seated],
) {
    stop(machine, capabilities, seated);
    for one in &mut *seated {
        read(machine, capabilities, one);
    }
    clear(machine, capabilities, seated);
}

/// See the module's contract. The mask has a bit for each place of `seated`.
pub fn check_overflow_status(
    machine: &mut impl Machine,
    capabilities: &Capabilities,
    seated: &mut [Seated],
    hold: &Hold,
) -> u32 {
    let each = hold.gate == Gate::Each;
    let cheap = !each || seated.iter().filter(|one| one.interrupts).nth(1).is_none();
    let mut overflowed = 0;
    for (place, one) in seated.iter_mut().enumerate() {
        if one.interrupts && may_have_overflowed(machine, capabilities, one, cheap) {
            if each {
                stop_one(machine, one);
            }
            read(machine, capabilities, one);
            if one.value < one.preset {
                overflowed |= 1 << place;
            } else if each {
                start_one(machine, one);
            }
        }
    }
    overflowed
}

/// Starts a counter that has overflowed anew, from the preset it has now.
pub fn reload(machine: &mut impl Machine, capabilities: &Capabilities, hold: &Hold, one: &Seated) {
    preset(machine, capabilities, one);
    if hold.gate == Gate::Each {
        start_one(machine, one);
    }
}

/// Sets a stopped counter to its preset.
pub fn preset(machine: &mut impl Machine, capabilities: &Capabilities, one: &Seated) {
    machine.write_msr(one.write_msr, one.preset);
    // Errata N15, O8: a write while the input is active can carry into the upper bits; oprofile
    // and Linux found a second write to be what helps.
    if capabilities.interface() == ProfileInterface::NetBurst {
        machine.write_msr(one.write_msr, one.preset);
    }
}

/// Reads a counter.
pub fn read(machine: &mut impl Machine, capabilities: &Capabilities, one: &mut Seated) {
    let counter = one.counter;
    let index = u32::from(counter.index());
    let value = match capabilities.interface() {
        // RDPMC is not there before Pentium MMX and has errata on it.
        ProfileInterface::Pentium => machine.read_msr(counter_msr(capabilities, counter)),
        ProfileInterface::Amd64 if counter.index() >= amd::RDPMC_CORE_COUNTERS => {
            machine.read_msr(counter_msr(capabilities, counter))
        }
        _ if counter.is_fixed() => machine.read_pmc(intel::RDPMC_FIXED | index),
        _ => machine.read_pmc(index),
    };
    one.value = value & one.width.mask();
}

/// An overflow interrupt has come: stops all counters together where the hardware can.
pub fn hold(machine: &mut impl Machine, capabilities: &Capabilities, seated: &[Seated]) -> Hold {
    let mut control = 0;
    let gate = held(capabilities, seated);
    match gate {
        Gate::Global(global) => {
            control = machine.read_msr(global.control);
            machine.write_msr(global.control, control & !global_bits(seated));
        }
        Gate::First => machine.write_msr(capabilities.layout.select, first_select(seated)),
        Gate::Each | Gate::Cesr => {}
    }
    Hold { gate, control }
}

/// AMD's counters are stopped one by one in the handler even where a global register could stop
/// them: that is one register access less, and its local APIC keeps what overflows meanwhile.
fn together(capabilities: &Capabilities) -> Gate {
    match gate(capabilities) {
        Gate::Global(_) if capabilities.interface() == ProfileInterface::Amd64 => Gate::Each,
        gate => gate,
    }
}

/// With no counter of ours in use there is nothing to stop, and after an interrupt that came late,
/// or that is not ours, nothing to start: P6's only EN bit may then be somebody else's.
fn held(capabilities: &Capabilities, seated: &[Seated]) -> Gate {
    if seated.is_empty() {
        Gate::Each
    } else {
        together(capabilities)
    }
}

/// Ends what [`hold`] began: acknowledges the overflows of `reloaded` (bits of the global
/// registers' layout), starts all counters again, and lets LVTPC through.
pub fn resume(
    machine: &mut impl Machine,
    capabilities: &Capabilities,
    seated: &[Seated],
    hold: &Hold,
    reloaded: u64,
) {
    if let Some(global) = capabilities.global
        && reloaded != 0
    {
        machine.write_msr(global.acknowledge, reloaded);
    }
    match hold.gate {
        Gate::Global(global) => machine.write_msr(global.control, hold.control),
        Gate::First => machine.write_msr(
            capabilities.layout.select,
            first_select(seated) | EVENT_SELECT_EN,
        ),
        Gate::Each | Gate::Cesr => {}
    }
    if capabilities.masks_lvtpc {
        unmask_lvtpc(machine, capabilities.apic);
    }
}

/// LVTPC is the HAL's: only its mask bit is cleared, where the processor has set it.
fn unmask_lvtpc(machine: &mut impl Machine, apic: Apic) {
    match apic {
        Apic::None => {}
        Apic::XApic => {
            let entry = LvtPc::from_bits(machine.read_apic(LVTPC_OFFSET));
            machine.write_apic(LVTPC_OFFSET, entry.with_mask(false).into_bits());
        }
        Apic::X2Apic => {
            let entry = LvtPc::from_bits(machine.read_msr(IA32_X2APIC_LVT_PMI) as u32);
            machine.write_msr(
                IA32_X2APIC_LVT_PMI,
                entry.with_mask(false).into_bits().into(),
            );
        }
    }
}

/// Makes every counter ready and leaves it stopped.
fn set_up(machine: &mut impl Machine, capabilities: &Capabilities, seated: &[Seated]) {
    let gate = gate(capabilities);
    if let Gate::Global(global) = gate {
        modify(machine, global.control, global_bits(seated), 0);
    }
    for one in seated {
        for (msr, value) in one.control.before {
            if msr != 0 {
                machine.write_msr(msr, value);
            }
        }
        match gate {
            Gate::Cesr => write_cesr_half(machine, one.counter, 0),
            Gate::Global(_) if one.counter.is_fixed() => {}
            Gate::Global(_) => write_select(machine, one, EVENT_SELECT_EN),
            Gate::Each | Gate::First => write_select(machine, one, 0),
        }
        preset(machine, capabilities, one);
    }
    if let Gate::Global(global) = gate {
        write_fixed_control(machine, seated, true);
        machine.write_msr(global.acknowledge, global_bits(seated));
    }
}

/// Starts every counter.
fn start(machine: &mut impl Machine, capabilities: &Capabilities, seated: &[Seated]) {
    match gate(capabilities) {
        Gate::Global(global) => modify(machine, global.control, 0, global_bits(seated)),
        Gate::First => machine.write_msr(
            capabilities.layout.select,
            first_select(seated) | EVENT_SELECT_EN,
        ),
        Gate::Cesr => {
            for one in seated {
                write_cesr_half(machine, one.counter, one.control.select);
            }
        }
        Gate::Each => {
            for one in seated {
                start_one(machine, one);
            }
        }
    }
}

/// Stops every counter; their values stay.
fn stop(machine: &mut impl Machine, capabilities: &Capabilities, seated: &[Seated]) {
    match gate(capabilities) {
        Gate::Global(global) => modify(machine, global.control, global_bits(seated), 0),
        Gate::First => machine.write_msr(capabilities.layout.select, first_select(seated)),
        Gate::Cesr => {
            for one in seated {
                write_cesr_half(machine, one.counter, 0);
            }
        }
        Gate::Each => {
            for one in seated {
                stop_one(machine, one);
            }
        }
    }
}

/// Leaves no bit of ours set; the counters are stopped already.
fn clear(machine: &mut impl Machine, capabilities: &Capabilities, seated: &[Seated]) {
    let off = match gate(capabilities) {
        Gate::Cesr => return,
        _ if capabilities.interface() == ProfileInterface::NetBurst => CCCR_OFF.into_bits().into(),
        _ => 0,
    };
    if gate(capabilities) == Gate::First {
        machine.write_msr(capabilities.layout.select, 0);
    }
    for one in seated.iter().filter(|one| !one.counter.is_fixed()) {
        machine.write_msr(one.select_msr, off);
        for (msr, _) in one.control.before {
            if msr != 0 {
                machine.write_msr(msr, 0);
            }
        }
    }
    if let Gate::Global(global) = gate(capabilities) {
        write_fixed_control(machine, seated, false);
        machine.write_msr(global.acknowledge, global_bits(seated));
    }
}

/// Whether a counter is worth looking at; `cheap` is one that is stopped already, or the only one
/// that interrupts.
fn may_have_overflowed(
    machine: &mut impl Machine,
    capabilities: &Capabilities,
    one: &mut Seated,
    cheap: bool,
) -> bool {
    if capabilities.interface() == ProfileInterface::NetBurst {
        let cccr = machine.read_msr(one.select_msr);
        // A PMI can come without OVF (seen by Linux): the value then tells.
        if Cccr::from_bits(cccr as u32).ovf() {
            return true;
        }
    } else if cheap {
        return true;
    }
    read(machine, capabilities, one);
    one.value < one.preset
}

/// Stops one counter, where each has a bit of its own; NetBurst: clears OVF too, as it would keep
/// the interrupt line asserted.
fn stop_one(machine: &mut impl Machine, one: &Seated) {
    write_select(machine, one, 0);
}

/// Starts one counter again, where each has a bit of its own.
fn start_one(machine: &mut impl Machine, one: &Seated) {
    write_select(machine, one, one.enable);
}

fn global_bits(seated: &[Seated]) -> u64 {
    seated
        .iter()
        .fold(0, |bits, one| bits | one.counter.global_bit())
}

/// PerfEvtSel0's value without EN: counter 0's control, or nothing counted where it is free.
fn first_select(seated: &[Seated]) -> u64 {
    seated
        .iter()
        .find(|one| one.counter.index() == 0)
        .map_or(0, |one| one.control.select)
}

fn select_msr(capabilities: &Capabilities, counter: Counter) -> u32 {
    capabilities.layout.select + u32::from(counter.index()) * capabilities.layout.stride
}

fn counter_msr(capabilities: &Capabilities, counter: Counter) -> u32 {
    if counter.is_fixed() {
        return intel::IA32_FIXED_CTR0 + u32::from(counter.index());
    }
    capabilities.layout.counter + u32::from(counter.index()) * capabilities.layout.stride
}

/// The MSR that takes a whole value, where that is another.
fn write_msr(capabilities: &Capabilities, counter: Counter) -> u32 {
    if counter.is_fixed() {
        return counter_msr(capabilities, counter);
    }
    capabilities.layout.counter_write + u32::from(counter.index()) * capabilities.layout.stride
}

fn write_select(machine: &mut impl Machine, one: &Seated, bits: u64) {
    machine.write_msr(one.select_msr, one.control.select | bits);
}

fn write_cesr_half(machine: &mut impl Machine, counter: Counter, half: u64) {
    let shift = u32::from(counter.index()) * CESR_HALF;
    modify(machine, CESR, CESR_HALF_MASK << shift, half << shift);
}

fn write_fixed_control(machine: &mut impl Machine, seated: &[Seated], on: bool) {
    let (mut mask, mut bits) = (0, 0);
    for one in seated.iter().filter(|one| one.counter.is_fixed()) {
        let shift = 4 * u32::from(one.counter.index());
        mask |= 0xF << shift;
        bits |= if on { one.control.select << shift } else { 0 };
    }
    if mask != 0 {
        modify(machine, intel::IA32_FIXED_CTR_CTRL, mask, bits);
    }
}

/// Read-modify-write: clears `mask`, then sets `bits`.
fn modify(machine: &mut impl Machine, msr: u32, mask: u64, bits: u64) {
    let value = machine.read_msr(msr);
    machine.write_msr(msr, value & !mask | bits);
}
