//! An exception of an instruction in kernel mode, as Windows delivers it: to the language handler
//! that the image's unwind information names for the function, which decides where it resumes.
//!
//! Sources: "x64 exception handling" (learn.microsoft.com/cpp/build/exception-handling-x64);
//! winnt.h for the layouts; "RtlVirtualUnwind": a handler is called only beyond the prologue. Frames
//! are not unwound: whatever a function's own handler does not resume is a bug check, because none
//! of the driver's other functions has a handler.

use crate::engine::Bus;
use crate::memory::{IMAGE, STUB, STUBS, STUBS_SIZE, physical};
use crate::rules::{Rule, Violation};
use anyhow::{Context as _, Result, ensure};
use object::pe;
use object::read::pe::PeFile64;
use unicorn_engine::{RegisterX86 as Register, Unicorn};

/// The stub to which a handler returns.
pub(crate) const HANDLED: u64 = STUBS + STUBS_SIZE - 2 * STUB;

/// UNW_FLAG_EHANDLER.
const EXCEPTION_HANDLER: u8 = 1;
/// The #GP of RDMSR and WRMSR is STATUS_PRIVILEGED_INSTRUCTION in published crash dumps; that of
/// other instructions STATUS_ACCESS_VIOLATION. No document says which: either comes. So does
/// STATUS_ILLEGAL_INSTRUCTION, with which a hypervisor's #UD arrives.
const STATUSES: [u32; 3] = [0xC000_0096, 0xC000_0005, 0xC000_001D];
/// ExceptionContinueExecution.
const CONTINUE_EXECUTION: u32 = 0;

/// CONTEXT: its size, CONTEXT_FULL, and where some of its members are.
const CONTEXT: u64 = 0x4D0;
const CONTEXT_FULL: u32 = 0x0010_000B;
const CONTEXT_FLAGS: u64 = 0x30;
const MXCSR: u64 = 0x34;
const SEGMENTS: u64 = 0x38;
const EFLAGS: u64 = 0x44;
const RAX: u64 = 0x78;
const XMM0: u64 = 0x1A0;
/// SegCs to SegSs: KGDT64_R0_CODE, the flat data segments, KGDT64_R0_DATA.
const KERNEL_SEGMENTS: [u16; 6] = [0x10, 0x2B, 0x2B, 0x53, 0x2B, 0x18];
/// The general registers in its order, from Rax on.
const GENERAL: [Register; 17] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RBX,
    Register::RSP,
    Register::RBP,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
    Register::RIP,
];
const LONG: [Register; 16] = [
    Register::XMM0,
    Register::XMM1,
    Register::XMM2,
    Register::XMM3,
    Register::XMM4,
    Register::XMM5,
    Register::XMM6,
    Register::XMM7,
    Register::XMM8,
    Register::XMM9,
    Register::XMM10,
    Register::XMM11,
    Register::XMM12,
    Register::XMM13,
    Register::XMM14,
    Register::XMM15,
];

/// What is on the stack from the return address on: the callee's home space, DISPATCHER_CONTEXT,
/// EXCEPTION_RECORD, CONTEXT.
const DISPATCHER: u64 = 0x28;
const RECORD: u64 = DISPATCHER + 0x50;
const REGISTERS: u64 = RECORD + 0x98;
const FRAME: u64 = REGISTERS + CONTEXT;
/// What volatile registers hold when a handler is called.
const GARBAGE: u64 = 0xBAD0_BAD0_BAD0_BAD0;

/// A function with an exception handler; addresses as loaded.
#[derive(Clone, Debug)]
pub struct Handler {
    end: u64,
    /// Where its prologue ends.
    body: u64,
    /// Its RUNTIME_FUNCTION.
    entry: u64,
    routine: u64,
    /// What follows the handler's address in the unwind information.
    data: u64,
}

/// The functions of an image that have one.
pub(crate) fn handlers(pe: &PeFile64<'_>, bytes: &[u8]) -> Result<Vec<Handler>> {
    let directory = pe.data_directory(pe::IMAGE_DIRECTORY_ENTRY_EXCEPTION);
    let (table, size) = directory.context("no unwind information")?.address_range();
    let word = |at: u32| {
        let bytes = bytes.get(at as usize..at as usize + 4).context("beyond the image")?;
        Ok::<_, anyhow::Error>(u32::from_le_bytes(bytes.try_into()?))
    };
    let mut found = Vec::new();
    for entry in (table..table + size).step_by(12) {
        let (begin, end, unwind) = (word(entry)?, word(entry + 4)?, word(entry + 8)?);
        let [version_and_flags, prologue, codes, _] = word(unwind)?.to_le_bytes();
        ensure!(version_and_flags & 7 == 1, "the version of the unwind information");
        if version_and_flags >> 3 & EXCEPTION_HANDLER == 0 {
            continue;
        }
        let handler = unwind + 4 + u32::from(codes).next_multiple_of(2) * 2;
        let at = |address: u32| IMAGE + u64::from(address);
        found.push(Handler {
            end: at(end),
            body: at(begin) + u64::from(prologue),
            entry: at(entry),
            routine: at(word(handler)?),
            data: at(handler + 4),
        });
    }
    Ok(found)
}

/// Delivers the #GP of the instruction at `address`; `false` if nobody handles it.
pub(crate) fn raise(unicorn: &mut Unicorn<'_, Bus>, address: u64) -> bool {
    let bus = unicorn.get_data();
    // The status changes from time to time, and is the same in each run of a seed.
    let status = STATUSES[bus.executed as usize % STATUSES.len()];
    let covers = |one: &&Handler| (one.body..one.end).contains(&address);
    let Some(function) = bus.handlers.iter().find(covers).cloned() else {
        return false;
    };
    let general = GENERAL.map(|one| unicorn.reg_read(one).unwrap_or_default());
    let stack = unicorn.reg_read(Register::RSP).unwrap_or_default();
    // On entry to a function the return address is aligned to 8, not to 16.
    let top = (stack - FRAME) / 16 * 16 - 8;
    let registers = top + REGISTERS;
    let mut context = vec![0; CONTEXT as usize];
    let mut put = |at: u64, bytes: &[u8]| {
        context[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    };
    put(CONTEXT_FLAGS, &CONTEXT_FULL.to_le_bytes());
    put(MXCSR, &(unicorn.reg_read(Register::MXCSR).unwrap_or_default() as u32).to_le_bytes());
    put(SEGMENTS, &KERNEL_SEGMENTS.map(u16::to_le_bytes).concat());
    put(EFLAGS, &(unicorn.reg_read(Register::RFLAGS).unwrap_or_default() as u32).to_le_bytes());
    put(RAX, &general.map(u64::to_le_bytes).concat());
    // Rip is the instruction that faulted, which the engine may have left already.
    put(RAX + 8 * 16, &address.to_le_bytes());
    for (index, register) in (0..).zip(LONG) {
        let value = unicorn.reg_read_long(register).unwrap_or_default();
        put(XMM0 + 16 * index, value.get(..16).unwrap_or(&[0; 16]));
    }
    // The function is taken to have no frame register, so that the frame is the stack pointer
    // behind the prologue.
    let frame = stack;
    let record = [u64::from(status), 0, address, 0].map(u64::to_le_bytes).concat();
    let dispatcher = [
        address,
        IMAGE,
        function.entry,
        frame,
        0,
        registers,
        function.routine,
        function.data,
        0,
        0,
    ];
    let mut all = vec![0; FRAME as usize];
    all[..8].copy_from_slice(&HANDLED.to_le_bytes());
    let dispatcher = dispatcher.map(u64::to_le_bytes).concat();
    all[DISPATCHER as usize..RECORD as usize].copy_from_slice(&dispatcher);
    all[RECORD as usize..RECORD as usize + record.len()].copy_from_slice(&record);
    all[REGISTERS as usize..].copy_from_slice(&context);
    let _ = unicorn.mem_write(physical(top), &all);
    let bus = unicorn.get_data_mut();
    bus.in_handler.insert(bus.stack.end, bus.stack.lowest);
    for (register, value) in [
        (Register::RCX, top + RECORD),
        (Register::RDX, frame),
        (Register::R8, registers),
        (Register::R9, top + DISPATCHER),
        (Register::RAX, GARBAGE),
        (Register::R10, GARBAGE),
        (Register::R11, GARBAGE),
        (Register::RSP, top),
        (Register::RIP, function.routine),
    ] {
        let _ = unicorn.reg_write(register, value);
    }
    true
}

/// A handler has returned to [`HANDLED`]: resumes with the registers that it has left in the CONTEXT.
pub(crate) fn resume(unicorn: &mut Unicorn<'_, Bus>) -> Result<(), Violation> {
    // The handler's return has popped the return address.
    let top = unicorn.reg_read(Register::RSP).unwrap_or_default() - 8;
    let context = unicorn.mem_read_as_vec(physical(top + REGISTERS), CONTEXT as usize);
    let context = context.unwrap_or_else(|_| vec![0; CONTEXT as usize]);
    let number = |at: u64| {
        let bytes = context[at as usize..at as usize + 8].try_into();
        u64::from_le_bytes(bytes.unwrap_or_default())
    };
    let answer = unicorn.reg_read(Register::RAX).unwrap_or_default() as u32;
    let (msr, at) = (number(RAX + 8) as u32, number(RAX + 8 * 16));
    if answer != CONTINUE_EXECUTION {
        let what = format!(
            "silicon refuses register {msr:#x} at halprof.sys+{:#x}, and its handler answers {answer}",
            at.wrapping_sub(IMAGE)
        );
        return Err(Violation::new(Rule::Register, what));
    }
    for (index, register) in (0..).zip(LONG) {
        let at = (XMM0 + 16 * index) as usize;
        let _ = unicorn.reg_write_long(register, &context[at..at + 16]);
    }
    let _ = unicorn.reg_write(Register::RFLAGS, number(EFLAGS) & 0xFFFF_FFFF);
    for (index, register) in (0..).zip(GENERAL) {
        let _ = unicorn.reg_write(register, number(RAX + 8 * index));
    }
    let bus = unicorn.get_data_mut();
    if let Some(lowest) = bus.in_handler.remove(&bus.stack.end) {
        bus.stack.lowest = lowest;
    }
    bus.resumed = Some(at);
    Ok(())
}

/// What is wrong with an exception at `address`, if the last one was resumed there: it comes for ever.
pub(crate) fn again(address: u64) -> Violation {
    let what = format!("the same exception again at halprof.sys+{:#x}", address - IMAGE);
    Violation::new(Rule::Register, what)
}
