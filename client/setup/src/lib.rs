//! Windows around the driver: [`installation`] installs and removes it, [`tracing_rights`] lets an
//! account measure without it and without elevation, and [`doctor`] finds what prevents a measurement.
#![cfg_attr(not(windows), forbid(unsafe_code))]

#[cfg(not(windows))]
pub mod curl;
pub mod doctor;
mod download;
mod error;
mod inf;
mod install_error;
pub mod installation;
mod outcome;
pub mod tracing_rights;
#[cfg(windows)]
#[expect(unsafe_code, reason = "the functions of Windows are foreign")]
pub mod windows;

pub use error::{Error, Result};
