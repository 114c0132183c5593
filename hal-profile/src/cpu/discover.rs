//! Discovers what a processor can do, from CPUID and the registers that CPUID proves to exist.

use crate::cpu::capabilities::{Apic, Capabilities, Gate, Global, Layout};
use crate::cpu::counter::CounterWidth;
use crate::cpu::errata;
use crate::cpu::generation::AmdGeneration;
use crate::cpu::lbr::Branches;
use crate::cpu::machine::{CpuidResult, Machine};
use crate::cpu::registers::apic::{ApicBase, IA32_APIC_BASE, IA32_X2APIC_LVT_PMI};
use crate::cpu::registers::cpuid::{
    LEAF7_1_EAX_ARCH_PERFMON_EXT, LEAF80000001_ECX_PERF_CTR_EXT_CORE, LEAF80000022_EAX_FREEZE,
    LEAF80000022_EAX_PERFMON_V2, PerfMonEax, PerfMonEdx, available_events, leaf1_ecx, leaf1_edx,
};
use crate::cpu::registers::{amd, intel};
use crate::cpu::selection::{Choice, Identity};
use crate::historic::discover as historic;
use shared_types::{Delivery, ProfileInterface, Reason};

/// General counters whose MSRs the manuals name: IA32_PMC0 to 9 (SDM, "Model-Specific Registers").
/// Any that leaf 0x0A declares beyond them would overlap other registers and are not used.
const ARCHITECTURAL_COUNTERS: u32 = 0x3FF;
/// Fixed counters with a known meaning: 0 to 6.
const FIXED_COUNTERS: u32 = 0x7F;
/// The newest known architectural version; a higher one is treated as this.
const NEWEST_VERSION: u8 = 6;
/// The version from which an overflow can freeze counters through a status bit of its own.
const FREEZE_STATUS_VERSION: u8 = 4;

/// Bits of an address within a page.
const PAGE_BITS: u32 = 12;

impl Capabilities {
    /// Discovers the processor on which this runs. Reads CPUID and only those MSRs that CPUID
    /// promises; what one of them would have added is missing if it is not there. Writes nothing.
    pub fn discover(machine: &mut impl Machine) -> Self {
        let identity = Identity::read(machine);
        let mut capabilities = Self::bare(identity);
        let hybrid = hybrid(machine, &identity);
        (capabilities.core_type, capabilities.native_model) =
            ((hybrid >> 24) as u8, hybrid & 0xFF_FFFF);
        capabilities.pmu_version = pmu_version(&identity);
        (capabilities.errata, capabilities.tsx_force_abort) = errata::discover(machine, &identity);
        capabilities.virtualized = identity.leaf1_ecx & leaf1_ecx::HYPERVISOR != 0;
        if monitoring_disabled(machine, &capabilities) {
            capabilities.selection.used =
                Choice { interface: ProfileInterface::Default, reason: Reason::MonitoringDisabled };
        }
        capabilities.enable = intel::PerfEvtSel::new().with_en(true).into_bits();
        match capabilities.interface() {
            ProfileInterface::Default => return capabilities,
            ProfileInterface::Emon => capabilities.architectural(machine),
            ProfileInterface::Amd64 => capabilities.amd(),
            ProfileInterface::Pentium | ProfileInterface::P6 | ProfileInterface::NetBurst => {
                historic::discover(&mut capabilities, machine);
            }
        }
        // The reset switches the four counters on and off by the global control register, which a
        // hypervisor that shows version 1 does not have.
        capabilities.errata.reset_at_start &= capabilities.gate == Gate::Global;
        // KVM in Linux 6.6 to 6.8 masks LVTPC for AMD guests too (Linux a16eb25b09c0,
        // 49ff3b4aec51).
        capabilities.masks_lvtpc |= capabilities.virtualized;
        capabilities.deliver(machine);
        // `freeze` alone does not suffice: recording also writes IA32_DEBUGCTL, which exists with
        // PDCM only.
        let freezes = capabilities.global.freeze != 0 && capabilities.global.freeze_control != 0;
        let (interface, delivery) = (capabilities.interface(), capabilities.delivery);
        capabilities.branches =
            Branches::discover(machine, &capabilities.identity, interface, delivery, freezes);
        capabilities
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
            self.select_bits = intel::ANY_THREAD;
        }
        if version > 1 {
            self.declared_fixed = edx.fixed_counters();
            self.fixed = low_bits(edx.fixed_counters());
            // From here on ECX names counters too, above those that EDX counts (SDM vol. 2A,
            // "CPUID").
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
                freeze_control: if pdcm { intel::IA32_DEBUGCTL } else { 0 },
            };
            (self.gate, self.handler_gate) = (Gate::Global, Gate::Global);
        }
        let performance = performance_capabilities(machine, &self.identity);
        self.pebs = self.identity.leaf1_edx & leaf1_edx::DS != 0;
        self.adaptive_pebs = self.pebs && performance.pebs_baseline();
        self.extended_leaf(machine);
        self.counters &= mask_if(self.width, ARCHITECTURAL_COUNTERS);
        self.fixed &= mask_if(self.fixed_width, FIXED_COUNTERS);
        self.reloads &= self.all_counters();
        self.layout = Layout {
            select: intel::IA32_PERFEVTSEL0,
            counter: intel::IA32_PMC0,
            counter_write: if performance.full_width_write() {
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
        self.select_bits |= u64::from(ebx & 1) * intel::UNIT_MASK_2;
        self.select_bits |= u64::from(ebx >> 1 & 1) * intel::EQUAL;
        self.user_disable = ebx >> 2 & 1 != 0;
        if valid & 1 << 1 != 0 {
            let masks = machine.cpuid(0x23, 1);
            // Leaf 0x23 replaces leaf 0x0A, which shows what all cores of a hybrid share. Its masks
            // may have holes.
            self.counters = masks.eax;
            self.fixed = masks.ebx;
        }
        if valid & 1 << 2 != 0 {
            let reloaded = machine.cpuid(0x23, 2);
            self.reloads = u64::from(reloaded.eax) | u64::from(reloaded.ebx) << 32;
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
        // Before PerfMonV2 no leaf gives the number: six with the core extension, four without (APM
        // vol. 2, "Performance Monitoring Counters").
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
            // The handler stops them one by one: this saves one register access, and AMD's local
            // APIC keeps overflows that happen in the meantime pending.
            (self.gate, self.handler_gate) = (Gate::Global, Gate::Each);
        }
    }

    /// Works out how overflows interrupt: this needs a local APIC to deliver the interrupt and
    /// counters that can request it.
    fn deliver(&mut self, machine: &mut impl Machine) {
        // Some Pentiums have a local APIC; its entry for the counters came with P6.
        if self.identity.leaf1_edx & leaf1_edx::APIC == 0
            || self.interface() == ProfileInterface::Pentium
        {
            return;
        }
        let Ok(base) = machine.try_read_msr(IA32_APIC_BASE).map(ApicBase::from_bits) else {
            return;
        };
        self.apic = match (base.en(), base.extd()) {
            (false, _) => return,
            (true, false) => Apic::XApic,
            // LVTPC is read to try it: a hypervisor that emulates x2APIC need not emulate LVTPC.
            (true, true) if machine.try_read_msr(IA32_X2APIC_LVT_PMI).is_err() => return,
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

/// Whether the processor cannot monitor: it lacks RDMSR, or a historic one says so.
fn monitoring_disabled(machine: &mut impl Machine, capabilities: &Capabilities) -> bool {
    if capabilities.identity.leaf1_edx & leaf1_edx::MSR == 0 {
        return capabilities.interface() != ProfileInterface::Default;
    }
    historic::monitoring_disabled(machine, capabilities)
}

/// IA32_PERF_CAPABILITIES; zeros where it is not there.
fn performance_capabilities(
    machine: &mut impl Machine,
    identity: &Identity,
) -> intel::PerfCapabilities {
    let there = identity.leaf1_ecx & leaf1_ecx::PDCM != 0;
    let value = if there { machine.try_read_msr(intel::IA32_PERF_CAPABILITIES).ok() } else { None };
    intel::PerfCapabilities::from_bits(value.unwrap_or(0))
}

/// `mask` if counters have a usable width, otherwise 0.
fn mask_if(width: CounterWidth, mask: u32) -> u32 {
    if width == CounterWidth::NONE { 0 } else { mask }
}

/// A mask of the low `count` bits.
fn low_bits(count: u8) -> u32 {
    1u32.checked_shl(count.into()).map_or(u32::MAX, |limit| limit - 1)
}
