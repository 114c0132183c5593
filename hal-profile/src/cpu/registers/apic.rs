//! The local APIC's performance-counter entry, in both modes (SDM vol. 3, "Local APIC
//! Status and Location", "Local Vector Table", "Extended xAPIC (x2APIC)").

use bitfield_struct::bitfield;

pub const IA32_APIC_BASE: u32 = 0x1B;
/// LVT performance-counter entry in the local APIC's page (xAPIC mode).
pub const LVTPC_OFFSET: u32 = 0x340;
/// The same entry as an MSR (x2APIC mode).
pub const IA32_X2APIC_LVT_PMI: u32 = 0x834;

/// IA32_APIC_BASE.
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct ApicBase {
    #[bits(8)]
    _reserved0: u8,
    /// BSP: the boot processor.
    pub bsp: bool,
    _reserved1: bool,
    /// EXTD: x2APIC mode.
    pub extd: bool,
    /// EN: the local APIC is enabled.
    pub en: bool,
    /// The page's frame number.
    #[bits(40)]
    pub base: u64,
    #[bits(12)]
    _reserved2: u16,
}

/// LVTPC.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct LvtPc {
    pub vector: u8,
    /// Delivery mode: 0 fixed, 4 NMI.
    #[bits(3)]
    pub delivery_mode: u8,
    _reserved0: bool,
    /// Delivery status, read only.
    pub status: bool,
    #[bits(3)]
    _reserved1: u8,
    /// Masked: no interrupt is delivered. Many processors set this bit when they deliver one.
    pub mask: bool,
    #[bits(15)]
    _reserved2: u16,
}

/// Vectors below are the processor's exceptions, which the local APIC refuses to send (SDM vol. 3,
/// "Valid Interrupt Vectors").
const FIRST_VECTOR: u8 = 16;

impl LvtPc {
    /// Whether an overflow arrives as an interrupt. With another delivery mode it would be an NMI,
    /// which nobody claims (bug check 0x80), or worse: such an entry must not be unmasked.
    pub fn is_interrupt(self) -> bool {
        self.delivery_mode() == 0 && self.vector() >= FIRST_VECTOR
    }
}
