//! Executes a range of a program's code instruction by instruction, and counts exactly.
//!
//! ```text
//! run -> target (which code)
//!     -> step (a debugger) -> simulation (instructions, operands) -> cache
//! ```
//!
//! What `simulation` counts of the program's own instructions is exact; misses are those of modelled
//! caches.

pub mod cache;
#[cfg(all(target_arch = "x86_64", any(windows, target_os = "linux")))]
mod modules;
pub mod registers;
#[cfg(all(target_arch = "x86_64", any(windows, target_os = "linux")))]
pub mod run;
pub mod simulation;
#[cfg(all(target_arch = "x86_64", any(windows, target_os = "linux")))]
mod step;
mod target;
