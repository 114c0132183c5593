//! The tool, whose driver is a model that runs in this machine's time: what tests under Wine run.

mod machine;

fn main() -> std::process::ExitCode {
    halprof::run_with(std::env::args_os(), &|_| Ok(machine::open()))
}
