//! What one processor can do, discovered once, so that other code need not check for models.

use crate::cpu::counter::{Counter, CounterWidth};
use crate::cpu::lbr::Branches;
use crate::cpu::machine::{CpuidResult, Machine};
use crate::cpu::registers::apic::{ApicBase, IA32_APIC_BASE};
use crate::cpu::registers::cpuid::{
    LEAF7_1_EAX_ARCH_PERFMON_EXT, LEAF80000001_ECX_PERF_CTR_EXT_CORE, LEAF80000022_EAX_FREEZE,
    LEAF80000022_EAX_PERFMON_V2, PerfMonEax, PerfMonEdx, available_events, leaf1_ecx, leaf1_edx,
};
use crate::cpu::registers::netburst::{CCCR_OFF, Cccr};
use crate::cpu::registers::{amd, intel, netburst};
#[cfg(feature = "legacy")]
use crate::cpu::registers::{p6, pentium};
use crate::cpu::selection::{Choice, Identity, Judgement, judge};
use crate::source::amd64_events::AmdGeneration;
use crate::source::raw;
use shared_types::{Delivery, ProfileInterface, Reason};
use zerocopy::FromZeros;

/// General counters whose MSRs the manuals name: IA32_PMC0 to 9 (SDM, "Model-Specific Registers").
/// Any that leaf 0x0A declares beyond them would overlap other registers and are not used.
const ARCHITECTURAL_COUNTERS: u32 = 0x3FF;
/// Fixed counters with a known meaning: 0 to 6.
const FIXED_COUNTERS: u32 = 0x7F;
/// The newest known architectural version; a higher one is treated as this.
const NEWEST_VERSION: u8 = 6;
/// The version from which an overflow can freeze counters through a status bit of its own.
const FREEZE_STATUS_VERSION: u8 = 4;

/// One processor's capabilities. All zeros: a processor that has not been examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
pub struct Capabilities {
    /// Its identity, from CPUID.
    pub identity: Identity,
    /// Its profile interface, and why.
    pub judgement: Judgement,
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
    /// Their width.
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
    /// The local APIC.
    pub apic: Apic,
    /// LVTPC's mask bit is set when the interrupt is delivered.
    pub masks_lvtpc: bool,
    /// Several hardware threads share its core.
    pub shares_core: bool,
    /// A hypervisor is present, so that registers and interrupts cost more.
    pub virtualized: bool,
    /// The ways in which the processor differs from its manual.
    pub errata: Errata,
    /// The available architectural events, as a mask with the bit numbers of leaf 0x0A EBX.
    pub events: u32,
    /// Bits of IA32_PERFEVTSELx that this processor has beyond version 1 and that a raw select may
    /// set: any-thread (21), equal (36), the second unit mask (47:40).
    pub select_bits: u64,
    /// NetBurst: what decides which counters this logical processor uses.
    pub netburst: NetBurst,
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
    /// IA32_DEBUGCTL, if its FREEZE_PERFMON_ON_PMI sets that bit; otherwise 0.
    pub freeze_control: u32,
}

/// How counters are started and stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(u8)]
pub enum Gate {
    /// Each by a bit of its own select.
    #[default]
    Each = 0,
    /// All by EN in PerfEvtSel0.
    #[cfg(feature = "legacy")]
    First = 1,
    /// Each by a bit of its own select, all by the global control register.
    Global = 2,
    /// By CESR: a half with CC = 0 is off.
    #[cfg(feature = "legacy")]
    Cesr = 3,
}

/// Errata and peculiarities, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
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
}

/// Bits of an address within a page.
const PAGE_BITS: u32 = 12;

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

/// Capabilities specific to NetBurst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
pub struct NetBurst {
    /// Two logical processors share the counters.
    pub hyper_threading: bool,
    /// Which of the two this is: bit 0 of the initial APIC identifier.
    pub thread: u8,
}

impl Capabilities {
    /// The capabilities of a processor that is not used, and why.
    #[must_use]
    pub fn unused(identity: Identity, reason: Reason) -> Self {
        let mut unused = Self::bare(identity);
        unused.judgement.used = Choice { interface: ProfileInterface::Default, reason };
        unused
    }

    fn bare(identity: Identity) -> Self {
        Self { identity, judgement: judge(&identity), ..Self::new_zeroed() }
    }

    /// Discovers the processor on which this runs. Reads CPUID and only those MSRs that CPUID
    /// proves to exist; writes nothing.
    pub fn discover(machine: &mut impl Machine) -> Self {
        let identity = Identity::read(machine);
        let mut found = Self::bare(identity);
        let hybrid = hybrid(machine, &identity);
        (found.core_type, found.native_model) = ((hybrid >> 24) as u8, hybrid & 0xFF_FFFF);
        found.pmu_version = pmu_version(&identity);
        found.virtualized = identity.leaf1_ecx & leaf1_ecx::HYPERVISOR != 0;
        if monitoring_disabled(machine, &found) {
            found.judgement.used =
                Choice { interface: ProfileInterface::Default, reason: Reason::MonitoringDisabled };
        }
        found.enable = intel::PerfEvtSel::new().with_en(true).into_bits();
        match found.interface() {
            ProfileInterface::Default => return found,
            ProfileInterface::Emon => found.architectural(machine),
            ProfileInterface::Amd64 => found.amd(),
            #[cfg(feature = "legacy")]
            ProfileInterface::Pentium => found.pentium(),
            #[cfg(feature = "legacy")]
            ProfileInterface::P6 => found.p6(),
            #[cfg(not(feature = "legacy"))]
            ProfileInterface::Pentium | ProfileInterface::P6 => return found,
            ProfileInterface::NetBurst => found.netburst(machine),
        }
        // KVM in Linux 6.6 to 6.8 masks LVTPC for AMD guests too (Linux a16eb25b09c0,
        // 49ff3b4aec51).
        found.masks_lvtpc |= found.virtualized;
        found.deliver(machine);
        let freezes = found.gate == Gate::Global && found.global.freeze != 0;
        let (interface, delivery) = (found.interface(), found.delivery);
        found.branches = Branches::discover(machine, &found.identity, interface, delivery, freezes);
        found
    }

    /// The interface in use.
    #[must_use]
    pub fn interface(&self) -> ProfileInterface {
        self.judgement.used.interface
    }

    /// Whether LVTPC is unmasked before several counters are examined. Those that have not overflowed
    /// keep running meanwhile, and an overflow while LVTPC is still masked would be lost. Not on
    /// NetBurst, whose OVF flags hold the interrupt line until they are cleared.
    #[must_use]
    pub fn unmasks_first(&self) -> bool {
        self.masks_lvtpc
            && self.handler_gate == Gate::Each
            && self.interface() != ProfileInterface::NetBurst
    }

    /// Width of a general or a fixed counter.
    #[must_use]
    pub fn width_of(&self, counter: Counter) -> CounterWidth {
        if counter.is_fixed() { self.fixed_width } else { self.width }
    }

    /// The MSR of a general counter's select.
    #[must_use]
    pub fn select_msr(&self, counter: Counter) -> u32 {
        self.layout.select + u32::from(counter.index()) * self.layout.stride
    }

    /// The MSR through which a counter's value is written.
    #[must_use]
    pub fn write_msr(&self, counter: Counter) -> u32 {
        if counter.is_fixed() {
            return intel::IA32_FIXED_CTR0 + u32::from(counter.index());
        }
        self.layout.counter_write + u32::from(counter.index()) * self.layout.stride
    }

    /// All counters that are used, in the layout of the global registers.
    #[must_use]
    pub fn all_counters(&self) -> u64 {
        u64::from(self.counters) | u64::from(self.fixed) << 32
    }

    /// The width of the narrowest counter that is used; `None` if there is none.
    #[must_use]
    pub fn narrowest(&self) -> Option<CounterWidth> {
        let general = (self.counters != 0).then_some(self.width);
        let fixed = (self.fixed != 0).then_some(self.fixed_width);
        general.into_iter().chain(fixed).min_by_key(|width| width.bits())
    }

    fn architectural(&mut self, machine: &mut impl Machine) {
        let eax = PerfMonEax::from_bits(self.identity.leaf_0a.eax);
        let edx = PerfMonEdx::from_bits(self.identity.leaf_0a.edx);
        let version = eax.version().min(NEWEST_VERSION);
        self.declared_counters = eax.counters();
        self.counters = low_bits(eax.counters());
        self.width = CounterWidth::new(eax.width()).unwrap_or_default();
        self.events = available_events(self.identity.leaf_0a);
        // EBX of the first level: the hardware threads of a core.
        self.shares_core = self.identity.max_leaf >= 0xB && machine.cpuid(0xB, 0).ebx as u16 > 1;
        // If AnyThread is deprecated, the bit is ignored or reserved.
        if version >= 3 && !edx.any_thread_deprecated() {
            self.select_bits = raw::ANY_THREAD;
        }
        if version > 1 {
            self.declared_fixed = edx.fixed_counters();
            self.fixed = low_bits(edx.fixed_counters());
            if version >= 5 {
                self.fixed |= self.identity.leaf_0a.ecx;
            }
            self.fixed_width = CounterWidth::new(edx.fixed_width()).unwrap_or_default();
            let freezes = version >= FREEZE_STATUS_VERSION;
            // SDM vol. 4, "IA-32 Architectural MSRs": the bit exists with PDCM.
            let pdcm = self.identity.leaf1_ecx & leaf1_ecx::PDCM != 0;
            self.global = Global {
                control: intel::IA32_PERF_GLOBAL_CTRL,
                acknowledge: intel::IA32_PERF_GLOBAL_OVF_CTRL,
                status: intel::IA32_PERF_GLOBAL_STATUS,
                conditions: intel::GLOBAL_STATUS_CONDITIONS,
                freeze: if freezes { intel::GLOBAL_STATUS_CTR_FRZ } else { 0 },
                freeze_control: if freezes && pdcm { intel::IA32_DEBUGCTL } else { 0 },
            };
            (self.gate, self.handler_gate) = (Gate::Global, Gate::Global);
        }
        self.extended_leaf(machine);
        self.counters &= mask_if(self.width, ARCHITECTURAL_COUNTERS);
        self.fixed &= mask_if(self.fixed_width, FIXED_COUNTERS);
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

    /// Reads this processor's own counters and events from leaf 0x23. On a hybrid machine they
    /// differ from what leaf 0x0A reports for all processors.
    fn extended_leaf(&mut self, machine: &impl Machine) {
        let there = self.identity.max_leaf >= 0x23
            && machine.cpuid(7, 1).eax & LEAF7_1_EAX_ARCH_PERFMON_EXT != 0;
        if !there {
            return;
        }
        let CpuidResult { eax: valid, ebx, .. } = machine.cpuid(0x23, 0);
        self.select_bits |= u64::from(ebx & 1) * raw::UNIT_MASK_2;
        self.select_bits |= u64::from(ebx >> 1 & 1) * raw::EQUAL;
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
        let (family, model) = (self.identity.family, self.identity.model);
        self.generation = AmdGeneration::from(family.into(), model.into());
        let extended = self.identity.extended_ecx & LEAF80000001_ECX_PERF_CTR_EXT_CORE != 0;
        // PerfMonV2 gates the counters of the core extension, and is not used without it.
        let v2 = extended && self.pmu_version == 2;
        self.declared_counters = match (v2, extended) {
            (true, _) => (self.identity.leaf_80000022.ebx & 0xF) as u8,
            (false, true) => 6,
            (false, false) => 4,
        };
        self.counters = low_bits(self.declared_counters);
        self.width = CounterWidth::new(amd::COUNTER_WIDTH).unwrap_or_default();
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
        if v2 {
            let freezes = self.identity.leaf_80000022.eax & LEAF80000022_EAX_FREEZE != 0;
            let freeze = if freezes { amd::GLOBAL_STATUS_COUNTERS_FROZEN } else { 0 };
            self.global = Global {
                control: amd::GLOBAL_CTL,
                acknowledge: amd::GLOBAL_STATUS_CLR,
                status: amd::GLOBAL_STATUS,
                conditions: freeze,
                freeze,
                freeze_control: if freezes { intel::IA32_DEBUGCTL } else { 0 },
            };
            // In the handler they are stopped one by one: this saves one register access, and AMD's
            // local APIC keeps overflows that happen in the meantime pending.
            (self.gate, self.handler_gate) = (Gate::Global, Gate::Each);
        }
    }

    #[cfg(feature = "legacy")]
    fn pentium(&mut self) {
        self.declared_counters = pentium::COUNTERS;
        self.counters = low_bits(pentium::COUNTERS);
        self.width = CounterWidth::new(pentium::COUNTER_WIDTH).unwrap_or_default();
        (self.gate, self.handler_gate) = (Gate::Cesr, Gate::Cesr);
        self.layout = Layout {
            select: pentium::CESR,
            counter: pentium::CTR0,
            counter_write: pentium::CTR0,
            stride: 1,
        };
    }

    #[cfg(feature = "legacy")]
    fn p6(&mut self) {
        self.declared_counters = p6::COUNTERS;
        self.counters = low_bits(p6::COUNTERS);
        self.width = CounterWidth::new(p6::COUNTER_WIDTH).unwrap_or_default();
        (self.gate, self.handler_gate) = (Gate::First, Gate::First);
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
        let cores = 1 + if self.identity.max_leaf >= 4 { machine.cpuid(4, 0).eax >> 26 } else { 0 };
        // Two cores in one package (Smithfield) each have their own counters.
        let hyper_threading =
            self.identity.leaf1_edx & leaf1_edx::HTT != 0 && (logical >> 16 & 0xFF) / cores > 1;
        let thread = if hyper_threading { (logical >> 24 & 1) as u8 } else { 0 };
        self.netburst = NetBurst { hyper_threading, thread };
        self.declared_counters = netburst::COUNTERS;
        self.counters = netburst::USABLE
            & match (hyper_threading, thread) {
                (false, _) => u32::MAX,
                (true, 0) => netburst::EVEN_SIDE,
                (true, _) => netburst::ODD_SIDE,
            };
        self.width = CounterWidth::new(netburst::COUNTER_WIDTH).unwrap_or_default();
        self.enable = Cccr::new().with_enable(true).into_bits().into();
        self.off = CCCR_OFF.into_bits().into();
        self.errata = Errata {
            write_counter_twice: true,
            interrupts_one_late: true,
            turn_all_off_first: true,
        };
        self.layout = Layout {
            select: netburst::CCCR0,
            counter: netburst::COUNTER0,
            counter_write: netburst::COUNTER0,
            stride: 1,
        };
        self.masks_lvtpc = true;
    }

    /// Works out how overflows interrupt: this needs a local APIC to deliver the interrupt and
    /// counters that can request it.
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
        self.delivery = match (self.interface(), self.gate) {
            (ProfileInterface::NetBurst, _) => Delivery::CccrFlag,
            (_, Gate::Global) => Delivery::Acknowledged,
            _ => Delivery::ByValue,
        };
    }
}

/// The physical address of the local APIC's page, for the host to map; `None` unless this
/// processor's LVTPC is accessed through it.
#[must_use]
pub fn apic_page(machine: &mut impl Machine) -> Option<u64> {
    let by_page = Capabilities::discover(machine).apic == Apic::XApic;
    by_page.then(|| ApicBase::from_bits(machine.read_msr(IA32_APIC_BASE)).base() << PAGE_BITS)
}

/// Leaf 0x1A EAX: core type and native model.
fn hybrid(machine: &impl Machine, identity: &Identity) -> u32 {
    if identity.vendor == *b"GenuineIntel" && identity.max_leaf >= 0x1A {
        machine.cpuid(0x1A, 0).eax
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

/// Whether the processor cannot monitor: it lacks RDMSR, or it is a NetBurst or Pentium M whose
/// IA32_MISC_ENABLE says that monitoring is unavailable (SDM, "Model-Specific Registers").
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

/// `mask` if counters have a usable width, otherwise 0.
fn mask_if(width: CounterWidth, mask: u32) -> u32 {
    if width == CounterWidth::NONE { 0 } else { mask }
}

/// A mask of the low `count` bits.
fn low_bits(count: u8) -> u32 {
    1u32.checked_shl(count.into()).map_or(u32::MAX, |limit| limit - 1)
}
