//! The options of what installs: `doctor`, `install`, `uninstall` and `completions`.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use clap_complete::Shell;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Also count a loop of known instructions, and compare: on one processor of each type and on the
    /// first and the last of each group, or on `all`
    #[arg(long, value_name = "WHERE", num_args = 0..=1, require_equals = true, default_missing_value = "some")]
    pub(crate) prove: Option<Proved>,
}

/// The processors whose counters are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Proved {
    /// One of each type, and the first and the last of each group
    Some,
    /// Every one
    All,
}

#[derive(Debug, Args)]
pub(crate) struct Install {
    /// The package's install file [default: halprof.inf beside the tool]
    pub(crate) inf: Option<PathBuf>,
    /// Install no driver: let an account measure by Windows' own tracing without elevation
    #[arg(long, requires = "user")]
    pub(crate) tracing: bool,
    /// The account, as `whoami` prints it
    #[arg(long, value_name = "NAME", requires = "tracing")]
    pub(crate) user: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Uninstall {
    /// Leave the driver: take from an account what `install --tracing` gave it
    #[arg(long, requires = "user")]
    pub(crate) tracing: bool,
    /// The account
    #[arg(long, value_name = "NAME", requires = "tracing")]
    pub(crate) user: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell to complete in
    #[arg(value_parser = shells())]
    pub(crate) shell: Shell,
}

/// The shells whose scripts are tested.
fn shells() -> impl TypedValueParser<Value = Shell> {
    let names = ["bash", "zsh", "fish", "powershell"];
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Shell>())
}
