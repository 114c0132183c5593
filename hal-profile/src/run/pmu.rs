//! Access to the counter registers: the only code that writes them.
//!
//! Each function runs on the processor concerned, with interrupts masked (equivalent to
//! PROFILE_LEVEL on x64), and accesses only the registers that it names.
//!
//! - `initialize` is called once when a session starts on the processor and after each sleep;
//!   `release` once when the session ends and before each sleep.
//! - `enable_monitoring` begins a slice: every counter is at its preset with no overflow pending
//!   before the first one starts, and all start as close together as the hardware allows.
//! - `disable_monitoring`, `read` and `clear` end it.
//! - On an overflow: [`hold`]; then for each counter `overflowed` and, if it has overflowed,
//!   [`reload`]; then [`acknowledge`], `set_lvtpc_mask`, [`resume`]. The order matters: an
//!   overflow that comes while LVTPC is masked is lost, so counters start last.
//!
//! Registers shared with others are changed by read-modify-write. Bits that belong to others are
//! never written from an older copy than the one that `hold` reads in the same interrupt, with one
//! exception: `release` puts back what a freeze of versions 2 and 3 has cleared. An overflow found by
//! its counter's value is acknowledged without the status register being read; everything else there
//! is acknowledged only where it was seen.

use crate::cpu::capabilities::{Apic, Capabilities, Gate};
use crate::cpu::counter::Counter;
use crate::cpu::machine::Machine;
use crate::cpu::registers::amd;
use crate::cpu::registers::apic::{IA32_X2APIC_LVT_PMI, LVTPC_OFFSET, LvtPc};
use crate::cpu::registers::intel::{self, DebugCtl};
use crate::historic::pmu as historic;
use crate::plan::counter_config::{Active, ActiveCounters, CounterConfig};
use crate::plan::program::CpuProgram;
use crate::run::state::{CountersLeft, Refusals, SavedRegisters};
use shared_types::Delivery;
use zerocopy::FromZeros as _;

/// Notes the global control register, and which of the program's general counters are enabled.
/// Called before anything is written: [`release`] restores from it.
pub(crate) fn note_found(
    machine: &mut impl Machine,
    capabilities: &Capabilities,
    program: &CpuProgram,
    saved: &mut SavedRegisters,
) {
    (saved.control, saved.counters) = (0, 0);
    let historic = capabilities.gate == Gate::Historic || capabilities.errata.turn_all_off_first;
    if !historic {
        saved.counters = enabled(machine, capabilities, program.counters);
    }
    if capabilities.gate == Gate::Global {
        saved.control = machine.read_msr(capabilities.global.control);
    }
}

/// Called before the first counter of a session is set up: acknowledges those of the status bits
/// `ours` that are left from before this session and, where each counter has only its select to
/// stop it, turns the program's selects off, or all of them where an erratum asks for it. Returns
/// the status that was found; 0 if there is none.
pub(crate) fn initialize(
    machine: &mut impl Machine,
    capabilities: &Capabilities,
    program: &CpuProgram,
    ours: u64,
) -> u64 {
    if capabilities.gate == Gate::Each {
        // No register stops all at once here, so a counter that somebody left on would run through
        // the set-up of the others.
        let counters = if capabilities.errata.turn_all_off_first {
            capabilities.counters.into()
        } else {
            program.counters
        };
        for counter in Counter::each(counters) {
            machine.write_msr(capabilities.select_msr(counter), capabilities.off);
        }
    }
    if capabilities.gate != Gate::Global {
        return 0;
    }
    acknowledge_shown(machine, capabilities, ours)
}

/// The selects that reset general counters 0 to 3 of Nehalem and Westmere, one for each.
///
/// Source: errata AAK100, AAP53, BD53; Linux, arch/x86/events/intel/core.c,
/// intel_pmu_nhm_workaround.
pub(crate) const RESET_SELECTS: [u64; 4] = [0x43_00B5, 0x43_00D2, 0x43_00B1, 0x43_00B1];

/// Whether nobody has a general or a fixed counter on, so that [`reset`] disturbs no one.
pub(crate) fn is_unused(machine: &mut impl Machine, capabilities: &Capabilities) -> bool {
    enabled(machine, capabilities, capabilities.counters.into()) == 0
        && enabled_fixed(machine, capabilities) == 0
}

/// Resets general counters 0 to 3, which must be stopped and nobody's: see [`RESET_SELECTS`]. They
/// are left at 0, and the global control register as it was found.
pub(crate) fn reset(machine: &mut impl Machine, capabilities: &Capabilities) {
    let control = machine.read_msr(capabilities.global.control);
    let counters = || Counter::each(capabilities.counters.into()).zip(RESET_SELECTS);
    // mistake: reset-not-cleared
    counters().for_each(|(counter, _)| machine.write_msr(capabilities.write_msr(counter), 0));
    for (counter, select) in counters() {
        machine.write_msr(capabilities.select_msr(counter), select);
    }
    // The four counters run for the time of one write.
    machine.write_msr(capabilities.global.control, 0xF & u64::from(capabilities.counters));
    machine.write_msr(capabilities.global.control, 0);
    for (counter, _) in counters() {
        machine.write_msr(capabilities.select_msr(counter), capabilities.off);
        machine.write_msr(capabilities.write_msr(counter), 0);
    }
    machine.write_msr(capabilities.global.control, control);
}

/// The general counters in `counters` that are enabled.
fn enabled(machine: &mut impl Machine, capabilities: &Capabilities, counters: u64) -> u32 {
    Counter::each(counters & u64::from(capabilities.counters))
        .filter(|&counter| {
            machine.read_msr(capabilities.select_msr(counter)) & capabilities.enable != 0
        })
        .fold(0, |mask, counter| mask | 1 << counter.index())
}

/// Called after the last counter of a session is cleared: sets counters to 0, and their bits in the
/// global control register as they were found.
pub(crate) fn release(
    machine: &mut impl Machine,
    capabilities: &Capabilities,
    counters: u64,
    saved: u64,
) {
    // The counters are cleared before their bits: once a bit is set again, its counter belongs to
    // its owner.
    for counter in Counter::each(counters) {
        machine.write_msr(capabilities.write_msr(counter), 0);
    }
    if capabilities.gate == Gate::Global && counters != 0 {
        let global = &capabilities.global;
        // If none of the others' bits is left, a freeze may have cleared them: up to version 3,
        // FREEZE_PERFMON_ON_PMI clears the whole register (SDM vol. 3, "Freezing LBR and
        // Performance Counters on PMI").
        let was_frozen = capabilities.freeze_clears_control()
            && machine.read_msr(global.control) & saved & !counters == 0
            && freeze_may_be_on(machine, capabilities);
        // After a freeze all bits that were found are restored, with those of counters that are
        // declared and not used.
        let restored = if was_frozen { u64::MAX } else { counters };
        // The bits are restored as found and not to 0: at reset each general counter has its bit
        // set (SDM vol. 3, "Processor State After Reset"), and software written for version 1 never
        // sets it.
        modify(machine, global.control, counters, saved & restored);
    }
}

/// The fixed counters that another owner has enabled, as a mask. Called only while none of the
/// session's counters run.
pub(crate) fn enabled_fixed(machine: &mut impl Machine, capabilities: &Capabilities) -> u32 {
    // Without fixed counters the register need not exist, and reading it would raise #GP.
    if capabilities.fixed == 0 {
        return 0;
    }
    // Nothing has touched the register before START, so the read may be refused.
    let control = machine.try_read_msr(intel::IA32_FIXED_CTR_CTRL).unwrap_or(0);
    Counter::each(capabilities.fixed.into())
        // A nibble for each counter (SDM, "Architectural Performance Monitoring Version 2").
        .filter(|counter| control >> (4 * u32::from(counter.index() % 16)) & COUNTS != 0)
        .fold(0, |mask, counter| mask | counter.global_bit() as u32)
}

/// The counters that still serve an owner who is gone. Their registers are left alone: nobody can tell
/// an owner who is gone from one who did not ask.
///
/// Source: SDM vol. 3, "Processor Event Based Sampling (PEBS)", "PEBS Extensions", "Auto Counter
/// Reload"; Linux 2676dbf9f4fb, 43796f305078.
pub(crate) fn counters_left(
    machine: &mut impl Machine,
    capabilities: &Capabilities,
) -> CountersLeft {
    let mut left = CountersLeft::new_zeroed();
    let mut note = |register: u32, counters: u64| {
        let counters = counters & capabilities.all_counters();
        if left.counters == 0 && counters != 0 {
            left.register = register;
        }
        // mistake: counter-left-taken
        left.counters |= counters;
    };
    // Each read may be refused: START touches none of these registers, and a hypervisor that passes
    // CPUID's bits on need not have them. A register that is not there ties no counter.
    let mut read = |msr| machine.try_read_msr(msr).unwrap_or(0);
    if capabilities.pebs {
        let enabled = read(intel::IA32_PEBS_ENABLE);
        // Without the adaptive form, the upper half says which counters measure load latency.
        let mask = if capabilities.adaptive_pebs { u64::MAX } else { u32::MAX.into() };
        note(intel::IA32_PEBS_ENABLE, enabled & mask);
    }
    if capabilities.adaptive_pebs && capabilities.fixed != 0 {
        let control = read(intel::IA32_FIXED_CTR_CTRL);
        let adaptive = Counter::each(u64::from(capabilities.fixed) << 32).filter(|counter| {
            let shift = 4 * u32::from(counter.index());
            intel::FIXED_ADAPTIVE.checked_shl(shift).is_some_and(|bit| control & bit != 0)
        });
        let adaptive = adaptive.fold(0, |bits, counter| bits | counter.global_bit());
        note(intel::IA32_FIXED_CTR_CTRL, adaptive);
    }
    for counter in Counter::each(capabilities.reloads) {
        let fixed = counter.is_fixed();
        let first = if fixed { intel::IA32_PMC_FX0_CFG_B } else { intel::IA32_PMC_GP0_CFG_B };
        let register = first + intel::CFG_STRIDE * u32::from(counter.index());
        if read(register) != 0 {
            note(register, counter.global_bit());
        }
    }
    left
}

/// The bits of a fixed counter's nibble that make it count: OS and USR.
pub(crate) const COUNTS: u64 = 3;

/// Sets up every counter, and then starts all.
pub(crate) fn enable_monitoring(
    machine: &mut impl Machine,
    capabilities: &Capabilities,
    active: &ActiveCounters,
) {
    set_up(machine, capabilities, active);
    start(machine, capabilities, active);
}

/// [`enable_monitoring`] for START's self-test: of `tested`, in the layout of the global registers,
/// each counter starts from its preset, and the others from 0, so that they do not overflow.
pub(crate) fn begin_test(
    machine: &mut impl Machine,
    capabilities: &Capabilities,
    active: &ActiveCounters,
    tested: u64,
) {
    set_up(machine, capabilities, active);
    for counter in active.get().iter().filter(|one| one.config.bit() & tested == 0) {
        if counter.preset != 0 {
            machine.write_msr(counter.config.write_msr, 0);
        }
    }
    start(machine, capabilities, active);
}

/// Prepares every counter and leaves it stopped. Where each is started by its own select, the
/// selects are off already.
fn set_up(machine: &mut impl Machine, capabilities: &Capabilities, active: &ActiveCounters) {
    match capabilities.gate {
        Gate::Global => set_up_gated(machine, capabilities, active),
        Gate::Historic => {
            historic::stop_each(machine, capabilities, active.get());
            for counter in active.get() {
                reload(machine, capabilities, counter);
            }
        }
        Gate::Each => {
            for counter in active.get() {
                historic::write_upstream(machine, &counter.config, false);
                begin_merge(machine, capabilities, &counter.config);
                reload(machine, capabilities, counter);
            }
        }
    }
}

/// If the global control register keeps counters stopped, selects can have their own enable bit set
/// at once.
fn set_up_gated(machine: &mut impl Machine, capabilities: &Capabilities, active: &ActiveCounters) {
    // The gate is closed first: selects may then hold their enable bits, and nothing counts yet.
    modify(machine, capabilities.global.control, active.bits(), 0);
    for counter in active.get() {
        let config = &counter.config;
        if config.select_msr != 0 {
            // mistake: merge-late
            begin_merge(machine, capabilities, config);
            machine.write_msr(config.select_msr, select(capabilities, active.shown, config));
        }
        load(machine, capabilities, counter);
    }
    write_fixed_control(machine, capabilities, active);
}

/// The select of a general counter while it runs: enabled, and hidden from RDPMC in user mode unless
/// it is to be `shown`.
pub(crate) fn select(capabilities: &Capabilities, shown: bool, config: &CounterConfig) -> u64 {
    config.select | capabilities.enable | hidden(capabilities, shown, config)
}

/// The selects of a counter while it runs, each with its register: its own, and Merge in the next
/// counter's where it takes a pair. A register of 0 is none.
pub(crate) fn selects(
    capabilities: &Capabilities,
    shown: bool,
    config: &CounterConfig,
) -> [(u32, u64); 2] {
    let next = if config.pair { config.select_msr + capabilities.layout.stride } else { 0 };
    let own = (config.select_msr, select(capabilities, shown, config));
    [own, (next, amd::MERGE_SELECT | capabilities.enable)]
}

/// The bit that hides a counter from user mode, unless it is to be shown.
fn hidden(capabilities: &Capabilities, shown: bool, config: &CounterConfig) -> u64 {
    if shown { 0 } else { config.user_disable(capabilities) }
}

/// The bits of a fixed counter in IA32_FIXED_CTR_CTRL, and what they are while it counts; zeros for a
/// general counter.
pub(crate) fn fixed_control(
    capabilities: &Capabilities,
    shown: bool,
    config: &CounterConfig,
) -> (u64, u64) {
    if config.select_msr != 0 {
        return (0, 0);
    }
    // The bit that hides a counter is always ours, because what somebody has left in it would hide
    // the counter.
    let mask = config.fixed_control() | config.user_disable(capabilities);
    (mask, config.select | hidden(capabilities, shown, config))
}

fn write_fixed_control(
    machine: &mut impl Machine,
    capabilities: &Capabilities,
    active: &ActiveCounters,
) {
    let (mut mask, mut fixed) = (0, 0);
    for config in active.get().iter().map(|counter| &counter.config) {
        let (bits, value) = fixed_control(capabilities, active.shown, config);
        mask |= bits;
        fixed |= value;
    }
    // One register for all fixed counters, and others may have some: only our bits change.
    modify_if_any(machine, intel::IA32_FIXED_CTR_CTRL, mask, fixed);
}

/// Shows the counters in use, running or not, to RDPMC in user mode, or hides them, where the
/// processor can.
pub(crate) fn show(
    machine: &mut impl Machine,
    capabilities: &Capabilities,
    active: &mut ActiveCounters,
    shown: bool,
) {
    active.shown = shown;
    if !capabilities.user_disable {
        return;
    }
    for config in active.get().iter().map(|counter| &counter.config) {
        if config.select_msr != 0 {
            machine.write_msr(config.select_msr, select(capabilities, shown, config));
        }
    }
    write_fixed_control(machine, capabilities, active);
}

/// Makes the next counter the upper bits of this one, where it needs that.
fn begin_merge(machine: &mut impl Machine, capabilities: &Capabilities, config: &CounterConfig) {
    // Merge comes before the counter's own select, with which it would count without Merge: PPR for
    // AMD Family 17h, "Large Increment per Cycle Events"; Linux 5738891229a2.
    if config.pair {
        let next = config.select_msr + capabilities.layout.stride;
        // mistake: no-merge
        machine.write_msr(next, amd::MERGE_SELECT | capabilities.enable);
    }
}

/// Ends what [`begin_merge`] began; the counter must be stopped.
fn end_merge(machine: &mut impl Machine, capabilities: &Capabilities, config: &CounterConfig) {
    if config.pair {
        // mistake: merge-left
        machine.write_msr(config.select_msr + capabilities.layout.stride, capabilities.off);
    }
}

/// Writes the preset of a counter that is stopped.
#[inline]
fn load(machine: &mut impl Machine, capabilities: &Capabilities, counter: &Active) {
    let config = &counter.config;
    if config.pair {
        // The upper counter is written first: a write of the even counter takes its 48 bits alone
        // (PPR for AMD Family 17h, "Large Increment per Cycle Events").
        let (next, upper) =
            (config.write_msr + capabilities.layout.stride, upper_half(counter.preset));
        // mistake: carry-kept
        machine.write_msr(next, upper);
    }
    machine.write_msr(config.write_msr, counter.preset);
}

/// What the second counter of a pair holds above the preset of the first.
pub(crate) fn upper_half(preset: u64) -> u64 {
    // A pair is one counter of 64 bits, which interrupts on the carry out of all of them: above a
    // preset stands the extension of its sign (Linux 26e52558ead4). A count from 0 needs no interrupt,
    // and of what it carries only the low 48 bits are read.
    // mistake: pair-from-zero
    if preset == 0 { 0 } else { amd::UPPER_HALF }
}

/// Starts every counter that is set up, or that [`disable_monitoring`] has stopped.
pub(crate) fn start(
    machine: &mut impl Machine,
    capabilities: &Capabilities,
    active: &ActiveCounters,
) {
    match capabilities.gate {
        // One write starts all: what is counted together begins together.
        Gate::Global => modify(machine, capabilities.global.control, 0, active.bits()),
        Gate::Historic => historic::start(machine, capabilities, active.get()),
        Gate::Each => {
            for counter in active.get() {
                start_one(machine, capabilities, counter);
            }
        }
    }
}

/// Stops every counter; their values are kept.
pub(crate) fn disable_monitoring(
    machine: &mut impl Machine,
    capabilities: &Capabilities,
    active: &ActiveCounters,
) {
    match capabilities.gate {
        // Only our bits are cleared: others keep counting while our slices change.
        Gate::Global => modify(machine, capabilities.global.control, active.bits(), 0),
        Gate::Historic => historic::stop(machine, capabilities, active.get()),
        Gate::Each => {
            for counter in active.get() {
                machine.write_msr(counter.config.select_msr, capabilities.off);
                end_merge(machine, capabilities, &counter.config);
            }
        }
    }
}

/// Clears what [`disable_monitoring`] has left in the session's registers. The counters must
/// already be stopped.
pub(crate) fn clear(
    machine: &mut impl Machine,
    capabilities: &Capabilities,
    active: &ActiveCounters,
) {
    match capabilities.gate {
        Gate::Global => clear_gated(machine, capabilities, active),
        Gate::Historic => historic::clear(machine, capabilities, active.get()),
        Gate::Each => {
            for counter in active.get() {
                historic::write_upstream(machine, &counter.config, true);
            }
        }
    }
}

fn clear_gated(machine: &mut impl Machine, capabilities: &Capabilities, active: &ActiveCounters) {
    let mut fixed = 0;
    for config in active.get().iter().map(|counter| &counter.config) {
        if config.select_msr == 0 {
            fixed |= config.fixed_control() | config.user_disable(capabilities);
        } else {
            machine.write_msr(config.select_msr, capabilities.off);
            end_merge(machine, capabilities, config);
        }
    }
    modify_if_any(machine, intel::IA32_FIXED_CTR_CTRL, fixed, 0);
    // The overflows are acknowledged last: a stopped counter may still count, and overflow by, the
    // events that are in flight.
    acknowledge(machine, capabilities, active.bits());
}

/// Reads a counter, running or not.
#[inline]
pub(crate) fn read(machine: &mut impl Machine, refusals: Refusals, counter: &Active) -> u64 {
    let config = &counter.config;
    // RDPMC costs less than RDMSR.
    let value = if config.by_msr || refusals.rdpmc {
        machine.read_msr(config.write_msr)
    } else {
        machine.read_pmc(config.pmc)
    };
    // For a Merge pair RDMSR also returns the upper half, which is no part of this counter's value.
    value & config.width.mask()
}

/// First step of an overflow interrupt: stops all counters together, if the hardware can. `bits`:
/// their bits in the layout of the global registers. Returns the global control register as it was
/// found.
#[inline]
pub fn hold(
    machine: &mut impl Machine,
    capabilities: &Capabilities,
    active: &[Active],
    bits: u64,
) -> u64 {
    match capabilities.handler_gate {
        // One write stops all, others' counters excepted: what the handler does is on none of ours.
        Gate::Global => {
            // The register is read and not remembered: others' bits may have changed since the
            // session began.
            let control = machine.read_msr(capabilities.global.control);
            machine.write_msr(capabilities.global.control, control & !bits);
            control
        }
        Gate::Historic => {
            historic::stop(machine, capabilities, active);
            0
        }
        // Nothing stops all of them, so each is stopped when it is found to have overflowed.
        Gate::Each => 0,
    }
}

/// The value of a counter if it has overflowed; it is then left stopped. If counters are stopped
/// one by one, the others keep running. `alone`: no other counter of the session can have
/// interrupted.
#[inline]
pub(crate) fn overflowed(
    machine: &mut impl Machine,
    capabilities: &Capabilities,
    refusals: Refusals,
    counter: &Active,
    alone: bool,
) -> Option<u64> {
    let each = capabilities.handler_gate == Gate::Each;
    if each {
        // If no other counter can have interrupted, this one is stopped without being checked
        // first.
        let sure = alone && capabilities.delivery != Delivery::CccrFlag;
        if !sure && !suspected(machine, capabilities, refusals, counter) {
            return None;
        }
        stop_one(machine, counter);
    }
    // The counter is read after its stop: events after this read would be in no total.
    let value = read(machine, refusals, counter);
    // The value decides: it is below the preset (HAL design note, "CheckOverflowStatus"). On
    // NetBurst too, because an interrupt can come without OVF there (seen by Linux).
    let overflowed = counter.overflowed(value);
    // A lone counter is stopped unexamined, and OVF may be left of an overflow that was handled.
    if each && !overflowed {
        start_one(machine, capabilities, counter);
    }
    overflowed.then_some(value)
}

/// Writes a counter's preset.
#[inline]
pub fn reload(machine: &mut impl Machine, capabilities: &Capabilities, counter: &Active) {
    // The counter is stopped: events between its read and this write would be in no total.
    load(machine, capabilities, counter);
    // N15, O8: see `Errata`.
    if cfg!(feature = "historic") && capabilities.errata.write_counter_twice {
        machine.write_msr(counter.config.write_msr, counter.preset);
    }
}

/// Acknowledges overflows, given as bits in the layout of the global registers.
#[inline]
pub fn acknowledge(machine: &mut impl Machine, capabilities: &Capabilities, overflows: u64) {
    let global = &capabilities.global;
    // A write of 0 would change nothing and, in a guest, cost an exit.
    if global.acknowledge != 0 && overflows != 0 {
        machine.write_msr(global.acknowledge, overflows);
    }
}

/// Reads the global status register, and acknowledges those bits of `ours` that are set. Returns
/// all that are set, whoever owns them; 0 if there is no such register.
pub(crate) fn acknowledge_shown(
    machine: &mut impl Machine,
    capabilities: &Capabilities,
    ours: u64,
) -> u64 {
    let shown = status(machine, capabilities);
    acknowledge(machine, capabilities, shown & ours);
    shown
}

/// The status bit with which overflows freeze the counters, if `status` shows it or somebody has
/// set FREEZE_PERFMON_ON_PMI; otherwise 0.
pub(crate) fn freeze_seen(
    machine: &mut impl Machine,
    capabilities: &Capabilities,
    status: u64,
) -> u64 {
    let global = &capabilities.global;
    // CTR_FRZ is acknowledged only if it was seen: KVM answers a write of it with #GP below version
    // 4, and what other hypervisors do is not documented.
    let requested = global.freeze != 0
        && global.freeze_control != 0
        && DebugCtl::from_bits(machine.read_msr(global.freeze_control)).freeze_perfmon_on_pmi();
    if requested { global.freeze } else { status & global.freeze }
}

/// Whether somebody has set FREEZE_PERFMON_ON_PMI, or may have where that cannot be seen.
fn freeze_may_be_on(machine: &mut impl Machine, capabilities: &Capabilities) -> bool {
    // Nothing else needs the register below version 4, so START has not seen it.
    let control = match capabilities.global.freeze_control {
        0 => return true,
        msr => machine.try_read_msr(msr),
    };
    control.map_or(true, |control| DebugCtl::from_bits(control).freeze_perfmon_on_pmi())
}

/// Restarts all counters that [`hold`] stopped or, where counters are stopped one by one, those
/// that `overflowed` stopped, given as bits in the layout of the global registers.
#[inline]
pub fn resume(
    machine: &mut impl Machine,
    capabilities: &Capabilities,
    active: &[Active],
    control: u64,
    stopped: u64,
) {
    match capabilities.handler_gate {
        // The register is not read again: interrupts have been masked since `hold` read it, and
        // nobody else writes it on this processor. On versions 2 and 3 `control` has the session's
        // bits whatever was found: a freeze has cleared them before the read; other owners must set
        // theirs.
        Gate::Global => machine.write_msr(capabilities.global.control, control),
        Gate::Historic => historic::start(machine, capabilities, active),
        Gate::Each => {
            for counter in active {
                if stopped & counter.config.bit() != 0 {
                    start_one(machine, capabilities, counter);
                }
            }
        }
    }
}

/// The overflow bits that are set, whoever owns the counters; 0 if there is no status register.
pub(crate) fn status(machine: &mut impl Machine, capabilities: &Capabilities) -> u64 {
    match capabilities.global.status {
        0 => 0,
        msr => machine.read_msr(msr),
    }
}

/// Reads LVTPC; 0 if there is no local APIC.
pub(crate) fn lvtpc(machine: &mut impl Machine, capabilities: &Capabilities) -> u32 {
    match capabilities.apic {
        Apic::None => 0,
        Apic::XApic => machine.read_apic(LVTPC_OFFSET),
        // In x2APIC mode there is no page (SDM, "Extended XAPIC (x2APIC)").
        Apic::X2Apic => machine.read_msr(IA32_X2APIC_LVT_PMI) as u32,
    }
}

/// Sets LVTPC's mask bit, or clears it if the entry sends an interrupt.
#[inline]
pub(crate) fn set_lvtpc_mask(machine: &mut impl Machine, capabilities: &Capabilities, mask: bool) {
    // The entry is read, changed and written back: vector and delivery mode are the HAL's, and no
    // document gives them.
    match capabilities.apic {
        Apic::None => {}
        Apic::XApic => {
            if let Some(entry) = masked(machine.read_apic(LVTPC_OFFSET), mask) {
                machine.write_apic(LVTPC_OFFSET, entry);
            }
        }
        Apic::X2Apic => {
            if let Some(entry) = masked(machine.read_msr(IA32_X2APIC_LVT_PMI) as u32, mask) {
                machine.write_msr(IA32_X2APIC_LVT_PMI, entry.into());
            }
        }
    }
}

/// LVTPC with its mask bit set or cleared; `None` if it must not be cleared.
#[inline]
fn masked(entry: u32, mask: bool) -> Option<u32> {
    let entry = LvtPc::from_bits(entry);
    // mistake: nmi-unmasked
    let allowed = mask || entry.is_interrupt();
    allowed.then(|| entry.with_mask(mask).into_bits())
}

/// Whether LVTPC's mask bit is set.
pub(crate) fn is_masked(machine: &mut impl Machine, capabilities: &Capabilities) -> bool {
    LvtPc::from_bits(lvtpc(machine, capabilities)).mask()
}

/// Clears LVTPC's mask bit if it is set. The error is an entry that sends no interrupt, and is left
/// as it is. The write is tried, because this is called also where START was refused before it had
/// seen one succeed.
pub(crate) fn unmask_lvtpc(
    machine: &mut impl Machine,
    capabilities: &Capabilities,
) -> Result<(), LvtPc> {
    let entry = LvtPc::from_bits(lvtpc(machine, capabilities));
    if !entry.is_interrupt() {
        return Err(entry);
    }
    // A write that would change nothing may cost an exit in a guest.
    if !entry.mask() {
        return Ok(());
    }
    let entry = entry.with_mask(false).into_bits();
    match capabilities.apic {
        Apic::None => {}
        Apic::XApic => machine.write_apic(LVTPC_OFFSET, entry),
        Apic::X2Apic => {
            let _ = machine.try_write_msr(IA32_X2APIC_LVT_PMI, entry.into());
        }
    }
    Ok(())
}

/// Whether a running counter appears to have overflowed.
#[inline(never)]
fn suspected(
    machine: &mut impl Machine,
    capabilities: &Capabilities,
    refusals: Refusals,
    counter: &Active,
) -> bool {
    historic::flags_overflow(machine, capabilities, counter)
        || read(machine, refusals, counter) < counter.preset
}

/// Stops one counter through its select.
fn stop_one(machine: &mut impl Machine, counter: &Active) {
    // On NetBurst this also clears OVF, which would keep the interrupt line asserted.
    machine.write_msr(counter.config.select_msr, counter.config.select);
}

fn start_one(machine: &mut impl Machine, capabilities: &Capabilities, counter: &Active) {
    let select = counter.config.select | capabilities.enable;
    machine.write_msr(counter.config.select_msr, select);
}

/// Writes the bits `mask` of a register again as they were `written`, unless they still are; returns
/// what was found in them if it differs.
pub(crate) fn put_back(
    machine: &mut impl Machine,
    msr: u32,
    mask: u64,
    written: u64,
) -> Option<u64> {
    let value = machine.read_msr(msr);
    let found = value & mask;
    if found == written {
        return None;
    }
    machine.write_msr(msr, value & !mask | written);
    Some(found)
}

/// Read-modify-write: clears `mask`, then sets `bits`.
fn modify(machine: &mut impl Machine, msr: u32, mask: u64, bits: u64) {
    let value = machine.read_msr(msr);
    machine.write_msr(msr, value & !mask | bits);
}

/// [`modify`], unless there is nothing to change.
fn modify_if_any(machine: &mut impl Machine, msr: u32, mask: u64, bits: u64) {
    if mask != 0 {
        modify(machine, msr, mask, bits);
    }
}
