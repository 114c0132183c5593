//! Options that cannot be used by a backend or beside another option, and why: the rows of `limits.csv`,
//! which clap, refusals, help and `docs/etw.md` share.

use crate::output::error::{Error, Result};
use serde::Deserialize;
use std::sync::LazyLock;

/// What gives the counts and samples; a modelled machine measures in the first two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MeasuredBy {
    /// By sessions of the driver.
    Driver,
    /// By a trace, as Windows' own tracing writes it.
    Tracing,
    /// Nothing is measured: a recording has kept the sums of a whole trace.
    Recording,
}

impl MeasuredBy {
    /// What the table calls it.
    const fn key(self) -> &'static str {
        match self {
            Self::Driver => "driver",
            Self::Tracing => "tracing",
            Self::Recording => "recording",
        }
    }
}

/// What cannot be used, and beside what.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Limit {
    /// The key of a backend, or an option.
    beside: String,
    /// The commands that have the option, with spaces between them.
    commands: String,
    /// The option, or the command itself; beside another option several.
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
    /// The rows of a command.
    fn of(command: &str) -> impl Iterator<Item = &'static Self> {
        LIMITS.iter().filter(move |row| row.commands.split(' ').any(|name| name == command))
    }

    /// What a command cannot do by a method of measuring.
    fn beside(method: MeasuredBy, command: &str) -> impl Iterator<Item = &'static Self> {
        Self::of(command).filter(move |row| row.beside == method.key())
    }

    fn error(&self, method: MeasuredBy) -> Error {
        let Self { option, why, instead, .. } = self;
        let (backend, otherwise) = match method {
            MeasuredBy::Driver => ("the driver", "Leave it out, or measure by `--machine etw`."),
            MeasuredBy::Tracing => (
                "Windows' own tracing",
                "Leave it out, or measure by the driver: `halprof install`, then `--machine driver`.",
            ),
            MeasuredBy::Recording => {
                return Error::usage(
                    format!("`{option}` with a recording: {why}"),
                    instead.as_str(),
                );
            }
        };
        let instead = if instead.is_empty() { otherwise } else { instead };
        Error::unavailable(format!("`{option}`: {backend} cannot do this: {why}"), instead)
    }
}

/// The arguments of a command that exclude others whatever measures, each with those others.
pub(crate) fn exclusions(
    command: &str,
) -> impl Iterator<Item = (&'static str, impl Iterator<Item = &'static str>)> {
    let rows = Limit::of(command).filter(|row| row.why.is_empty());
    rows.map(|row| (row.beside.as_str(), row.option.split(' ')))
}

/// The arguments that an argument of a command excludes.
pub(crate) fn excluded(argument: &str, command: &str) -> impl Iterator<Item = &'static str> {
    exclusions(command).filter(move |(own, _)| *own == argument).flat_map(|(_, others)| others)
}

/// Refuses the first of a command's options that is given and has a row for this method.
pub(crate) fn refuse(method: MeasuredBy, command: &str, given: &[(&str, bool)]) -> Result<()> {
    let is_given =
        |limit: &&Limit| given.iter().any(|&(name, given)| given && name == limit.option);
    let refused = Limit::beside(method, command).find(is_given);
    refused.map_or(Ok(()), |limit| Err(limit.error(method)))
}

/// Whether a command has the option by this method.
pub(crate) fn allows(method: MeasuredBy, command: &str, option: &str) -> bool {
    Limit::beside(method, command).all(|limit| limit.option != option)
}

/// What a command cannot do by Windows' own tracing, for its help; empty if it can do all.
pub(crate) fn help(command: &str) -> String {
    let options =
        Limit::beside(MeasuredBy::Tracing, command).filter(|limit| limit.option != command);
    let lines: Vec<String> =
        options.map(|limit| format!("  {:<24} {}", limit.option, limit.why)).collect();
    match lines.as_slice() {
        [] => String::new(),
        lines => format!("Not by Windows' own tracing (`--machine etw`):\n{}", lines.join("\n")),
    }
}
