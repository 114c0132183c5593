//! The command line.

use crate::cli::help;
use crate::output::Output;
use crate::output::download;
use crate::output::error::Error;
use crate::output::number::thousands;
use crate::output::table::Width;
use crate::target::backend::DRIVER_OR_ETW;
use crate::target::built_in;
use crate::target::{limits, seal_key};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{
    Arg, ArgAction, ArgGroup, ArgMatches, Args, Command, CommandFactory, FromArgMatches, Id,
    Parser, Subcommand, ValueEnum,
};
use clap_complete::Shell;
use halprof_measure::DEFAULT_MODEL;
use halprof_profile::aggregate::key::Key;
use halprof_profile::export::profgen::ProfgenFormat;
use halprof_profile::export::{Format, TrackBy};
use halprof_profile::symbols::SymbolPath;
use sim::machines::models::MODELS;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

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

/// What to count or to sample.
#[derive(Debug, Default, Args)]
pub(crate) struct Selection {
    /// Sources, separated by commas: a name, an id, `rHEX` (raw event select) or `all`; `:u`, `:k`
    /// or `:uk` counts user mode, kernel mode or both; the sources in `{A,B}` run together or not at all
    #[arg(long = "event", short = 'e', value_name = "LIST", num_args = 1.., help_heading = WHAT)]
    pub(crate) events: Vec<String>,
    #[command(flatten)]
    pub(crate) groups: Groups,
    /// Processors to measure, e.g. `0-3,8` [default: all]
    #[arg(long = "cpu", short = 'C', value_name = "LIST", num_args = 1.., allow_negative_numbers = true, help_heading = WHAT)]
    pub(crate) processors: Vec<String>,
    /// Also accept sources that count something other than their name says
    #[arg(long, help_heading = RARE)]
    pub(crate) approximate: bool,
    /// Also accept the events of a list in Intel's perfmon JSON
    #[arg(long, help_heading = RARE, value_name = "FILE")]
    pub(crate) event_file: Option<PathBuf>,
}

impl Selection {
    /// The options that some backend cannot do, and whether they are given.
    pub(crate) const fn limited(&self) -> [(&'static str, bool); 2] {
        [("--approximate", self.approximate), ("--event-file", self.event_file.is_some())]
    }

    /// Whether no source was named.
    pub(crate) fn is_default(&self) -> bool {
        self.events.is_empty() && self.groups.0.is_empty()
    }
}

/// The list that one or more arguments form: PowerShell passes an unquoted `A,B` as `A` `B`.
pub(crate) fn joined(arguments: &[String]) -> Option<String> {
    (!arguments.is_empty()).then(|| arguments.join(","))
}

/// One list for each `-g`, which clap's derive does not keep apart.
#[derive(Debug, Default)]
pub(crate) struct Groups(pub(crate) Vec<String>);

impl Groups {
    const ID: &str = "groups";
}

impl Args for Groups {
    fn augment_args(command: Command) -> Command {
        let group = Arg::new(Self::ID)
            .long("group")
            .short('g')
            .value_name("LIST")
            .num_args(1..)
            .action(ArgAction::Append)
            .help("Sources that run together or not at all; the same as `-e {A,B}`, without quotes in PowerShell")
            .help_heading(WHAT);
        command.arg(group)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Groups {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let lists = matches.get_occurrences::<String>(Self::ID).into_iter().flatten();
        Ok(Self(lists.map(|list| list.map(String::as_str).collect::<Vec<_>>().join(",")).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
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

/// What runs while it is measured.
#[derive(Clone, Debug, Args)]
pub(crate) struct Work {
    /// Measure for SECONDS (modelled time on a modelled machine)
    #[arg(long, short, value_name = "SECONDS", allow_negative_numbers = true, value_parser = seconds, help_heading = HOW)]
    pub(crate) duration: Option<f64>,
    /// What a modelled machine runs: events and their amounts, e.g.
    /// `instructions=1000000,cycles=2000000`; see `halprof help workload`
    #[arg(long, value_name = "SPEC", help_heading = MODEL)]
    pub(crate) workload: Option<String>,
    /// Time slice when sources share counters, in milliseconds
    #[arg(long, help_heading = RARE, value_name = "MS", allow_negative_numbers = true, value_parser = milliseconds)]
    pub(crate) rotate: Option<f64>,
    /// Run PROGRAM only on the processors of `-C`, which must be in one group
    #[arg(long, help_heading = RARE, requires = "program", requires = "processors")]
    pub(crate) pin: bool,
    /// End programs that PROGRAM started and that outlive it
    #[arg(long, help_heading = RARE, requires = "program")]
    pub(crate) kill_children: bool,
    /// Run this program with its arguments, and measure until it ends
    #[arg(last = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

impl Work {
    /// Whether the workload says which programs run, in which mode and where their code is, unless it is
    /// that of a file.
    pub(crate) fn has_programs(&self) -> bool {
        self.workload.as_deref().is_some_and(names_programs)
    }
}

/// Whether a workload says which programs run, in which mode and where their code is, unless it is that
/// of a file.
pub(crate) fn names_programs(workload: &str) -> bool {
    const KEYS: [&str; 5] = ["programs", "user", "short", "code", "skid"];
    let keys = workload.split(',').filter_map(|part| part.split_once('='));
    keys.map(|(key, _)| key.trim()).any(|key| KEYS.contains(&key))
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct Stat {
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) work: Work,
    /// Show these metrics, and count what they need: `ipc`, or `ipc:u` for user mode; `halprof list
    /// --metrics` lists them
    #[arg(long = "metric", short = 'M', value_name = "LIST", num_args = 1.., help_heading = WHAT)]
    pub(crate) metrics: Vec<String>,
    /// Add the metrics defined in FILE (see below)
    #[arg(long, help_heading = RARE, value_name = "FILE")]
    pub(crate) metric_file: Option<PathBuf>,
    /// Top-down analysis, level 1; `=2` for levels 1 and 2
    #[arg(long, help_heading = WHAT, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = |text: &str| number::<u8>(text, 1..=2))]
    pub(crate) topdown: Option<u8>,
    /// If there are too few counters, run once for each set of sources that fits: counts are exact
    #[arg(long, help_heading = RARE)]
    pub(crate) passes: bool,
    /// Print counts every MS milliseconds (at least 1)
    #[arg(
        long = "interval",
        short = 'I',
        value_name = "MS",
        help_heading = HOW,
        allow_negative_numbers = true,
        value_parser = milliseconds
    )]
    pub(crate) interval: Option<f64>,
    /// Replace FILE with all counts so far at each interval, in OpenMetrics text, instead of
    /// printing the intervals: for the textfile collector of windows_exporter or node_exporter
    #[arg(long, help_heading = RARE, value_name = "FILE", requires = "interval")]
    pub(crate) openmetrics: Option<PathBuf>,
    /// Repeat N times; print mean, 95 % confidence interval, deviation and outliers
    #[arg(long, short, help_heading = HOW, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = |text: &str| number::<u32>(text, 1..=1000))]
    pub(crate) repeat: u32,
    /// Exclude outliers of `-r` from mean, confidence interval and deviation
    #[arg(long, help_heading = RARE, requires = "repeat")]
    pub(crate) trim: bool,
    /// Divide the counts among processes, by samples taken while counting; `SOURCE:PERIOD` sets the
    /// number of events between samples. With `--from`, counts of processes and threads are exact
    #[arg(long, value_name = "WHAT", help_heading = WHAT, value_enum)]
    pub(crate) by: Option<DivideBy>,
    /// Do not measure: take the counts from a trace (.etl) of Windows' own tracing, or from a
    /// recording made from one; `-` is standard input
    #[arg(long, value_name = "FILE", help_heading = WHAT)]
    pub(crate) from: Option<PathBuf>,
    /// Show only these processes, by id or by name, of `--by` or `--from`
    #[arg(long, short, visible_alias = "pid", value_name = "PID|NAME", help_heading = WHAT)]
    pub(crate) process: Vec<String>,
    /// Show each processor separately
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) per_cpu: bool,
    /// Show each type of core separately
    #[arg(long, help_heading = RARE)]
    pub(crate) per_core_type: bool,
    #[command(flatten)]
    pub(crate) diff: Against,
    /// Run OLD in turns with PROGRAM, with the same arguments, and compare them pair by pair; `-r` says
    /// how many pairs. On a modelled machine OLD is a workload
    #[arg(long, value_name = "OLD", group = COMPARISON, help_heading = RARE)]
    pub(crate) against: Option<OsString>,
    #[command(flatten)]
    pub(crate) output: ResultFile,
    /// Print one JSON object per line: one for each interval as it ends, then one for the whole
    /// measurement
    #[arg(long, help_heading = RARE)]
    pub(crate) jsonl: bool,
}

/// What compares a result with another; there is one such comparison.
const COMPARISON: &str = "comparison";

/// An earlier result to compare with.
#[derive(Debug, Args)]
#[command(next_help_heading = OUTPUT)]
pub(crate) struct Against {
    /// Compare with an earlier result, which `--json -o FILE` has written; `-` is standard input
    #[arg(long, value_name = "FILE", group = COMPARISON)]
    pub(crate) diff: Option<PathBuf>,
    /// End with status 1 if anything got worse by more than PERCENT, beyond its bound
    #[arg(long, help_heading = RARE, value_name = "PERCENT", requires = COMPARISON, allow_negative_numbers = true, value_parser = percent)]
    pub(crate) fail_above: Option<f64>,
}

/// Where a result is written.
#[derive(Debug, Args)]
pub(crate) struct ResultFile {
    /// Write the result to FILE
    #[arg(long = "output", short = 'o', value_name = "FILE", help_heading = OUTPUT)]
    output: Option<PathBuf>,
}

impl ResultFile {
    /// The file; `None` is standard output, as are `-` and no option.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.output.as_deref().filter(|path| path.as_os_str() != "-")
    }
}

/// What counts are divided among.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DivideBy {
    Process,
    Thread,
}

#[derive(Debug, Args)]
pub(crate) struct Record {
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) work: Work,
    /// Sample what these metrics need, so that `report -M` has them of each function; sources without a
    /// period get one for about 1,000 samples a second. `halprof list --metrics` lists metrics
    #[arg(long = "metric", short = 'M', value_name = "LIST", num_args = 1.., help_heading = WHAT)]
    pub(crate) metrics: Vec<String>,
    /// Add the metrics defined in FILE (`halprof help stat` shows its form)
    #[arg(long, help_heading = RARE, value_name = "FILE")]
    pub(crate) metric_file: Option<PathBuf>,
    /// Count first, and choose periods for HZ samples a second on the busiest processor, all sources
    /// together
    #[arg(long, help_heading = HOW, value_name = "HZ", allow_negative_numbers = true, value_parser = fraction)]
    pub(crate) rate: Option<f64>,
    /// Record the branches before each sample: 8, 16 or 32 of them, or without a number as many as all
    /// processors can. After a `+`, record only these kinds: `cond`, `call`, `ind-call`, `return`, `jump`,
    /// `ind-jump`, `far` (interrupts and system calls), `user` or `kernel` (to that mode): `=16+cond+call`.
    /// Windows' own tracing takes no number
    #[arg(long, help_heading = WHAT, value_name = "N+KINDS", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub(crate) branches: Option<String>,
    /// Record context switches and who ended the waits of threads too, for `report --off-cpu`: to a trace,
    /// `-o FILE.etl` (by Windows' own tracing)
    #[arg(long, help_heading = WHAT)]
    pub(crate) off_cpu: bool,
    /// If there are too few counters, run once for each set of sources that fits
    #[arg(long, help_heading = RARE)]
    pub(crate) passes: bool,
    /// Do not ask .NET and JavaScript for the names of the methods that they compile: asking takes time
    /// at the end, and in each program
    #[arg(long, help_heading = RARE)]
    pub(crate) no_managed: bool,
    /// Sample only this process, until it ends or Ctrl-C (by Windows' own tracing)
    #[arg(long, short, visible_alias = "pid", value_name = "PID", help_heading = WHAT)]
    pub(crate) process: Option<u32>,
    /// The file to write, `-` for standard output
    #[arg(long, short, value_name = "FILE", default_value = RECORDING, help_heading = OUTPUT)]
    pub(crate) output: PathBuf,
    /// Write a page beside the recording, as `export -f html` does, and open it in the browser
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) open: bool,
}

/// The help of `report --by`.
fn by_keys() -> String {
    let names: Vec<&str> = Key::ALL.into_iter().map(Key::name).collect();
    let (last, others) = names.split_last().unwrap_or((&"", &[]));
    format!(
        "Group samples by {} or {last}, or by several of them, as in `--by process,symbol`; each `--by` \
         adds a table. `edge` and `path` (`path:N` for N branches) show branch records by address, or by \
         line, symbol or module, as in `--by edge,line`",
        others.join(", ")
    )
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct Report {
    /// Recordings made by `halprof record`, or traces (.etl); several are added up, and `--by machine`
    /// tells them apart. `-` is standard input, kept in a temporary file of at most 4 GiB
    #[arg(default_value = RECORDING, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    #[arg(long, value_name = "KEYS", help = by_keys(), help_heading = WHAT)]
    pub(crate) by: Vec<String>,
    /// Show these metrics of each row, such as a function's `ipc`, from samples of the sources that they
    /// need; `ipc:u` for user mode; `halprof list --metrics` lists them
    #[arg(long = "metric", short = 'M', value_name = "LIST", num_args = 1.., help_heading = WHAT)]
    pub(crate) metrics: Vec<String>,
    /// Add the metrics defined in FILE (`halprof help stat` shows its form)
    #[arg(long, help_heading = RARE, value_name = "FILE")]
    pub(crate) metric_file: Option<PathBuf>,
    /// Show the call tree, from each process's outermost functions to the functions that they called,
    /// with the share of each call including its callees (`total`) and without them (`self`)
    #[arg(long, help_heading = WHAT)]
    pub(crate) stack: bool,
    #[command(flatten)]
    pub(crate) filters: Filters,
    /// The order of rows: most events first, most samples first, most events including callees first
    /// (`total`), by name, or for branches most mispredicted first
    #[arg(long, help_heading = RARE, value_enum, default_value_t = Sorting::Events)]
    pub(crate) sort: Sorting,
    /// Rows to print of each table, 0 for all [default: all in CSV and JSON, else 20, or as many as fit
    /// on a page of 40 lines without `--by`]
    #[arg(long, help_heading = OUTPUT, value_name = "N", allow_negative_numbers = true, value_parser = whole)]
    pub(crate) rows: Option<usize>,
    /// Print names in full, however wide that makes the table
    #[arg(long, short, help_heading = RARE)]
    pub(crate) verbose: bool,
    /// Write a page of the same samples beside FILE, as `export -f html` does, and open it in the browser
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) open: bool,
    /// Show how long threads waited, and for what, by the context switches of a trace (.etl); `--by
    /// waker` who ended the waits, and in which function
    #[arg(long, help_heading = WHAT)]
    pub(crate) off_cpu: bool,
    /// Show what kinds of events a trace (.etl) has, and how many of each, whether halprof reads them or
    /// not
    #[arg(long, help_heading = RARE)]
    pub(crate) events: bool,
    /// Compare FILE with these recordings: totals first, then rows, largest increase first. Several
    /// files on a side are runs of the same program; three or more show how much runs vary
    #[arg(long, value_name = "FILE2", help_heading = WHAT, num_args = 1..)]
    pub(crate) diff: Vec<PathBuf>,
    /// End with status 1 if the whole or a row of `--diff` has more events by more than PERCENT, beyond
    /// its bound; takes at least two recordings on each side
    #[arg(long, help_heading = RARE, value_name = "PERCENT", requires = "diff", allow_negative_numbers = true, value_parser = percent)]
    pub(crate) fail_above: Option<f64>,
    #[command(flatten)]
    pub(crate) naming: InlineNaming,
}

impl Report {
    /// The page of the same samples.
    pub(crate) fn page(&self) -> Export {
        Export {
            metrics: self.metrics.clone(),
            metric_file: self.metric_file.clone(),
            filters: self.filters.clone(),
            naming: self.naming.clone(),
            ..Export::page_of(self.files.clone())
        }
    }

    /// The largest number of rows of a table to print for people.
    pub(crate) fn most_rows(&self) -> usize {
        self.rows_requested().unwrap_or(if self.rows.is_some() { usize::MAX } else { 20 })
    }

    /// The largest number of rows of a table to print for programs; `None`: all.
    pub(crate) fn rows_requested(&self) -> Option<usize> {
        self.rows.filter(|&rows| rows != 0)
    }
}

#[derive(Debug, Args)]
pub(crate) struct Annotate {
    /// A recording made by `halprof record`, or a trace (.etl), or `-` for standard input; may be left
    /// out before a PLACE
    #[arg(default_value = RECORDING, value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// A function as tables name it (MODULE!SYMBOL), with or without its arguments, or the end of its name
    /// from a `::` or `.` on; `*` matches any text. Or an address in it (0x...), or a range of addresses
    /// (0x1000-0x1040, 0x1000+64), which needs no symbols. Quote `!` and `<` for the shell:
    /// `'a.dll!ns::f(int)'` [default: the function with the most events]
    #[arg(value_name = "PLACE")]
    location: Option<String>,
    /// Another recording, whose samples are added; may be given several times
    #[arg(long, value_name = "FILE", help_heading = FILTERS)]
    pub(crate) with: Vec<PathBuf>,
    /// A folder with source files, to show the source lines
    #[arg(long = "source-dir", value_name = "DIR", help_heading = NAMES)]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) filters: Filters,
    #[command(flatten)]
    pub(crate) naming: InlineNaming,
}

impl Annotate {
    /// The recording, and what to show of it. A single argument that neither is a file nor is called
    /// like one says what to show.
    pub(crate) fn place(&self) -> (&Path, Option<&str>) {
        const RECORDINGS: [&str; 3] = ["rec", "etl", "zip"];
        let extension = self.file.extension().and_then(OsStr::to_str);
        let is_file = extension.is_some_and(|own| RECORDINGS.contains(&own)) || self.file.exists();
        match (self.location.as_deref(), self.file.to_str()) {
            (None, Some(location)) if !is_file => (Path::new(RECORDING), Some(location)),
            (location, _) => (&self.file, location),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Convert {
    /// A trace that WPR, xperf, logman or `halprof record -o FILE.etl` wrote; several of one session
    /// become one recording; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The recording; a file of this name becomes FILE.old
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Simulate {
    /// The code to execute step by step: a function of the program, or of a DLL or shared object that it
    /// loads at its start, or the LENGTH bytes from its start. Name the function as tables do
    /// (MODULE!SYMBOL), with or without its arguments, or by the end of its name from a `::` or `.` on; `*`
    /// matches any text. Quote `!` and `<` for the shell: `'a.exe!ns::f(int)'`. Instead of a function, an
    /// address as `nm` prints it (0x...)
    #[arg(long, value_name = "SYMBOL[+LENGTH]")]
    pub(crate) range: String,
    /// Step what the function calls too, and count it with the function
    #[arg(long)]
    pub(crate) calls: bool,
    /// Stop after this many steps, and end the program
    #[arg(long, value_name = "N", default_value_t = 10_000_000, allow_negative_numbers = true, value_parser = |text: &str| number::<u64>(text, 1..=u64::MAX))]
    pub(crate) max_steps: u64,
    /// Sum up by address, by source line, or by function (with `--calls`)
    #[arg(long, value_enum, value_name = "KEY", default_value_t = CodeKey::Address, help_heading = OUTPUT)]
    pub(crate) by: CodeKey,
    #[command(flatten)]
    pub(crate) diff: Against,
    #[command(flatten)]
    pub(crate) output: ResultFile,
    #[command(flatten)]
    pub(crate) naming: Naming,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

/// What `simulate` sums up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CodeKey {
    Address,
    Line,
    Function,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which marks").args(["file", "program"]))]
pub(crate) struct Timeline {
    /// A recording made by `halprof timeline` or `halprof record`, or `-` for standard input
    #[arg(default_value = RECORDING)]
    pub(crate) file: PathBuf,
    /// Draw the channels as a logic analyser does, in columns of this width, e.g. `10us`
    #[arg(long, value_name = "WIDTH", value_parser = column, help_heading = WHAT)]
    pub(crate) ticks: Option<Duration>,
    /// Measure from each mark on channel A to the next on channel B by the same thread
    #[arg(long, value_name = "A,B", help_heading = WHAT)]
    pub(crate) between: Vec<String>,
    /// Only marks on this channel, `*` for any text; may be given several times
    #[arg(long, value_name = "NAME", help_heading = WHAT)]
    pub(crate) channel: Vec<String>,
    /// Only marks of this part of the time, in seconds since the first, e.g. `0.5-1.25` or `2-`
    #[arg(long, value_name = "FROM-TO", allow_hyphen_values = true, help_heading = WHAT)]
    pub(crate) time: Option<String>,
    /// Marks to print one by one, 0 for all [default: 20, with `--csv` all]
    #[arg(long, value_name = "N", help_heading = OUTPUT, allow_negative_numbers = true, value_parser = whole)]
    pub(crate) rows: Option<usize>,
    /// The file to write when a program is run, `-` for standard output
    #[arg(long, short, value_name = "FILE", default_value = "halprof.marks", help_heading = OUTPUT)]
    pub(crate) output: PathBuf,
    /// Run this program with its arguments, and record its marks until it ends
    #[arg(last = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

/// The width of a column of ticks.
fn column(text: &str) -> Result<Duration, String> {
    match with_unit(text).map(Duration::try_from_secs_f64) {
        Some(Ok(width)) if !width.is_zero() => Ok(width),
        Some(_) => Err("a column must be wider than 0, and no longer than time can be".to_owned()),
        None => Err("it must be a time, e.g. 500ns, 10us, 1ms".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct Script {
    /// A recording, or a trace (.etl), or `-` for standard input
    #[arg(default_value = RECORDING)]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) filters: Filters,
    /// Print one JSON object per sample
    #[arg(long, help_heading = RARE)]
    pub(crate) jsonl: bool,
    #[command(flatten)]
    pub(crate) naming: InlineNaming,
}

/// Which samples count. Names may have `*` for any text, and options may be given several times.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = FILTERS)]
pub(crate) struct Filters {
    /// Only samples of this source, named as `-e` takes it
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Vec<String>,
    /// Only samples in this process, by its id or name
    #[arg(long, short, visible_alias = "pid", value_name = "PID|NAME")]
    pub(crate) process: Vec<String>,
    /// Only samples of this thread, by its id or name
    #[arg(long = "tid", value_name = "TID|NAME")]
    pub(crate) thread: Vec<String>,
    /// Only samples in this module, by its name, its path or the end of its path
    #[arg(long, value_name = "NAME|PATH")]
    pub(crate) module: Vec<String>,
    /// Only samples in this function, named as in tables (MODULE!SYMBOL), with or without its arguments, or
    /// by the end of its name from a `::` or `.` on. Quote `!` and `<` for the shell: `'a.dll!ns::f(int)'`
    #[arg(long, value_name = "NAME")]
    pub(crate) symbol: Vec<String>,
    /// Only samples at these addresses, TO not included, e.g. `0x401000-0x401040` or `0x401000+64`
    #[arg(long, value_name = "FROM-TO", help_heading = RARE)]
    pub(crate) address: Vec<String>,
    /// Only samples of these processors, e.g. `0-3,8`
    #[arg(long = "cpu", short = 'C', value_name = "LIST", allow_negative_numbers = true)]
    pub(crate) processors: Vec<String>,
    /// Only samples of this part of the time, in seconds since the first, e.g. `0.5-1.25` or `2-`
    #[arg(long, value_name = "FROM-TO", allow_hyphen_values = true)]
    pub(crate) time: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Sorting {
    Samples,
    Events,
    Total,
    Name,
    Mispredicted,
}

/// Where the names of functions come from.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Naming {
    /// Folders with symbols, separated by `;`; searched before `_NT_SYMBOL_PATH` and the modules' own
    /// folders
    #[arg(long = "symbol-path", value_name = "PATH", help_heading = NAMES)]
    symbols: Option<OsString>,
    /// Download missing symbols from the servers of the symbol path into its stores, over
    /// https; the servers learn which modules were sampled
    #[arg(long, help_heading = NAMES)]
    download: bool,
}

impl Naming {
    /// Whether any of it was given.
    pub(crate) const fn is_given(&self) -> bool {
        self.symbols.is_some() || self.download
    }

    /// A folder of `--symbol-path` that does not exist. A store may be created later.
    fn missing_folder(&self) -> Option<String> {
        let symbols = self.symbols.as_ref()?.to_string_lossy();
        let mut folders = symbols.split(';').map(str::trim);
        let missing = folders.find(|folder| {
            !folder.is_empty() && !folder.contains('*') && !Path::new(folder).is_dir()
        });
        missing.map(str::to_owned)
    }

    /// Where symbols are looked for.
    pub(crate) fn path(&self, output: &Output) -> crate::output::error::Result<SymbolPath> {
        if let Some(missing) = self.missing_folder() {
            return Err(Error::usage(
                format!("`--symbol-path`: `{missing}` is not a folder"),
                "Name folders that exist, or stores such as `srv*FOLDER`, with `;` between them.",
            ));
        }
        let environment = std::env::var_os("_NT_SYMBOL_PATH");
        let mut path = SymbolPath::default();
        for text in [&self.symbols, &environment].into_iter().flatten() {
            path.extend(SymbolPath::parse(&text.to_string_lossy()));
        }
        if let Some(text) = std::env::var_os("_NT_EXECUTABLE_IMAGE_PATH") {
            path.extend_images(&text.to_string_lossy());
        }
        if self.download {
            path = downloading(&path, output)?;
        }
        Ok(path.with_key(seal_key::key()).with_built_in(built_in::file_of))
    }
}

/// Where symbols come from, for commands that show inlined functions.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct InlineNaming {
    #[command(flatten)]
    naming: Naming,
    /// Do not show functions that the compiler inlined; their code counts as that of the function around
    /// them
    #[arg(long, help_heading = RARE)]
    no_inline: bool,
}

impl InlineNaming {
    /// Where symbols are looked for.
    pub(crate) fn path(&self, output: &Output) -> crate::output::error::Result<SymbolPath> {
        let path = self.naming.path(output)?;
        Ok(if self.no_inline { path.without_inlined() } else { path })
    }
}

/// The same path, with its servers enabled.
fn downloading(path: &SymbolPath, output: &Output) -> crate::output::error::Result<SymbolPath> {
    if path.servers().is_empty() {
        return Err(Error::usage(
            "`--download` needs a symbol server, and the symbol path names none",
            "Name a store and a server: `--symbol-path srv*C:\\symbols*https://msdl.microsoft.com/download/symbols`.",
        ));
    }
    #[cfg(not(windows))]
    if !halprof_setup::curl::is_installed() {
        return Err(Error::unavailable(
            "`--download` needs the program `curl`, which was not found",
            "Install it, or fill a store by other means and name it with `--symbol-path`.",
        ));
    }
    let path = path.clone().downloading(download::by(output));
    Ok(if output.is_json() { path } else { path.telling_failures(download::tell_failure) })
}

#[derive(Debug, Args)]
pub(crate) struct Top {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Read counters or samples every MS milliseconds
    #[arg(
        long = "interval",
        help_heading = HOW,
        short = 'I',
        value_name = "MS",
        default_value_t = 1000.0,
        allow_negative_numbers = true,
        value_parser = milliseconds
    )]
    pub(crate) interval: f64,
    /// What a modelled machine runs, over and over, e.g. `instructions=1000000,cycles=2000000`; see
    /// `halprof help workload`
    #[arg(long, value_name = "SPEC", help_heading = MODEL)]
    pub(crate) workload: Option<String>,
    /// Time slice when sources share counters, in milliseconds
    #[arg(long, help_heading = RARE, value_name = "MS", allow_negative_numbers = true, value_parser = milliseconds)]
    pub(crate) rotate: Option<f64>,
    /// Stop after SECONDS
    #[arg(long, short, value_name = "SECONDS", allow_negative_numbers = true, value_parser = seconds, help_heading = HOW)]
    pub(crate) duration: Option<f64>,
    /// Sample, and show where the samples of each interval fall: by symbol or any other keys of
    /// `report`, as in `--by process,symbol`; `processor` alone counts, on each processor
    #[arg(long, value_name = "KEYS", num_args = 1.., help_heading = WHAT)]
    pub(crate) by: Vec<String>,
    /// Only samples in this process, by its id or name
    #[arg(long, short, visible_alias = "pid", value_name = "PID|NAME", help_heading = WHAT)]
    pub(crate) process: Vec<String>,
    #[command(flatten)]
    pub(crate) naming: Naming,
    /// Print one interval and exit
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) once: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// Recordings made by `halprof record`, or traces (.etl), or `-` for standard input; formats without
    /// times take several
    #[arg(default_value = RECORDING, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// What to write; a format that holds one source takes the first that passes the filters [default:
    /// what the extension of OUT says; with `--open`, html]
    #[arg(long, short, value_name = "FORMAT", value_parser = formats())]
    pub(crate) format: Option<Exported>,
    /// The file to write, `-` for standard output; a file of this name becomes OUT.old [default: beside
    /// FILE, with the format's extension]
    #[arg(long, short, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,
    /// Open the page or the picture in the browser
    #[arg(long)]
    pub(crate) open: bool,
    /// Show these metrics of each function in `html`, as `report -M` does
    #[arg(long = "metric", short = 'M', value_name = "LIST", num_args = 1..)]
    pub(crate) metrics: Vec<String>,
    /// Add the metrics defined in FILE (`halprof help stat` shows its form)
    #[arg(long, help_heading = RARE, value_name = "FILE")]
    pub(crate) metric_file: Option<PathBuf>,
    /// Which lanes of `html`'s time line are open at first
    #[arg(long, value_name = "LANES", default_value = "process", value_parser = lanes())]
    pub(crate) by: TrackBy,
    #[command(flatten)]
    pub(crate) filters: Filters,
    #[command(flatten)]
    pub(crate) naming: InlineNaming,
}

impl Export {
    /// A page of all samples of recordings.
    pub(crate) fn page_of(files: Vec<PathBuf>) -> Self {
        Self {
            files,
            format: Some(Exported::Samples(Format::Html)),
            output: None,
            open: true,
            metrics: Vec::new(),
            metric_file: None,
            by: TrackBy::Process,
            filters: Filters::default(),
            naming: InlineNaming::default(),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Registers {
    /// Processors, e.g. `0-3,8` [default: the boot processor]
    #[arg(long = "cpu", short = 'C', value_name = "LIST", num_args = 1.., allow_negative_numbers = true)]
    pub(crate) processors: Vec<String>,
}

#[derive(Debug, Args)]
#[group(skip)]
#[command(group = ArgGroup::new("for how long").required(true).args(["holding", "program"]))]
pub(crate) struct Rdpmc {
    #[arg(value_enum, value_name = "ACTION")]
    pub(crate) holding: Option<Holding>,
    /// Run this program with its arguments, and allow RDPMC until it ends
    #[arg(last = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

/// What `rdpmc` does without a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Holding {
    /// Allow it until Ctrl-C
    Hold,
    /// Show whether it is allowed; changes nothing
    Status,
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
pub(crate) struct Explain {
    /// A code or a source: `busy`, `TotalIssues`, `r100C0` [default: list the codes]
    pub(crate) topic: Option<String>,
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

/// What `export` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exported {
    /// Samples, as a picture or for another profiler.
    Samples(Format),
    /// Branch records of one source, for llvm-profgen.
    Branches(ProfgenFormat),
}

impl Exported {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let samples = Format::ALL.into_iter().map(Self::Samples);
        samples.chain(ProfgenFormat::ALL.into_iter().map(Self::Branches))
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Samples(format) => format.name(),
            Self::Branches(format) => format.name(),
        }
    }

    fn about(self) -> &'static str {
        match self {
            Self::Samples(format) => format.about(),
            Self::Branches(format) => format.about(),
        }
    }

    /// The file extension, including the leading dot.
    pub(crate) fn ending(self) -> &'static str {
        match self {
            Self::Samples(format) => format.ending(),
            Self::Branches(format) => format.ending(),
        }
    }
}

/// Viewers that users ask for by name, and what they open.
const VIEWERS: [(&str, &str); 3] = [
    ("speedscope", "speedscope opens `pprof` and `folded`"),
    (
        "perfetto",
        "halprof writes no trace for Perfetto: `html` has a time line, and the Firefox Profiler opens `firefox`",
    ),
    (
        "chrome",
        "halprof writes no trace for Chrome: `html` has a time line, and the Firefox Profiler opens `firefox`",
    ),
];

/// The formats of `export`, each with its description.
fn formats() -> impl TypedValueParser<Value = Exported> {
    let values = Exported::all().map(|one| PossibleValue::new(one.name()).help(one.about()));
    let viewers = VIEWERS.iter().map(|(name, _)| PossibleValue::new(name).hide(true));
    PossibleValuesParser::new(values.chain(viewers)).try_map(|name| {
        let viewer = VIEWERS.iter().find(|(known, _)| *known == name);
        let known = Exported::all().find(|format| format.name() == name);
        known.ok_or_else(|| viewer.map_or("unknown format", |(_, opens)| *opens))
    })
}

/// Any whole number.
fn whole(text: &str) -> Result<usize, String> {
    number(text, 0..=u64::MAX)
}

/// A whole number within bounds.
fn number<N: TryFrom<u64>>(text: &str, range: RangeInclusive<u64>) -> Result<N, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    let number = number.and_then(|number| N::try_from(number).ok());
    number.ok_or_else(|| {
        let least = thousands(*range.start());
        match *range.end() {
            u64::MAX => format!("it must be a whole number, at least {least}"),
            most => format!("it must be a whole number from {least} to {}", thousands(most)),
        }
    })
}

/// A length of time in seconds, or with a unit.
fn seconds(text: &str) -> Result<f64, String> {
    time_in(1.0, "0.5 or 500ms", text)
}

/// A length of time in milliseconds, or with a unit.
fn milliseconds(text: &str) -> Result<f64, String> {
    time_in(1e3, "500 or 0.5s", text)
}

/// A number of units, of which a second has `per_second`, or a time with a unit of its own.
fn time_in(per_second: f64, example: &str, text: &str) -> Result<f64, String> {
    let number = fraction(text).ok().or_else(|| Some(with_unit(text)? * per_second));
    number.ok_or_else(|| format!("it must be a time, e.g. {example}"))
}

/// The seconds of a number with a unit. humantime reads the unit alone: it also takes `1h30m`, of which
/// the number would be the hours, and panics where seconds beyond 64 bits are followed by a second more.
fn with_unit(text: &str) -> Option<f64> {
    let (number, unit) = text.split_at(text.find(|one: char| one.is_ascii_alphabetic())?);
    let is_one_unit = unit.bytes().all(|one| one.is_ascii_alphabetic());
    let one = humantime::parse_duration(&format!("1{unit}")).ok().filter(|_| is_one_unit)?;
    Some(fraction(number).ok()? * one.as_secs_f64())
}

/// A number that may have a fraction. Which ones make sense is for the command to say.
fn fraction(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "it must be a number, e.g. 0.5".to_owned())
}

fn percent(text: &str) -> Result<f64, String> {
    let percent = fraction(text)?;
    if percent >= 0.0 && percent.is_finite() {
        return Ok(percent);
    }
    Err("it must be a number of percent, 0 or more".to_owned())
}

fn lanes() -> impl TypedValueParser<Value = TrackBy> {
    let values = [TrackBy::Processor, TrackBy::Process]
        .map(|lanes| PossibleValue::new(lanes.name()).help(format!("Each {}", lanes.name())));
    PossibleValuesParser::new(values).map(|name| {
        if name == TrackBy::Process.name() { TrackBy::Process } else { TrackBy::Processor }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_one_unit() {
        for (text, expected) in [
            ("0.5", Some(0.5)),
            ("500ms", Some(0.5)),
            ("2m", Some(120.0)),
            ("2h30m", None),
            ("2m3", None),
            ("m", None),
        ] {
            assert_eq!(seconds(text).ok(), expected, "{text}");
        }
        assert_eq!(column("500ns"), Ok(Duration::from_nanos(500)));
        for text in ["0ns", "-1ns", "18446744073709551615s1000ms", "1e30s", "5"] {
            assert!(column(text).is_err(), "{text}");
        }
    }

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
