//! A WDM driver that Wine loads in place of halprof.sys: the project's own service on a modelled
//! machine, behind an I/O manager, a Plug and Play manager and a service manager that are Wine's.
//!
//! It is for tests only, and in no package. It calls the machine real, so that halprof.exe takes it
//! for the shipped driver. The files in Wine's drive C: that tests and driver talk by:
//!
//! - `halprof-driver.conf`, which `settings.rs` reads at each request: the machine, and faults;
//! - `halprof-driver.log`: what arrived.
//!
//! Wine's kernel is a process of user mode, so that the driver has the standard library.

#[cfg(windows)]
mod device;
#[cfg(windows)]
mod settings;
#[cfg(windows)]
mod wdm;
