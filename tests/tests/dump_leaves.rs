//! Does the committed table match the real dumps?

use halprof_simulate::cache::Geometry;
use halprof_tests::{dumps, machines_from_table};

/// Logical processors, counted by hand in the files.
#[test]
fn the_table_has_every_processor() {
    let machines = machines_from_table();
    assert_eq!(machines.len(), 67);
    for (file, processors) in [
        ("AuthenticAMD0000570_K6_CPUID.txt", 1),
        ("AuthenticAMD0500F01_K14_Bobcat_CPUID.txt", 2),
        ("AuthenticAMD0800F12_K17_Zen_CPUID4.txt", 48),
        ("GenuineIntel0000543_P55C_CPUID.txt", 2),
        ("GenuineIntel0000619_P6_CPUID.txt", 2),
        ("GenuineIntel00106C2_Silverthorne_CPUID.txt", 4),
        ("GenuineIntel00206E6_Beckton_CPUID2.txt", 32),
        ("GenuineIntel00806A1_Lakefield_CPUID.txt", 5),
        ("GenuineIntel00A0654_CometLake_CPUID.txt", 20),
        ("GenuineIntel00B0671_RaptorLake_12_CPUID.txt", 20),
        ("GenuineIntel00C0662_ArrowLake_07_CPUID.txt", 14),
        ("Virtual_CPU_0000F4A_X1_x32_CPUID.txt", 8),
        ("Vortex86_SoC0000611_Vortex86DX3_CPUID.txt", 2),
    ] {
        let machine = machines.iter().find(|(name, _)| name == file);
        assert_eq!(machine.map(|(_, machine)| machine.len()), Some(processors), "{file}");
    }
}

#[test]
fn values_as_printed_in_the_dumps() {
    let machines = machines_from_table();
    let eax = |part: &str, processor: usize, leaf, subleaf| {
        let machine = machines.iter().find(|(name, _)| name.contains(part));
        machine.map(|(_, machine)| machine[processor].get(leaf, subleaf).eax)
    };
    for (part, processor, leaf, subleaf, expected) in [
        ("Skylake", 0, 0xA, 0, 0x07300804),
        ("PM_Yonah", 1, 0xA, 0, 0x07280201),
        ("Kentsfield", 3, 0xA, 0, 0x07280202),
        ("ArrowLake_07", 0, 0x23, 1, 0x3FF),
        ("ArrowLake_07", 2, 0x23, 1, 0xFF),
        ("ArrowLake_07", 0, 0x1A, 0, 0x40000003),
        ("ArrowLake_07", 2, 0x1A, 0, 0x20000003),
        ("KrackanPoint", 15, 0x80000022, 0, 0x7),
        ("ICX_01v", 7, 0x40000001, 0, 0x31237648),
        ("P55C", 1, 0x1, 0, 0x2544),
    ] {
        assert_eq!(eax(part, processor, leaf, subleaf), Some(expected), "{part} {leaf:#x}");
    }
}

#[test]
fn the_table_is_what_the_dumps_say() {
    let Some(folder) = dumps::folder() else {
        return;
    };
    let entries = std::fs::read_dir(folder).expect("the folder of the dumps");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let mut lines = vec![dumps::table_header().to_owned()];
    for path in paths {
        let bytes = std::fs::read(&path).expect("a dump");
        let machine = sim::machines::dump::parse(&bytes).expect("a dump that parses");
        let file = path.file_name().expect("a file").to_string_lossy();
        lines.extend(dumps::table_lines(&file, &machine));
    }
    let committed: Vec<&str> = dumps::TABLE.lines().collect();
    assert_eq!(committed, lines);
}

#[test]
fn machines_of_the_table_give_the_table() {
    let machines = machines_from_table();
    let lines = machines.iter().flat_map(|(file, machine)| dumps::table_lines(file, machine));
    let committed = dumps::TABLE.lines().skip(1);
    assert!(committed.eq(lines));
}

/// KiB of every cache, nearest first, from data sheets. CPUID of the Pentium tells of none, and the
/// Pentium 4 has a trace cache.
#[test]
fn every_model_has_the_caches_of_its_part() {
    let table: &[(&str, &[(&str, u64)])] = &[
        ("sapphire-rapids", &[("L1D", 48), ("L1I", 32), ("L2", 2048), ("L3", 23040)]),
        ("hybrid", &[("L1D", 48), ("L1I", 64), ("L2", 3072), ("L3", 24576)]),
        ("skylake", &[("L1D", 32), ("L1I", 32), ("L2", 256), ("L3", 6144)]),
        ("haswell", &[("L1D", 32), ("L1I", 32), ("L2", 256), ("L3", 15360)]),
        ("core2", &[("L1D", 32), ("L1I", 32), ("L2", 4096)]),
        ("yonah", &[("L1D", 32), ("L1I", 32), ("L2", 2048)]),
        ("pentium", &[]),
        ("pentium-mmx", &[]),
        ("pentium3", &[("L1D", 16), ("L1I", 16), ("L2", 256)]),
        ("pentium-m", &[("L1D", 32), ("L1I", 32), ("L2", 512)]),
        ("pentium4", &[("L1D", 8), ("L2", 256)]),
        ("pentium4-ht", &[("L1D", 8), ("L2", 512)]),
        ("k8", &[("L1D", 64), ("L1I", 64), ("L2", 512)]),
        ("fam10h", &[("L1D", 64), ("L1I", 64), ("L2", 512), ("L3", 2048)]),
        ("bulldozer", &[("L1D", 16), ("L1I", 64), ("L2", 2048), ("L3", 8192)]),
        ("zen2", &[("L1D", 32), ("L1I", 32), ("L2", 512), ("L3", 16384)]),
        ("zen4", &[("L1D", 32), ("L1I", 32), ("L2", 1024), ("L3", 32768)]),
        ("zen5", &[("L1D", 48), ("L1I", 32), ("L2", 1024), ("L3", 16384)]),
        ("zen6", &[("L1D", 48), ("L1I", 32), ("L2", 1024), ("L3", 16384)]),
        ("kvm-amd", &[("L1D", 32), ("L1I", 64), ("L2", 512), ("L3", 8192)]),
    ];
    for model in sim::machines::models::MODELS {
        let processors = model.processors();
        let found = Geometry::from_cpuid(|leaf, subleaf| {
            let value = processors[0].get(leaf, subleaf);
            [value.eax, value.ebx, value.ecx, value.edx]
        });
        let mut found: Vec<(String, u64)> =
            found.iter().map(|cache| (cache.name(), cache.bytes() >> 10)).collect();
        found.sort();
        let row = table.iter().find(|(name, _)| *name == model.name);
        // Machines of a hypervisor are on the parts of others.
        let like = match model.name {
            "hyperv-root-amd" => "zen2",
            name if row.is_none() => {
                assert!(name.starts_with("hyperv") || name.starts_with("kvm"), "{name}");
                "sapphire-rapids"
            }
            name => name,
        };
        let row = table.iter().find(|(name, _)| *name == like);
        let wanted = row.expect("a row").1.iter();
        let wanted: Vec<(String, u64)> =
            wanted.map(|(name, kib)| ((*name).to_owned(), *kib)).collect();
        assert_eq!(found, wanted, "{}", model.name);
    }
}
