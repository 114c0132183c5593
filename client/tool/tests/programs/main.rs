//! Is a program counted, ended and reported as it should be, in real time?
//!
//! A modelled machine has no programs. Here it runs an endless workload in real time, and the tool
//! takes it for the driver's machine. This file is that tool if its first argument is `halprof`,
//! and a program that makes marks if it is `mark`.

#[cfg(unix)]
mod machine;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod marks;
#[cfg(unix)]
mod tests;

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments.peek().is_some_and(|first| first == "halprof") {
        return halprof::run_with(arguments, &|_| Ok(machine::open()));
    }
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    if arguments.peek().is_some_and(|first| first == "mark") {
        return marks::program(arguments.skip(1).map(|text| text.to_string_lossy().into_owned()));
    }
    libtest_mimic::run(&libtest_mimic::Arguments::from_args(), tests::all()).exit_code()
}

#[cfg(not(unix))]
fn main() {}
