//! The user's side of halprof: typed requests to the driver, or to a model of a machine.
//!
//! A [`Transport`] carries the bytes of one DeviceIoControl: [`Modelled`] to the service running on
//! software processors in this process, and on Windows `Driver` to `halprof.sys`. Everything above
//! it is the same: a [`Connection`] greets the other side and asks about the machine, a [`Session`]
//! counts or samples and ends when it is dropped. [`installation`] puts the driver there.
//!
//! ```text
//! Transport -> Connection -> Session -> snapshot -> estimate -> metrics
//!                                             -> rates
//!                                    -> drain    -> recording -> report, annotate
//!                                                             -> export, pictures
//! ```
//!
//! [`measure`] is the short way: names of sources and a closure in, counts out.
//!
//! The tool itself is [`cli`]. What a user types is read by [`selection`]; what came of it is worded by [`explain`],
//! [`registers`] and [`Error`], which says for every refusal what to do about it.
#![cfg_attr(not(windows), forbid(unsafe_code))]

pub mod annotate;
pub mod calibrate;
#[expect(
    clippy::format_push_string,
    reason = "a report is a few lines; writing into a String has no error to handle"
)]
pub mod cli;
mod connection;
pub mod doctor;
mod error;
pub mod estimate;
pub mod explain;
#[expect(
    clippy::cast_precision_loss,
    reason = "rates, and places in a picture, are never exact"
)]
pub mod export;
pub mod installation;
pub mod inventory;
pub mod measure;
pub mod metrics;
mod modelled;
pub mod passes;
#[expect(
    clippy::cast_precision_loss,
    reason = "rates, and places in a picture, are never exact"
)]
pub mod pictures;
pub mod rates;
pub mod recording;
pub mod registers;
pub mod report;
pub mod selection;
mod session;
pub mod statistics;
pub mod symbols;
mod transport;
#[cfg(windows)]
#[expect(unsafe_code, reason = "the functions of Windows are foreign")]
mod windows;

pub use connection::{Connection, Fit, Setup};
pub use error::{Error, Refusal, Result};
pub use modelled::{Modelled, ModelledMachine};
pub use session::{Session, Settled};
pub use transport::Transport;
#[cfg(windows)]
pub use windows::Driver;
