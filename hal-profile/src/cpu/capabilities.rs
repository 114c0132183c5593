//! What one processor can do, discovered once, so that other code need not check for models.

use crate::cpu::counter::{Counter, CounterWidth};
use crate::cpu::generation::AmdGeneration;
use crate::cpu::lbr::Branches;
use crate::cpu::registers::intel;
use crate::cpu::selection::{Choice, Identity, Selection, select_interface};
use crate::historic::select as historic;
use shared_types::{Delivery, ProfileInterface, Reason};
use zerocopy::FromZeros;

/// One processor's capabilities. All zeros: a processor that has not been examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and all are false in zeroed memory"
)]
pub struct Capabilities {
    /// Its identity, from CPUID.
    pub identity: Identity,
    /// Its profile interface, and why.
    pub selection: Selection,
    /// Leaf 0x1A EAX bits 31:24: 0x20 efficiency, 0x40 performance, 0 not reported.
    pub core_type: u8,
    /// Leaf 0x1A EAX bits 23:0: the native model of that core type; 0 not reported.
    pub native_model: u32,
    /// AMD: whose event list it has.
    pub generation: AmdGeneration,
    /// Leaf 0x0A's version; AMD: 2 with PerfMonV2, otherwise 1; 0 if there is no such unit.
    pub pmu_version: u8,
    /// Number of general counters that leaf 0x0A or the family declares.
    pub declared_counters: u8,
    /// Number of fixed counters that leaf 0x0A declares.
    pub declared_fixed: u8,
    /// General counters that exist and are used, as a mask; may be none.
    pub counters: u32,
    /// Their width.
    pub width: CounterWidth,
    /// Fixed counters that exist and are used, as a mask; may be none.
    pub fixed: u32,
    pub fixed_width: CounterWidth,
    /// Where the registers are.
    pub layout: Layout,
    /// The registers that gate and acknowledge all counters together; zeros if there are none.
    pub global: Global,
    /// How counters are started and stopped.
    pub gate: Gate,
    /// How they are stopped in the overflow handler.
    pub handler_gate: Gate,
    /// The bit of a select that starts its counter.
    pub enable: u64,
    /// The value of a select that counts nothing.
    pub off: u64,
    /// How an overflow is reported.
    pub delivery: Delivery,
    pub apic: Apic,
    /// LVTPC's mask bit is set when the interrupt is delivered.
    pub masks_lvtpc: bool,
    /// Several hardware threads share its core.
    pub shares_core: bool,
    /// A hypervisor is present, so that registers and interrupts cost more.
    pub virtualized: bool,
    /// The ways in which the processor differs from its manual.
    pub errata: Errata,
    /// The microcode takes general counter 3 for transactions (CPUID.7.0 EDX bit 13 set, bit 11 clear).
    pub tsx_force_abort: bool,
    /// The available architectural events, as a mask with the bit numbers of leaf 0x0A EBX.
    pub events: u32,
    /// Bits of IA32_PERFEVTSELx that this processor has beyond version 1 and that a raw select may
    /// set: any-thread (21), equal (36), the second unit mask (47:40).
    pub select_bits: u64,
    /// A counter can be hidden from RDPMC in user mode.
    pub user_disable: bool,
    /// There is a debug store, and with it PEBS (CPUID.1 EDX bit 21).
    pub pebs: bool,
    /// PEBS is adaptive, and of fixed counters too.
    pub adaptive_pebs: bool,
    /// Counters that the overflow of another can start again, in the layout of the global registers.
    pub reloads: u64,
    /// NetBurst: what decides which counters this logical processor uses.
    pub netburst: historic::NetBurst,
    /// How it records branches.
    pub branches: Branches,
}

/// MSRs of select and counter `n`: base plus `n` times the stride.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
pub struct Layout {
    /// The first select register.
    pub select: u32,
    /// The first counter.
    pub counter: u32,
    /// The first counter's full-width alias, or the counter itself.
    pub counter_write: u32,
    /// Distance from one register to the next.
    pub stride: u32,
}

/// The global registers of Intel version 2 and later, and of AMD PerfMonV2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
pub struct Global {
    /// One enable bit for each counter.
    pub control: u32,
    /// Writing a 1 here clears the overflow bit.
    pub acknowledge: u32,
    /// The overflow bits, read only.
    pub status: u32,
    /// The status bits that belong to no counter. They are acknowledged only where they are seen: a
    /// hypervisor may refuse bits that silicon takes.
    pub conditions: u64,
    /// The one of them that freezes all counters, if there is one.
    pub freeze: u64,
    /// IA32_DEBUGCTL, if it has FREEZE_PERFMON_ON_PMI; otherwise 0.
    pub freeze_control: u32,
}

/// How counters are started and stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(u8)]
pub enum Gate {
    /// Each by a bit of its own select.
    #[default]
    Each = 0,
    /// As the Pentium or P6 does: see [`historic`](crate::historic).
    Historic = 1,
    /// Each by a bit of its own select, all by the global control register.
    Global = 2,
}

/// Errata and peculiarities, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and all are false in zeroed memory"
)]
pub struct Errata {
    /// N15, O8 (Pentium 4 and Xeon specification updates): a write while the input is active can
    /// carry into the upper bits; writing twice works around this (oprofile, Linux).
    pub write_counter_twice: bool,
    /// The interrupt comes on the count after the overflow (SDM, NetBurst: "Generating an Interrupt
    /// on Overflow"), so presets are one event closer to the overflow.
    pub interrupts_one_late: bool,
    /// A counter that was left armed keeps running and interrupts a thread that did not arm it
    /// (seen by Linux after a crash), so not only the program's counters but all are turned off
    /// before the first one is used.
    pub turn_all_off_first: bool,
    /// General counters that are taken only if no other is free, as a mask (TSX_FORCE_ABORT).
    pub last_counters: u32,
    /// The event whose short reloads are rounded, as in bits 15:0 of its select; 0 if there is none
    /// (BDM11, BDM55).
    pub rounded_event: u16,
    /// General counters 0 to 3 are reset before they are used (AAK100, AAP53, BD53).
    pub reset_at_start: bool,
}

/// The local APIC, which delivers overflow interrupts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(u8)]
pub enum Apic {
    /// None, or disabled.
    #[default]
    None = 0,
    /// Registers in a page of memory.
    XApic = 1,
    /// Registers as MSRs.
    X2Apic = 2,
}

impl Capabilities {
    /// The capabilities of a processor that is not used, and why.
    pub fn unused(identity: Identity, reason: Reason) -> Self {
        let mut unused = Self::bare(identity);
        unused.selection.used = Choice { interface: ProfileInterface::Default, reason };
        unused
    }

    pub(crate) fn bare(identity: Identity) -> Self {
        Self { identity, selection: select_interface(&identity), ..Self::new_zeroed() }
    }

    /// The interface in use.
    pub fn interface(&self) -> ProfileInterface {
        self.selection.used.interface
    }

    /// Whether LVTPC is unmasked before several counters are examined. Those that have not
    /// overflowed keep running meanwhile, and an overflow while LVTPC is still masked would be
    /// lost. NetBurst does not need it: its OVF flags hold the interrupt line until they are
    /// cleared.
    pub fn unmasks_first(&self) -> bool {
        self.handler_gate == Gate::Each
            && self.masks_lvtpc
            && self.interface() != ProfileInterface::NetBurst
    }

    /// Whether a freeze clears the global control register: Intel's versions 2 and 3, in which no
    /// status bit stands for it (SDM vol. 3, "Freezing LBR and Performance Counters on PMI").
    pub(crate) fn freeze_clears_control(&self) -> bool {
        self.gate == Gate::Global
            && self.interface() == ProfileInterface::Emon
            && self.global.freeze == 0
    }

    /// Width of a general or a fixed counter.
    pub fn width_of(&self, counter: Counter) -> CounterWidth {
        if counter.is_fixed() { self.fixed_width } else { self.width }
    }

    /// The MSR of a general counter's select.
    pub fn select_msr(&self, counter: Counter) -> u32 {
        self.layout.select + u32::from(counter.index()) * self.layout.stride
    }

    /// The MSR through which a counter's value is written.
    pub fn write_msr(&self, counter: Counter) -> u32 {
        if counter.is_fixed() {
            return intel::IA32_FIXED_CTR0 + u32::from(counter.index());
        }
        self.layout.counter_write + u32::from(counter.index()) * self.layout.stride
    }

    /// All counters that are used, in the layout of the global registers.
    pub fn all_counters(&self) -> u64 {
        u64::from(self.counters) | u64::from(self.fixed) << 32
    }

    /// The width of the narrowest counter that is used; `None` if there is none.
    pub fn narrowest(&self) -> Option<CounterWidth> {
        let general = (self.counters != 0).then_some(self.width);
        let fixed = (self.fixed != 0).then_some(self.fixed_width);
        general.into_iter().chain(fixed).min_by_key(|width| width.bits())
    }
}
