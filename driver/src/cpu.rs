//! The instructions behind [`hal_profile::cpu::machine::Machine`].
//!
//! Everything here runs on the processor concerned; `hal_profile` decides from CPUID which
//! registers may be touched.
#![expect(unsafe_code, reason = "privileged instructions")]

use crate::apic::ApicPage;
use crate::fault;
use core::arch::asm;
use core::arch::x86_64::{__cpuid_count, _rdtsc};
use hal_profile::cpu::machine::{AccessRefused, CR4_PCE, CpuidResult, Machine};

/// RFLAGS.IF.
const INTERRUPT_FLAG: u64 = 1 << 9;
/// Instructions in one round of the counted loop: PAUSE, DEC, JNZ.
const ROUND: u32 = 3;

/// The processor that runs this code.
///
/// Valid only on the current processor with interrupts masked: `PerCpu::enter` gives access only
/// there.
#[derive(Debug)]
pub(crate) struct Cpu {
    apic: Option<ApicPage>,
}

impl Cpu {
    /// A processor whose local APIC is accessed through this page, if through a page at all.
    pub(crate) const fn new(apic: Option<ApicPage>) -> Self {
        Self { apic }
    }
}

impl Machine for Cpu {
    fn cpuid(&self, leaf: u32, subleaf: u32) -> CpuidResult {
        let result = __cpuid_count(leaf, subleaf);
        CpuidResult { eax: result.eax, ebx: result.ebx, ecx: result.ecx, edx: result.edx }
    }

    #[inline]
    fn read_msr(&mut self, msr: u32) -> u64 {
        let (low, high): (u32, u32);
        // SAFETY: ring 0; the core reads only MSRs that `try_read_msr` has seen, and none that affects
        // memory.
        unsafe {
            asm!("rdmsr", in("ecx") msr, out("eax") low, out("edx") high,
                options(nomem, nostack, preserves_flags));
        }
        u64::from(high) << 32 | u64::from(low)
    }

    #[inline]
    fn write_msr(&mut self, msr: u32, value: u64) {
        // SAFETY: ring 0; the core writes only LVTPC's mask bit and performance-monitoring MSRs
        // that `try_write_msr` has seen, with values that it computes itself. None affects memory.
        unsafe {
            asm!("wrmsr", in("ecx") msr, in("eax") value as u32, in("edx") (value >> 32) as u32,
                options(nomem, nostack, preserves_flags));
        }
    }

    fn try_read_msr(&mut self, msr: u32) -> Result<u64, AccessRefused> {
        fault::read_msr(msr)
    }

    fn try_write_msr(&mut self, msr: u32, value: u64) -> Result<(), AccessRefused> {
        fault::write_msrs(msr, 1, value).map_err(|_| AccessRefused)
    }

    fn try_read_msrs(&mut self, first: u32, count: u32) -> Result<(), u32> {
        fault::read_msrs(first, count)
    }

    fn try_write_msrs(&mut self, first: u32, count: u32, value: u64) -> Result<(), u32> {
        fault::write_msrs(first, count, value)
    }

    #[inline]
    fn read_pmc(&mut self, counter: u32) -> u64 {
        let (low, high): (u32, u32);
        // SAFETY: ring 0, where CR4.PCE does not matter; the core names only counters that
        // `try_read_pmc` has read.
        unsafe {
            asm!("rdpmc", in("ecx") counter, out("eax") low, out("edx") high,
                options(nomem, nostack, preserves_flags));
        }
        u64::from(high) << 32 | u64::from(low)
    }

    fn try_read_pmc(&mut self, counter: u32) -> Result<u64, AccessRefused> {
        fault::read_pmc(counter)
    }

    #[inline]
    fn read_apic(&mut self, offset: u32) -> u32 {
        self.apic.map_or(0, |page| page.read(offset))
    }

    #[inline]
    fn write_apic(&mut self, offset: u32, value: u32) {
        if let Some(page) = self.apic {
            page.write(offset, value);
        }
    }

    fn read_cr4(&mut self) -> u64 {
        let value: u64;
        // SAFETY: ring 0; reading CR4 has no side effect.
        unsafe {
            asm!("mov rax, cr4", out("rax") value, options(nomem, nostack, preserves_flags));
        }
        value
    }

    fn set_pce(&mut self, on: bool) {
        let other = self.read_cr4() & !CR4_PCE;
        let value = if on { other | CR4_PCE } else { other };
        // All other bits are Windows': as just read, with interrupts masked.
        // SAFETY: ring 0, and no hypervisor, as the core promises; every x86-64 processor has PCE.
        // Changing PCE alone flushes nothing and does not affect memory.
        unsafe { asm!("mov cr4, rax", in("rax") value, options(nomem, nostack, preserves_flags)) };
    }

    #[inline]
    fn timestamp(&mut self) -> u64 {
        timestamp()
    }
}

/// Executes a loop of at least `instructions` instructions, for counters to count. Any IRQL.
pub(crate) fn exercise(instructions: u32) {
    // PAUSE makes it last a few microseconds, in which an overflow interrupt can arrive. In
    // assembly, so that the count is known.
    let rounds = instructions.div_ceil(ROUND).max(1);
    // SAFETY: the loop changes only a register.
    unsafe {
        asm!("2:", "pause", "dec {0:e}", "jnz 2b", inout(reg) rounds => _, options(nomem, nostack));
    }
}

/// The time-stamp counter. Any IRQL.
#[inline]
pub(crate) fn timestamp() -> u64 {
    // SAFETY: every x86-64 processor has RDTSC.
    unsafe { _rdtsc() }
}

/// Runs `work` with interrupts masked on this processor: only an NMI or a machine check can
/// intervene, and it stays on this processor. Any IRQL.
#[inline]
pub(crate) fn masked<R>(work: impl FnOnce() -> R) -> R {
    // CLI: on x64 PROFILE_LEVEL is HIGH_LEVEL (wdm.h), so raising the IRQL to it would block the
    // same.
    let flags: u64;
    // SAFETY: what is pushed is popped; interrupts are restored below on every path, because
    // nothing unwinds. The compiler moves no memory access across this.
    unsafe { asm!("pushfq", "pop {0}", "cli", out(reg) flags) };
    let result = work();
    // As found: the caller may be the overflow interrupt itself, or within another `masked`.
    if flags & INTERRUPT_FLAG != 0 {
        // SAFETY: interrupts were enabled when this function was entered.
        unsafe { asm!("sti", options(nostack)) };
    }
    result
}
