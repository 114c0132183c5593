//! The console tool: arguments to library calls to text or JSON.
#![forbid(unsafe_code)]
#![expect(
    clippy::format_push_string,
    reason = "a report is a few lines; writing into a String has no error to handle"
)]

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run(std::env::args_os())
}
