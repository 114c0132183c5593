//! Branch records for llvm-profgen, in two of its formats.

mod perf_script;
mod unsymbolized;

use crate::aggregate::branches::{RecordCounts, Step, walk, without_branches, without_code};
use crate::aggregate::filter::Filter;
use crate::aggregate::filtered::BoundFilter;
use crate::file::{Recording, SampleSource, open};
use crate::symbols::{Pattern, SymbolPath, Symbols};
use halprof_measure::{Error, Result};
use shared_types::Sample;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

/// What llvm-profgen reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfgenFormat {
    /// The records of each sample, as `perf script` prints them (`--perfscript`).
    PerfScript,
    /// How often each stretch of straight code ran and each branch was taken, in one module
    /// (`--unsymbolized-profile` with `--use-offset`).
    Unsymbolized,
}

impl ProfgenFormat {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::PerfScript, Self::Unsymbolized];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PerfScript => "perf-script",
            Self::Unsymbolized => "unsymbolized",
        }
    }

    /// What it is.
    pub const fn about(self) -> &'static str {
        match self {
            Self::PerfScript => "Branch records for llvm-profgen, text",
            Self::Unsymbolized => "Their counts in one module for llvm-profgen, text",
        }
    }

    /// The end of a file's name.
    pub const fn ending(self) -> &'static str {
        match self {
            Self::PerfScript => ".perf.txt",
            Self::Unsymbolized => ".unsymbolized.txt",
        }
    }
}

/// The result of writing.
#[derive(Debug)]
pub struct Written {
    /// The recording without its samples.
    pub recording: Recording,
    /// The source of the samples.
    pub source: String,
    /// Other sources that have branch records.
    pub others: Vec<String>,
    /// How many records were kept and dropped.
    pub kept: RecordCounts,
    /// Modules that have records and are not in the file.
    pub omitted: Vec<String>,
    /// The error that stopped the writing.
    pub error: Option<io::Error>,
}

/// Writes the branch records of one source, the first that the filter accepts and that has some.
///
/// # Errors
/// The recording cannot be read, or lacks branches of all kinds for such a source; the filter names
/// functions, or modules where the format has all of them. An error that stops the writing is in the
/// result.
pub fn write(
    path: &Path,
    format: ProfgenFormat,
    filter: &Filter,
    symbol_path: &SymbolPath,
    out: &mut impl Write,
) -> Result<Written> {
    let mut branched = BTreeSet::new();
    let mut samples = open(path)?;
    samples.branches(&mut |sample, _| {
        branched.insert(sample.source);
    })?;
    let recording = samples.take_recording();
    if recording.branches == 0 {
        return Err(without_branches(path));
    }
    if !recording.metadata.has_straight_code() {
        return Err(without_code(&recording));
    }
    check_filter(format, filter)?;
    let bound = BoundFilter::new(filter, &recording)?;
    let name_of = |index: &u16| bound.source(*index).to_string();
    let Some(index) = branched.iter().copied().find(|&index| bound.passes_source(index)) else {
        let names: Vec<String> = branched.iter().map(name_of).collect();
        return Err(Error::usage(
            "no source of that name has branch records",
            format!("The recording has {}.", names.join(", ")),
        ));
    };
    branched.remove(&index);
    let source = name_of(&index);
    let filter = Filter { sources: vec![Pattern::new(&source)], ..filter.clone() };
    let mut records = Records {
        samples: samples.as_mut(),
        filter: &filter,
        index,
        symbols: Symbols::open(&recording, symbol_path),
        recording: &recording,
    };
    let (kept, omitted, written) = match format {
        ProfgenFormat::PerfScript => perf_script::write(&mut records, out)?,
        ProfgenFormat::Unsymbolized => unsymbolized::write(&mut records, out)?,
    };
    let others = branched.iter().map(name_of).collect();
    Ok(Written { source, others, kept, omitted, error: written.err(), recording })
}

/// llvm-profgen itself picks the records of its binary and finds the functions.
fn check_filter(format: ProfgenFormat, filter: &Filter) -> Result<()> {
    let refused = match format {
        _ if !filter.symbols.is_empty() => "function",
        ProfgenFormat::PerfScript if !filter.modules.is_empty() => "module",
        _ => return Ok(()),
    };
    Err(Error::usage(
        format!(
            "branch records in llvm-profgen's format `{}` are not filtered by {refused}",
            format.name()
        ),
        "It picks what belongs to the module that it is given.",
    ))
}

/// What is written: the records of one source.
struct Records<'a> {
    samples: &'a mut dyn SampleSource,
    filter: &'a Filter,
    index: u16,
    recording: &'a Recording,
    symbols: Symbols,
}

impl Records<'_> {
    /// Passes each sample of the source to `visit`, with its records, newest first.
    fn walk(&mut self, mut visit: impl FnMut(&Sample, &[Step])) -> Result<RecordCounts> {
        let index = self.index;
        walk(self.samples, self.filter, self.recording, &mut self.symbols, |sample, steps| {
            if sample.source == index {
                visit(sample, steps);
            }
        })
    }
}

/// How many records were kept and dropped, the modules that are left out, and whether all could be
/// written.
type Outcome = (RecordCounts, Vec<String>, io::Result<()>);
