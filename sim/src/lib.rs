//! What a processor does: software performance-monitoring units at MSR level, strict as silicon.
//!
//! A processor is built from the CPUID leaves of a real one. Whatever silicon refuses with #GP,
//! reserved bits and widths included, is refused here.
#![forbid(unsafe_code)]

pub mod cpu;
pub mod historic;
pub mod load;
pub mod machine;
pub mod machines;
pub mod quirks;
pub mod service_host;
pub mod units;

pub use cpu::lbr::Taken;
pub use cpu::processor::{Accesses, Processor};
pub use cpu::unit::Watch;
