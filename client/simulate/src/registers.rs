//! The registers that addresses are computed from.

use iced_x86::Register;

/// The registers of a user-mode thread that the address of an operand can depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI and R8 to R15, in the order of their numbers.
    pub general: [u64; 16],
    /// The address of the next instruction.
    pub ip: u64,
    /// The base of FS.
    pub fs: u64,
    /// The base of GS.
    pub gs: u64,
    /// Whether the thread runs 32-bit code.
    pub is_32_bit: bool,
}

impl Registers {
    /// RCX, which counts the iterations of a REP.
    pub const fn count(&self) -> u64 {
        self.general[1]
    }

    /// The stack pointer.
    pub const fn stack(&self) -> u64 {
        self.general[4]
    }

    /// The value of a register, for a segment its base; `None` for a vector register.
    pub(crate) fn value(&self, register: Register) -> Option<u64> {
        if register.is_segment_register() {
            return Some(match register {
                Register::FS => self.fs,
                Register::GS => self.gs,
                // All others begin at 0: by the architecture in 64-bit code, by both systems in
                // 32-bit code.
                _ => 0,
            });
        }
        if !register.is_gpr() {
            return None;
        }
        let full = *self.general.get(register.full_register().number())?;
        Some(match register.size() {
            8 => full,
            4 => full & 0xFFFF_FFFF,
            2 => full & 0xFFFF,
            // The only byte in an address is XLAT's AL: never a high one such as AH.
            _ => full & 0xFF,
        })
    }
}
