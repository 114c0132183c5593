//! The scenarios on the shipped driver.

use halprof_tests::{driver, scenarios};
use nt_model::Device;
use std::process::ExitCode;

fn main() -> ExitCode {
    scenarios::main::<Device>(driver::folder().is_some())
}
