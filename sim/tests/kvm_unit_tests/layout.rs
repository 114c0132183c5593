//! The register layouts that the checklist runs on, and a processor of each.

use hal_profile::cpu::machine::CpuidResult;
use sim::Processor;
use sim::cpu::cpuid::Leaves;
use sim::cpu::event::{Counts, Event};
use sim::cpu::fault::Fault;

/// A test fails with the access that was refused.
pub(crate) type TestResult = Result<(), Fault>;

pub(crate) const EN: u64 = 1 << 22;
pub(crate) const INT: u64 = 1 << 20;
pub(crate) const USR_OS: u64 = 0b11 << 16;
pub(crate) const VECTOR: u8 = 0xFE;

/// Where one layout's registers are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) name: &'static str,
    pub(crate) leaves: fn() -> Leaves,
    pub(crate) select: u32,
    pub(crate) counter: u32,
    pub(crate) stride: u32,
    pub(crate) counters: u32,
    pub(crate) width: u32,
    pub(crate) global: Option<Global>,
    /// Selects that the family documents, and what they count.
    pub(crate) events: &'static [(u64, Event)],
    pub(crate) cycles: u64,
    pub(crate) instructions: u64,
}

/// Status, control, clear.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Global {
    pub(crate) status: u32,
    pub(crate) control: u32,
    pub(crate) clear: u32,
}

impl Layout {
    pub(crate) fn select(&self, i: u32) -> u32 {
        self.select + i * self.stride
    }

    pub(crate) fn counter(&self, i: u32) -> u32 {
        self.counter + i * self.stride
    }

    pub(crate) fn mask(&self) -> u64 {
        (1 << self.width) - 1
    }

    pub(crate) fn processor(&self) -> Processor {
        let mut processor = Processor::new((self.leaves)());
        processor.boot_windows();
        processor
    }

    /// What a counter with this select shows after that many events: up to Skylake, which is of
    /// version 4, UnHalted Reference Cycles ticks with a clock ten times slower than the time-stamp
    /// counter's.
    pub(crate) fn expected(&self, code: u64, happened: u64) -> u64 {
        let slow = code == 0x013C && (self.leaves)().get(0xA, 0).eax & 0xFF <= 4;
        if slow { happened / 10 } else { happened }
    }

    /// The value that a read returns after -`n` was written.
    pub(crate) fn negative(&self, n: u64) -> u64 {
        n.wrapping_neg() & self.mask()
    }
}

const INTEL_EVENTS: &[(u64, Event)] = &[
    (0x003C, Event::Cycles),
    (0x00C0, Event::Instructions),
    (0x013C, Event::RefCycles),
    (0x4F2E, Event::LlcReferences),
    (0x412E, Event::LlcMisses),
    (0x00C4, Event::Branches),
    (0x00C5, Event::BranchMisses),
];

const AMD_EVENTS: &[(u64, Event)] = &[
    (0x0076, Event::Cycles),
    (0x00C0, Event::Instructions),
    (0x00C2, Event::Branches),
    (0x00C3, Event::BranchMisses),
];

const INTEL_GLOBAL: Option<Global> = Some(Global { status: 0x38E, control: 0x38F, clear: 0x390 });

const fn intel(
    name: &'static str,
    leaves: fn() -> Leaves,
    counters: u32,
    width: u32,
    global: Option<Global>,
) -> Layout {
    Layout {
        name,
        leaves,
        select: 0x186,
        counter: 0xC1,
        stride: 1,
        counters,
        width,
        global,
        events: INTEL_EVENTS,
        cycles: 0x3C,
        instructions: 0xC0,
    }
}

const fn amd(
    name: &'static str,
    leaves: fn() -> Leaves,
    window: (u32, u32, u32),
    counters: u32,
    global: Option<Global>,
) -> Layout {
    let (select, counter, stride) = window;
    Layout {
        name,
        leaves,
        select,
        counter,
        stride,
        counters,
        width: 48,
        global,
        events: AMD_EVENTS,
        cycles: 0x76,
        instructions: 0xC0,
    }
}

const LEGACY: (u32, u32, u32) = (0xC001_0000, 0xC001_0004, 1);
const EXTENDED: (u32, u32, u32) = (0xC001_0200, 0xC001_0201, 2);

pub(crate) const V1: Layout = intel("Intel v1 (Yonah)", yonah, 2, 40, None);
pub(crate) const V2: Layout = intel("Intel v2 (Core 2)", core2, 2, 40, INTEL_GLOBAL);
pub(crate) const V4: Layout = intel("Intel v4 (Skylake)", skylake, 4, 48, INTEL_GLOBAL);
pub(crate) const V5: Layout = intel("Intel v5 (Raptor Lake)", raptor_lake, 8, 48, INTEL_GLOBAL);
pub(crate) const V6: Layout = intel("Intel v6 (leaf 0x23)", version_6, 10, 48, INTEL_GLOBAL);
pub(crate) const FULL_WIDTH: Layout =
    Layout { name: "Intel v5 through the full-width alias", counter: 0x4C1, ..V5 };
pub(crate) const K8: Layout = amd("AMD legacy (K8)", k8, LEGACY, 4, None);
pub(crate) const ZEN1: Layout = amd("AMD extended (Zen)", zen1, EXTENDED, 6, None);
pub(crate) const ZEN1_LEGACY: Layout = amd("AMD extended, legacy window", zen1, LEGACY, 4, None);
pub(crate) const ZEN5: Layout = amd(
    "AMD PerfMonV2 (Zen 5)",
    zen5,
    EXTENDED,
    6,
    Some(Global { status: 0xC000_0300, control: 0xC000_0301, clear: 0xC000_0302 }),
);

pub(crate) const INTEL: [Layout; 6] = [V1, V2, V4, V5, V6, FULL_WIDTH];
pub(crate) const AMD: [Layout; 4] = [K8, ZEN1, ZEN1_LEGACY, ZEN5];

pub(crate) fn all() -> impl Iterator<Item = Layout> {
    INTEL.into_iter().chain(AMD)
}

pub(crate) fn leaf(eax: u32, ebx: u32, ecx: u32, edx: u32) -> CpuidResult {
    CpuidResult { eax, ebx, ecx, edx }
}

fn intel_leaves(max: u32, signature: u32, ecx: u32, pmu: CpuidResult) -> Leaves {
    let mut leaves = Leaves::default();
    leaves.insert(0, leaf(max, 0x756E_6547, 0x6C65_746E, 0x4965_6E69));
    leaves.insert(1, leaf(signature, 0, ecx, 0xBFEB_FBFF));
    leaves.insert(0xA, pmu);
    leaves
}

pub(crate) fn yonah() -> Leaves {
    intel_leaves(0xA, 0x6E4, 0xC1A9, leaf(0x0728_0201, 0, 0, 0))
}

pub(crate) fn core2() -> Leaves {
    intel_leaves(0xA, 0x1067A, 0x0408_E3BD, leaf(0x0728_0202, 0, 0, 0x0000_0503))
}

pub(crate) fn nehalem() -> Leaves {
    intel_leaves(0xB, 0x106A5, 0x0098_E3BD, leaf(0x0730_0403, 0, 0, 0x0000_0603))
}

pub(crate) fn skylake() -> Leaves {
    let pmu = leaf(0x0730_0404, 0, 0, 0x0000_0603);
    let mut leaves = intel_leaves(0x16, 0x506E3, 0x7FFA_FBFF, pmu);
    leaves.insert_subleaf(7, 0, leaf(0, 0x029C_6FBF, 0, 0));
    leaves
}

pub(crate) fn raptor_lake() -> Leaves {
    let pmu = leaf(0x0830_0805, 0, 0x0F, 0x0000_8604);
    let mut leaves = intel_leaves(0x20, 0xB06A2, 0x7FFA_FBFF, pmu);
    leaves.insert_subleaf(7, 0, leaf(2, 0x239C_27EB, 0, 0));
    leaves
}

/// Leaf 0x0A describes what all cores share, leaf 0x23 what this one has: ten general counters, and
/// fixed counters 0, 1, 2, 4, 5, 6. The version is one above the newest known.
pub(crate) fn version_6() -> Leaves {
    let pmu = leaf(0x0730_0807, 0, 0x07, 0x0000_8603);
    let mut leaves = intel_leaves(0x23, 0xC0662, 0x7FFA_FBFF, pmu);
    leaves.insert_subleaf(7, 0, leaf(2, 0x239C_27EB, 0, 0));
    leaves.insert_subleaf(7, 1, leaf(0x44C0_09D0, 1, 0, 0));
    leaves.insert_subleaf(0x23, 0, leaf(0xB, 0x3, 6, 0));
    leaves.insert_subleaf(0x23, 1, leaf(0x3FF, 0x77, 0, 0));
    leaves.insert_subleaf(0x23, 3, leaf(0x7F, 0, 0, 0));
    leaves
}

fn amd_leaves(signature: u32, extended_ecx: u32) -> Leaves {
    let mut leaves = Leaves::default();
    leaves.insert(0, leaf(1, 0x6874_7541, 0x444D_4163, 0x6974_6E65));
    leaves.insert(1, leaf(signature, 0, 0, 0x178B_FBFF));
    leaves.insert(0x8000_0001, leaf(signature, 0, extended_ecx, 0x2FD3_FBFF));
    leaves
}

pub(crate) fn k7() -> Leaves {
    amd_leaves(0x662, 0)
}

pub(crate) fn k8() -> Leaves {
    amd_leaves(0xF4A, 0)
}

pub(crate) fn bulldozer() -> Leaves {
    amd_leaves(0x660F01, 1 << 23)
}

pub(crate) fn zen1() -> Leaves {
    amd_leaves(0x0080_0F12, 0x35C2_33FF)
}

pub(crate) fn zen5() -> Leaves {
    let mut leaves = amd_leaves(0x00B6_0F00, 0x75C2_37FF);
    leaves.insert(0x8000_0022, leaf(0x7, 0x0010_4106, 0xF, 0));
    leaves
}

/// Counts of one event, all in user mode.
pub(crate) fn counts(event: Event, total: u64) -> Counts {
    split(event, total, total)
}

pub(crate) fn split(event: Event, total: u64, user: u64) -> Counts {
    let mut counts = Counts::default();
    counts.set(event, total, user);
    counts
}

/// A different amount of every event: 1000 of the first, 2000 of the second, and so on.
pub(crate) fn everything() -> Counts {
    let mut counts = Counts::default();
    for (event, thousands) in Event::ALL.into_iter().zip(1..) {
        counts.set(event, thousands * 1000, thousands * 1000);
    }
    counts
}
