//! The tool with a model that runs in real time as its driver, for the tests under Wine.

mod machine;

fn main() -> std::process::ExitCode {
    halprof::run_with(std::env::args_os(), &|_| Ok(machine::open(None)))
}
