//! What stands for Windows' own tracing where there is no Windows.
//!
//! - [`mod@write`] writes a trace of given events, with buffers and events lost as on a busy disk;
//! - [`generator`] writes the trace of a run whose truth is known;
//! - [`ModelledTracing`] is a backend that measures a modelled machine by such a trace.
//!
//! Like the processors of `sim` it is test equipment: the tool links it for modelled machines, and no
//! library that measures does.
#![forbid(unsafe_code)]

pub mod generator;
mod modelled;
pub mod write;

pub use modelled::{ModelledTracing, SharedProgram};
