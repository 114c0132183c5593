//! Built-in models of processors: CPUID dumps that hold only the leaves that matter, one processor of
//! each kind.
//!
//! Most values are from dumps of processors of that kind. Not yet backed by a dump, and to be
//! checked against one: `sapphire-rapids`, `bulldozer`, `zen2`, `zen4` and `kvm-amd`. Adapted from
//! a dump: `skylake` (Hyper-Threading, so half the counters), `pentium3` (local APIC enabled, and its
//! second-level cache), the leaves of Hyper-V (each file says from which machine), the number of
//! processors, and `zen6` (Zen 5's leaves with another signature). Caches that are not of a dump say
//! where they are from; the Pentiums' CPUID tells of none.

use crate::cpu::cpuid::Leaves;
use crate::machines::dump;
use hal_profile::cpu::machine::CpuidResult;
use std::collections::BTreeSet;

/// A processor model that needs no file.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// What `--machine` takes.
    pub name: &'static str,
    /// One line for people.
    pub description: &'static str,
    /// How many processors there are of each kind, in the dump's order.
    counts: &'static [usize],
    dump: &'static str,
}

impl Model {
    /// Its logical processors; the APIC id of each is its index.
    pub fn processors(&self) -> Vec<Leaves> {
        let kinds = dump::parse(self.dump.as_bytes()).unwrap_or_default();
        kinds
            .iter()
            .zip(self.counts)
            .flat_map(|(leaves, &count)| std::iter::repeat_n(leaves, count))
            .zip(0..)
            .map(|(leaves, id)| with_apic_id(leaves, id))
            .collect()
    }

    /// A dump of all its processors, which [`dump::parse`] reads.
    pub fn dump(&self) -> String {
        format!("{}: {}\n{}", self.name, self.description, dump::text(&self.processors()))
    }
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

macro_rules! models {
    ($($name:literal [$($count:literal),+] $description:literal;)*) => {
        /// Every built-in model; the first is the default.
        pub const MODELS: &[Model] = &[$(Model {
            name: $name,
            description: $description,
            counts: &[$($count),+],
            dump: include_str!(concat!("../../models/", $name, ".txt")),
        },)*];
    };
}

models! {
    "sapphire-rapids" [16]
        "Intel Xeon of 2023 (Golden Cove): architectural version 5, 8 + 4 counters";
    "hybrid" [4, 8]
        "Intel Core Ultra of 2024 (Arrow Lake): performance and efficiency cores with different \
         counters, version 6 and leaf 0x23 with holes";
    "skylake" [8]
        "Intel Core of 2015: architectural version 4, 4 + 3 counters";
    "haswell" [12]
        "Intel Core of 2014 (Haswell-E): architectural version 3, 4 + 3 counters";
    "core2" [4]
        "Intel Core 2 Quad of 2007: architectural version 2, 2 counters of 40 bits";
    "yonah" [2]
        "Intel Core Duo of 2006: architectural version 1, 2 counters of 40 bits";
    "pentium" [1]
        "Intel Pentium (P54C): 2 counters, no overflow interrupt";
    "pentium-mmx" [1]
        "Intel Pentium MMX (P55C): 2 counters, no overflow interrupt";
    "pentium3" [1]
        "Intel Pentium III (Coppermine): P6 counters";
    "pentium-m" [1]
        "Intel Pentium M (Banias): P6 counters";
    "pentium4" [1]
        "Intel Pentium 4 (Willamette): NetBurst, 18 counters";
    "pentium4-ht" [2]
        "Intel Pentium 4 with Hyper-Threading (Northwood): two threads share 18 counters";
    "k8" [1]
        "AMD Athlon 64: 4 counters of 48 bits";
    "fam10h" [4]
        "AMD Phenom (family 10h): 4 counters of 48 bits";
    "bulldozer" [8]
        "AMD FX (family 15h): 6 counters in the extended layout, with constraints";
    "zen2" [16]
        "AMD Ryzen 3000 (family 17h): 6 counters in the extended layout";
    "zen4" [16]
        "AMD Ryzen 7000 (family 19h): PerfMonV2, 6 counters";
    "zen5" [16]
        "AMD Ryzen AI 300 (family 1Ah): PerfMonV2, 6 counters";
    "zen6" [16]
        "AMD Zen 6 (family 1Ah, model 50h): PerfMonV2, 6 counters";
    "hyperv-root-intel" [8]
        "Windows on Hyper-V (VBS, or its root partition) on Intel: it may use the counters";
    "hyperv-root-amd" [8]
        "Windows on Hyper-V (VBS, or its root partition) on AMD: the counters are masked";
    "hyperv-guest-intel" [4]
        "An Intel guest of Hyper-V with `Set-VMProcessor -Perfmon @(\"pmu\")`";
    "hyperv-guest-masked" [4]
        "An Intel guest of Hyper-V as it comes: no counters";
    "hyperv-root-2012" [4]
        "An Intel root partition of 2013 (Windows Server 2012 R2): Hyper-V masks the counters, \
         and hides them in CPUID";
    "kvm-hyperv-face" [4]
        "An Intel guest of KVM with `pmu=on` and hv_* enlightenments: Hv#1 stands first, and does \
         not say that there are counters";
    "kvm-amd" [4]
        "An AMD guest of KVM that shows no proof of counters";
}

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
    fn a_dump_of_a_model_is_the_model() {
        for model in MODELS {
            let read = dump::parse(model.dump().as_bytes());
            assert_eq!(read, Ok(model.processors()), "{}", model.name);
            assert_eq!(
                dump::parse(model.dump.as_bytes()).map(|kinds| kinds.len()),
                Ok(model.counts.len())
            );
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
