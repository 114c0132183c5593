//! Which privileged instructions are there, and is every indirect branch guarded?

use super::code::{Code, Place};
use super::image::Image;
use super::{Refusals, accepted, overwrite, refused};
use iced_x86::{Code as Opcode, FlowControl, Instruction, Mnemonic, Register};

/// The privileged instructions that the driver needs, besides those of [`is_of_cr4`]. No I/O ports,
/// other control registers, debug registers, descriptor tables, caches, or other processors' TLBs.
const PRIVILEGED: [Mnemonic; 4] = [
    Mnemonic::Rdmsr,
    Mnemonic::Wrmsr,
    // Registers are changed with interrupts masked.
    Mnemonic::Cli,
    Mnemonic::Sti,
];

/// Not privileged, but still not for this driver: calls to a hypervisor or to Windows by trap, and
/// flag changes that could mask or unmask interrupts.
const REFUSED: [Mnemonic; 10] = [
    Mnemonic::Vmcall,
    Mnemonic::Vmmcall,
    Mnemonic::Vmfunc,
    Mnemonic::Syscall,
    Mnemonic::Sysenter,
    Mnemonic::Int,
    Mnemonic::Popf,
    Mnemonic::Popfq,
    Mnemonic::Xbegin,
    Mnemonic::Wrpkru,
];

/// MOV from and to CR4, for PCE.
fn is_of_cr4(one: &Instruction) -> bool {
    let cr4 = [one.op0_register(), one.op1_register()].contains(&Register::CR4);
    one.mnemonic() == Mnemonic::Mov && cr4
}

fn instructions(image: &Image) -> Refusals {
    let mut refusals = Refusals::new();
    for function in Code::of(image).functions.values() {
        for one in &function.instructions {
            let mnemonic = one.mnemonic();
            let refused = one.is_privileged() && !PRIVILEGED.contains(&mnemonic) && !is_of_cr4(one)
                || REFUSED.contains(&mnemonic)
                || one.is_invalid()
                || matches!(one.flow_control(), FlowControl::Interrupt)
                    && one.code() != Opcode::Int3;
            if refused {
                refusals.push(format!("{mnemonic:?} at {:#x} in {}", one.ip(), function.name()));
            }
        }
    }
    refusals
}

/// All code belongs to a function, so that nothing is left unchecked.
fn coverage(image: &Image) -> Refusals {
    let code = Code::of(image);
    let text = image.section(".text");
    let mut at = text.address;
    let end = text.address + text.size;
    let mut refusals = Refusals::new();
    let all = code.functions.values().map(|function| function.range.clone());
    for range in all.chain(std::iter::once(end..end)) {
        let gap = (at..range.start).map(|address| image.bytes[image.offset(address)]);
        // INT3 and the one-byte NOP: what linkers fill gaps with.
        if gap.clone().any(|byte| byte != 0xCC && byte != 0x90) {
            refusals.push(format!("code without a name between {at:#x} and {:#x}", range.start));
        }
        at = range.end;
    }
    refusals
}

fn masking_is_paired(image: &Image) -> Refusals {
    let code = Code::of(image);
    let mut refusals = Refusals::new();
    for function in code.functions.values() {
        let count = |mnemonic| {
            let all = function.instructions.iter();
            all.filter(|one| one.mnemonic() == mnemonic).count()
        };
        if count(Mnemonic::Cli) != count(Mnemonic::Sti) {
            refusals.push(format!("{}: CLI and STI are no pairs", function.name()));
        }
    }
    refusals
}

/// Every call and jump through memory or a register goes through control-flow guard, the import
/// table, or a table of offsets within its function.
fn branches(image: &Image) -> Refusals {
    let code = Code::of(image);
    let mut refusals = Refusals::new();
    for function in code.functions.values() {
        // This is what the guard's pointer points to when Windows does not enforce the guard.
        if function.begins("the guard's dispatch") {
            continue;
        }
        for way in code.ways(function) {
            let unknown = match &way.to {
                Place::Anywhere => true,
                Place::Function(at) => !code.functions.contains_key(at),
                Place::Import(_) | Place::Guarded => false,
            };
            if unknown {
                let (from, to) = (function.name(), code.name(&way.to));
                refusals.push(format!("{from} at {:#x} goes to {to}", way.at));
            }
        }
    }
    refusals
}

#[test]
fn only_msrs_cr4_and_the_interrupt_flag_are_privileged() {
    accepted(instructions);
    let forbidden: [(&str, &[u8]); 12] = [
        ("In ", &[0xEC]),
        ("Out ", &[0xE6, 0x80]),
        ("Mov ", &[0x0F, 0x22, 0xC0]),
        ("Mov ", &[0x0F, 0x22, 0xD8]),
        ("Mov ", &[0x0F, 0x23, 0xF8]),
        ("Lgdt ", &[0x0F, 0x01, 0x10]),
        ("Lidt ", &[0x0F, 0x01, 0x18]),
        ("Invd ", &[0x0F, 0x08]),
        ("Wbinvd ", &[0x0F, 0x09]),
        ("Vmcall ", &[0x0F, 0x01, 0xC1]),
        ("Int ", &[0xCD, 0x2E]),
        ("Popfq ", &[0x9D]),
    ];
    for (words, bytes) in forbidden {
        refused(instructions, words, |image, file| {
            overwrite(image, file, image.function("Unload"), bytes);
        });
    }
}

#[test]
fn all_code_has_a_name() {
    accepted(coverage);
    refused(coverage, "code without a name", |image, file| {
        // In a gap between two functions.
        let code = Code::of(image);
        let ends = code.functions.values().map(|function| function.range.end);
        let starts = code.functions.keys().skip(1);
        let mut gaps = ends.zip(starts).filter(|(end, start)| end < start);
        let (end, _) = gaps.next().expect("a function before a gap");
        overwrite(image, file, end, &[0xC3]);
    });
}

#[test]
fn interrupts_are_masked_and_unmasked_in_pairs() {
    accepted(masking_is_paired);
    refused(masking_is_paired, "no pairs", |image, file| {
        let code = Code::of(image);
        let mut all = code.functions.values().flat_map(|function| &function.instructions);
        let sti = all.find(|one| one.mnemonic() == Mnemonic::Sti).expect("an STI");
        overwrite(image, file, sti.ip() as u32, &[0x90]);
    });
}

#[test]
fn every_indirect_branch_is_guarded() {
    accepted(branches);
    let change = |place: Place, bytes: &'static [u8]| {
        move |image: &Image, file: &mut Vec<u8>| {
            let code = Code::of(image);
            let mut ways = code.functions.values().flat_map(|function| code.ways(function));
            let way = ways.find(|way| way.to == place).expect("such a call");
            overwrite(image, file, way.at, bytes);
        }
    };
    // CALL RAX and CALL [RAX] in place of CALL [guard].
    refused(branches, "an unguarded target", change(Place::Guarded, &[0xFF, 0xD0]));
    refused(branches, "an unguarded target", change(Place::Guarded, &[0xFF, 0x10]));
    // JMP RAX without reading a table.
    refused(branches, "an unguarded target", |image, file| {
        overwrite(image, file, image.function("Unload"), &[0xFF, 0xE0]);
    });
    refused(branches, "code without a name", |image, file| {
        overwrite(image, file, image.function("Unload"), &[0xE8, 1, 0, 0, 0]);
    });
}
