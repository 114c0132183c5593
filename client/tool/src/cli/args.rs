//! The command line: what its commands have in common, and a file for each group of them, as help has
//! them.

mod install;
mod look_up;
mod measure;
mod read;
mod values;

use crate::cli::help;
use crate::output::table::Width;
use crate::target::backend::DRIVER_OR_ETW;
use crate::target::limits;
use clap::{
    Arg, ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches, Id, Parser, Subcommand,
};
use halprof_measure::DEFAULT_MODEL;
pub(crate) use install::{Completions, Doctor, Install, Proved, Uninstall};
pub(crate) use look_up::{Check, EventFormat, Explain, List, Machines, Registers};
pub(crate) use measure::{
    Against, CodeKey, DivideBy, Holding, Rdpmc, Record, Selection, Simulate, Stat, Timeline, Top,
    Work, joined, names_programs,
};
pub(crate) use read::{
    Annotate, Convert, Export, Exported, Filters, Naming, Report, Script, Sorting,
};
use std::collections::HashMap;
use std::ffi::OsString;
use values::whole;

/// The default of `--machine`.
pub(crate) const DEFAULT_MACHINE: &str = if cfg!(windows) { DRIVER_OR_ETW } else { DEFAULT_MODEL };

/// The headings of help.
const WHAT: &str = "What";
const HOW: &str = "How long and how often";
const OUTPUT: &str = "Output";
const FILTERS: &str = "Which samples";
const NAMES: &str = "Symbols and sources";
const MODEL: &str = "Modelled machines";

/// The heading of the options that few need: help shows them last.
const RARE: &str = "Rarely needed";

/// Commands whose result is no table: they have no `--csv`.
const WITHOUT_TABLE: [&str; 7] =
    ["completions", "export", "install", "rdpmc", "start", "stop", "uninstall"];

/// Commands that measure nothing and ask no machine: they have no `--machine`.
const WITHOUT_MACHINE: [&str; 11] = [
    "annotate",
    "completions",
    "export",
    "install",
    "machines",
    "report",
    "script",
    "start",
    "stop",
    "timeline",
    "uninstall",
];

/// What `record` writes, and the commands that read a recording read, where no file is named.
const RECORDING: &str = "halprof.rec";

const CSV: &str = "csv";
const JSON_LINES: &str = "jsonl";
pub(crate) const MACHINE: &str = "machine";
const WIDTH: &str = "width";

/// Counts and samples hardware performance events on Windows, or on a model of a real processor.
#[derive(Debug, Parser)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
#[command(name = "halprof", version, subcommand_required = true, after_help = help::HALPROF)]
pub(crate) struct Arguments {
    /// Print one JSON object
    #[arg(long, global = true, help_heading = OUTPUT)]
    pub(crate) json: bool,
    /// Hide progress and notes, but never warnings
    #[arg(long, short, global = true, help_heading = OUTPUT)]
    pub(crate) quiet: bool,
    /// Fit tables and text to this many columns; 0 sets no limit [default: the terminal's width, or
    /// 0 if output goes to a file or a pipe]
    #[arg(long, help_heading = RARE, value_name = "COLUMNS", global = true, allow_negative_numbers = true, value_parser = whole)]
    pub(crate) width: Option<usize>,
    #[command(subcommand)]
    pub(crate) command: Commands,
    /// Print tables as comma-separated values.
    #[arg(skip)]
    pub(crate) csv: bool,
    /// Print JSON as one object per line.
    #[arg(skip)]
    pub(crate) json_lines: bool,
    /// `--machine` after the command, or else before it.
    #[arg(skip)]
    pub(crate) given_machine: Option<String>,
}

impl Arguments {
    /// The definition of the command line, with what its commands have in common.
    pub(crate) fn definition() -> Command {
        let command = Self::command().arg(machine());
        let names = command.get_subcommands().map(|one| one.get_name().to_owned());
        let names: Vec<String> = names.collect();
        names.iter().fold(rarely_needed_last(command), |command, name| {
            command.mut_subcommand(name, |mut subcommand| {
                if !WITHOUT_TABLE.contains(&name.as_str()) {
                    subcommand = subcommand.arg(csv());
                }
                if !WITHOUT_MACHINE.contains(&name.as_str()) {
                    subcommand = subcommand.arg(machine());
                }
                let after = subcommand.get_after_help().map(ToString::to_string);
                let after = help::flowing(&after.unwrap_or_default());
                let limits = limits::help(name);
                if !limits.is_empty() {
                    subcommand = subcommand.after_help(format!("{after}\n\n{limits}"));
                } else if !after.is_empty() {
                    subcommand = subcommand.after_help(after);
                }
                rarely_needed_last(with_exclusions(subcommand))
            })
        })
    }

    /// The arguments of a command line, the program's name first.
    pub(crate) fn parse_from<T: Into<OsString> + Clone>(
        arguments: impl IntoIterator<Item = T>,
    ) -> Result<Self, clap::Error> {
        let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
        let width = width(&arguments);
        let command = readable(Self::definition(), width);
        let mut matches = command.try_get_matches_from(without_width_of_help(arguments))?;
        let (csv, json_lines) = (is_set(&matches, CSV), is_set(&matches, JSON_LINES));
        let given_machine = of_command::<String>(&matches, MACHINE)
            .or_else(|| matches.get_one::<String>(MACHINE))
            .cloned();
        let parsed = Self::from_arg_matches_mut(&mut matches)?;
        Ok(Self { csv, json_lines, given_machine, ..parsed })
    }

    /// Where to measure.
    pub(crate) fn machine(&self) -> &str {
        self.given_machine.as_deref().unwrap_or(DEFAULT_MACHINE)
    }
}

/// The same arguments without the `--width` of `help COMMAND`, which is an option of `halprof` for clap and
/// takes no options itself.
fn without_width_of_help(arguments: Vec<OsString>) -> Vec<OsString> {
    if arguments.get(1).is_none_or(|command| command != "help") {
        return arguments;
    }
    let mut is_value = false;
    let mut kept = arguments;
    kept.retain(|argument| {
        let is_width = argument.to_string_lossy().starts_with("--width");
        let dropped = is_width || is_value;
        is_value = argument == "--width";
        !dropped
    });
    kept
}

/// The value of `--width` before anything is parsed, for help.
pub(crate) fn width(arguments: &[OsString]) -> Option<usize> {
    let own = arguments.iter().map_while(|argument| argument.to_str());
    let mut own = own.take_while(|&argument| argument != "--");
    let value = own.find_map(|argument| argument.strip_prefix("--width"))?;
    value.strip_prefix('=').or_else(|| own.next())?.parse().ok()
}

/// The same command line, as its help shows it in so many columns: options that all commands have and
/// few need stand in the tool's own help alone.
fn readable(mut command: Command, width: Option<usize>) -> Command {
    if let Some(columns) = width {
        command = command.term_width(columns);
    }
    let rare = command.get_arguments().find(|argument| argument.get_id() == WIDTH).cloned();
    let command = command.mut_subcommands(|one| one.args(rare.clone().map(|rare| rare.hide(true))));
    help::with_groups(command, Width::of(width))
}

fn machine() -> Arg {
    Arg::new(MACHINE).long(MACHINE).value_name("SPEC").help_heading(MODEL).help(
        "Where to measure: `driver`, `etw` (Windows' own tracing), the path of a CPUID dump, or a built-in model (see `halprof \
         machines`); `,processors=N` repeats the processors of a model, `,quirks=A+B` adds quirks of \
         real silicon",
    )
}

fn csv() -> Arg {
    let csv = Arg::new(CSV).long(CSV).help_heading(OUTPUT).action(ArgAction::SetTrue);
    csv.help("Print comma-separated values")
}

/// The value of an option of the command; `None` also if the command has no such option.
fn of_command<'a, T: Clone + Send + Sync + 'static>(
    matches: &'a ArgMatches,
    id: &str,
) -> Option<&'a T> {
    let (_, own) = matches.subcommand()?;
    own.try_get_one(id).ok().flatten()
}

fn is_set(matches: &ArgMatches, id: &str) -> bool {
    of_command::<bool>(matches, id) == Some(&true)
}

/// Makes clap refuse together the arguments that exclude each other by the table of limits.
fn with_exclusions(command: Command) -> Command {
    let arguments = command.get_arguments();
    let ids: HashMap<String, Id> =
        arguments.map(|one| (called(one), one.get_id().clone())).collect();
    let name = command.get_name().to_owned();
    command.mut_args(|argument| {
        let own = called(&argument);
        let excluded = limits::excluded(&own, &name);
        argument.conflicts_with_all(excluded.filter_map(|other| ids.get(other).cloned()))
    })
}

/// What the table of limits calls an argument.
fn called(argument: &Arg) -> String {
    match argument.get_long() {
        Some(long) => format!("--{long}"),
        None => argument.get_id().as_str().to_uppercase(),
    }
}

/// Puts the options with that heading last, by name. clap shows headings in the order of their first
/// options, which would put it in the middle; an argument that is changed goes to the end.
fn rarely_needed_last(command: Command) -> Command {
    let arguments = command.get_arguments();
    let rare = arguments.filter(|argument| argument.get_help_heading() == Some(RARE));
    let mut rare: Vec<Id> = rare.map(|argument| argument.get_id().clone()).collect();
    rare.sort_unstable();
    rare.into_iter().fold(command, |command, id| command.mut_arg(id, |argument| argument))
}

#[derive(Debug, Subcommand)]
pub(crate) enum Commands {
    /// List the built-in models
    Machines(Machines),
    /// Show which profiling interface is in use and why, and each processor's counters
    #[command(after_help = help::INFO)]
    Info,
    /// List the sources that can be counted or sampled
    #[command(after_help = help::LIST)]
    List(List),
    /// Check whether sources can run together, and on which counters
    #[command(after_help = help::CHECK)]
    Check(Check),
    /// Count events while a program runs, or for some time
    #[command(after_help = help::STAT)]
    Stat(Stat),
    /// Sample events into a recording
    #[command(after_help = help::RECORD)]
    Record(Record),
    /// Summarize a recording, or a trace (.etl) of WPR or xperf
    #[command(after_help = help::REPORT)]
    Report(Report),
    /// Show the instructions of a function, each with its samples
    #[command(after_help = help::ANNOTATE)]
    Annotate(Annotate),
    /// Print every sample of a recording, one per line
    #[command(after_help = help::SCRIPT)]
    Script(Script),
    /// Write a picture, or a file for another profiler
    #[command(after_help = help::EXPORT)]
    Export(Export),
    /// Make a recording of a trace (.etl): smaller, and faster to read again
    #[command(after_help = help::CONVERT)]
    Convert(Convert),
    /// Execute a function step by step, and count exactly what it does
    #[command(after_help = help::SIMULATE)]
    Simulate(Simulate),
    /// Run a program and show its marks with their times, or those of a recording
    #[command(after_help = help::TIMELINE)]
    Timeline(Timeline),
    /// Watch event rates or the hottest functions, live on the terminal
    #[command(after_help = help::TOP)]
    Top(Top),
    /// Show the performance-monitoring registers, field by field
    Registers(Registers),
    /// Let programs read the counters by RDPMC
    #[command(after_help = help::RDPMC)]
    Rdpmc(Rdpmc),
    /// Check what would prevent a measurement, and say how to fix it
    #[command(after_help = help::DOCTOR)]
    Doctor(Doctor),
    /// Explain an error code, or a source on this machine
    #[command(after_help = help::EXPLAIN)]
    Explain(Explain),
    /// Print a completion script
    Completions(Completions),
    /// Install or update the driver, or let an account measure without it (Windows, elevated)
    #[command(after_help = help::INSTALL)]
    Install(Install),
    /// Load the installed driver (Windows, elevated)
    Start,
    /// Unload the driver until the next `halprof start` or boot (Windows, elevated)
    Stop,
    /// Remove the driver and everything that was installed with it (Windows, elevated)
    Uninstall(Uninstall),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name that no argument has would exclude nothing.
    #[test]
    fn what_the_table_says_is_excluded_is_refused() {
        let mut definition = Arguments::definition();
        definition.build();
        let mut excluded = 0;
        for command in definition.get_subcommands() {
            for (option, others) in limits::exclusions(command.get_name()) {
                let find = |name: &str| {
                    let mut arguments = command.get_arguments();
                    let argument = arguments.find(|one| called(one) == name);
                    argument.unwrap_or_else(|| panic!("{} has no {name}", command.get_name()))
                };
                let conflicts = command.get_arg_conflicts_with(find(option));
                let ids: Vec<&Id> = conflicts.into_iter().map(Arg::get_id).collect();
                for other in others {
                    assert!(ids.contains(&find(other).get_id()), "{option} beside {other}");
                    excluded += 1;
                }
            }
        }
        assert!(excluded > 30, "{excluded}");
    }
}
