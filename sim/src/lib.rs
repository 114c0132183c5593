//! What a processor does: software performance-monitoring units at MSR level, strict as silicon.
//!
//! A processor is built from the CPUID leaves of a real one. Whatever silicon refuses with #GP,
//! reserved bits and widths included, is refused here.
#![forbid(unsafe_code)]

mod counter;
pub mod cpuid;
pub mod dump;
pub mod event;
pub mod fault;
pub mod model;
pub mod models;
pub mod spec;
mod unit;
pub mod workload;

pub use unit::Watch;
