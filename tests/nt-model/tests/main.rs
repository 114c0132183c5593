//! All tests of the modelled kernel, in one program. A file that is not named here is not compiled.

mod added;
mod branches;
mod budget;
mod client;
mod cost;
mod cpuid;
mod differential;
mod faults;
mod guest;
mod left;
mod pgo;
mod pnp;
mod registers;
mod skid;
mod soak;
mod start;
mod threads;
mod ticks;
mod timer;
mod tool;
mod variants;
