//! The options of what looks up: `list`, `explain`, `check`, `info`, `machines` and `registers`.

use super::{RARE, Selection};
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use sim::machines::models::MODELS;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
pub(crate) struct List {
    /// Add intervals, event selects and notes
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Include sources that cannot be counted here
    #[arg(long)]
    pub(crate) all: bool,
    /// Also list sources that count something other than their name says
    #[arg(long, help_heading = RARE)]
    pub(crate) approximate: bool,
    /// Add the vendor's events for this machine's processors
    #[arg(long)]
    pub(crate) events: bool,
    /// Also add the events of a list in Intel's perfmon JSON
    #[arg(long, help_heading = RARE, value_name = "FILE")]
    pub(crate) event_file: Option<PathBuf>,
    /// Write the vendor's events as a file from which Windows' own tracing learns them
    #[arg(long, value_enum)]
    pub(crate) event_format: Option<EventFormat>,
    /// Only sources and events, or metrics, with this text in their names or descriptions; `*`
    /// stands for any text, and then the whole name must match
    #[arg(value_name = "PATTERN")]
    pub(crate) pattern: Option<String>,
    /// List metrics instead
    #[arg(long)]
    pub(crate) metrics: bool,
    /// List metrics instead, including those defined in FILE
    #[arg(long, help_heading = RARE, value_name = "FILE")]
    pub(crate) metric_file: Option<PathBuf>,
}

/// How Windows' own tracing is given the vendor's events.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum EventFormat {
    /// A recording profile, for Windows Performance Recorder
    Wprp,
    /// A registry file, for every tool after a restart; Intel only
    Reg,
}

#[derive(Debug, Args)]
pub(crate) struct Machines {
    /// List the quirks that `,quirks=A+B` after a model's name turns on
    #[arg(long, help_heading = RARE)]
    pub(crate) quirks: bool,
    /// Print the CPUID dump of a model, which `--machine FILE` takes
    #[arg(long, help_heading = RARE, value_name = "NAME", ignore_case = true)]
    #[arg(value_parser = PossibleValuesParser::new(MODELS.iter().map(|model| model.name)))]
    #[arg(hide_possible_values = true)]
    pub(crate) dump: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) selection: Selection,
}

#[derive(Debug, Args)]
pub(crate) struct Registers {
    /// Processors, e.g. `0-3,8` [default: the boot processor]
    #[arg(long = "cpu", short = 'C', value_name = "LIST", num_args = 1.., allow_negative_numbers = true)]
    pub(crate) processors: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// A code or a source: `busy`, `TotalIssues`, `r100C0` [default: list the codes]
    pub(crate) topic: Option<String>,
}
