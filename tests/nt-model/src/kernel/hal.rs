//! The HAL: the performance counter, the local APIC's page, and who owns the counters.

use super::{INSUFFICIENT_RESOURCES, INVALID_PARAMETER, broken, done, touch};
use crate::machine::{Machine, Outcome};
use crate::memory::{APIC, PAGE};
use crate::registers::WHOLE_UNIT;
use crate::rules::{Rule, Violation};

const UNSUCCESSFUL: u64 = 0xC000_0001;
const WMI_ALREADY_ENABLED: u64 = 0xC000_0303;

/// Ticks of the performance counter per second: what Windows 10 uses on x64.
const PERFORMANCE_FREQUENCY: u64 = 10_000_000;
const NANOSECONDS: u64 = 1_000_000_000;
/// How long a reading takes that is disturbed.
const DISTURBED_NS: u64 = 1_000_000;

pub(super) fn performance_counter(m: &mut Machine) -> Result<Outcome, Violation> {
    let out = m.engine.argument(0);
    if out != 0 {
        touch(m, out, 8)?;
        m.engine.write_u64(out, PERFORMANCE_FREQUENCY);
    }
    let read = m.now();
    match &mut m.kernel.slow_after {
        Some(0) => {
            m.kernel.slow_after = None;
            m.pass_to(read + DISTURBED_NS);
        }
        Some(left) => *left -= 1,
        None => {}
    }
    Ok(Outcome::Return(read / (NANOSECONDS / PERFORMANCE_FREQUENCY)))
}

pub(super) fn map_io(m: &mut Machine) -> Result<Outcome, Violation> {
    let (physical, size) = (m.engine.argument(0), m.engine.argument(1));
    // Where the local APIC's page is after reset. The driver maps no other device.
    if physical != 0xFEE0_0000 || size != PAGE {
        return broken(Rule::Memory, format!("{size} bytes at {physical:#x} are mapped"));
    }
    if m.kernel.fails() {
        return Ok(Outcome::Return(0));
    }
    m.kernel.mappings += 1;
    Ok(Outcome::Return(APIC))
}

pub(super) fn unmap_io(m: &mut Machine) -> Result<Outcome, Violation> {
    if m.engine.argument(0) != APIC || m.kernel.mappings == 0 {
        return broken(Rule::Memory, "what is unmapped was not mapped");
    }
    m.kernel.mappings -= 1;
    done()
}

/// (GroupAffinity, GroupCount, ResourceList, CounterSetHandle). No list means the whole unit.
pub(super) fn allocate_counters(m: &mut Machine) -> Result<Outcome, Violation> {
    let (groups, count) = (m.engine.argument(0), m.engine.argument(1));
    let (list, out) = (m.engine.argument(2), m.engine.argument(3));
    touch(m, out, 8)?;
    // Only since Windows 10 1903 can a list name some of the counters (the function's page); the
    // driver asks for the whole unit on every version.
    if groups != 0 || count as u32 != 0 || list != 0 {
        return broken(Rule::Unmodelled, "some counters, or those of some processors");
    }
    if m.kernel.counters_taken || m.kernel.counters.is_some() || m.kernel.fails() {
        m.engine.write_u64(out, 0);
        return Ok(Outcome::Return(INSUFFICIENT_RESOURCES));
    }
    // Handles are multiples of 4.
    m.kernel.next_handle += 4;
    let handle = m.kernel.next_handle;
    m.kernel.counters = Some(handle);
    let bus = m.engine.bus();
    bus.registers.reserve(&mut bus.cpus, WHOLE_UNIT);
    m.engine.write_u64(out, handle);
    done()
}

pub(super) fn free_counters(m: &mut Machine) -> Result<Outcome, Violation> {
    let handle = m.engine.argument(0);
    if m.kernel.counters != Some(handle) {
        return broken(Rule::Object, format!("counters {handle:#x} are freed, and not held"));
    }
    if !m.kernel.by_thread.is_empty() {
        let what = "counters are freed that are still read at each context switch";
        return broken(Rule::Alive, what);
    }
    m.kernel.counters = None;
    let bus = m.engine.bus();
    if let Some(masked) = bus.registers.release(&mut bus.cpus)? {
        m.left_masked(&masked)?;
    }
    done()
}

/// (CounterArray, Count). The list changes only while no thread profiles itself, and belongs to one
/// driver (KeSetHardwareCounterConfiguration's page); an empty one removes it.
pub(super) fn set_hardware_counters(m: &mut Machine) -> Result<Outcome, Violation> {
    const MAX_HW_COUNTERS: u64 = 16;
    const PMC_COUNTER: u32 = 0;
    let (array, count) = (m.engine.argument(0), m.engine.argument(1) & 0xFFFF_FFFF);
    if count > MAX_HW_COUNTERS {
        return Ok(Outcome::Return(INVALID_PARAMETER));
    }
    touch(m, array, count * 16)?;
    let mut counters = Vec::new();
    for element in (0..count).map(|index| array + index * 16) {
        if m.engine.read_u32(element) != PMC_COUNTER || m.engine.read_u32(element + 4) != 0 {
            return Ok(Outcome::Return(INVALID_PARAMETER));
        }
        counters.push(m.engine.read_u64(element + 8));
    }
    if count > 0 && m.kernel.counters.is_none() {
        let what = "counters are read at each context switch that are not reserved";
        return broken(Rule::Unreserved, what);
    }
    let kernel = &mut m.kernel;
    let taken = !kernel.by_thread.is_empty() || kernel.by_thread_of_another;
    let refused = kernel.profiling > 0 || count > 0 && (taken || kernel.fails());
    kernel.kept_by_thread = refused && !kernel.by_thread.is_empty();
    if refused {
        return Ok(Outcome::Return(WMI_ALREADY_ENABLED));
    }
    m.kernel.by_thread = counters;
    done()
}

pub(super) fn set_system_information(m: &mut Machine) -> Result<Outcome, Violation> {
    let (class, size, buffer) = (m.engine.argument(0), m.engine.argument(1), m.engine.argument(2));
    // HalProfileSourceInterruptHandler, with the address of a pointer to the handler.
    if (class as u32, size as u32) != (1, 8) {
        return broken(Rule::Unmodelled, format!("HalSetSystemInformation({class}, {size})"));
    }
    let handler = m.engine.read_u64(buffer);
    if handler == 0 {
        if m.kernel.keeps_handler {
            return Ok(Outcome::Return(UNSUCCESSFUL));
        }
        m.kernel.interrupt_handler = None;
        return done();
    }
    // No document says which status a second registration returns.
    if m.kernel.interrupt_handler.is_some() || m.kernel.fails() {
        return Ok(Outcome::Return(UNSUCCESSFUL));
    }
    m.kernel.interrupt_handler = Some(handler);
    // From here on an interrupt may mask LVTPC, and the driver may unmask it.
    m.engine.bus().registers.handled = true;
    done()
}
