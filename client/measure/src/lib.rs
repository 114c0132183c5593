//! Counts and samples hardware performance events, with the driver or on a model of a machine.
//!
//! A [`Transport`] carries the bytes of one DeviceIoControl: [`InProcess`] to the service running on
//! software processors in this process, and on Windows `Driver` to `halprof.sys`. Everything above
//! it is the same: a [`Connection`] greets the other side and asks about the machine, a [`Session`]
//! counts or samples and ends when it is dropped.
//!
//! ```text
//! Transport -> Connection -> Session -> snapshot -> estimate
//!                                    |           -> rates
//!                                    -> drain    -> samples
//! ```
//!
//! Models are the cargo feature `models`; without it nothing here simulates a processor.
//! [`Machine::open`] opens the driver or, without one, Windows' own tracing, which counts the regions of
//! a program's threads and nothing else.
//!
//! [`measure`] is the short way: names of sources and a closure in, counts out. [`regions`] counts
//! named regions of a program's threads; [`marks`] are time-stamped values that a program emits.
//! [`selection`] reads what a user types, [`describe`] puts what a machine reports into words, and
//! [`Error`] says what was refused. The types that
//! requests and replies carry, such as [`wire::request::counts::Count`], are in [`wire`].
// People outside this project read the crate, so each public item is documented.
#![warn(missing_docs)]

pub mod catalog;
mod connection;
mod count;
pub mod describe;
pub mod errata;
mod error;
pub mod estimate;
pub mod event_counts;
pub mod events;
pub mod float;
#[cfg(feature = "models")]
mod in_process;
mod live_tracing;
mod machine;
pub mod marks;
pub mod native_path;
mod passes;
mod platform;
pub mod processes;
mod profile_source;
pub mod rates;
mod rdpmc;
pub mod regions;
pub mod selection;
mod session;
pub mod source;
pub mod spellings;
pub mod statistics;
mod suggest;
pub mod text_file;
pub mod tracing;
mod transport;
#[cfg(any(windows, test))]
mod win32;
#[cfg(windows)]
#[expect(unsafe_code, reason = "the functions of Windows are foreign")]
mod windows;

pub use connection::{Connection, Fit, Setup};
pub use count::{Measured, SourceCount, Sources, measure};
pub use error::{Error, Failure, Hint, Refusal, Remedy, Result};
#[cfg(feature = "models")]
pub use in_process::{
    Code, DEFAULT_MODEL, InProcess, ModelledMachine, listed, short_program, spec, without_backend,
};
pub use machine::Machine;
pub use rdpmc::{Clock, known_loop};
pub use session::{Effective, Session};
pub use shared_types as wire;
pub use source::Source;
pub use suggest::did_you_mean;
pub use transport::Transport;
#[cfg(windows)]
pub use windows::{
    DebugPrivilege, Driver, EtwCalls, elevated, live, thread_name, tracer, windows_folder,
};
