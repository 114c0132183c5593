//! To the processor: the instructions that [`hal_profile::machine::Machine`] stands for.
//!
//! One of the three rooms where unsafe code stands. Everything here is done on the processor that
//! it concerns; which registers may be touched is decided in `hal_profile`, from CPUID.
#![expect(
    unsafe_code,
    reason = "privileged instructions, and the local APIC's page"
)]

use core::arch::asm;
use core::arch::x86_64::{__cpuid_count, _rdtsc};
use core::ptr::NonNull;
use hal_profile::machine::{CpuidResult, Machine};

/// RFLAGS.IF.
const INTERRUPT_FLAG: u64 = 1 << 9;
/// Rounds of an exercise, of two instructions each.
const EXERCISE: u64 = 1000;

/// The processor that runs this code.
///
/// It is of use only on one processor with interrupts masked: the host of the core lends it only
/// there.
#[derive(Debug)]
pub(crate) struct Cpu {
    apic: Option<ApicPage>,
}

/// The local APIC's registers, mapped: the one mapping that the driver makes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ApicPage(NonNull<u32>);

// SAFETY: the mapping is valid on every processor, and each sees its own local APIC through it.
unsafe impl Send for ApicPage {}
// SAFETY: as above; all accesses are volatile.
unsafe impl Sync for ApicPage {}

impl ApicPage {
    /// The page at an address where it has been mapped.
    ///
    /// # Safety
    /// The 4 KiB at `at` are the local APIC's page, mapped uncached, for as long as this or a copy
    /// of it is used.
    pub(crate) const unsafe fn mapped(at: NonNull<u32>) -> Self {
        Self(at)
    }

    /// Where it is mapped.
    #[must_use]
    pub(crate) const fn address(self) -> NonNull<u32> {
        self.0
    }

    fn register(self, offset: u32) -> NonNull<u32> {
        let words = (offset & 0xFF0) as usize / size_of::<u32>();
        // SAFETY: below 4 KiB, so within the page that is mapped.
        unsafe { self.0.add(words) }
    }
}

impl Cpu {
    /// A processor whose local APIC is reached through this page, if by a page at all.
    #[must_use]
    pub(crate) const fn new(apic: Option<ApicPage>) -> Self {
        Self { apic }
    }
}

impl Machine for Cpu {
    fn cpuid(&self, leaf: u32, subleaf: u32) -> CpuidResult {
        let result = __cpuid_count(leaf, subleaf);
        CpuidResult {
            eax: result.eax,
            ebx: result.ebx,
            ecx: result.ecx,
            edx: result.edx,
        }
    }

    #[inline]
    fn read_msr(&mut self, msr: u32) -> u64 {
        let (low, high): (u32, u32);
        // SAFETY: ring 0; the core reads only MSRs that CPUID proves, and none that has an effect
        // on memory.
        unsafe {
            asm!("rdmsr", in("ecx") msr, out("eax") low, out("edx") high,
                options(nomem, nostack, preserves_flags));
        }
        u64::from(high) << 32 | u64::from(low)
    }

    #[inline]
    fn write_msr(&mut self, msr: u32, value: u64) {
        // SAFETY: ring 0; the core writes only performance-monitoring MSRs that CPUID proves, with
        // values of its own making, and LVTPC's mask bit. None has an effect on memory.
        unsafe {
            asm!("wrmsr", in("ecx") msr, in("eax") value as u32, in("edx") (value >> 32) as u32,
                options(nomem, nostack, preserves_flags));
        }
    }

    #[inline]
    fn read_pmc(&mut self, counter: u32) -> u64 {
        let (low, high): (u32, u32);
        // SAFETY: ring 0, where CR4.PCE does not matter; the core names only counters that CPUID
        // proves.
        unsafe {
            asm!("rdpmc", in("ecx") counter, out("eax") low, out("edx") high,
                options(nomem, nostack, preserves_flags));
        }
        u64::from(high) << 32 | u64::from(low)
    }

    #[inline]
    fn read_apic(&mut self, offset: u32) -> u32 {
        self.apic.map_or(0, |page| {
            // SAFETY: a register of the mapped page.
            unsafe { page.register(offset).read_volatile() }
        })
    }

    #[inline]
    fn write_apic(&mut self, offset: u32, value: u32) {
        if let Some(page) = self.apic {
            // SAFETY: a register of the mapped page; the core writes LVTPC alone.
            unsafe { page.register(offset).write_volatile(value) }
        }
    }

    #[inline]
    fn timestamp(&mut self) -> u64 {
        timestamp()
    }

    fn exercise(&mut self) {
        // SAFETY: a loop on a register.
        unsafe {
            asm!("2:", "dec {0}", "jnz 2b", inout(reg) EXERCISE => _, options(nomem, nostack));
        }
    }
}

/// The time-stamp counter. Any IRQL.
#[inline]
#[must_use]
pub(crate) fn timestamp() -> u64 {
    // SAFETY: every x86-64 processor has RDTSC.
    unsafe { _rdtsc() }
}

/// Does `work` with interrupts masked on this processor: nothing but an NMI or a machine check comes
/// between, and it stays on this processor. Any IRQL.
#[inline]
pub(crate) fn masked<R>(work: impl FnOnce() -> R) -> R {
    let flags: u64;
    // SAFETY: what is pushed is popped; masking ends below, on every path, as nothing unwinds. The
    // compiler moves no access to memory over it.
    unsafe { asm!("pushfq", "pop {0}", "cli", out(reg) flags) };
    let result = work();
    if flags & INTERRUPT_FLAG != 0 {
        // SAFETY: interrupts were enabled when this began.
        unsafe { asm!("sti", options(nostack)) };
    }
    result
}
