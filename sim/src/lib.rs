//! What a processor does: software performance-monitoring units at MSR level, strict as silicon.
//!
//! A processor is built from the CPUID leaves of a real one. Whatever silicon refuses with #GP,
//! reserved bits and widths included, is refused here.
#![forbid(unsafe_code)]

mod amd;
pub mod amd_events;
mod apic;
mod architectural;
pub mod architectural_events;
mod branches;
mod counter;
pub mod cpu;
pub mod cpuid;
mod delivery;
#[cfg(test)]
mod distinct;
pub mod dump;
pub mod event;
pub mod fault;
pub mod host;
pub mod machine;
pub mod model;
pub mod models;
mod netburst;
pub mod netburst_events;
pub mod netburst_tables;
mod p6;
mod pentium;
mod processor;
pub mod quirks;
pub mod run;
mod select;
mod signature;
pub mod spec;
mod unit;
pub mod workload;

pub use branches::Taken;
pub use processor::{Accesses, Processor};
pub use unit::Watch;
