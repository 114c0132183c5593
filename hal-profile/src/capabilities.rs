//! What one processor can do, discovered once; nothing else asks for models.

use crate::counter::CounterWidth;
use crate::machine::Machine;
use crate::registers::apic::{ApicBase, IA32_APIC_BASE};
use crate::registers::cpuid::{
    LEAF7_1_EAX_ARCH_PERFMON_EXT, LEAF80000001_ECX_PERF_CTR_EXT_CORE, LEAF80000022_EAX_PERFMON_V2,
    PerfMonEax, PerfMonEdx, available_events, leaf1_ecx, leaf1_edx,
};
use crate::registers::{amd, intel, netburst, p6, pentium};
use crate::selection::{Choice, Identity, Judgement, judge};
use shared_types::{Delivery, ProfileInterface, Reason};

/// General counters whose MSRs the manuals name: IA32_PMC0 to 9 (SDM vol. 4). What leaf 0x0A
/// declares beyond them would run into other registers and is not used.
const ARCHITECTURAL_COUNTERS: u32 = 0x3FF;
/// Fixed counters whose meaning is known: 0 to 6.
const FIXED_COUNTERS: u32 = 0x7F;
/// The newest architectural version that is known; a higher one is used as this.
const NEWEST_VERSION: u8 = 6;

/// One processor's capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Who it is.
    pub identity: Identity,
    /// Which interface, and why.
    pub judgement: Judgement,
    /// Leaf 0x1A EAX bits 31:24: 0x20 efficiency, 0x40 performance, 0 not told.
    pub core_type: u8,
    /// Leaf 0x0A's version; AMD: 2 with PerfMonV2, else 1; 0 where there is no such unit.
    pub pmu_version: u8,
    /// General counters that leaf 0x0A or the family declares.
    pub declared_counters: u8,
    /// Fixed counters that leaf 0x0A declares.
    pub declared_fixed: u8,
    /// General counters that are there and used, as a mask.
    pub counters: u32,
    /// Their width; `None` where there are none.
    pub width: Option<CounterWidth>,
    /// Fixed counters that are there and used, as a mask.
    pub fixed: u32,
    /// Their width.
    pub fixed_width: Option<CounterWidth>,
    /// Where the registers are.
    pub layout: Layout,
    /// The registers that gate and acknowledge all counters together, if there are any.
    pub global: Option<Global>,
    /// How an overflow becomes known.
    pub delivery: Delivery,
    /// The local APIC.
    pub apic: Apic,
    /// The local APIC sets LVTPC's mask bit when it delivers the interrupt.
    pub masks_lvtpc: bool,
    /// Architectural events that are available, as a mask of leaf 0x0A EBX's bits.
    pub events: u32,
    /// NetBurst: which counters this logical processor uses.
    pub netburst: NetBurst,
}

/// MSRs of select and counter `n`: base plus `n` times the stride.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The first select register.
    pub select: u32,
    /// The first counter.
    pub counter: u32,
    /// The first counter's alias that takes all bits, or the counter itself.
    pub counter_write: u32,
    /// From one to the next.
    pub stride: u32,
}

/// The global registers of Intel version 2 and later, and of AMD PerfMonV2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Global {
    /// One enable bit for each counter.
    pub control: u32,
    /// A 1 written here clears the overflow bit.
    pub acknowledge: u32,
    /// The overflow bits, read only.
    pub status: u32,
}

/// Bits of an address within a page.
const PAGE_BITS: u32 = 12;

/// The local APIC, through which an overflow interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apic {
    /// None, or disabled.
    None,
    /// Registers in a page of memory.
    XApic,
    /// Registers as MSRs.
    X2Apic,
}

/// NetBurst's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetBurst {
    /// Two logical processors share the counters.
    pub hyper_threading: bool,
    /// Which of the two this is: bit 0 of the initial APIC identifier.
    pub thread: u8,
}

impl Capabilities {
    /// A processor that is not used, and why.
    #[must_use]
    pub fn unused(identity: Identity, reason: Reason) -> Self {
        let mut judgement = judge(&identity);
        judgement.used = Choice {
            interface: ProfileInterface::Default,
            reason,
        };
        Self::bare(identity, judgement)
    }

    fn bare(identity: Identity, judgement: Judgement) -> Self {
        Self {
            identity,
            judgement,
            core_type: 0,
            pmu_version: 0,
            declared_counters: 0,
            declared_fixed: 0,
            counters: 0,
            width: None,
            fixed: 0,
            fixed_width: None,
            layout: Layout::default(),
            global: None,
            delivery: Delivery::None,
            apic: Apic::None,
            masks_lvtpc: false,
            events: 0,
            netburst: NetBurst::default(),
        }
    }

    /// Discovers the processor this runs on. Reads CPUID and those MSRs that CPUID proves; writes
    /// nothing.
    pub fn discover(machine: &mut impl Machine) -> Self {
        let identity = Identity::read(machine);
        let mut found = Self::bare(identity, judge(&identity));
        found.core_type = core_type(machine, &identity);
        found.pmu_version = pmu_version(&identity);
        if monitoring_disabled(machine, &found) {
            found.judgement.used = Choice {
                interface: ProfileInterface::Default,
                reason: Reason::MonitoringDisabled,
            };
        }
        match found.interface() {
            ProfileInterface::Default => return found,
            ProfileInterface::Emon => found.architectural(machine),
            ProfileInterface::Amd64 => found.amd(),
            ProfileInterface::Pentium => found.pentium(),
            ProfileInterface::P6 => found.p6(),
            ProfileInterface::NetBurst => found.netburst(machine),
        }
        found.deliver(machine);
        found
    }

    /// The interface in use.
    #[must_use]
    pub fn interface(&self) -> ProfileInterface {
        self.judgement.used.interface
    }

    /// Width of a general or a fixed counter.
    #[must_use]
    pub fn width_of(&self, counter: crate::counter::Counter) -> CounterWidth {
        let width = if counter.is_fixed() {
            self.fixed_width
        } else {
            self.width
        };
        width.unwrap_or(CounterWidth::NARROWEST)
    }

    fn architectural(&mut self, machine: &mut impl Machine) {
        let eax = PerfMonEax::from_bits(self.identity.leaf_0a.eax);
        let edx = PerfMonEdx::from_bits(self.identity.leaf_0a.edx);
        let version = eax.version().min(NEWEST_VERSION);
        self.declared_counters = eax.counters();
        self.counters = low_bits(eax.counters());
        self.width = CounterWidth::new(eax.width());
        self.events = available_events(self.identity.leaf_0a);
        if version > 1 {
            self.declared_fixed = edx.fixed_counters();
            self.fixed = low_bits(edx.fixed_counters());
            if version >= 5 {
                self.fixed |= self.identity.leaf_0a.ecx;
            }
            self.fixed_width = CounterWidth::new(edx.fixed_width());
            self.global = Some(Global {
                control: intel::IA32_PERF_GLOBAL_CTRL,
                acknowledge: intel::IA32_PERF_GLOBAL_OVF_CTRL,
                status: intel::IA32_PERF_GLOBAL_STATUS,
            });
        }
        self.extended_leaf(machine);
        self.counters &= if self.width.is_some() {
            ARCHITECTURAL_COUNTERS
        } else {
            0
        };
        self.fixed &= if self.fixed_width.is_some() {
            FIXED_COUNTERS
        } else {
            0
        };
        self.layout = Layout {
            select: intel::IA32_PERFEVTSEL0,
            counter: intel::IA32_PMC0,
            counter_write: if full_width_write(machine, &self.identity) {
                intel::IA32_A_PMC0
            } else {
                intel::IA32_PMC0
            },
            stride: 1,
        };
        self.masks_lvtpc = true;
    }

    /// Leaf 0x23 knows this processor's own counters and events, which on a hybrid machine differ
    /// from what leaf 0x0A says of all of them.
    fn extended_leaf(&mut self, machine: &impl Machine) {
        let there = self.identity.max_leaf >= 0x23
            && machine.cpuid(7, 1).eax & LEAF7_1_EAX_ARCH_PERFMON_EXT != 0;
        if !there {
            return;
        }
        let valid = machine.cpuid(0x23, 0).eax;
        if valid & 1 << 1 != 0 {
            let masks = machine.cpuid(0x23, 1);
            self.counters = masks.eax;
            self.fixed = masks.ebx;
        }
        if valid & 1 << 3 != 0 {
            self.events = machine.cpuid(0x23, 3).eax;
        }
    }

    fn amd(&mut self) {
        let extended = self.identity.extended_ecx & LEAF80000001_ECX_PERF_CTR_EXT_CORE != 0;
        // PerfMonV2 gates the counters of the core extension, and is not used without it.
        let v2 = extended && self.pmu_version == 2;
        self.declared_counters = match (v2, extended) {
            (true, _) => (self.identity.leaf_80000022.ebx & 0xF) as u8,
            (false, true) => 6,
            (false, false) => 4,
        };
        self.counters = low_bits(self.declared_counters);
        self.width = CounterWidth::new(amd::COUNTER_WIDTH);
        self.layout = if extended {
            Layout {
                select: amd::PERF_CTL0,
                counter: amd::PERF_CTR0,
                counter_write: amd::PERF_CTR0,
                stride: 2,
            }
        } else {
            Layout {
                select: amd::PERF_LEGACY_CTL0,
                counter: amd::PERF_LEGACY_CTR0,
                counter_write: amd::PERF_LEGACY_CTR0,
                stride: 1,
            }
        };
        self.global = v2.then_some(Global {
            control: amd::GLOBAL_CTL,
            acknowledge: amd::GLOBAL_STATUS_CLR,
            status: amd::GLOBAL_STATUS,
        });
    }

    fn pentium(&mut self) {
        self.declared_counters = pentium::COUNTERS;
        self.counters = low_bits(pentium::COUNTERS);
        self.width = CounterWidth::new(pentium::COUNTER_WIDTH);
        self.layout = Layout {
            select: pentium::CESR,
            counter: pentium::CTR0,
            counter_write: pentium::CTR0,
            stride: 1,
        };
    }

    fn p6(&mut self) {
        self.declared_counters = p6::COUNTERS;
        self.counters = low_bits(p6::COUNTERS);
        self.width = CounterWidth::new(p6::COUNTER_WIDTH);
        self.layout = Layout {
            select: intel::IA32_PERFEVTSEL0,
            counter: intel::IA32_PMC0,
            counter_write: intel::IA32_PMC0,
            stride: 1,
        };
        self.masks_lvtpc = is_pentium_m(&self.identity);
    }

    fn netburst(&mut self, machine: &impl Machine) {
        let logical = machine.cpuid(1, 0).ebx;
        let cores = 1 + if self.identity.max_leaf >= 4 {
            machine.cpuid(4, 0).eax >> 26
        } else {
            0
        };
        // Two cores of a package (Smithfield) have counters of their own.
        let hyper_threading =
            self.identity.leaf1_edx & leaf1_edx::HTT != 0 && (logical >> 16 & 0xFF) / cores > 1;
        let thread = if hyper_threading {
            (logical >> 24 & 1) as u8
        } else {
            0
        };
        self.netburst = NetBurst {
            hyper_threading,
            thread,
        };
        self.declared_counters = netburst::COUNTERS;
        self.counters = netburst::USABLE
            & match (hyper_threading, thread) {
                (false, _) => u32::MAX,
                (true, 0) => netburst::EVEN_SIDE,
                (true, _) => netburst::ODD_SIDE,
            };
        self.width = CounterWidth::new(netburst::COUNTER_WIDTH);
        self.layout = Layout {
            select: netburst::CCCR0,
            counter: netburst::COUNTER0,
            counter_write: netburst::COUNTER0,
            stride: 1,
        };
        self.masks_lvtpc = true;
    }

    /// An overflow interrupts where there is a local APIC to carry it and counters to ask for it.
    fn deliver(&mut self, machine: &mut impl Machine) {
        if self.identity.leaf1_edx & leaf1_edx::APIC == 0
            || self.interface() == ProfileInterface::Pentium
        {
            return;
        }
        let base = ApicBase::from_bits(machine.read_msr(IA32_APIC_BASE));
        self.apic = match (base.en(), base.extd()) {
            (false, _) => return,
            (true, false) => Apic::XApic,
            (true, true) => Apic::X2Apic,
        };
        self.delivery = match (self.interface(), self.global) {
            (ProfileInterface::NetBurst, _) => Delivery::CccrFlag,
            (_, Some(_)) => Delivery::Acknowledged,
            (_, None) => Delivery::ByValue,
        };
    }
}

/// The physical address of the local APIC's page, where this processor's LVTPC is reached by it: for
/// the host, which maps it.
#[must_use]
pub fn apic_page(machine: &mut impl Machine) -> Option<u64> {
    let by_page = Capabilities::discover(machine).apic == Apic::XApic;
    by_page.then(|| ApicBase::from_bits(machine.read_msr(IA32_APIC_BASE)).base() << PAGE_BITS)
}

fn core_type(machine: &impl Machine, identity: &Identity) -> u8 {
    if identity.vendor == *b"GenuineIntel" && identity.max_leaf >= 0x1A {
        (machine.cpuid(0x1A, 0).eax >> 24) as u8
    } else {
        0
    }
}

fn pmu_version(identity: &Identity) -> u8 {
    match &identity.vendor {
        b"AuthenticAMD" if identity.family < 6 => 0,
        b"AuthenticAMD" => {
            1 + u8::from(identity.leaf_80000022.eax & LEAF80000022_EAX_PERFMON_V2 != 0)
        }
        _ => PerfMonEax::from_bits(identity.leaf_0a.eax).version(),
    }
}

/// Without RDMSR there is nothing to monitor with. NetBurst and Pentium M tell in IA32_MISC_ENABLE
/// whether monitoring is available (SDM vol. 4).
fn monitoring_disabled(machine: &mut impl Machine, found: &Capabilities) -> bool {
    if found.identity.leaf1_edx & leaf1_edx::MSR == 0 {
        return found.interface() != ProfileInterface::Default;
    }
    let tells = match found.interface() {
        ProfileInterface::NetBurst => true,
        ProfileInterface::P6 => is_pentium_m(&found.identity),
        _ => false,
    };
    tells && machine.read_msr(intel::IA32_MISC_ENABLE) & intel::MISC_ENABLE_PERFMON == 0
}

fn is_pentium_m(identity: &Identity) -> bool {
    matches!(identity.model, 9 | 0x0D | 0x15)
}

fn full_width_write(machine: &mut impl Machine, identity: &Identity) -> bool {
    identity.leaf1_ecx & leaf1_ecx::PDCM != 0
        && intel::PerfCapabilities::from_bits(machine.read_msr(intel::IA32_PERF_CAPABILITIES))
            .full_width_write()
}

/// A mask of the low `count` bits.
fn low_bits(count: u8) -> u32 {
    1u32.checked_shl(count.into())
        .map_or(u32::MAX, |limit| limit - 1)
}
