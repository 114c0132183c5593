//! What a trace says: its threads and processes, their counts and their waits.

pub mod counts;
pub mod lives;
pub mod part;
mod processes;
mod program_name;
pub mod waits;

pub use processes::TracedProcesses;
