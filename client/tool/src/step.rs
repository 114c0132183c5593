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

use std::io;

/// A thread by its identifier.
type Thread = u32;

impl Debuggee {
    /// Puts a breakpoint there, unless one is there.
    fn break_at(&mut self, address: u64) -> io::Result<()> {
        if self.breaks_at(address) {
            return Ok(());
        }
        let mut there = [0];
        self.read(address, &mut there)?;
        self.write(address, &[BREAKPOINT])?;
        self.breakpoints.insert(address, there[0]);
        Ok(())
    }

    fn breaks_at(&self, address: u64) -> bool {
        self.breakpoints.contains_key(&address)
    }
}

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
