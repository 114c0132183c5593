//! The console tool: arguments to library calls to text or JSON.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    halprof::cli::run(std::env::args_os())
}
