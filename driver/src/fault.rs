//! RDMSR, WRMSR and RDPMC of what may not be there: their #GP or #UD is an error.
//!
//! Windows answers an exception in kernel mode by looking for a handler: the function in which it
//! happened is in the image's unwind information, and that names a language handler (WDK, "Handling
//! Exceptions"; "x64 exception handling", "Language-specific handler"). [`refused`] resumes behind
//! the instruction. Nothing is unwound, no memory is touched, interrupts stay masked if they are,
//! and it costs nothing where no exception comes.
//!
//! The addresses behind the instructions are marked as targets of exception handling
//! (`.gehcont$y`): the linker puts them into the image's table if it is asked for one
//! (`/guard:ehcont`), which Windows consults for user-mode shadow stacks. What it does for those of
//! kernel mode, no document says.
#![expect(unsafe_code, reason = "privileged instructions, and the handler of their exception")]

use core::arch::{asm, global_asm};
use core::ffi::c_void;
use hal_profile::cpu::machine::AccessRefused;
use wdk_sys::{
    CONTEXT, EXCEPTION_RECORD, ExceptionContinueExecution, ExceptionContinueSearch, NTSTATUS,
};

/// How Windows reports the #GP of an instruction (ntstatus.h): with the first where it takes the
/// instruction for a privileged one, with the second where it does not look at it further. Which of the
/// three instructions are which, no document says.
const STATUS_PRIVILEGED_INSTRUCTION: NTSTATUS = 0xC000_0096_u32.cast_signed();
const STATUS_ACCESS_VIOLATION: NTSTATUS = 0xC000_0005_u32.cast_signed();
/// How it reports #UD, with which a hypervisor may answer RDPMC.
const STATUS_ILLEGAL_INSTRUCTION: NTSTATUS = 0xC000_001D_u32.cast_signed();
/// EXCEPTION_UNWIND (ntifs.h): the handler is called to clean up, not to decide.
const EXCEPTION_UNWIND: u32 = 0x66;
/// RDMSR, WRMSR and RDPMC: 0F 32, 0F 30 and 0F 33.
const LENGTH: u64 = 2;

/// Defines `halprof_rdmsr`, `halprof_wrmsr` or `halprof_rdpmc`: the instruction, for one register or
/// several in a row.
///
/// | register | in | out |
/// |---|---|---|
/// | ECX | the first MSR, or the counter | one past the last that was tried |
/// | R9D | the number of MSRs or counters, at least 1 | |
/// | EDX:EAX | WRMSR's value | the last value read |
/// | R8D | | 1 if the processor refused an access, that of ECX - 1; else 0 |
///
/// All of it is assembly: the address of a Rust function would stand in control-flow guard's list of
/// targets of indirect calls.
macro_rules! access_function {
    ($instruction:literal) => {
        global_asm!(
            concat!(".def halprof_", $instruction, "; .scl 2; .type 32; .endef"),
            concat!(".globl halprof_", $instruction),
            ".text",
            ".p2align 4",
            concat!("halprof_", $instruction, ":"),
            concat!(".seh_proc halprof_", $instruction),
            ".seh_handler {handler}, @except",
            ".seh_endprologue",
            "xor r8d, r8d",
            "2:",
            $instruction,
            concat!("halprof_after_", $instruction, ":"),
            "inc ecx",
            "dec r9d",
            "jnz 2b",
            "ret",
            ".seh_endproc",
            ".section .gehcont$y, \"dr\"",
            concat!(".symidx halprof_after_", $instruction),
            ".text",
            handler = sym refused,
        );
    };
}

access_function!("rdmsr");
access_function!("wrmsr");
access_function!("rdpmc");

/// EXCEPTION_ROUTINE of these functions, which contain nothing else that can raise an exception. It
/// runs at the IRQL at which the exception was raised.
unsafe extern "C" fn refused(
    record: *const EXCEPTION_RECORD,
    _frame: *const c_void,
    context: *mut CONTEXT,
    _dispatcher: *const c_void,
) -> u32 {
    // SAFETY: Windows passes the exception's record.
    let record = unsafe { &*record };
    let is_ours = matches!(
        record.ExceptionCode,
        STATUS_PRIVILEGED_INSTRUCTION | STATUS_ACCESS_VIOLATION | STATUS_ILLEGAL_INSTRUCTION
    );
    // A debugger's breakpoint is not ours.
    if !is_ours || record.ExceptionFlags & EXCEPTION_UNWIND != 0 {
        return ExceptionContinueSearch;
    }
    // SAFETY: the registers with which Windows resumes, which nobody else refers to.
    let context = unsafe { &mut *context };
    // mistake: resumes-at-the-instruction
    context.Rip = context.Rip.wrapping_add(LENGTH);
    context.R8 = 1;
    // The row ends.
    context.R9 = 1;
    // mistake: another-answer
    ExceptionContinueExecution
}

/// RDMSR. Masked.
pub(crate) fn read_msr(msr: u32) -> Result<u64, AccessRefused> {
    let (low, high, refused): (u32, u32, u32);
    // SAFETY: ring 0; the core reads only MSRs that CPUID promises, and none that affects memory.
    unsafe {
        asm!("call halprof_rdmsr", inout("ecx") msr => _, inout("r9d") 1 => _, out("eax") low,
            out("edx") high, out("r8d") refused);
    }
    if refused == 0 { Ok(u64::from(high) << 32 | u64::from(low)) } else { Err(AccessRefused) }
}

/// RDMSR of a row of registers; an error is the first that is refused. Masked.
pub(crate) fn read_msrs(first: u32, count: u32) -> Result<(), u32> {
    let (msr, refused): (u32, u32);
    // SAFETY: as in `read_msr`.
    unsafe {
        asm!("call halprof_rdmsr", inout("ecx") first => msr, inout("r9d") count.max(1) => _,
            out("eax") _, out("edx") _, out("r8d") refused);
    }
    if refused == 0 { Ok(()) } else { Err(msr.wrapping_sub(1)) }
}

/// WRMSR of a value to a row of registers; an error is the first that refuses it. Masked.
pub(crate) fn write_msrs(first: u32, count: u32, value: u64) -> Result<(), u32> {
    let (msr, refused): (u32, u32);
    // SAFETY: ring 0; the core writes only performance-monitoring MSRs that CPUID promises, and
    // LVTPC, with values that it computes itself. None affects memory.
    unsafe {
        asm!("call halprof_wrmsr", inout("ecx") first => msr, inout("r9d") count.max(1) => _,
            in("eax") value as u32, in("edx") (value >> 32) as u32, out("r8d") refused);
    }
    if refused == 0 { Ok(()) } else { Err(msr.wrapping_sub(1)) }
}

/// RDPMC. Masked.
pub(crate) fn read_pmc(counter: u32) -> Result<u64, AccessRefused> {
    let (low, high, refused): (u32, u32, u32);
    // SAFETY: ring 0, where CR4.PCE does not matter; reading a counter has no side effect.
    unsafe {
        asm!("call halprof_rdpmc", inout("ecx") counter => _, inout("r9d") 1 => _, out("eax") low,
            out("edx") high, out("r8d") refused);
    }
    if refused == 0 { Ok(u64::from(high) << 32 | u64::from(low)) } else { Err(AccessRefused) }
}
