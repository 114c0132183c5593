//! Which register numbers can reach RDMSR and WRMSR?
//!
//! What these checks prove: no instruction of the driver loads ECX with the number of a register
//! that is not on the list, either directly or by adding an index; and no number that identifies an
//! AMD register occurs anywhere in code or data, unless it is listed.
//!
//! What they do not prove: numbers that come from memory (a counter's base with its index, an entry
//! of a table of 16-bit NetBurst registers) are not traced through it. Those come from
//! `Capabilities` and tables, which the core's tests compare with the manuals on modelled
//! processors that refuse every other register. Nor does the number alone decide: the written
//! values are tested there too.

use super::code::Function;
use super::driver::Driver;
use super::{Policy, Refusals};
use hal_profile::cpu::registers::apic::LVTPC_OFFSET;
use iced_x86::{
    FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};
use object::LittleEndian as LE;
use object::pe::IMAGE_SCN_MEM_WRITE;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

pub(crate) const POLICIES: &[Policy] = &[
    Policy {
        holds: "every register number in the code is on the list",
        refuses: numbers,
        notices: |driver| {
            let mut changes = Vec::new();
            // IA32_SYSENTER_EIP, IA32_FEATURE_CONTROL, LSTAR, MSR_OFFCORE_RSP_0.
            for number in [0x176u32, 0x3A, 0xC000_0082, 0x1A6] {
                for mnemonic in [Mnemonic::Rdmsr, Mnemonic::Wrmsr] {
                    let change =
                        driver.over(number_before(driver, mnemonic), &number.to_le_bytes());
                    changes.push((format!("register {number:#x}"), change));
                }
            }
            // A base that an index is added to.
            let fixed = [0x81, 0xC1, 0x09, 0x03, 0, 0];
            let at = driver.bytes.windows(6).position(|bytes| bytes == fixed);
            let at = at.expect("ADD ECX, 309h");
            changes.push(("register 0x400".to_owned(), (at + 2, vec![0, 4])));
            // WRMSR in a function that must not use it.
            let change = driver.in_function("Unload", &[0x0F, 0x30]);
            changes.push(("Unload gives a number out of memory".to_owned(), change));
            changes
        },
    },
    Policy {
        holds: "no other register that is known by its number is in the image",
        refuses: constants,
        notices: |driver| {
            // PERF_CTL0 of the northbridge, which all cores of a node share.
            let (lstar, northbridge) = (0xC000_0082u32, 0xC001_0240u32);
            let data = driver.section(".rdata").virtual_address.get(LE) + 0x40;
            let code = number_before(driver, Mnemonic::Rdmsr);
            [(lstar, data), (northbridge, code)]
                .map(|(number, at)| {
                    (format!("{number:#x}"), driver.over(at, &number.to_le_bytes()))
                })
                .into()
        },
    },
    Policy {
        holds: "the local APIC's page is accessed by MOV",
        refuses: accesses_of_the_apics_page,
        notices: |driver| {
            // bt dword [rax + 340h], 16
            let test = [0x0F, 0xBA, 0xA0, 0x40, 0x03, 0, 0, 0x10];
            let change = driver.over(number_before(driver, Mnemonic::Rdmsr) - 1, &test);
            vec![("bt dword".to_owned(), change)]
        },
    },
];

/// The address of the four bytes of a constant that is moved into ECX right before an instruction.
fn number_before(driver: &Driver, mnemonic: Mnemonic) -> u32 {
    let mut all = driver.functions.values().flat_map(|function| function.instructions.windows(2));
    let pair = all.find(|pair| {
        pair[1].mnemonic() == mnemonic
            && pair[0].mnemonic() == Mnemonic::Mov
            && pair[0].op0_register() == Register::ECX
            && pair[0].op1_kind() == OpKind::Immediate32
    });
    pair.expect("a constant before the instruction")[0].ip() as u32 + 1
}

/// Registers that the driver may access: numbers, the manual's name, why.
///
/// Intel's are from SDM vol. 4, AMD's from APM vol. 2 ("Performance Monitoring Counters").
///
/// Those of Pentium and NetBurst are not among them (the feature `historic` is off): 11h to 13h,
/// 300h to 308h, 360h to 371h, 3A0h to 3E1h, 3F1h and 3F2h. Later processors use many of these
/// numbers for other registers.
const REGISTERS: [(RangeInclusive<u32>, &str, &str); 22] = [
    (0x1B..=0x1B, "IA32_APIC_BASE", "read: how the local APIC is reached"),
    (0xC1..=0xC8, "IA32_PMC0 to 7", "general counters"),
    (0x186..=0x18D, "IA32_PERFEVTSEL0 to 7", "their selects"),
    (
        0x1C8..=0x1C9,
        "MSR_LBR_SELECT, MSR_LASTBRANCH_TOS",
        "branch records: filter, and which is the newest",
    ),
    (0x1D9..=0x1D9, "IA32_DEBUGCTL", "branch records: LBR and FREEZE_LBRS_ON_PMI alone"),
    (0x309..=0x318, "IA32_FIXED_CTR0 to 15", "fixed counters"),
    (0x345..=0x345, "IA32_PERF_CAPABILITIES", "read: full-width writes"),
    (0x38D..=0x390, "IA32_FIXED_CTR_CTRL, IA32_PERF_GLOBAL_*", "global control and status"),
    (0x4C1..=0x4C8, "IA32_A_PMC0 to 7", "general counters at full width"),
    (0x680..=0x69F, "MSR_LASTBRANCH_0 to 31_FROM_IP", "branch records"),
    (0x6C0..=0x6DF, "MSR_LASTBRANCH_0 to 31_TO_IP", "branch records"),
    (0x834..=0x834, "x2APIC LVT performance monitoring", "its mask bit alone"),
    (0xDC0..=0xDDF, "MSR_LBR_INFO_0 to 31", "branch records"),
    (0x1200..=0x121F, "IA32_LBR_0 to 31_INFO", "architectural branch records"),
    (
        0x14CE..=0x14CF,
        "IA32_LBR_CTL, IA32_LBR_DEPTH",
        "architectural branch records: filter, and how many",
    ),
    (0x1500..=0x151F, "IA32_LBR_0 to 31_FROM_IP", "architectural branch records"),
    (0x1600..=0x161F, "IA32_LBR_0 to 31_TO_IP", "architectural branch records"),
    (0xC000_010E..=0xC000_010F, "LBR_SELECT, DBG_EXTN_CFG", "LbrExtV2: filter and switch"),
    (0xC000_0300..=0xC000_0302, "PerfCntrGlobalStatus, Ctl, StatusClr", "PerfMonV2"),
    (0xC001_0000..=0xC001_0007, "PERF_LEGACY_CTL0 to CTR3", "core counters"),
    (0xC001_0200..=0xC001_020B, "PERF_CTL0 to PERF_CTR5", "core counters, extended"),
    (0xC001_0300..=0xC001_031F, "LastBranchFromIp and ToIp 0 to 15", "LbrExtV2: branch records"),
];

/// Numbers that rarely mean anything but a register, so that they are refused wherever they occur.
/// NTSTATUS values begin with 0xC0000000 too, but none that Windows documents for what this driver
/// calls is among these.
const KNOWN_BY_VALUE: [(RangeInclusive<u32>, &str); 4] = [
    (0xC000_0080..=0xC000_0084, "EFER, STAR, LSTAR, CSTAR, SFMASK"),
    (0xC000_0100..=0xC000_0104, "FS.base, GS.base, KernelGSbase, TSC_AUX, TSC_RATIO"),
    (0xC000_0300..=0xC000_030F, "AMD: global performance monitoring"),
    (0xC001_0000..=0xC001_FFFF, "AMD: implementation-specific registers"),
];

/// Whose functions may pass RDMSR or WRMSR a number that comes entirely from memory or arguments:
/// they serve whichever counters the processor has.
const FROM_DATA: [&str; 4] =
    ["hal_profile::", "halprof_driver::", "halprof_rdmsr", "halprof_wrmsr"];
/// The shims that call their closures, whose names contain the closure's: `call_once`, and
/// `call_mut` through a reference, as an iterator that borrows the closure does.
const CALLS: &str = "core::ops::function::";

/// From here on a number that is added to another is a register's; smaller ones are strides and
/// indices.
const SMALLEST: u32 = 0x10;

fn listed(number: u32) -> bool {
    REGISTERS.iter().any(|(numbers, _, _)| numbers.contains(&number))
}

/// Whether a function may pass RDMSR or WRMSR a number that it was given itself.
fn may_serve_any(function: &Function) -> bool {
    function.names.iter().any(|name| {
        FROM_DATA
            .iter()
            .any(|ours| name.starts_with(ours) || name.starts_with(CALLS) && name.contains(ours))
    })
}

/// All constants that contribute to ECX at each RDMSR and WRMSR.
fn numbers(driver: &Driver) -> Refusals {
    let mut refusals = Refusals::new();
    let (mut constants, mut sites) = (BTreeSet::new(), 0);
    for function in driver.functions.values() {
        let flow = Flow::of(function);
        for (index, one) in function.instructions.iter().enumerate() {
            if !matches!(one.mnemonic(), Mnemonic::Rdmsr | Mnemonic::Wrmsr) {
                continue;
            }
            sites += 1;
            let numbers = flow.constants_in(index, Register::RCX);
            for number in numbers.iter().filter(|number| !listed(**number)) {
                refusals.push(format!(
                    "register {number:#x} at {:#x} in {} is not on the list",
                    one.ip(),
                    function.name()
                ));
            }
            if numbers.is_empty() && !may_serve_any(function) {
                refusals.push(format!("{} gives a number out of memory", function.name()));
            }
            constants.extend(numbers);
        }
    }
    println!("{sites} accesses; by constant: {constants:#x?}");
    if sites == 0 || constants.is_empty() {
        refusals.push("no access was found".to_owned());
    }
    refusals
}

/// LVTPC's place in the local APIC's page: no compiler merges a read and a write of it into one
/// instruction, as it may with volatile accesses (SDM vol. 2, "BT", advises MOV).
fn accesses_of_the_apics_page(driver: &Driver) -> Refusals {
    let mut refusals = Refusals::new();
    let mut places = 0;
    for function in driver.functions.values() {
        for one in &function.instructions {
            let in_memory = one.memory_displacement64() == u64::from(LVTPC_OFFSET);
            let added = one.mnemonic() == Mnemonic::Add && one.immediate32() == LVTPC_OFFSET;
            places += u32::from(in_memory || added);
            if in_memory && !matches!(one.mnemonic(), Mnemonic::Mov | Mnemonic::Lea) {
                refusals.push(format!("{one} at {:#x} in {}", one.ip(), function.name()));
            }
        }
    }
    if places == 0 {
        refusals.push("no address of LVTPC was found".to_owned());
    }
    refusals
}

/// Constants in code and data that can only be a register's number.
fn constants(driver: &Driver) -> Refusals {
    let mut refusals = Refusals::new();
    let mut refuse = |number: u32, place: &dyn Fn() -> String| {
        let known = KNOWN_BY_VALUE.iter().find(|(numbers, _)| numbers.contains(&number));
        if let (Some((_, what)), false) = (known, listed(number)) {
            refusals.push(format!("{number:#x} ({what}) {}", place()));
        }
    };
    for function in driver.functions.values() {
        for one in &function.instructions {
            let immediates = (0..one.op_count())
                .filter(|&operand| is_immediate(one, operand))
                .map(|operand| one.immediate(operand));
            let displacement =
                (!one.is_ip_rel_memory_operand()).then(|| one.memory_displacement64());
            for value in immediates.chain(displacement) {
                let place = || format!("in {}", function.name());
                refuse(value as u32, &place);
                refuse((value >> 32) as u32, &place);
            }
        }
    }
    let data = driver.file.section_table().iter().filter(|section| {
        let characteristics = section.characteristics.get(LE);
        section.raw_name() == b".rdata" || characteristics & IMAGE_SCN_MEM_WRITE != 0
    });
    for section in data {
        let words = section.pe_data(driver.bytes).expect("its data").chunks_exact(4);
        for (word, at) in words.zip((section.virtual_address.get(LE)..).step_by(4)) {
            let number = u32::from_le_bytes(word.try_into().expect("four bytes"));
            refuse(number, &|| format!("in data at {at:#x}"));
        }
    }
    refusals
}

fn is_immediate(instruction: &Instruction, operand: u32) -> bool {
    matches!(
        instruction.op_kind(operand),
        OpKind::Immediate32 | OpKind::Immediate64 | OpKind::Immediate32to64
    )
}

/// A function's instructions, each with its possible predecessors.
struct Flow<'a> {
    function: &'a Function,
    before: BTreeMap<usize, Vec<usize>>,
}

impl<'a> Flow<'a> {
    fn of(function: &'a Function) -> Self {
        let all = &function.instructions;
        let index_of: BTreeMap<u64, usize> =
            all.iter().enumerate().map(|(index, one)| (one.ip(), index)).collect();
        let mut before: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut add = |to: usize, from: usize| before.entry(to).or_default().push(from);
        let mut table_jump = None;
        for (index, one) in all.iter().enumerate() {
            let flow = one.flow_control();
            let branches =
                matches!(flow, FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch);
            if let (true, Some(&to)) = (branches, index_of.get(&one.near_branch_target())) {
                add(to, index);
            }
            let ends = matches!(
                flow,
                FlowControl::UnconditionalBranch
                    | FlowControl::Return
                    | FlowControl::IndirectBranch
            );
            if flow == FlowControl::IndirectBranch {
                table_jump = Some(index);
            }
            if !ends && index + 1 < all.len() {
                add(index + 1, index);
            }
        }
        // An instruction without any predecessor is a target of a table.
        if let Some(jump) = table_jump {
            for index in 1..all.len() {
                before.entry(index).or_insert_with(|| vec![jump]);
            }
        }
        Self { function, before }
    }

    /// Constants that are moved or added to `register` before instruction `index`, on any path.
    fn constants_in(&self, index: usize, register: Register) -> BTreeSet<u32> {
        let mut constants = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut left = vec![(index, register)];
        let mut factory = InstructionInfoFactory::new();
        while let Some((index, register)) = left.pop() {
            if !seen.insert((index, register)) {
                continue;
            }
            for &before in self.before.get(&index).map_or(&[][..], Vec::as_slice) {
                let one = &self.function.instructions[before];
                let call =
                    matches!(one.flow_control(), FlowControl::Call | FlowControl::IndirectCall);
                if call && VOLATILE.contains(&register) {
                    continue;
                }
                let info = factory.info(one);
                let writes = info.used_registers().iter().any(|used| {
                    used.register().full_register() == register
                        && !matches!(used.access(), OpAccess::Read | OpAccess::CondRead)
                });
                if writes {
                    let (sources, values) = sources(one, register);
                    constants.extend(values.into_iter().filter(|&value| value >= SMALLEST));
                    left.extend(sources.into_iter().map(|register| (before, register)));
                } else {
                    left.push((before, register));
                }
            }
        }
        constants
    }
}

/// The registers that a call leaves undefined on x64 Windows.
const VOLATILE: [Register; 7] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
];

/// What an instruction computes a register's new value from: other registers, and constants.
/// Products, masks and shifts produce indices, and what comes from memory is not traced.
fn sources(one: &Instruction, register: Register) -> (Vec<Register>, Vec<u32>) {
    let (mut registers, mut constants) = (Vec::new(), Vec::new());
    let mut operand = |operand: u32| match one.op_kind(operand) {
        OpKind::Register => registers.push(one.op_register(operand).full_register()),
        OpKind::Memory => {}
        _ => constants.push(one.immediate(operand) as u32),
    };
    match one.mnemonic() {
        Mnemonic::Mov => operand(1),
        Mnemonic::Add | Mnemonic::Or | Mnemonic::Sub => {
            operand(1);
            registers.push(register);
        }
        Mnemonic::Inc | Mnemonic::Dec => registers.push(register),
        // An address, not a number.
        Mnemonic::Lea if one.is_ip_rel_memory_operand() => {}
        Mnemonic::Lea => {
            constants.push(one.memory_displacement32());
            registers.extend([one.memory_base(), one.memory_index()].map(Register::full_register));
        }
        mnemonic if format!("{mnemonic:?}").starts_with("Cmov") => {
            operand(1);
            registers.push(register);
        }
        _ => {}
    }
    registers.retain(|&register| register != Register::None);
    (registers, constants)
}
