//! Branch records as `perf script` prints them, for llvm-profgen.
//!
//! llvm-profgen reads two kinds of lines: for modules, which say where an image is in memory, and
//! for samples: an address, and the records, newest first. Of a PE file it uses the address of the
//! image and, as the offset, that of the code section relative to it (LLVM's pull request 83972,
//! 2024). It treats the code between neighbouring records of a line as executed, so records with a
//! gap between them are written on separate lines.

use crate::aggregate::filter::{Filter, Pattern};
use crate::aggregate::filtered::BoundFilter;
use crate::file::{Module, Reader, Recording};
use crate::symbols::{SymbolPath, Symbols};
use crate::views::branches::{RecordCounts, Step, walk, without_branches, without_code};
use halprof_measure::{Error, Result};
use shared_types::Branch;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};
use std::path::Path;

/// The result of writing.
#[derive(Debug)]
pub struct Written {
    /// The recording without its samples.
    pub recording: Recording,
    /// The source of the samples.
    pub source: String,
    /// Other sources that have branch records.
    pub others: Vec<String>,
    /// The number of sample lines.
    pub lines: u64,
    /// How many records were kept and dropped.
    pub kept: RecordCounts,
    /// Modules that have records but no line, because their files were not found or are not PE.
    pub without_file: Vec<String>,
    /// The error that stopped the writing.
    pub error: Option<io::Error>,
}

/// Writes the branch records of one source, the first that the filter accepts and that has some. The
/// records of a sample are written whole: llvm-profgen itself picks those of its binary, so the filter
/// may name no modules and no functions.
///
/// # Errors
/// The recording cannot be read, or lacks branches of all kinds for such a source. An error that
/// stops the writing is in the result.
pub fn write(
    path: &Path,
    filter: &Filter,
    symbol_path: &SymbolPath,
    out: &mut impl Write,
) -> Result<Written> {
    let mut branched = BTreeSet::new();
    let recording = Reader::open(path)?.branches(|sample, _| {
        branched.insert(sample.source);
    })?;
    if recording.branches == 0 {
        return Err(without_branches(path));
    }
    if !recording.metadata.has_straight_code() {
        return Err(without_code(&recording));
    }
    let name = |index: u16| {
        let source = recording.metadata.sources.get(usize::from(index));
        source.map_or_else(|| format!("source {index}"), |source| source.name.clone())
    };
    let mut sources: BTreeMap<u16, String> =
        branched.into_iter().map(|index| (index, name(index))).collect();
    let bound = BoundFilter::new(filter, &recording)?;
    if bound.needs_code() {
        return Err(Error::usage(
            "branch records for llvm-profgen are not filtered by module or function",
            "It picks those of the module that it is given.",
        ));
    }
    let Some(index) = sources.keys().copied().find(|&index| bound.passes_source(index)) else {
        let names: Vec<String> = sources.into_values().collect();
        return Err(Error::usage(
            "no source of that name has branch records",
            format!("The recording has {}.", names.join(", ")),
        ));
    };
    let source = sources.remove(&index).unwrap_or_default();
    let filter = Filter { sources: vec![Pattern::new(&source)], ..filter.clone() };
    let mut symbols = Symbols::open(&recording, symbol_path);
    let mut used = BTreeSet::new();
    walk(path, &filter, &recording, &symbols, |_, steps| {
        used.extend(steps.iter().filter_map(|step| step.modules).flatten());
    })?;
    let mut lines = Lines {
        modules: used
            .into_iter()
            .filter_map(|module| Some((module, recording.modules.get(module)?)))
            .map(|(module, of)| (module, (of, symbols.code_section(module))))
            .collect(),
        named: HashMap::new(),
        out,
        written: 0,
        error: None,
    };
    let kept = walk(path, &filter, &recording, &symbols, |sample, steps| {
        if sample.source == index && lines.error.is_none() {
            lines.error = lines.sample(sample.process, sample.ip, steps).err();
        }
    })?;
    let without_file = lines.modules.values();
    let without_file = without_file.filter(|(_, section)| section.is_none());
    let without_file: BTreeSet<String> = without_file.map(|(of, _)| of.name.clone()).collect();
    Ok(Written {
        source,
        others: sources.into_values().collect(),
        lines: lines.written,
        kept,
        without_file: without_file.into_iter().collect(),
        error: lines.error,
        recording,
    })
}

struct Lines<'a, W> {
    /// The modules with records, each with the offset of its code.
    modules: BTreeMap<usize, (&'a Module, Option<u64>)>,
    /// Where each file is, as its last line said.
    named: HashMap<&'a str, u64>,
    out: &'a mut W,
    written: u64,
    error: Option<io::Error>,
}

impl<W: Write> Lines<'_, W> {
    fn sample(&mut self, process: u32, ip: u64, steps: &[Step]) -> io::Result<()> {
        for &module in steps.iter().filter_map(|step| step.modules.as_ref()).flatten() {
            self.module(process, module)?;
        }
        let mut open = false;
        for step in steps {
            if open && !step.joined {
                writeln!(self.out)?;
            }
            if step.modules.is_none() {
                open = false;
                continue;
            }
            if !(open && step.joined) {
                write!(self.out, "{ip:x}")?;
                self.written += 1;
            }
            open = true;
            record(self.out, &step.branch)?;
        }
        if open {
            writeln!(self.out)?;
        }
        Ok(())
    }

    /// Writes where a module is, unless its last line still holds.
    fn module(&mut self, process: u32, index: usize) -> io::Result<()> {
        let Some(&(module, Some(section))) = self.modules.get(&index) else {
            return Ok(());
        };
        if self.named.insert(&module.name, module.start) == Some(module.start) {
            return Ok(());
        }
        let file = module.path.as_deref().unwrap_or(&module.name);
        let plain = |c: char| if c.is_control() { '_' } else { c };
        let file: String = file.chars().map(plain).collect();
        let (start, size) = (module.start, module.end.saturating_sub(module.start));
        writeln!(
            self.out,
            "PERF_RECORD_MMAP2 {process}/{process}: [{start:#x}({size:#x}) @ {section:#x} 00:00 0 0]: r-xp {file}"
        )
    }
}

fn record(out: &mut impl Write, branch: &Branch) -> io::Result<()> {
    let Branch { from, to, cycles, flags, .. } = *branch;
    let flag = |flag, name| if flags & flag == 0 { '-' } else { name };
    let predicted = match flag(Branch::MISPREDICTED, 'M') {
        '-' => flag(Branch::PREDICTED, 'P'),
        named => named,
    };
    let (transaction, abort) = (flag(Branch::TRANSACTION, 'X'), flag(Branch::ABORT, 'A'));
    write!(out, " {from:#x}/{to:#x}/{predicted}/{transaction}/{abort}/{cycles}")
}
