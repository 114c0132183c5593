//! What a recording says: reports, annotated code, branches, marks.

pub mod annotate;
pub mod branches;
mod instruction;
pub mod off_cpu;
pub mod report;
pub mod script;
pub mod trace_events;
