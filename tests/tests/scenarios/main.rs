//! The scenarios on the service in process.

use halprof_tests::scenarios;
use sim::machine::Model;
use std::process::ExitCode;

fn main() -> ExitCode {
    scenarios::main::<Model>(true)
}
