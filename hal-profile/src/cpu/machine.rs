//! One processor: the only boundary between the core and hardware.

use zerocopy::FromZeros;

/// The result of CPUID: EAX, EBX, ECX, EDX.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromZeros)]
pub struct CpuidResult {
    pub eax: u32,
    pub ebx: u32,
    pub ecx: u32,
    pub edx: u32,
}

/// CR4.PCE: RDPMC may be executed in user mode (SDM, "Control Registers").
pub const CR4_PCE: u64 = 1 << 8;

/// #GP or #UD: the processor, or its hypervisor, has refused an access to an MSR or a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessRefused;

/// One processor, as seen from ring 0 on that processor with interrupts masked.
///
/// The plain accesses return no errors: their exception is a bug check on Windows and a recorded fault
/// on a modelled machine. The core touches only registers that CPUID promises, and each for the first
/// time by [`try_read_msr`](Self::try_read_msr), [`try_write_msr`](Self::try_write_msr) or
/// [`try_read_pmc`](Self::try_read_pmc), with every bit that it writes later but those that start a
/// counter: a hypervisor may promise what it refuses.
pub trait Machine {
    /// CPUID with EAX = `leaf` and ECX = `subleaf`.
    fn cpuid(&self, leaf: u32, subleaf: u32) -> CpuidResult;
    fn read_msr(&mut self, msr: u32) -> u64;
    fn write_msr(&mut self, msr: u32, value: u64);
    /// RDMSR; an error if the register is not there. It costs more than [`read_msr`](Self::read_msr).
    fn try_read_msr(&mut self, msr: u32) -> Result<u64, AccessRefused>;
    /// WRMSR; an error if the register is not there or refuses the value. It costs more than
    /// [`write_msr`](Self::write_msr).
    fn try_write_msr(&mut self, msr: u32, value: u64) -> Result<(), AccessRefused>;
    /// RDMSR of `count` registers from `first` on; an error is the first that is not there.
    fn try_read_msrs(&mut self, first: u32, count: u32) -> Result<(), u32> {
        let mut all = (0..count).map(|index| first + index);
        all.try_for_each(|msr| self.try_read_msr(msr).map(drop).map_err(|_| msr))
    }
    /// WRMSR of `value` to `count` registers from `first` on; an error is the first that is not
    /// there.
    fn try_write_msrs(&mut self, first: u32, count: u32, value: u64) -> Result<(), u32> {
        let mut all = (0..count).map(|index| first + index);
        all.try_for_each(|msr| self.try_write_msr(msr, value).map_err(|_| msr))
    }
    /// RDPMC with ECX = `counter`, in the encoding of the processor's manual.
    fn read_pmc(&mut self, counter: u32) -> u64;
    /// RDPMC; an error if it is refused, whatever RDMSR of the same counter does: hypervisors intercept
    /// the two apart. It costs more than [`read_pmc`](Self::read_pmc).
    fn try_read_pmc(&mut self, counter: u32) -> Result<u64, AccessRefused>;
    /// Reads a register of the local APIC's page, in xAPIC mode only.
    fn read_apic(&mut self, offset: u32) -> u32;
    /// Writes a register of the local APIC's page, in xAPIC mode only.
    fn write_apic(&mut self, offset: u32, value: u32);
    fn read_cr4(&mut self) -> u64;
    /// Sets or clears [`CR4_PCE`]; no other bit of CR4 changes.
    fn set_pce(&mut self, on: bool);
    /// RDTSC.
    fn timestamp(&mut self) -> u64;
}
