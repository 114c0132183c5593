//! The options of what reads recordings and traces: `report`, `annotate`, `script`, `export` and
//! `convert`.

use super::values::{percent, whole};
use super::{FILTERS, NAMES, OUTPUT, RARE, RECORDING, WHAT};
use crate::output::Output;
use crate::output::download;
use crate::output::error::Error;
use crate::target::{built_in, seal_key};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use halprof_profile::aggregate::key::Key;
use halprof_profile::export::profgen::ProfgenFormat;
use halprof_profile::export::{Format, TrackBy};
use halprof_profile::symbols::SymbolPath;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

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

fn lanes() -> impl TypedValueParser<Value = TrackBy> {
    let values = [TrackBy::Processor, TrackBy::Process]
        .map(|lanes| PossibleValue::new(lanes.name()).help(format!("Each {}", lanes.name())));
    PossibleValuesParser::new(values).map(|name| {
        if name == TrackBy::Process.name() { TrackBy::Process } else { TrackBy::Processor }
    })
}
