//! Faults on register access.

use thiserror::Error;

/// An exception that an instruction raised, with what raised it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// #GP: RDMSR of a register that does not exist, or may not be read.
    #[error("#GP: RDMSR of {msr:#x}")]
    ReadMsr { msr: u32 },
    /// #GP: WRMSR of a register that does not exist or is read-only, or of a reserved bit.
    #[error("#GP: WRMSR of {msr:#x} with {value:#x}")]
    WriteMsr { msr: u32, value: u64 },
    /// #GP: RDPMC of a counter that does not exist.
    #[error("#GP: RDPMC of {counter:#x}")]
    ReadPmc {
        /// ECX.
        counter: u32,
    },
    /// #UD: an instruction that this processor does not have.
    #[error("#UD")]
    InvalidOpcode,
    /// A counter's overflow was sent as an NMI, which nobody claims: bug check 0x80.
    #[error("NMI: an overflow, which nobody claims")]
    Nmi,
    /// An access to the local APIC's page if there is none, or not in xAPIC mode.
    #[error("no local APIC page at offset {offset:#x}")]
    Apic { offset: u32 },
}
