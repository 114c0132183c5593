//! Is a program counted, ended and reported as it should be, in real time?
//!
//! A modelled machine has no programs. Here it runs an endless workload in real time, and the tool
//! takes it for the driver's machine. This file is that tool if its first argument is `halprof`, the
//! same on a driver that goes away with the Nth request of a name if it is `removed NAME N`, and a
//! program that makes marks if it is `mark`.

#[cfg(unix)]
mod machine;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod marks;
#[cfg(unix)]
mod removed;
#[cfg(unix)]
mod tests;

#[cfg(unix)]
use machine::Removed;

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments.peek().is_some_and(|first| first == "halprof") {
        return halprof::run_with(arguments, &|_| Ok(machine::open(None)));
    }
    if arguments.next_if(|first| first == "removed").is_some() {
        let text = |argument: Option<_>| {
            argument.and_then(|one: std::ffi::OsString| one.into_string().ok()).unwrap_or_default()
        };
        let request = text(arguments.next());
        let number = text(arguments.next()).parse().expect("a number");
        let removed = Removed { request, number };
        return halprof::run_with(arguments, &|_| Ok(machine::open(Some(removed.clone()))));
    }
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    if arguments.peek().is_some_and(|first| first == "mark") {
        return marks::program(arguments.skip(1).map(|text| text.to_string_lossy().into_owned()));
    }
    libtest_mimic::run(&libtest_mimic::Arguments::from_args(), tests::all()).exit_code()
}

#[cfg(not(unix))]
fn main() {}
