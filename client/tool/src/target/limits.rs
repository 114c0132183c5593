//! What a backend cannot do, and why: a row of `limits.csv` for each option, which refusals, help and
//! `docs/etw.md` share.

use crate::output::error::{Error, Result};
use serde::Deserialize;
use std::sync::LazyLock;

/// How a backend measures; a modelled machine measures in either way.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MeasuredBy {
    /// By sessions of the driver.
    Driver,
    /// By a trace, as Windows' own tracing writes it.
    Tracing,
}

impl MeasuredBy {
    const fn name(self) -> &'static str {
        match self {
            Self::Driver => "the driver",
            Self::Tracing => "Windows' own tracing",
        }
    }

    /// What to do where a row does not say it.
    const fn otherwise(self) -> &'static str {
        match self {
            Self::Driver => "Leave it out, or measure by `--machine etw`.",
            Self::Tracing => {
                "Leave it out, or measure by the driver: `halprof install`, then `--machine driver`."
            }
        }
    }
}

/// What a backend cannot do.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Limit {
    #[serde(rename = "backend")]
    pub(crate) method: MeasuredBy,
    /// The commands that have the option, with spaces between them.
    commands: String,
    /// The option, or the command itself.
    pub(crate) option: String,
    pub(crate) why: String,
    instead: String,
}

static LIMITS: LazyLock<Vec<Limit>> = LazyLock::new(|| {
    let text = include_str!("limits/limits.csv");
    let reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    reader.into_deserialize().flatten().collect()
});

impl Limit {
    /// What a command cannot do by a method of measuring.
    pub(crate) fn of(method: MeasuredBy, command: &str) -> impl Iterator<Item = &'static Self> {
        LIMITS.iter().filter(move |row| {
            row.method == method && row.commands.split(' ').any(|name| name == command)
        })
    }

    fn error(&self) -> Error {
        let instead = if self.instead.is_empty() { self.method.otherwise() } else { &self.instead };
        let message =
            format!("`{}`: {} cannot do this: {}", self.option, self.method.name(), self.why);
        Error::unavailable(message, instead)
    }
}

/// Refuses the first of a command's options that is given and has a row for this method.
pub(crate) fn refuse(method: MeasuredBy, command: &str, given: &[(&str, bool)]) -> Result<()> {
    let is_given =
        |limit: &&Limit| given.iter().any(|&(name, given)| given && name == limit.option);
    Limit::of(method, command).find(is_given).map_or(Ok(()), |limit| Err(limit.error()))
}

/// Whether a command has the option by this method.
pub(crate) fn allows(method: MeasuredBy, command: &str, option: &str) -> bool {
    Limit::of(method, command).all(|limit| limit.option != option)
}

/// What a command cannot do by Windows' own tracing, for its help; empty if it can do all.
pub(crate) fn help(command: &str) -> String {
    let options = Limit::of(MeasuredBy::Tracing, command).filter(|limit| limit.option != command);
    let lines: Vec<String> =
        options.map(|limit| format!("  {:<24} {}", limit.option, limit.why)).collect();
    match lines.as_slice() {
        [] => String::new(),
        lines => format!("Not by Windows' own tracing (`--machine etw`):\n{}", lines.join("\n")),
    }
}
