//! A program that is stepped, instruction by instruction, wherever it is in a range of its code.
//!
//! The platform's debugger interface is one file each; what to do with it is `range`.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux::Debuggee;
#[cfg(windows)]
mod windows;
#[cfg(windows)]
use windows::Debuggee;
pub(crate) mod range;

/// A thread by its identifier.
type Thread = u32;

/// What happened in the program. Its thread stands still until it is told to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// The thread has made its step, or stands behind a breakpoint, the program's own or ours.
    Trap(Thread),
    /// A signal or an exception comes before the thread's next instruction.
    Interrupted(Thread),
    /// The thread has ended.
    Gone(Thread),
    /// The program has become another one, as on Linux by exec.
    #[cfg_attr(windows, expect(dead_code, reason = "Windows programs cannot"))]
    Replaced,
    /// The program has ended with this status.
    Ended(u32),
}

/// INT3, one byte on every processor.
const BREAKPOINT: u8 = 0xCC;

/// The trap flag in EFLAGS: one instruction, then a trap.
const TRAP_FLAG: u8 = 1;
