//! The local APIC, as far as a performance interrupt needs it: its mode, and LVTPC.

use crate::cpu::cpuid::Leaves;
use crate::cpu::fault::Fault;
use crate::cpu::signature::Signature;
use bitfield_struct::bitfield;

/// IA32_APIC_BASE (SDM vol. 3, "Local APIC Status and Location", "Detecting and Enabling x2APIC
/// Mode").
pub(crate) const IA32_APIC_BASE: u32 = 0x1B;
/// The registers of x2APIC mode: offset / 16 of the page's registers (SDM vol. 3, "x2APIC Register
/// Address Space").
const X2APIC: u32 = 0x800;

const ID: u32 = 0x20;
const VERSION: u32 = 0x30;
const LVTPC: u32 = 0x340;

/// Where the page is after reset.
const DEFAULT_BASE: u64 = 0xFEE0_0000;
/// What reset leaves in LVTPC: masked.
const LVTPC_RESET: u32 = 0x0001_0000;
/// Vector, delivery mode and mask: the bits that software writes.
const LVTPC_WRITABLE: u32 = 0x0001_07FF;
/// Delivery status: read-only, so a write of it is neither kept nor refused.
const LVTPC_STATUS: u32 = 0x0000_1000;
/// Lower vectors are the processor's own exceptions; the APIC refuses to send them.
const FIRST_VECTOR: u8 = 16;
const NMI_VECTOR: u8 = 2;
/// The id that addresses all processors in xAPIC mode.
const BROADCAST: u32 = 0xFF;

/// The performance-counter entry of the local vector table (SDM vol. 3, "Local Vector Table").
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
struct Lvtpc {
    vector: u8,
    #[bits(3)]
    delivery_mode: u8,
    #[bits(1)]
    __: u8,
    delivery_status: bool,
    #[bits(3)]
    __: u8,
    mask: bool,
    #[bits(15)]
    __: u16,
}

/// IA32_APIC_BASE.
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
struct ApicBase {
    __: u8,
    bsp: bool,
    #[bits(1)]
    __: u8,
    extd: bool,
    en: bool,
    #[bits(52)]
    page: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Disabled,
    XApic,
    X2Apic,
    /// EXTD without EN: no processor is ever in this mode.
    Invalid,
}

impl ApicBase {
    fn mode(self) -> Mode {
        match (self.en(), self.extd()) {
            (false, false) => Mode::Disabled,
            (true, false) => Mode::XApic,
            (true, true) => Mode::X2Apic,
            (false, true) => Mode::Invalid,
        }
    }
}

/// The local APIC of one logical processor, or its absence (CPUID.1:EDX[9]).
#[derive(Clone, Debug)]
pub(crate) struct Apic {
    present: bool,
    /// P6 introduced IA32_APIC_BASE and LVTPC; the Pentium's APIC has neither.
    since_p6: bool,
    /// Bits of IA32_APIC_BASE that may be written as 1.
    base_writable: u64,
    /// 32 bits; xAPIC mode shows the low 8.
    id: u32,
    /// A processor of the machine has an id that does not fit xAPIC mode, where 255 is the
    /// broadcast: firmware then hands all of them over in x2APIC mode.
    large_ids: bool,
    base: ApicBase,
    lvtpc: Lvtpc,
    pending: Option<u8>,
}

impl Apic {
    pub(crate) fn new(leaves: &Leaves) -> Self {
        let features = leaves.get(1, 0);
        let mut apic = Self {
            present: features.edx >> 9 & 1 == 1,
            since_p6: Signature::of(leaves).family >= 6,
            base_writable: base_writable(leaves),
            id: leaves.apic_id(),
            large_ids: leaves.apic_id() >= BROADCAST,
            base: ApicBase::new(),
            lvtpc: Lvtpc::new(),
            pending: None,
        };
        apic.reset();
        apic
    }

    /// Enters x2APIC mode, if there is one, as firmware or the operating system did earlier;
    /// returns whether there is one.
    pub(crate) fn enter_x2apic(&mut self) -> bool {
        let extd = ApicBase::new().with_extd(true).into_bits();
        let there = self.has_base() && self.base_writable & extd != 0;
        if there {
            self.base = self.base.with_en(true).with_extd(true);
        }
        there
    }

    /// Whether the machine's ids do not fit xAPIC mode.
    pub(crate) fn needs_x2apic(&self) -> bool {
        self.large_ids
    }

    /// Another processor's id does not fit xAPIC mode.
    pub(crate) fn require_x2apic(&mut self) {
        self.large_ids = true;
    }

    /// Power-on: xAPIC mode, LVTPC masked, nothing pending.
    pub(crate) fn reset(&mut self) {
        self.base = ApicBase::from_bits(DEFAULT_BASE).with_bsp(self.id == 0).with_en(true);
        self.initialise();
    }

    /// Whether software sees an APIC: CPUID.1:EDX[9] follows EN (SDM vol. 3, "Enabling or Disabling
    /// the Local APIC").
    pub(crate) fn is_enabled(&self) -> bool {
        self.present && self.base.mode() != Mode::Disabled
    }

    /// RDMSR; `None` if the APIC has no such register now.
    pub(crate) fn read_msr(&self, msr: u32) -> Option<u64> {
        match msr {
            IA32_APIC_BASE => self.has_base().then(|| self.base.into_bits()),
            _ => self.x2apic_register(x2apic_offset(msr)?).map(u64::from),
        }
    }

    /// WRMSR: whether the APIC has the register now and accepts the value.
    pub(crate) fn write_msr(&mut self, msr: u32, value: u64) -> bool {
        match (msr, x2apic_offset(msr)) {
            (IA32_APIC_BASE, _) => self.write_base(value),
            (_, Some(offset)) => self.write_x2apic(offset, value),
            _ => false,
        }
    }

    /// Reads the page: LVTPC, and the read-only ID and version.
    pub(crate) fn read_page(&self, offset: u32) -> Result<u32, Fault> {
        match (self.in_mode(Mode::XApic), offset) {
            (true, ID) => Some(self.id << 24),
            (true, _) => self.register(offset),
            (false, _) => None,
        }
        .ok_or(Fault::Apic { offset })
    }

    /// Writes LVTPC through the page; its reserved and read-only bits do not change.
    pub(crate) fn write_page(&mut self, offset: u32, value: u32) -> Result<(), Fault> {
        if !(self.in_mode(Mode::XApic) && self.since_p6 && offset == LVTPC) {
            return Err(Fault::Apic { offset });
        }
        self.preset_lvtpc(value);
        Ok(())
    }

    /// Writes LVTPC as the operating system did earlier, whatever the mode.
    pub(crate) fn preset_lvtpc(&mut self, value: u32) {
        self.lvtpc = Lvtpc::from_bits(value & LVTPC_WRITABLE);
    }

    /// Whether a performance interrupt requested now would be delivered.
    pub(crate) fn accepts(&self) -> bool {
        self.is_enabled() && self.since_p6 && !self.lvtpc.mask()
    }

    /// The unit requests its interrupt; if LVTPC is masked, the request is lost.
    pub(crate) fn deliver(&mut self, masks_on_delivery: bool) {
        // KVM drops the request, and no manual says what silicon does: the model takes the worse
        // case.
        if !self.accepts() {
            return;
        }
        if let Some(vector) = self.vector() {
            self.pending = Some(vector);
        }
        self.lvtpc.set_mask(masks_on_delivery);
    }

    /// The vector of the pending interrupt; 2 for one sent as NMI.
    pub(crate) fn pending(&self) -> Option<u8> {
        self.pending
    }

    /// Takes the pending interrupt.
    pub(crate) fn acknowledge(&mut self) -> Option<u8> {
        self.pending.take()
    }

    /// What LVTPC sends (SDM vol. 3, "Local Vector Table"). SMI, INIT and ExtINT never reach the
    /// operating system's handlers as a performance interrupt; the model sends nothing for them.
    fn vector(&self) -> Option<u8> {
        match self.lvtpc.delivery_mode() {
            0b000 => Some(self.lvtpc.vector()).filter(|&vector| vector >= FIRST_VECTOR),
            0b100 => Some(NMI_VECTOR),
            _ => None,
        }
    }

    fn initialise(&mut self) {
        self.lvtpc = Lvtpc::from_bits(LVTPC_RESET);
        self.pending = None;
    }

    fn has_base(&self) -> bool {
        self.present && self.since_p6
    }

    fn in_mode(&self, mode: Mode) -> bool {
        self.present && self.base.mode() == mode
    }

    fn register(&self, offset: u32) -> Option<u32> {
        match offset {
            ID => Some(self.id),
            // Bits 23:16 are the highest LVT entry: 5 with LVTPC and the thermal sensor's, 3 on the
            // Pentium (SDM vol. 3, "Local APIC Version Register").
            VERSION if self.since_p6 => Some(0x0005_0014),
            VERSION => Some(0x0003_0010),
            LVTPC if self.since_p6 => Some(self.lvtpc.into_bits()),
            _ => None,
        }
    }

    fn x2apic_register(&self, offset: u32) -> Option<u32> {
        self.in_mode(Mode::X2Apic).then(|| self.register(offset)).flatten()
    }

    /// Reserved bits are refused in x2APIC mode (SDM vol. 3, "Reserved Bit Checking").
    fn write_x2apic(&mut self, offset: u32, value: u64) -> bool {
        let known = u64::from(LVTPC_WRITABLE | LVTPC_STATUS);
        let accepted = self.in_mode(Mode::X2Apic) && offset == LVTPC && value & !known == 0;
        if accepted {
            self.preset_lvtpc(value as u32);
        }
        accepted
    }

    fn write_base(&mut self, value: u64) -> bool {
        let next = ApicBase::from_bits(value);
        let accepted = self.has_base()
            && value & !self.base_writable == 0
            && may_change(self.base.mode(), next.mode());
        if accepted {
            self.base = next;
            if next.mode() == Mode::Disabled {
                self.initialise();
            }
        }
        accepted
    }
}

/// The transitions of SDM vol. 3, "x2APIC State Transitions": x2APIC mode is entered from xAPIC
/// mode only, and left for the disabled state only.
fn may_change(from: Mode, to: Mode) -> bool {
    !matches!(
        (from, to),
        (_, Mode::Invalid) | (Mode::X2Apic, Mode::XApic) | (Mode::Disabled, Mode::X2Apic)
    )
}

/// BSP, EN, the page's address below the physical address width, and EXTD if CPUID reports x2APIC.
fn base_writable(leaves: &Leaves) -> u64 {
    let physical_bits = match leaves.get(0x8000_0008, 0).eax & 0xFF {
        bits @ 13..=52 => bits,
        // Without the leaf the width is generally 36 (SDM vol. 3, "Enumeration of Paging Features
        // by CPUID"); a page needs more than 12 bits, and 52 is the architectural limit.
        _ => 36,
    };
    let page = (1 << physical_bits) - 0x1000;
    let x2apic = leaves.get(1, 0).ecx >> 21 & 1 == 1;
    ApicBase::from_bits(page).with_bsp(true).with_en(true).with_extd(x2apic).into_bits()
}

/// The page offset of an x2APIC register.
fn x2apic_offset(msr: u32) -> Option<u32> {
    (X2APIC..X2APIC + 0x100).contains(&msr).then(|| (msr - X2APIC) << 4)
}
