//! The leaf values that matter, as lines of a table.

use hal_profile::cpu::machine::CpuidResult;
use sim::cpu::cpuid::Leaves;

/// The first line of the table.
pub(crate) const HEADER: &str = "file,first_processor,last_processor,leaf,subleaf,eax,ebx,ecx,edx";

const ALL: u32 = u32::MAX;

/// What matters: leaf, sub-leaf if the leaf has any, and the bits of EAX, EBX, ECX and EDX.
const DECIDING: &[(u32, Option<u32>, [u32; 4])] = &[
    (0x0, None, [ALL; 4]),
    // Without the initial APIC id, which distinguishes threads but does not matter otherwise.
    (0x1, None, [ALL, 0x00FF_FFFF, ALL, ALL]),
    // Cores in the package: they decide whether two logical processors are threads of one core.
    (0x4, Some(0), [ALL, 0, 0, 0]),
    (0x7, Some(0), [0, ALL, 0, ALL]),
    (0x7, Some(1), [ALL, 0, 0, 0]),
    (0xA, None, [ALL; 4]),
    (0x1A, None, [ALL, 0, 0, 0]),
    (0x23, Some(0), [ALL; 4]),
    (0x23, Some(1), [ALL; 4]),
    (0x23, Some(3), [ALL; 4]),
    (0x40000000, None, [ALL, 0, 0, 0]),
    (0x40000001, None, [ALL, 0, 0, 0]),
    (0x40000003, None, [0, 0, 0, ALL]),
    (0x80000000, None, [ALL, 0, 0, 0]),
    (0x80000001, None, [0, 0, ALL, ALL]),
    (0x80000022, None, [ALL, ALL, 0, 0]),
];

/// The lines of one machine, without the file name: one for each leaf of each run of processors
/// that do not differ in what matters.
pub(crate) fn table(machine: &[Leaves]) -> Vec<String> {
    let processors: Vec<_> = machine.iter().map(deciding).collect();
    let mut lines = Vec::new();
    let mut first = 0;
    for run in processors.chunk_by(|one, next| one == next) {
        let last = first + run.len() - 1;
        lines.extend(run[0].iter().map(|row| format!("{first},{last},{row}")));
        first = last + 1;
    }
    lines
}

/// One line for each leaf that exists: the bits that matter, all others 0.
fn deciding(leaves: &Leaves) -> Vec<String> {
    let present = |&&(leaf, subleaf, _): &&(u32, Option<u32>, [u32; 4])| match subleaf {
        Some(subleaf @ 1..) => leaves.get(leaf, subleaf) != CpuidResult::default(),
        _ => leaves.contains(leaf),
    };
    DECIDING
        .iter()
        .filter(present)
        .map(|&(leaf, subleaf, [eax, ebx, ecx, edx])| {
            let value = leaves.get(leaf, subleaf.unwrap_or(0));
            let subleaf = subleaf.map_or(String::new(), |subleaf| subleaf.to_string());
            format!(
                "0x{leaf:08X},{subleaf},0x{:08X},0x{:08X},0x{:08X},0x{:08X}",
                value.eax & eax,
                value.ebx & ebx,
                value.ecx & ecx,
                value.edx & edx
            )
        })
        .collect()
}
