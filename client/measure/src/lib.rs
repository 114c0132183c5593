//! Counts and samples hardware performance events, with the driver or on a model of a machine.
//!
//! A [`Transport`] carries the bytes of one DeviceIoControl: [`Modelled`] to the service running on
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
//! [`measure`] is the short way: names of sources and a closure in, counts out. [`regions`] counts
//! named regions of a program's threads; [`marks`] are time-stamped values that a program emits.
//! [`selection`] reads what a user types, and [`Error`] says what was refused. The types that
//! requests and replies carry, such as [`wire::request::counts::Count`], are in [`wire`].

pub mod catalog;
mod connection;
mod count;
mod error;
pub mod estimate;
pub mod events;
mod float;
mod likeness;
pub mod marks;
mod modelled;
mod passes;
mod platform;
pub mod rates;
mod rdpmc;
pub mod regions;
pub mod selection;
mod session;
pub mod statistics;
mod transport;
#[cfg(windows)]
#[expect(unsafe_code, reason = "the functions of Windows are foreign")]
mod windows;

pub use connection::{Connection, Fit, Setup};
pub use count::{Counted, Measured, Sources, measure};
pub use error::{Error, Refusal, Result};
pub use likeness::did_you_mean;
pub use modelled::{Code, Modelled, ModelledMachine, spec};
pub use rdpmc::Clock;
pub use session::{Session, Settled};
pub use shared_types as wire;
pub use transport::Transport;
#[cfg(windows)]
pub use windows::{DebugPrivilege, Driver};
