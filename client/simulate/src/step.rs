//! Single-steps a program, instruction by instruction, while it is in a range of its code.
//!
//! Each platform's debugger interface is a file of its own; `range` decides what to do with it.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::Debuggee;
#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub(crate) use windows::Debuggee;
pub(crate) mod range;

use std::io;

/// A thread by its identifier.
type Thread = u32;

impl Debuggee {
    /// Sets a breakpoint at an address, unless there is one.
    fn break_at(&mut self, address: u64) -> io::Result<()> {
        if self.breaks_at(address) {
            return Ok(());
        }
        let mut original = [0];
        self.read(address, &mut original)?;
        self.write(address, &[BREAKPOINT])?;
        self.breakpoints.insert(address, original[0]);
        Ok(())
    }

    /// Removes a breakpoint, if there is one.
    fn unbreak_at(&mut self, address: u64) -> io::Result<()> {
        if let Some(original) = self.breakpoints.remove(&address) {
            self.write(address, &[original])?;
        }
        Ok(())
    }

    /// Reads the code at an address as the program has it, as far as an instruction can reach.
    fn read_code(&self, address: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; INSTRUCTION_MAX as usize];
        if self.read(address, &mut bytes).is_err() {
            // What follows the page may not be there.
            bytes.truncate((PAGE - address % PAGE).min(INSTRUCTION_MAX) as usize);
            self.read(address, &mut bytes)?;
        }
        let end = address.saturating_add(bytes.len() as u64);
        for (&at, &original) in self.breakpoints.range(address..end) {
            if let Some(byte) = bytes.get_mut((at - address) as usize) {
                *byte = original;
            }
        }
        Ok(bytes)
    }

    fn breaks_at(&self, address: u64) -> bool {
        self.breakpoints.contains_key(&address)
    }
}

/// An event in the program. Its thread stays stopped until it is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// The thread has completed its step, or is stopped after a breakpoint, the program's own or
    /// ours.
    Trap(Thread),
    /// A signal or an exception is pending before the thread's next instruction.
    Interrupted(Thread),
    ThreadEnded(Thread),
    /// The program has replaced itself by another, as by exec on Linux.
    #[cfg_attr(windows, expect(dead_code, reason = "Windows programs cannot"))]
    Replaced,
    /// The program has ended with this status.
    Ended(u32),
}

/// The longest instruction has 15 bytes.
const INSTRUCTION_MAX: u64 = 15;

/// The smallest page.
const PAGE: u64 = 4096;

/// INT3, which is one byte.
const BREAKPOINT: u8 = 0xCC;

/// The trap flag, in the second byte of EFLAGS: one instruction, then a trap.
const TRAP_FLAG: u8 = 1;
