//! Built-in models of processors, as data: only the leaves that matter.
//!
//! Most values are from dumps of processors of that kind. Not yet backed by a dump, and to be
//! checked against one: `sapphire-rapids`, `bulldozer`, `zen2`, `zen4` and `kvm-amd`. Adapted from
//! a dump: `skylake` (Hyper-Threading, so half the counters), `pentium3` (local APIC enabled, and its
//! second-level cache), the leaves of Hyper-V (each constant says from which machine), the number
//! of processors, and `zen6` (Zen 5's leaves with another signature). Caches that are not of a dump say where they are from; the Pentiums' CPUID tells of
//! none.

use crate::cpu::cpuid::Leaves;
use hal_profile::cpu::machine::CpuidResult;
use std::collections::BTreeSet;

/// A processor model that needs no dump.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// What `--machine` takes.
    pub name: &'static str,
    /// One line for people.
    pub description: &'static str,
    kinds: &'static [Kind],
}

/// How many processors differ only in their APIC ids, and their leaves.
type Kind = (usize, &'static [&'static [Row]]);

const fn model(name: &'static str, description: &'static str, kinds: &'static [Kind]) -> Model {
    Model { name, description, kinds }
}

/// One answer: leaf, sub-leaf if the leaf has any, EAX, EBX, ECX, EDX.
type Row = (u32, Option<u32>, [u32; 4]);

impl Model {
    /// Its logical processors; the APIC id of each is its index.
    pub fn processors(&self) -> Vec<Leaves> {
        self.kinds
            .iter()
            .flat_map(|&(count, rows)| std::iter::repeat_n(leaves(rows), count))
            .zip(0..)
            .map(|(leaves, id)| with_apic_id(&leaves, id))
            .collect()
    }
}

fn leaves(rows: &[&[Row]]) -> Leaves {
    let mut leaves = Leaves::default();
    for &(leaf, subleaf, [eax, ebx, ecx, edx]) in rows.iter().copied().flatten() {
        let value = CpuidResult { eax, ebx, ecx, edx };
        match subleaf {
            Some(subleaf) => leaves.insert_subleaf(leaf, subleaf, value),
            None => leaves.insert(leaf, value),
        }
    }
    leaves
}

/// Other names of models.
pub const ALIASES: [(&str, &str); 1] = [("hyperv-masked", "hyperv-root-2012")];

/// The model with that name or alias, in either case.
pub fn find(name: &str) -> Option<&'static Model> {
    let alias = ALIASES.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(name));
    let name = alias.map_or(name, |(_, name)| name);
    MODELS.iter().find(|model| model.name.eq_ignore_ascii_case(name))
}

/// The same processors repeated up to `n`; none if there are none to repeat.
///
/// The first round keeps its APIC ids, so that threads of one core stay together; each further
/// round has them shifted past the highest. If they are not unique (before the Pentium 4 the
/// initial APIC id is not in leaf 1), the id is the index.
pub fn repeat(processors: &[Leaves], n: usize) -> Vec<Leaves> {
    let mut ids: Vec<u32> = processors.iter().map(Leaves::apic_id).collect();
    let highest = ids.iter().copied().max().unwrap_or(0);
    let unique = ids.iter().collect::<BTreeSet<_>>().len() == ids.len();
    // Larger ids come from a damaged dump: 2048 rounds of them would not fit 32 bits.
    let stride = if unique && highest < 1 << 20 {
        (highest + 1).next_power_of_two()
    } else {
        ids = (0..).take(processors.len()).collect();
        processors.len() as u32
    };
    let rounds = (0..).flat_map(|round| ids.iter().map(move |id| id + round * stride));
    processors
        .iter()
        .cycle()
        .take(n)
        .zip(rounds)
        .map(|(leaves, id)| with_apic_id(leaves, id))
        .collect()
}

/// Sets the APIC id wherever it is reported; leaf 1 has its low 8 bits.
fn with_apic_id(leaves: &Leaves, id: u32) -> Leaves {
    let mut leaves = leaves.clone();
    if leaves.contains(1) {
        let mut value = leaves.get(1, 0);
        value.ebx = value.ebx & 0x00FF_FFFF | id << 24;
        leaves.insert(1, value);
    }
    for topology in [0xB, 0x1F, 0x80000026] {
        for level in 0..8 {
            let mut value = leaves.get(topology, level);
            if value != CpuidResult::default() {
                value.edx = id;
                leaves.insert_subleaf(topology, level, value);
            }
        }
    }
    if leaves.contains(0x8000001E) {
        let mut value = leaves.get(0x8000001E, 0);
        value.eax = id;
        leaves.insert(0x8000001E, value);
    }
    leaves
}

/// Every built-in model; the first is the default.
pub const MODELS: &[Model] = &[
    model(
        "sapphire-rapids",
        "Intel Xeon of 2023 (Golden Cove): architectural version 5, 8 + 4 counters",
        &[(16, &[SAPPHIRE_RAPIDS])],
    ),
    model(
        "hybrid",
        "Intel Core Ultra of 2024 (Arrow Lake): performance and efficiency cores with different \
         counters, version 6 and leaf 0x23 with holes",
        &[(4, &[ARROW_LAKE, LION_COVE]), (8, &[ARROW_LAKE, SKYMONT])],
    ),
    model(
        "skylake",
        "Intel Core of 2015: architectural version 4, 4 + 3 counters",
        &[(8, &[SKYLAKE])],
    ),
    model(
        "haswell",
        "Intel Core of 2014 (Haswell-E): architectural version 3, 4 + 3 counters",
        &[(12, &[HASWELL])],
    ),
    model(
        "core2",
        "Intel Core 2 Quad of 2007: architectural version 2, 2 counters of 40 bits",
        &[(4, &[CORE2])],
    ),
    model(
        "yonah",
        "Intel Core Duo of 2006: architectural version 1, 2 counters of 40 bits",
        &[(2, &[YONAH])],
    ),
    model("pentium", "Intel Pentium (P54C): 2 counters, no overflow interrupt", &[(1, &[PENTIUM])]),
    model(
        "pentium-mmx",
        "Intel Pentium MMX (P55C): 2 counters, no overflow interrupt",
        &[(1, &[PENTIUM_MMX])],
    ),
    model("pentium3", "Intel Pentium III (Coppermine): P6 counters", &[(1, &[PENTIUM3])]),
    model("pentium-m", "Intel Pentium M (Banias): P6 counters", &[(1, &[PENTIUM_M])]),
    model("pentium4", "Intel Pentium 4 (Willamette): NetBurst, 18 counters", &[(1, &[PENTIUM4])]),
    model(
        "pentium4-ht",
        "Intel Pentium 4 with Hyper-Threading (Northwood): two threads share 18 counters",
        &[(2, &[PENTIUM4_HT])],
    ),
    model("k8", "AMD Athlon 64: 4 counters of 48 bits", &[(1, &[K8])]),
    model("fam10h", "AMD Phenom (family 10h): 4 counters of 48 bits", &[(4, &[FAM10H])]),
    model(
        "bulldozer",
        "AMD FX (family 15h): 6 counters in the extended layout, with constraints",
        &[(8, &[BULLDOZER])],
    ),
    model(
        "zen2",
        "AMD Ryzen 3000 (family 17h): 6 counters in the extended layout",
        &[(16, &[ZEN2])],
    ),
    model("zen4", "AMD Ryzen 7000 (family 19h): PerfMonV2, 6 counters", &[(16, &[ZEN4])]),
    model("zen5", "AMD Ryzen AI 300 (family 1Ah): PerfMonV2, 6 counters", &[(16, &[ZEN5])]),
    model(
        "zen6",
        "AMD Zen 6 (family 1Ah, model 50h): PerfMonV2, 6 counters",
        &[(16, &[ZEN5, AS_ZEN6])],
    ),
    model(
        "hyperv-root-intel",
        "Windows on Hyper-V (VBS, or its root partition) on Intel: the counters are lent to it",
        &[(8, &[SAPPHIRE_RAPIDS, VIRTUAL_INTEL, HYPERV, ROOT_INTEL])],
    ),
    model(
        "hyperv-root-amd",
        "Windows on Hyper-V (VBS, or its root partition) on AMD: the counters are masked",
        &[(8, &[ZEN2, ZEN_UNDER_HYPERV, HYPERV, ROOT_AMD])],
    ),
    model(
        "hyperv-guest-intel",
        "An Intel guest of Hyper-V with `Set-VMProcessor -Perfmon @(\"pmu\")`",
        &[(4, &[SAPPHIRE_RAPIDS, VIRTUAL_INTEL, HYPERV, GUEST_OFFERED])],
    ),
    model(
        "hyperv-guest-masked",
        "An Intel guest of Hyper-V as it comes: no counters",
        &[(4, &[SAPPHIRE_RAPIDS, VIRTUAL_INTEL, HYPERV, GUEST, NO_COUNTERS])],
    ),
    model(
        "hyperv-root-2012",
        "An Intel root partition of 2013 (Windows Server 2012 R2): Hyper-V masks the counters, \
         and hides them in CPUID",
        &[(4, &[SAPPHIRE_RAPIDS, VIRTUAL_INTEL, HYPERV, ROOT_2012, NO_COUNTERS])],
    ),
    model(
        "kvm-hyperv-face",
        "An Intel guest of KVM with `pmu=on` and hv_* enlightenments: Hv#1 stands first, and does \
         not say that there are counters",
        &[(4, &[SAPPHIRE_RAPIDS, VIRTUAL_INTEL, HYPERV, KVM_BEHIND_HYPERV])],
    ),
    model("kvm-amd", "An AMD guest of KVM that shows no proof of counters", &[(4, &[KVM_AMD])]),
];

const SAPPHIRE_RAPIDS: &[Row] = &[
    (0x0, None, [0x20, 0x756E6547, 0x6C65746E, 0x49656E69]),
    (0x1, None, [0x000806F8, 0x00100800, 0x7FFEFBFF, 0xBFEBFBFF]),
    (0x7, Some(0), [1, 0xF3BFBFFB, 0xFB417FFE, 0xFFDD4432]),
    (0x7, Some(1), [0x1C30, 0, 0, 0]),
    (0xA, None, [0x08300805, 0, 0xF, 0x8604]),
    (0xB, Some(0), [1, 2, 0x100, 0]),
    (0xB, Some(1), [4, 16, 0x201, 0]),
    (0x1C, None, [0x4000000B, 7, 7, 0]),
    (0x80000000, None, [0x80000008, 0, 0, 0]),
    (0x80000001, None, [0, 0, 0x121, 0x2C100000]),
    // Eight cores with 22.5 MiB, as the Xeon Gold 6434.
    (0x4, Some(0), [0x1C004121, 0x02C0003F, 0x3F, 0]),
    (0x4, Some(1), [0x1C004122, 0x01C0003F, 0x3F, 0]),
    (0x4, Some(2), [0x1C004143, 0x03C0003F, 0x7FF, 0]),
    (0x4, Some(3), [0x1C03C163, 0x0380003F, 0x5FFF, 0]),
];

const ARROW_LAKE: &[Row] = &[
    (0x0, None, [0x23, 0x756E6547, 0x6C65746E, 0x49656E69]),
    (0x1, None, [0x000C0662, 0x00800800, 0x7FFAFBFF, 0xBFEBFBFF]),
    (0x7, Some(0), [2, 0x239CA7EB, 0x994027AC, 0xFC18C430]),
    (0x7, Some(1), [0x44C009D7, 1, 0, 0x00040430]),
    (0xA, None, [0x0D300806, 0x280, 0x7, 0x8603]),
    (0xB, Some(0), [1, 1, 0x100, 0]),
    (0xB, Some(1), [7, 12, 0x201, 0]),
    (0x80000000, None, [0x80000008, 0, 0, 0]),
    (0x80000001, None, [0, 0, 0x121, 0x2C100000]),
];

const LION_COVE: &[Row] = &[
    (0x1A, None, [0x40000003, 0, 0, 0]),
    (0x1C, None, [0x4000000B, 7, 0x000F0007, 0]),
    (0x23, Some(0), [0xB, 0x3, 0, 0]),
    (0x23, Some(1), [0x3FF, 0xF, 0, 0]),
    (0x23, Some(3), [0x1DFF, 0, 0, 0]),
    (0x4, Some(0), [0xFC004121, 0x02C0003F, 0x3F, 0]),
    (0x4, Some(1), [0xFC004122, 0x03C0003F, 0x3F, 0]),
    (0x4, Some(2), [0xFC01C143, 0x02C0003F, 0xFFF, 0]),
    (0x4, Some(3), [0xFC1FC163, 0x02C0003F, 0x7FFF, 0x4]),
];

const SKYMONT: &[Row] = &[
    (0x1A, None, [0x20000003, 0, 0, 0]),
    (0x1C, None, [0xC000000B, 7, 0x000F0007, 0]),
    (0x23, Some(0), [0xF, 0x3, 0x8, 0]),
    (0x23, Some(1), [0xFF, 0x77, 0, 0]),
    (0x23, Some(2), [0xFC, 0x3, 0xFC, 0x3]),
    (0x23, Some(3), [0x1F7F, 0, 0, 0]),
    (0x4, Some(0), [0xFC000121, 0x01C0003F, 0x3F, 0]),
    (0x4, Some(1), [0xFC000122, 0x01C0003F, 0x7F, 0]),
    (0x4, Some(2), [0xFC01C143, 0x03C0003F, 0xFFF, 0]),
    (0x4, Some(3), [0xFC1FC163, 0x02C0003F, 0x7FFF, 0x4]),
];

const SKYLAKE: &[Row] = &[
    (0x0, None, [0x16, 0x756E6547, 0x6C65746E, 0x49656E69]),
    (0x1, None, [0x000506E3, 0x00100800, 0x7FFAFBFF, 0xBFEBFBFF]),
    (0x7, Some(0), [0, 0x029C67AF, 0, 0]),
    (0xA, None, [0x07300404, 0, 0, 0x603]),
    (0xB, Some(0), [1, 2, 0x100, 0]),
    (0xB, Some(1), [4, 8, 0x201, 0]),
    (0x80000000, None, [0x80000008, 0, 0, 0]),
    (0x80000001, None, [0, 0, 0x121, 0x2C100000]),
    (0x4, Some(0), [0x1C004121, 0x01C0003F, 0x3F, 0]),
    (0x4, Some(1), [0x1C004122, 0x01C0003F, 0x3F, 0]),
    (0x4, Some(2), [0x1C004143, 0x00C0003F, 0x3FF, 0]),
    (0x4, Some(3), [0x1C03C163, 0x02C0003F, 0x1FFF, 0x6]),
];

const HASWELL: &[Row] = &[
    (0x0, None, [0xF, 0x756E6547, 0x6C65746E, 0x49656E69]),
    (0x1, None, [0x000306F2, 0x00100800, 0x7FFEFBBF, 0xBFEBFBFF]),
    (0x7, Some(0), [0, 0x37AB, 0, 0]),
    (0xA, None, [0x07300403, 0, 0, 0x603]),
    (0xB, Some(0), [1, 2, 0x100, 0]),
    (0xB, Some(1), [4, 12, 0x201, 0]),
    (0x80000000, None, [0x80000008, 0, 0, 0]),
    (0x80000001, None, [0, 0, 0x21, 0x2C100000]),
    (0x4, Some(0), [0x1C004121, 0x01C0003F, 0x3F, 0]),
    (0x4, Some(1), [0x1C004122, 0x01C0003F, 0x3F, 0]),
    (0x4, Some(2), [0x1C004143, 0x01C0003F, 0x1FF, 0]),
    (0x4, Some(3), [0x1C03C163, 0x04C0003F, 0x2FFF, 0x6]),
];

const CORE2: &[Row] = &[
    (0x0, None, [0xA, 0x756E6547, 0x6C65746E, 0x49656E69]),
    (0x1, None, [0x000006F7, 0x00040800, 0x0000E3BD, 0xBFEBFBFF]),
    (0xA, None, [0x07280202, 0, 0, 0]),
    (0x80000000, None, [0x80000008, 0, 0, 0]),
    (0x80000001, None, [0, 0, 0x1, 0x20100000]),
    (0x4, Some(0), [0x0C000121, 0x01C0003F, 0x3F, 0x1]),
    (0x4, Some(1), [0x0C000122, 0x01C0003F, 0x3F, 0x1]),
    (0x4, Some(2), [0x0C004143, 0x03C0003F, 0xFFF, 0x1]),
];

const YONAH: &[Row] = &[
    (0x0, None, [0xA, 0x756E6547, 0x6C65746E, 0x49656E69]),
    (0x1, None, [0x000006E4, 0x00020800, 0x0000C1A9, 0xBFE9FBFF]),
    (0xA, None, [0x07280201, 0, 0, 0]),
    (0x80000000, None, [0x80000008, 0, 0, 0]),
    (0x80000001, None, [0, 0, 0, 0x00100000]),
    (0x4, Some(0), [0x04000121, 0x01C0003F, 0x3F, 0x1]),
    (0x4, Some(1), [0x04000122, 0x01C0003F, 0x3F, 0x1]),
    (0x4, Some(2), [0x04004143, 0x01C0003F, 0xFFF, 0x1]),
];

const PENTIUM: &[Row] = &[
    (0x0, None, [0x1, 0x756E6547, 0x6C65746E, 0x49656E69]),
    (0x1, None, [0x00000525, 0, 0, 0x1BF]),
];

const PENTIUM_MMX: &[Row] = &[
    (0x0, None, [0x1, 0x756E6547, 0x6C65746E, 0x49656E69]),
    (0x1, None, [0x00000543, 0, 0, 0x008003BF]),
];

const PENTIUM3: &[Row] = &[
    (0x0, None, [0x2, 0x756E6547, 0x6C65746E, 0x49656E69]),
    (0x1, None, [0x00000686, 0x2, 0, 0x0383FBFF]),
    // With the descriptor of 256 KiB.
    (0x2, None, [0x03020101, 0, 0, 0x0C040882]),
];

const PENTIUM_M: &[Row] = &[
    (0x0, None, [0x2, 0x756E6547, 0x6C65746E, 0x49656E69]),
    (0x1, None, [0x00000695, 0x00000812, 0, 0xA7E9FBBF]),
    (0x80000000, None, [0x80000004, 0, 0, 0]),
    (0x80000001, None, [0, 0, 0, 0]),
    (0x2, None, [0x02B3B001, 0, 0, 0x2C043086]),
];

const PENTIUM4: &[Row] = &[
    (0x0, None, [0x2, 0x756E6547, 0x6C65746E, 0x49656E69]),
    (0x1, None, [0x00000F0A, 0x00010808, 0, 0x3FEBFBFF]),
    (0x80000000, None, [0x80000004, 0, 0, 0]),
    (0x80000001, None, [0, 0, 0, 0]),
    (0x2, None, [0x665B5001, 0, 0, 0x007A7040]),
];

const PENTIUM4_HT: &[Row] = &[
    (0x0, None, [0x2, 0x756E6547, 0x6C65746E, 0x49656E69]),
    (0x1, None, [0x00000F29, 0x00020809, 0x00004400, 0xBFEBFBFF]),
    (0x80000000, None, [0x80000004, 0, 0, 0]),
    (0x80000001, None, [0, 0, 0, 0]),
    (0x2, None, [0x665B5001, 0, 0, 0x007B7040]),
];

const K8: &[Row] = &[
    (0x0, None, [0x1, 0x68747541, 0x444D4163, 0x69746E65]),
    (0x1, None, [0x00000F4A, 0x00000800, 0, 0x078BFBFF]),
    (0x80000000, None, [0x80000018, 0x68747541, 0x444D4163, 0x69746E65]),
    (0x80000001, None, [0x00000F4A, 0x106, 0, 0xE1D3FBFF]),
    (0x80000005, None, [0xFF08FF08, 0xFF20FF20, 0x40020140, 0x40020140]),
    (0x80000006, None, [0, 0x42004200, 0x02008140, 0]),
];

const FAM10H: &[Row] = &[
    (0x0, None, [0x5, 0x68747541, 0x444D4163, 0x69746E65]),
    (0x1, None, [0x00100F22, 0x00040800, 0x00802009, 0x178BFBFF]),
    (0x80000000, None, [0x8000001A, 0x68747541, 0x444D4163, 0x69746E65]),
    (0x80000001, None, [0x00100F22, 0x10000000, 0x7FF, 0xEFD3FBFF]),
    (0x80000005, None, [0xFF30FF10, 0xFF30FF20, 0x40020140, 0x40020140]),
    (0x80000006, None, [0x20800000, 0x42004200, 0x02008140, 0x0010A140]),
];

const BULLDOZER: &[Row] = &[
    (0x0, None, [0xD, 0x68747541, 0x444D4163, 0x69746E65]),
    (0x1, None, [0x00600F12, 0x00080800, 0x1E98220B, 0x178BFBFF]),
    (0x80000000, None, [0x8000001E, 0x68747541, 0x444D4163, 0x69746E65]),
    (0x80000001, None, [0x00600F12, 0x10000000, 0x01C9BFFF, 0x2FD3FBFF]),
    // BKDG of family 15h models 00h to 0Fh, "CPUID Fn8000_001D"; 2 MiB and 8 MiB, as the FX-8150.
    (0x8000001D, Some(0), [0x00000121, 0x00C0003F, 0x3F, 0]),
    (0x8000001D, Some(1), [0x00004122, 0x0040003F, 0x1FF, 0]),
    (0x8000001D, Some(2), [0x00004143, 0x03C0003F, 0x7FF, 0]),
    (0x8000001D, Some(3), [0x0001C163, 0x0FC0003F, 0x7FF, 0]),
];

const ZEN2: &[Row] = &[
    (0x0, None, [0x10, 0x68747541, 0x444D4163, 0x69746E65]),
    (0x1, None, [0x00870F10, 0x00100800, 0x7ED8320B, 0x178BFBFF]),
    (0x7, Some(0), [0, 0x219C91A9, 0x00400004, 0]),
    (0x80000000, None, [0x80000020, 0x68747541, 0x444D4163, 0x69746E65]),
    (0x80000001, None, [0x00870F10, 0x20000000, 0x75C237FF, 0x2FD3FBFF]),
    // PPR of family 17h model 71h, "CPUID_Fn8000001D"; 16 MiB for each four cores.
    (0x8000001D, Some(0), [0x00004121, 0x01C0003F, 0x3F, 0]),
    (0x8000001D, Some(1), [0x00004122, 0x01C0003F, 0x3F, 0]),
    (0x8000001D, Some(2), [0x00004143, 0x01C0003F, 0x3FF, 0x2]),
    (0x8000001D, Some(3), [0x0001C163, 0x03C0003F, 0x3FFF, 0x1]),
];

const ZEN4: &[Row] = &[
    (0x0, None, [0x10, 0x68747541, 0x444D4163, 0x69746E65]),
    (0x1, None, [0x00A60F12, 0x00100800, 0x7EF8320B, 0x178BFBFF]),
    (0x7, Some(0), [1, 0xF1BF97A9, 0x00405FCE, 0x10000010]),
    (0x7, Some(1), [0x20, 0, 0, 0]),
    (0xB, Some(0), [1, 2, 0x100, 0]),
    (0xB, Some(1), [4, 16, 0x201, 0]),
    (0x80000000, None, [0x80000028, 0x68747541, 0x444D4163, 0x69746E65]),
    (0x80000001, None, [0x00A60F12, 0, 0x75C237FF, 0x2FD3FBFF]),
    (0x80000022, None, [0x7, 0x4106, 0x3, 0]),
    // PPR of family 19h model 61h, "CPUID_Fn8000001D"; 32 MiB for eight cores.
    (0x8000001D, Some(0), [0x00004121, 0x01C0003F, 0x3F, 0]),
    (0x8000001D, Some(1), [0x00004122, 0x01C0003F, 0x3F, 0]),
    (0x8000001D, Some(2), [0x00004143, 0x01C0003F, 0x7FF, 0x2]),
    (0x8000001D, Some(3), [0x0003C163, 0x03C0003F, 0x7FFF, 0x1]),
];

const ZEN5: &[Row] = &[
    (0x0, None, [0x10, 0x68747541, 0x444D4163, 0x69746E65]),
    (0x1, None, [0x00B60F00, 0x00100800, 0x7ED8320B, 0x178BFBFF]),
    (0x7, Some(0), [1, 0xF1BF97AB, 0x19405FCE, 0x10000110]),
    (0x7, Some(1), [0x30, 0, 0, 0]),
    (0xB, Some(0), [1, 2, 0x100, 0]),
    (0xB, Some(1), [4, 16, 0x201, 0]),
    (0x80000000, None, [0x80000028, 0x68747541, 0x444D4163, 0x69746E65]),
    (0x80000001, None, [0x00B60F00, 0x10000000, 0x75C237FF, 0x2FD3FBFF]),
    (0x80000022, None, [0x7, 0x00104106, 0xF, 0]),
    (0x8000001D, Some(0), [0x00004121, 0x02C0003F, 0x3F, 0]),
    (0x8000001D, Some(1), [0x00004122, 0x01C0003F, 0x3F, 0]),
    (0x8000001D, Some(2), [0x00004143, 0x03C0003F, 0x3FF, 0x2]),
    (0x8000001D, Some(3), [0x0003C163, 0x03C0003F, 0x3FFF, 0x1]),
];

/// The signature of Zen 6; no dump of one is public, so that all else is Zen 5's.
const AS_ZEN6: &[Row] = &[
    (0x1, None, [0x00B50F00, 0x00100800, 0x7ED8320B, 0x178BFBFF]),
    (0x80000001, None, [0x00B50F00, 0x10000000, 0x75C237FF, 0x2FD3FBFF]),
];

/// Leaf 1 with the hypervisor bit.
const VIRTUAL_INTEL: &[Row] = &[(0x1, None, [0x000806F8, 0x00100800, 0xFFFEFBFF, 0xBFEBFBFF])];

/// `Microsoft Hv` and Hv#1.
const HYPERV: &[Row] = &[
    (0x40000000, None, [0x4000000A, 0x7263694D, 0x666F736F, 0x76482074]),
    (0x40000001, None, [0x31237648, 0, 0, 0]),
];

/// 0x40000003 of an Intel root of build 18362 (Comet Lake): CreatePartitions (EBX\[0\]),
/// CpuManagement (EBX\[12\]), and performance-monitor support (EDX\[2\]). The available list lacks
/// its EAX and ECX: EAX is set to the privileges that every partition has, ECX to 0.
const ROOT_INTEL: &[Row] = &[(0x40000003, None, [0x3FFF, 0x002BB9FF, 0, 0x19FFFBF6])];

/// The same of an AMD root of build 14393 (Zen 1): EDX\[2\] is clear.
const ROOT_AMD: &[Row] = &[(0x40000003, None, [0x3FFF, 0x002BB9FF, 0, 0x000FFBF2])];

/// Leaf 1 with the hypervisor bit; 0x80000001 with PerfCtrExtCore (ECX\[23\]) and IBS (ECX\[10\])
/// hidden, as in every AMD root.
const ZEN_UNDER_HYPERV: &[Row] = &[
    (0x1, None, [0x00870F10, 0x00100800, 0xFED8320B, 0x178BFBFF]),
    (0x80000001, None, [0x00870F10, 0x20000000, 0x754233FF, 0x2FD3FBFF]),
];

/// 0x40000003 of an ordinary guest: neither CreatePartitions nor CpuManagement, EDX\[2\] clear.
const GUEST: &[Row] = &[(0x40000003, None, [0x2E7F, 0x003B8030, 0, 0xE0BED7B2])];

/// The same with EDX\[2\] set, as the Perfmon setting does.
const GUEST_OFFERED: &[Row] = &[(0x40000003, None, [0x2E7F, 0x003B8030, 0, 0xE0BED7B6])];

/// 0x40000003 of an Intel root of build 9600 (Nehalem-EX): EDX\[2\] is clear.
const ROOT_2012: &[Row] = &[(0x40000003, None, [0x1FFF, 0x39FF, 0x12, 0x3BB3])];

/// If an Intel partition has no counters, leaf 0x0A is 0 and PDCM (CPUID.1:ECX\[15\]) is hidden.
const NO_COUNTERS: &[Row] =
    &[(0x1, None, [0x000806F8, 0x00100800, 0xFFFE7BFF, 0xBFEBFBFF]), (0xA, None, [0, 0, 0, 0])];

/// QEMU with hv_* flags: KVM's own leaves move to 0x40000100, and EDX of 0x40000003 never has the
/// bit for counters, whatever leaf 0x0A offers (its EDX\[3\] is CPU_DYNAMIC_PARTITIONING).
const KVM_BEHIND_HYPERV: &[Row] = &[
    (0x40000003, None, [0xE7F, 0, 0, 0x8]),
    (0x40000100, None, [0x40000101, 0x4B4D564B, 0x564B4D56, 0x4D]),
    (0x40000101, None, [0x01007EFB, 0, 0, 0]),
];

/// `KVMKVMKVM`; 0x80000001 ECX[23] is clear and leaf 0x80000022 absent.
const KVM_AMD: &[Row] = &[
    (0x0, None, [0xD, 0x68747541, 0x444D4163, 0x69746E65]),
    (0x1, None, [0x00800F12, 0x00040800, 0xFED83203, 0x178BFBFF]),
    (0x40000000, None, [0x40000001, 0x4B4D564B, 0x564B4D56, 0x4D]),
    (0x40000001, None, [0x01007EFB, 0, 0, 0]),
    (0x80000000, None, [0x8000001E, 0x68747541, 0x444D4163, 0x69746E65]),
    (0x80000001, None, [0x00800F12, 0x20000000, 0x004003F7, 0x2FD3FBFF]),
    (0x8000001D, Some(0), [0x00004121, 0x01C0003F, 0x3F, 0]),
    (0x8000001D, Some(1), [0x00004122, 0x00C0003F, 0xFF, 0]),
    (0x8000001D, Some(2), [0x00004143, 0x01C0003F, 0x3FF, 0x2]),
    (0x8000001D, Some(3), [0x0000C163, 0x03C0003F, 0x1FFF, 0x1]),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn model(name: &str) -> Vec<Leaves> {
        find(name).map(Model::processors).unwrap_or_default()
    }

    #[test]
    fn names_are_found_and_unique() {
        let names: BTreeSet<_> = MODELS.iter().map(|model| model.name).collect();
        assert_eq!(names.len(), MODELS.len());
        for model in MODELS {
            assert_eq!(find(&model.name.to_uppercase()).map(|found| found.name), Some(model.name));
            assert!(!model.processors().is_empty(), "{}", model.name);
        }
        assert!(find("skylark").is_none());
        for (alias, name) in ALIASES {
            assert_eq!(find(alias).map(|model| model.name), Some(name));
        }
    }

    /// 0x40000003 identifies a root partition by CreatePartitions (EBX\[0\]) and CpuManagement
    /// (EBX\[12\]), and says by EDX\[2\] whether it offers counters (TLFS, "Feature Discovery");
    /// where an Intel partition has none, leaf 0x0A is 0, and an AMD root hides PerfCtrExtCore and
    /// IBS.
    #[test]
    fn partitions_of_hyperv_are_what_dumps_of_them_show() {
        for (name, root, lends, architectural) in [
            ("hyperv-root-intel", true, true, 0x08300805),
            ("hyperv-root-amd", true, false, 0),
            ("hyperv-guest-intel", false, true, 0x08300805),
            ("hyperv-guest-masked", false, false, 0),
            ("hyperv-masked", true, false, 0),
            ("kvm-hyperv-face", false, false, 0x08300805),
        ] {
            for leaves in model(name) {
                let privileges = leaves.get(0x40000003, 0);
                assert_eq!(leaves.get(1, 0).ecx >> 31, 1, "{name}");
                assert_eq!(leaves.get(0x40000000, 0).ebx, 0x7263694D, "{name}");
                assert_eq!(leaves.get(0x40000001, 0).eax, 0x31237648, "{name}");
                assert_eq!(privileges.ebx & 0x1001 == 0x1001, root, "{name}");
                assert_eq!(privileges.ebx >> 22 & 1, 0, "{name}: isolated");
                assert_eq!(privileges.edx >> 2 & 1 == 1, lends, "{name}");
                assert_eq!(privileges.edx >> 26 & 1, 0, "{name}: LBR");
                assert_eq!(leaves.get(0xA, 0).eax, architectural, "{name}");
            }
        }
        for name in ["hyperv-guest-masked", "hyperv-masked"] {
            assert_eq!(model(name)[0].get(1, 0).ecx >> 15 & 1, 0, "{name}: PDCM");
        }
        let amd = model("hyperv-root-amd")[0].get(0x80000001, 0).ecx;
        assert_eq!(amd & (1 << 23 | 1 << 10), 0);
        let face = model("kvm-hyperv-face")[0].get(0x40000100, 0);
        let signature = [face.ebx, face.ecx, face.edx].map(u32::to_le_bytes).concat();
        assert_eq!(signature, b"KVMKVMKVM\0\0\0");
    }

    /// What each model exists for: leaf, sub-leaf, and the EAX that makes it so.
    #[test]
    fn models_are_what_they_claim() {
        for (name, leaf, eax) in [
            ("sapphire-rapids", 0xA, 0x08300805),
            ("hybrid", 0xA, 0x0D300806),
            ("skylake", 0xA, 0x07300404),
            ("haswell", 0xA, 0x07300403),
            ("core2", 0xA, 0x07280202),
            ("yonah", 0xA, 0x07280201),
            ("pentium", 0xA, 0),
            ("zen2", 0x80000022, 0),
            ("zen4", 0x80000022, 7),
            ("hyperv-masked", 0x40000001, 0x31237648),
        ] {
            for leaves in model(name) {
                assert_eq!(leaves.get(leaf, 0).eax, eax, "{name}");
            }
        }
        let extended = |name| model(name)[0].get(0x80000001, 0).ecx & 1 << 23 != 0;
        for (name, expected) in [
            ("k8", false),
            ("fam10h", false),
            ("bulldozer", true),
            ("zen2", true),
            ("kvm-amd", false),
        ] {
            assert_eq!(extended(name), expected, "{name}");
        }
        assert_eq!(model("hyperv-masked")[0].get(0x40000003, 0).edx & 4, 0);
        for name in ["hyperv-masked", "kvm-amd"] {
            assert_ne!(model(name)[0].get(1, 0).ecx & 1 << 31, 0, "{name}");
        }
    }

    #[test]
    fn the_hybrid_has_cores_that_differ() {
        let hybrid = model("hybrid");
        let (performance, efficiency) = (&hybrid[0], &hybrid[4]);
        assert_eq!(performance.get(0x1A, 0).eax >> 24, 0x40);
        assert_eq!(efficiency.get(0x1A, 0).eax >> 24, 0x20);
        assert_ne!(performance.get(0x23, 1), efficiency.get(0x23, 1));
    }

    #[test]
    fn every_processor_has_an_apic_id_of_its_own() {
        for model in MODELS {
            for (index, leaves) in (0..).zip(repeat(&model.processors(), 256)) {
                assert_eq!(leaves.get(1, 0).ebx >> 24, leaves.apic_id() & 0xFF, "{}", model.name);
                if model.processors().len().is_power_of_two() {
                    assert_eq!(leaves.apic_id(), index, "{}", model.name);
                }
            }
        }
    }

    #[test]
    fn repetition_keeps_threads_together_and_passes_255() {
        let pair = [3, 7].map(|id| with_apic_id(&model("skylake")[0], id));
        let ids: Vec<u32> = repeat(&pair, 5).iter().map(Leaves::apic_id).collect();
        assert_eq!(ids, [3, 7, 11, 15, 19]);
        let many = repeat(&model("skylake"), 2048);
        assert_eq!(many.iter().map(Leaves::apic_id).collect::<BTreeSet<_>>().len(), 2048);
        assert_eq!(many[2047].get(0xB, 1).edx, 2047);
        assert_eq!(many[2047].get(1, 0).ebx >> 24, 0xFF);
        let alike = [model("pentium3")[0].clone(), model("pentium3")[0].clone()];
        let ids: Vec<u32> = repeat(&alike, 4).iter().map(Leaves::apic_id).collect();
        assert_eq!(ids, [0, 1, 2, 3]);
        assert!(repeat(&[], 4).is_empty());
    }
}
