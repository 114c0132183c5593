//! Windows itself: the only folder of this crate with unsafe code.
//!
//! Each file wraps the functions of one concept behind a safe interface. [`installation`] has no
//! unsafe code: it is the order in which the others are called.

pub mod affinity;
pub mod console;
pub mod cpuid;
mod devices;
pub mod download;
pub(crate) mod installation;
pub mod key;
pub mod library;
mod packages;
mod rights;
mod running;
mod service;
pub mod system;
mod volumes;
mod wide;

pub use rights::Rights;
pub use running::{Loaded, Running, thread_of};

use crate::install_error::InstallError;
use crate::{Error, Result};
use std::io;
use windows_sys::Win32::Foundation::FALSE;
use windows_sys::core::BOOL;

/// The GetLastError number of the step that just failed.
fn last_error(step: &'static str) -> Error {
    let error = io::Error::last_os_error().raw_os_error().unwrap_or(0);
    failed(step, error.cast_unsigned())
}

/// An error if a step has just failed.
fn succeeded(done: BOOL, step: &'static str) -> Result<()> {
    if done == FALSE { Err(last_error(step)) } else { Ok(()) }
}

fn failed(step: &'static str, error: u32) -> Error {
    Error::Install(InstallError::Failed { step, error })
}
