//! What silicon refuses.

use std::fmt;

/// An exception that an instruction raised, with what raised it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// #GP: RDMSR of a register that does not exist, or may not be read.
    ReadMsr {
        /// The register.
        msr: u32,
    },
    /// #GP: WRMSR of a register that does not exist or is read-only, or of a reserved bit.
    WriteMsr {
        /// The register.
        msr: u32,
        /// The refused value.
        value: u64,
    },
    /// #GP: RDPMC of a counter that does not exist.
    ReadPmc {
        /// ECX.
        counter: u32,
    },
    /// #UD: an instruction that this processor does not have.
    InvalidOpcode,
    /// An access to the local APIC's page if there is none, or not in xAPIC mode.
    Apic {
        /// The offset in the page.
        offset: u32,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ReadMsr { msr } => write!(f, "#GP: RDMSR of {msr:#x}"),
            Self::WriteMsr { msr, value } => write!(f, "#GP: WRMSR of {msr:#x} with {value:#x}"),
            Self::ReadPmc { counter } => write!(f, "#GP: RDPMC of {counter:#x}"),
            Self::InvalidOpcode => write!(f, "#UD"),
            Self::Apic { offset } => write!(f, "no local APIC page at offset {offset:#x}"),
        }
    }
}

impl std::error::Error for Fault {}
