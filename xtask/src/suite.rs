//! The workspace's tests: compiled once, with one profile, and run in two parts.

use crate::has_subcommand;
use anyhow::Result;
use xshell::{Cmd, Shell, cmd};

/// The profile in Cargo.toml with which everything is compiled, and cargo's output folder for it.
const PROFILE: &str = "suite";
/// Every call names all packages: a package on its own would be compiled again, with different
/// features. The driver is excluded because it has its own target.
const PACKAGES: [&str; 3] = ["--workspace", "--exclude", "halprof-driver"];

/// Parts of the names of tests that only `cargo xtask prove` runs, because what they need takes
/// long to build or to start.
const SLOW: [&str; 24] = [
    // halprof.exe, built with MinGW and run under Wine.
    "wine::",
    // A Windows program, compiled with MinGW.
    "built_in::tests::",
    // The signed package, with halprof.exe in it.
    "driver_package::",
    // A Windows emulator.
    "driver_speakeasy::",
    // A driver for each mistake.
    "variants::each_mistake",
    "variants::the_control",
    // The package's install file, read by Wine.
    "driver_inf::it_installs_a_driver",
    "driver_inf::every_line",
    // A process under Wine.
    "driver_exceptions::",
    // libpfm4, queried by a C program.
    "libpfm4::",
    // A program with a million branches, run and then compiled with its profile.
    "pgo::",
    // Thousands of runs of the driver.
    "every_period_is_accounted_for_at_every_skid",
    "many_flipped_bits_break_no_rule",
    // A thousand sessions, disturbed at random.
    "no_count_is_wrong_in_many_runs",
    // Hundreds of recordings.
    "verdicts_on_eighty_pairs",
    // Hundreds of comparisons.
    "verdicts_in_turns_on_eighty",
    // A browser.
    "pictures::",
    "speedscope_shows_what_was_sampled",
    // Every compiler that is installed, and LLVM's tools beside it.
    "witness::",
    // Third-party simulators.
    "simulators::",
    // Third-party readers, from npm and PyPI.
    "pprof_format_reads_what_was_sampled",
    "the_firefox_profiler_shows_what_was_sampled",
    "the_parser_of_prometheus_reads_it_all",
    "etl_parser_reads_the_same_events",
];

/// Which tests are run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Those that need nothing but the driver.
    Fast,
    /// The rest.
    Slow,
    /// Both, so that one summary counts every test.
    All,
}

impl Part {
    /// The arguments after `--`, in a form that both nextest and cargo's own runner accept.
    fn filter(self) -> Vec<&'static str> {
        match self {
            Self::Fast => SLOW.iter().flat_map(|name| ["--skip", name]).collect(),
            Self::Slow => SLOW.to_vec(),
            Self::All => Vec::new(),
        }
    }
}

/// Runs clippy and rustdoc.
pub(crate) fn lint(shell: &Shell) -> Result<()> {
    cmd!(shell, "cargo clippy --profile {PROFILE} {PACKAGES...} --all-targets -- -D warnings")
        .run()?;
    // By themselves they have no modelled machines, which the workspace's other packages ask for.
    cmd!(shell, "cargo clippy --profile {PROFILE} -p halprof-measure -p halprof-c -- -D warnings")
        .run()?;
    let _flags = shell.push_env("RUSTDOCFLAGS", "-D warnings");
    cmd!(shell, "cargo doc --profile {PROFILE} {PACKAGES...} --no-deps").run()?;
    Ok(())
}

/// Compiles all tests and the programs that go with them.
pub(crate) fn build(shell: &Shell) -> Result<()> {
    if has_subcommand(shell, "nextest") {
        cmd!(shell, "cargo nextest run --cargo-profile {PROFILE} {PACKAGES...} --no-run").run()?;
    } else {
        cmd!(shell, "cargo test --profile {PROFILE} {PACKAGES...} --no-run").run()?;
    }
    Ok(())
}

/// Compiles an example of the tool and returns the command that runs it. `cargo run` would compile it
/// for the tool alone, with other features and so all again.
pub(crate) fn example<'a>(shell: &'a Shell, name: &str) -> Result<Cmd<'a>> {
    cmd!(shell, "cargo build --quiet --profile {PROFILE} {PACKAGES...} --example {name}").run()?;
    Ok(cmd!(shell, "target/{PROFILE}/examples/{name}"))
}

/// Runs the examples in the documentation.
pub(crate) fn documentation(shell: &Shell) -> Result<()> {
    Ok(cmd!(shell, "cargo test --profile {PROFILE} {PACKAGES...} --doc").run()?)
}

/// Fuzzes the code that parses untrusted bytes, for `seconds` per target.
pub(crate) fn fuzz(shell: &Shell, seconds: u32) -> Result<()> {
    let seconds = seconds.to_string();
    for target in ["service", "dump", "recording", "etw", "live", "symbols"] {
        cmd!(shell, "target/{PROFILE}/fuzz {target} --seconds {seconds}").run()?;
    }
    Ok(())
}

/// Runs the driver on `machines` modelled machines; their seeds are always the same.
pub(crate) fn soak(shell: &Shell, machines: u32) -> Result<()> {
    let machines = machines.to_string();
    cmd!(shell, "target/{PROFILE}/soak --seed 1 --lives {machines}").run()?;
    Ok(())
}

/// Writes the memory image of a sampling machine, which the test of the debugger script reads.
pub(crate) fn memory_image(shell: &Shell) -> Result<()> {
    cmd!(shell, "target/{PROFILE}/memory-image").run()?;
    Ok(())
}

/// Runs the tests; the runner's summary is printed last.
pub(crate) fn tests(shell: &Shell, part: Part) -> Result<()> {
    let _built = shell.push_env("HALPROF_REQUIRE_DRIVER", "1");
    let _tools = shell.push_env("HALPROF_REQUIRE_TOOLS", "1");
    let filter = part.filter();
    if has_subcommand(shell, "nextest") {
        cmd!(
            shell,
            "cargo nextest run --cargo-profile {PROFILE} {PACKAGES...} --no-fail-fast -- {filter...}"
        )
        .run()?;
    } else {
        cmd!(
            shell,
            "cargo test --profile {PROFILE} {PACKAGES...} --lib --bins --tests --examples --no-fail-fast -- {filter...}"
        )
        .run()?;
    }
    Ok(())
}
