//! Which privileged instructions are there, and is every indirect branch guarded?

use super::code::Place;
use super::driver::Driver;
use super::{Change, Policy, Refusals};
use iced_x86::{Code as Opcode, FlowControl, Instruction, Mnemonic, Register};

pub(crate) const POLICIES: &[Policy] = &[
    Policy {
        holds: "RDMSR, WRMSR, CR4, CLI and STI alone are privileged",
        refuses: instructions,
        notices: |driver| {
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
            let in_unload = |(words, code): (&str, &[u8])| {
                (words.to_owned(), driver.in_function("Unload", code))
            };
            forbidden.map(in_unload).into()
        },
    },
    Policy {
        holds: "all code is of a function with a name",
        refuses: coverage,
        notices: |driver| {
            let ends = driver.functions.values().map(|function| function.range.end);
            let mut gaps = ends.zip(driver.functions.keys().skip(1));
            let (gap, _) = gaps.find(|(end, start)| end < start).expect("a gap");
            vec![("code without a name".to_owned(), driver.over(gap, &[0xC3]))]
        },
    },
    Policy {
        holds: "interrupts are masked and unmasked in pairs",
        refuses: masking_is_paired,
        notices: |driver| {
            let mut all = driver.functions.values().flat_map(|function| &function.instructions);
            let sti = all.find(|one| one.mnemonic() == Mnemonic::Sti).expect("an STI");
            vec![("no pairs".to_owned(), driver.over(sti.ip() as u32, &[0x90]))]
        },
    },
    Policy {
        holds: "every indirect branch is guarded",
        refuses: branches,
        notices: |driver| {
            let mut ways = driver.functions.values().flat_map(|function| driver.ways(function));
            let guarded = ways.find(|way| way.to == Place::Guarded).expect("a guarded call").at;
            let changes: [(&str, Change); 4] = [
                // CALL RAX and CALL [RAX] in place of CALL [guard].
                ("an unguarded target", driver.over(guarded, &[0xFF, 0xD0])),
                ("an unguarded target", driver.over(guarded, &[0xFF, 0x10])),
                // JMP RAX without reading a table.
                ("an unguarded target", driver.in_function("Unload", &[0xFF, 0xE0])),
                ("code without a name", driver.in_function("Unload", &[0xE8, 1, 0, 0, 0])),
            ];
            changes.map(|(words, change)| (words.to_owned(), change)).into()
        },
    },
];

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

fn instructions(driver: &Driver) -> Refusals {
    let mut refusals = Refusals::new();
    for function in driver.functions.values() {
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
fn coverage(driver: &Driver) -> Refusals {
    let (mut at, size) = driver.section(".text").pe_address_range();
    let end = at + size;
    let mut refusals = Refusals::new();
    let all = driver.functions.values().map(|function| function.range.clone());
    for range in all.chain(std::iter::once(end..end)) {
        let gap = (range.start - at) as usize;
        // INT3 and the one-byte NOP: what linkers fill gaps with.
        if gap != 0 && driver.data(at)[..gap].iter().any(|byte| ![0xCC, 0x90].contains(byte)) {
            refusals.push(format!("code without a name between {at:#x} and {:#x}", range.start));
        }
        at = range.end;
    }
    refusals
}

fn masking_is_paired(driver: &Driver) -> Refusals {
    let mut refusals = Refusals::new();
    for function in driver.functions.values() {
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
fn branches(driver: &Driver) -> Refusals {
    let mut refusals = Refusals::new();
    for function in driver.functions.values() {
        // This is what the guard's pointer points to when Windows does not enforce the guard.
        if function.begins("the guard's dispatch") {
            continue;
        }
        for way in driver.ways(function) {
            let unknown = match &way.to {
                Place::Anywhere => true,
                Place::Function(at) => !driver.functions.contains_key(at),
                Place::Import(_) | Place::Guarded => false,
            };
            if unknown {
                let (from, to) = (function.name(), driver.name(&way.to));
                refusals.push(format!("{from} at {:#x} goes to {to}", way.at));
            }
        }
    }
    refusals
}
