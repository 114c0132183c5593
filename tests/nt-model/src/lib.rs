//! The shipped `halprof.sys`, executed one instruction at a time on a model of the NT kernel, the
//! HAL and KMDF 1.33.
//!
//! | module | contents |
//! |---|---|
//! | [`machine`] | the whole machine: processors, threads, DPCs, timers, all ordered by the seed |
//! | [`engine`] | one x86-64 instruction stream at a time; `sim` runs privileged instructions |
//! | [`image`] | the driver's file as the loader maps it |
//! | [`memory`] | addresses, and which bytes the driver may touch |
//! | [`kernel`] | the functions of ntoskrnl and the HAL that the driver imports |
//! | [`kmdf`] | the functions of the framework, by their index in its table |
//! | [`device`] | what users do: open, request, close; [`device::pnp`]: load, start, sleep |
//! | [`backend`] | the driver as the backend of the scenarios |
//! | [`cost`] | what the driver costs, as counts |
//! | [`transport`] | the tool's transport: every halprof command on the shipped driver |
//! | [`load`] | what clients and the system do, from a seed; also for the model in process |
//! | [`traffic`] | the same concurrently, at moments that the seed decides |
//! | [`soak`] | many machines, each with many sequences, or with interrupts of many skids |
//! | [`registers`] | which registers the driver may write, and what it must restore |
//! | [`threads`] | threads that profile themselves, and migrate |
//! | [`guest`] | what instructions retire, driving the PMUs |
//! | [`programs`] | code for ring 3, and what it retires |
//! | [`rules`] | what a driver must not do, each with a name |
//!
//! Processors share one engine: a processor is a context that runs for a slice whose length and
//! order come from the seed. Memory is coherent between two slices, which is stronger than x86
//! promises; but every interleaving that the model produces is possible on silicon.
//!
//! A function or framework entry that is not modelled stops the run and is named.
#![forbid(unsafe_code)]

pub mod backend;
pub mod cost;
pub mod device;
pub mod engine;
pub mod exception;
pub mod guest;
pub mod image;
pub mod kernel;
pub mod kmdf;
pub mod load;
pub mod machine;
pub mod memory;
pub mod programs;
pub mod registers;
pub mod rules;
pub mod soak;
pub mod threads;
pub mod traffic;
pub mod transport;

pub use device::Device;
pub use machine::Machine;
pub use rules::Violation;
