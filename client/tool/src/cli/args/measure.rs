//! The options of what measures: `stat`, `record`, `top`, `timeline`, `simulate` and `rdpmc`.

use super::values::{fraction, milliseconds, number, percent, seconds, whole, with_unit};
use super::{HOW, MODEL, Naming, OUTPUT, RARE, RECORDING, WHAT};
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
    /// Whether the workload describes programs.
    pub(crate) fn has_programs(&self) -> bool {
        self.workload.as_deref().is_some_and(names_programs)
    }
}

/// Whether a workload describes programs: which of them run, in which mode, and where their code is. The
/// code of a file says all that itself.
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
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_wider_than_nothing() {
        assert_eq!(column("500ns"), Ok(Duration::from_nanos(500)));
        for text in ["0ns", "-1ns", "18446744073709551615s1000ms", "1e30s", "5"] {
            assert!(column(text).is_err(), "{text}");
        }
    }
}
