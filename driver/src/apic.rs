//! The local APIC: its page of registers, which is the only mapping that the driver makes, and
//! LVTPC's mask bit.
#![expect(unsafe_code, reason = "maps a page of registers, and accesses them")]

use core::arch::asm;
use core::ptr::NonNull;
use hal_profile::cpu::machine::{AccessRefused, Machine};
use hal_profile::cpu::registers::apic::{
    ApicBase, IA32_APIC_BASE, IA32_X2APIC_LVT_PMI, LVTPC_OFFSET, LvtPc,
};
use wdk_sys::LARGE_INTEGER;
use wdk_sys::ntddk::{MmMapIoSpaceEx, MmUnmapIoSpace};

const PAGE: u64 = 4096;
/// PAGE_READWRITE and PAGE_NOCACHE (wdm.h).
const UNCACHED: u32 = 0x04 | 0x200;

/// The local APIC's registers, mapped. Valid as long as its [`Mapping`] exists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ApicPage(NonNull<u32>);

// SAFETY: the mapping is valid on every processor, and each sees its own local APIC through it.
unsafe impl Send for ApicPage {}
// SAFETY: as above.
unsafe impl Sync for ApicPage {}

impl ApicPage {
    fn register(self, offset: u32) -> NonNull<u32> {
        // Registers are 16 bytes apart, and accessed by their first 4 (SDM vol. 3, "The Local APIC
        // Block Diagram").
        let words = (offset & 0xFF0) as usize / size_of::<u32>();
        // SAFETY: below 4 KiB, so within the mapped page.
        unsafe { self.0.add(words) }
    }

    /// Reads a register. Any IRQL.
    #[inline]
    pub(crate) fn read(self, offset: u32) -> u32 {
        let register = self.register(offset).as_ptr();
        let value;
        // One MOV, as for each access: SDM vol. 2, "BT", advises it for memory-mapped registers, and
        // a compiler may merge a volatile read and write into BT, AND or OR.
        // SAFETY: a register of the mapped page.
        unsafe {
            asm!("mov {0:e}, [{1}]", out(reg) value, in(reg) register, options(nostack, preserves_flags));
        }
        value
    }

    /// Writes a register. Any IRQL.
    #[inline]
    pub(crate) fn write(self, offset: u32, value: u32) {
        let register = self.register(offset).as_ptr();
        // SAFETY: a register of the mapped page; the driver writes only LVTPC.
        unsafe {
            asm!("mov [{0}], {1:e}", in(reg) register, in(reg) value, options(nostack, preserves_flags));
        }
    }
}

/// The mapping of the local APIC's page, if the local APIC is accessed through a page. It lasts as
/// long as this value.
pub(crate) struct Mapping {
    page: Option<ApicPage>,
    failed: bool,
}

impl Mapping {
    /// Maps the page at this physical address, if there is one. PASSIVE_LEVEL.
    ///
    /// # Safety
    /// The address is the local APIC's; no copy of [`Self::page`] is used after this is dropped.
    pub(crate) unsafe fn new(physical: Option<u64>) -> Self {
        let page = physical.and_then(|physical| {
            // Uncached: "strong uncacheable", as the same section has it.
            let address = LARGE_INTEGER { QuadPart: physical.cast_signed() };
            // SAFETY: PASSIVE_LEVEL; the page holds the local APIC's registers, not memory.
            let at = unsafe { MmMapIoSpaceEx(address, PAGE, UNCACHED) };
            NonNull::new(at).map(|at| ApicPage(at.cast()))
        });
        Self { page, failed: physical.is_some() && page.is_none() }
    }

    /// The page; `None` in x2APIC mode, or if it could not be mapped.
    pub(crate) const fn page(&self) -> Option<ApicPage> {
        self.page
    }

    /// Whether there is a page that could not be mapped.
    pub(crate) const fn failed(&self) -> bool {
        self.failed
    }
}

impl Drop for Mapping {
    /// At most DISPATCH_LEVEL.
    fn drop(&mut self) {
        if let Some(page) = self.page {
            // SAFETY: mapped by `Mapping::new` with this length.
            unsafe { MmUnmapIoSpace(page.0.as_ptr().cast(), PAGE) };
        }
    }
}

/// Clears LVTPC's mask bit if it is set and the entry sends an interrupt, in either mode of the local
/// APIC. Masked, on the processor that `machine` represents.
pub(crate) fn unmask(machine: &mut impl Machine) {
    // Asked each time: this processor's mode may not be known, since it has no block.
    // Nor is it known which registers are there.
    let Ok(base) = machine.try_read_msr(IA32_APIC_BASE).map(ApicBase::from_bits) else {
        return;
    };
    if !base.en() {
        return;
    }
    // In x2APIC mode the page does not answer (SDM vol. 3, "Extended XAPIC (x2APIC)").
    let entry = if base.extd() {
        match machine.try_read_msr(IA32_X2APIC_LVT_PMI) {
            Ok(entry) => entry as u32,
            Err(AccessRefused) => return,
        }
    } else {
        machine.read_apic(LVTPC_OFFSET)
    };
    let entry = LvtPc::from_bits(entry);
    if !entry.mask() || !entry.is_interrupt() {
        return;
    }
    // The rest of the register belongs to the HAL.
    let entry = entry.with_mask(false).into_bits();
    if base.extd() {
        let _ = machine.try_write_msr(IA32_X2APIC_LVT_PMI, entry.into());
    } else {
        machine.write_apic(LVTPC_OFFSET, entry);
    }
}
