//! The command line.

use crate::this_machine;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{
    Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Parser, Subcommand, ValueEnum,
};
use halprof_profile::export::{Format, Lanes};
use halprof_profile::symbols::SymbolPath;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// What `--machine` is where it is not given.
const DEFAULT_MACHINE: &str = if cfg!(windows) {
    "driver"
} else {
    "sapphire-rapids"
};

/// Counts and samples hardware performance events on Windows, or on a model of a real processor.
#[derive(Debug, Parser)]
#[command(name = "halprof", version, subcommand_required = true)]
pub(crate) struct Arguments {
    /// Where to measure: `driver`, a CPUID dump, or a built-in model; with `,processors=N` repeated,
    /// with `,unkind=A+B` as unkind as silicon
    #[arg(long, value_name = "SPEC", global = true)]
    machine: Option<String>,
    /// Print one JSON object
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print no progress
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Fit tables and text to this many columns, 0 for as many as they take; the default is the
    /// terminal's width, and 0 where output goes to a file or a pipe
    #[arg(long, value_name = "COLUMNS", global = true)]
    pub(crate) width: Option<usize>,
    #[command(subcommand)]
    pub(crate) command: Commands,
}

impl Stat {
    /// The file that results go to; `-` is standard output, as without the option.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.output
            .as_deref()
            .filter(|path| path.as_os_str() != "-")
    }
}

impl Arguments {
    /// Whether JSON comes in lines, one object each.
    pub(crate) const fn json_lines(&self) -> bool {
        matches!(&self.command, Commands::Stat(stat) if stat.jsonl)
    }

    /// Where to measure.
    pub(crate) fn machine(&self) -> &str {
        self.machine.as_deref().unwrap_or(DEFAULT_MACHINE)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Commands {
    /// List the built-in models
    Machines(Machines),
    /// Show the interface chosen and why, and each processor's capabilities
    Info,
    /// List profile sources
    List(List),
    /// Tell whether sources can run together, and on which counters
    Check(Check),
    /// Count events
    Stat(Stat),
    /// Sample to a file
    Record(Record),
    /// Show what was sampled
    Report(Report),
    /// Show the code of a function with the samples of each instruction
    Annotate(Annotate),
    /// Write what was sampled as a picture, or for another profiler
    Export(Export),
    /// Watch rates live, on the terminal
    Top(Top),
    /// Answer Prometheus with counts
    Serve(Serve),
    /// Show the registers of performance monitoring, field by field
    Registers(Registers),
    /// Tell what would stop a measurement, and what to do about it
    Doctor,
    /// Explain an error code, a way to measure, or a source on this machine
    Explain(Explain),
    /// Write the manual pages, or print one
    Man(Man),
    /// Print a completion script
    Completions(Completions),
    /// Install the driver, or update it (Windows, elevated)
    Install(Install),
    /// Load the installed driver (Windows, elevated)
    Start,
    /// Unload the driver until it is started, or Windows is (Windows, elevated)
    Stop,
    /// Remove the driver and all that came with it (Windows, elevated)
    Uninstall,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// With intervals, what each source counts, and notes
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// With sources that cannot be counted here
    #[arg(long)]
    pub(crate) all: bool,
    /// Take sources that only approximate their names as supported
    #[arg(long)]
    pub(crate) approximate: bool,
    /// List metrics instead, with those of a file if one is given
    #[arg(long, value_name = "FILE")]
    #[expect(
        clippy::option_option,
        reason = "not given, given alone, given with a file"
    )]
    pub(crate) metrics: Option<Option<PathBuf>>,
}

/// What to count or to sample.
#[derive(Debug, Args)]
pub(crate) struct Selection {
    /// Sources: `NAME`, an id, `rHEX` or `all`, each with `:u`, `:k` or `:uk`; `{A,B}` run together
    #[arg(long = "event", short = 'e', value_name = "LIST", num_args = 1..)]
    pub(crate) events: Vec<String>,
    #[command(flatten)]
    pub(crate) groups: Groups,
    /// Processors, e.g. `0-3,8`; all without it
    #[arg(long = "processors", short = 'C', value_name = "CPUS", num_args = 1..)]
    pub(crate) processors: Vec<String>,
    /// Take sources that only approximate their names
    #[arg(long)]
    pub(crate) approximate: bool,
}

/// The list that one or several arguments make: PowerShell passes an unquoted `A,B` as `A` `B`.
pub(crate) fn joined(arguments: &[String]) -> Option<String> {
    (!arguments.is_empty()).then(|| arguments.join(","))
}

/// One list for each time that an option is given, which clap's derive does not keep apart.
fn occurrences(matches: &ArgMatches, id: &str) -> Vec<String> {
    let lists = matches.get_occurrences::<String>(id).into_iter().flatten();
    let lists = lists.map(|list| {
        let arguments: Vec<&str> = list.map(String::as_str).collect();
        arguments.join(",")
    });
    lists.collect()
}

/// One list for each `-g`.
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
            .help("Sources that run together or not at all: the same as `-e {A,B}`");
        command.arg(group)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Groups {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(occurrences(matches, Self::ID)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// One list of keys for each `--by`.
#[derive(Debug, Default)]
pub(crate) struct By(pub(crate) Vec<String>);

impl By {
    const ID: &str = "by";
}

impl Args for By {
    fn augment_args(command: Command) -> Command {
        let by = Arg::new(Self::ID)
            .long("by")
            .value_name("KEYS")
            .num_args(1..)
            .action(ArgAction::Append)
            .help(
                "Group samples by module, symbol, line, address, process, thread, processor, core or \
                 source, or by several of them, as in `--by process,symbol`; each `--by` is a table",
            );
        command.arg(by)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for By {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(occurrences(matches, Self::ID)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[derive(Debug, Args)]
pub(crate) struct Machines {
    /// List what `,unkind=A+B` after a model's name makes it do, as real processors do
    #[arg(long)]
    pub(crate) unkind: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) selection: Selection,
}

/// What runs while it is measured.
#[derive(Debug, Args)]
pub(crate) struct Work {
    /// Measure for so long (modelled time on a modelled machine)
    #[arg(long, short, value_name = "SECONDS", allow_negative_numbers = true)]
    pub(crate) duration: Option<f64>,
    /// What a modelled machine runs, e.g. `instructions=1000000,cycles=2000000`
    #[arg(long, value_name = "SPEC")]
    pub(crate) workload: Option<String>,
    /// How long sources that share counters each stay on them
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    pub(crate) rotate: Option<f64>,
    /// A program to run while measuring, with its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub(crate) struct Stat {
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) work: Work,
    /// Count what these metrics need, and show them: `ipc`, or of one mode `ipc:u`
    #[arg(long = "metric", short = 'M', value_name = "NAMES", num_args = 1..)]
    pub(crate) wanted: Vec<String>,
    /// Add the metrics of a file to those of `list --metrics`
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics: Option<PathBuf>,
    /// Where counters are too few, run again for each set that fits, instead of taking turns
    #[arg(long)]
    pub(crate) passes: bool,
    /// Print counts every so often, 1 ms or longer
    #[arg(
        long = "interval",
        short = 'I',
        value_name = "MS",
        allow_negative_numbers = true
    )]
    pub(crate) interval: Option<f64>,
    /// Measure so many times; print mean, confidence, deviation and what was unlike the others
    #[arg(long, short, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeat: u32,
    /// Leave what is unlike the others out of mean, confidence and deviation
    #[arg(long)]
    pub(crate) trim: bool,
    /// One count for each processor
    #[arg(long)]
    pub(crate) per_cpu: bool,
    /// One count for each type of core, where they differ
    #[arg(long, conflicts_with = "per_cpu")]
    pub(crate) per_core_type: bool,
    /// Write the result to a file
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Print comma-separated values
    #[arg(long)]
    pub(crate) csv: bool,
    /// Print one JSON object on each line: one for each interval as it ends, the last for the whole
    #[arg(long)]
    pub(crate) jsonl: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Record {
    /// Sources, each with `:PERIOD` and with `:u`, `:k` or `:uk` as wanted
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) work: Work,
    /// Choose the periods: try so many times at most (3 without a number, 0 for none), then record
    #[arg(long, value_name = "RETRIES", num_args = 0..=1, require_equals = true, default_missing_value = "3", value_parser = clap::value_parser!(u32).range(..=100))]
    pub(crate) calibrate: Option<u32>,
    /// Choose the periods for so many samples a second, of all sources and processors together
    #[arg(long, value_name = "HZ", allow_negative_numbers = true)]
    pub(crate) rate: Option<f64>,
    /// Sample without addresses, through the HAL's documented callback: where the overflow handler
    /// is refused
    #[arg(long)]
    pub(crate) no_address: bool,
    /// Sample sources that do not fit together one after the other: what runs is run again for each
    #[arg(long)]
    pub(crate) passes: bool,
    /// The file to write, `-` for standard output
    #[arg(long, short, value_name = "FILE", default_value = "halprof.rec")]
    pub(crate) output: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Report {
    /// A file that `record` wrote
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) by: By,
    #[command(flatten)]
    pub(crate) filters: Filters,
    /// The order of rows: the most samples or events first, or by name
    #[arg(long, value_enum, default_value_t = Sorting::Samples)]
    pub(crate) sort: Sorting,
    /// Rows to print of each table, 0 for all; 20 if `--by` is given, or what fits into 40 lines (JSON
    /// and CSV have all)
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) top: Option<usize>,
    /// Print names in full, however wide that makes the table
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Print comma-separated values, all rows of one table
    #[arg(long, conflicts_with = "diff")]
    pub(crate) csv: bool,
    /// Another recording: what has become more and less from FILE to it
    #[arg(long, value_name = "FILE2")]
    pub(crate) diff: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) naming: Naming,
}

impl Report {
    /// How many rows of a table to print at most.
    pub(crate) fn rows(&self) -> usize {
        match self.top {
            Some(0) => usize::MAX,
            top => top.unwrap_or(20),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Annotate {
    /// A file that `record` wrote
    pub(crate) file: PathBuf,
    /// A function, `*` for any text in its name, or an address in it (0x...); the one with the most
    /// samples without it
    #[arg(value_name = "SYMBOL|ADDRESS")]
    pub(crate) place: Option<String>,
    /// A folder with source files: those below it are opened to show their lines
    #[arg(long, value_name = "DIR")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) filters: Filters,
    #[command(flatten)]
    pub(crate) naming: Naming,
}

/// Which samples count. Names may have `*` for any text, and options may be given several times.
#[derive(Debug, Args)]
pub(crate) struct Filters {
    /// Only samples of this source
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Vec<String>,
    /// Only samples in this process, by its name or identifier
    #[arg(long, value_name = "NAME|ID")]
    pub(crate) process: Vec<String>,
    /// Only samples in this module
    #[arg(long, value_name = "NAME")]
    pub(crate) module: Vec<String>,
    /// Only samples in this function
    #[arg(long, value_name = "NAME")]
    pub(crate) symbol: Vec<String>,
    /// Only samples of these processors, e.g. `0-3,8`
    #[arg(long, short = 'C', alias = "processor", value_name = "CPUS", num_args = 1..)]
    pub(crate) processors: Vec<String>,
    /// Only samples of this time, in seconds since the first, e.g. `0.5-1.25` or `2-`
    #[arg(long, value_name = "FROM-TO", allow_hyphen_values = true)]
    pub(crate) time: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Sorting {
    Samples,
    Events,
    Name,
}

/// Where the names of functions come from.
#[derive(Debug, Args)]
pub(crate) struct Naming {
    /// Folders with symbols, parted by `;`, before those of `_NT_SYMBOL_PATH` and the modules' own
    #[arg(long, value_name = "PATH")]
    symbols: Option<OsString>,
}

impl Naming {
    /// Where symbols are looked for.
    pub(crate) fn path(&self) -> SymbolPath {
        let environment = std::env::var_os("_NT_SYMBOL_PATH");
        let mut path = SymbolPath::default();
        for text in [&self.symbols, &environment].into_iter().flatten() {
            path.extend(SymbolPath::parse(&text.to_string_lossy()));
        }
        path.on_machine(this_machine::secret())
    }
}

/// How a machine is watched while it goes on.
#[derive(Debug, Args)]
pub(crate) struct Watching {
    /// Read the counters so often
    #[arg(
        long = "interval",
        short = 'I',
        value_name = "MS",
        default_value_t = 1000.0,
        allow_negative_numbers = true
    )]
    pub(crate) interval: f64,
    /// What a modelled machine runs, over and over
    #[arg(long, value_name = "SPEC")]
    pub(crate) workload: Option<String>,
    /// How long sources that share counters each stay on them
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    pub(crate) rotate: Option<f64>,
}

#[derive(Debug, Args)]
pub(crate) struct Top {
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) watching: Watching,
    /// End after so long
    #[arg(long, short, value_name = "SECONDS", allow_negative_numbers = true)]
    pub(crate) duration: Option<f64>,
    /// Write every reading to a file, as comma-separated values
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Print the rates of one interval, and end
    #[arg(long)]
    pub(crate) once: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) watching: Watching,
    /// Where to listen; port 0 takes a free one, and says which
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9464")]
    pub(crate) listen: SocketAddr,
    /// Let other machines ask, where the address is not a loopback one: without encryption
    #[arg(long)]
    pub(crate) allow_remote: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// A file that `record` wrote
    pub(crate) file: PathBuf,
    /// What to write
    #[arg(long, short, value_name = "FORMAT", value_parser = formats())]
    pub(crate) format: Format,
    /// The file to write, `-` for standard output; without it FILE with the format's ending
    #[arg(long, short, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,
    /// One source only; formats that hold one take the first without it
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// What the lanes of timelines are
    #[arg(long, value_name = "LANES", default_value = "processor", value_parser = lanes())]
    pub(crate) by: Lanes,
    #[command(flatten)]
    pub(crate) naming: Naming,
}

#[derive(Debug, Args)]
pub(crate) struct Registers {
    /// Processors, e.g. `0-3,8`; the boot processor without it
    #[arg(long = "processors", short = 'C', value_name = "CPUS", num_args = 1..)]
    pub(crate) processors: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Install {
    /// The package's install file; halprof.inf beside the tool without it
    pub(crate) inf: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// `busy`, `sampling`, `TotalIssues`, `r100C0`; without one, what there is
    pub(crate) topic: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Where to write all pages; without it one is printed
    pub(crate) folder: Option<PathBuf>,
    /// The command whose page is printed
    #[arg(long, value_name = "COMMAND", conflicts_with = "folder")]
    pub(crate) page: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell that reads it
    pub(crate) shell: clap_complete::Shell,
}

/// The formats of `export`, each with what it is.
fn formats() -> impl TypedValueParser<Value = Format> {
    let values = Format::ALL.map(|format| PossibleValue::new(format.name()).help(format.about()));
    PossibleValuesParser::new(values).map(|name| {
        let mut all = Format::ALL.into_iter();
        all.find(|format| format.name() == name)
            .unwrap_or(Format::Html)
    })
}

fn lanes() -> impl TypedValueParser<Value = Lanes> {
    let values = [Lanes::Processor, Lanes::Process]
        .map(|lanes| PossibleValue::new(lanes.name()).help(format!("Each {}", lanes.name())));
    PossibleValuesParser::new(values).map(|name| {
        if name == Lanes::Process.name() {
            Lanes::Process
        } else {
            Lanes::Processor
        }
    })
}
