//! The console tool.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    halprof::run(std::env::args_os())
}
