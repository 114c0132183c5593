//! Registers as the manuals describe them; what executes an access is [`crate::machine::Machine`].

pub mod amd;
pub mod apic;
pub mod cpuid;
pub mod intel;
pub mod netburst;
pub mod p6;
pub mod pentium;
