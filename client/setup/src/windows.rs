//! Windows itself: the only folder of this crate with unsafe code.
//!
//! Each file wraps the functions of one concept behind a safe interface. [`installation`] has no
//! unsafe code: it is the order in which the others are called.

pub mod console;
pub mod cpuid;
mod devices;
pub mod download;
pub(crate) mod installation;
pub mod key;
pub mod library;
mod packages;
pub mod privilege;
mod running;
mod service;
pub mod system;
mod volumes;
mod wide;

pub use running::{Loaded, Running};

use crate::Error;
use crate::install_error::InstallError;
use std::io;

/// The GetLastError number of the step that just failed.
fn last_error(step: &'static str) -> Error {
    let error = io::Error::last_os_error().raw_os_error().unwrap_or(0);
    failed(step, error.cast_unsigned())
}

fn failed(step: &'static str, error: u32) -> Error {
    Error::Install(InstallError::Failed { step, error })
}
