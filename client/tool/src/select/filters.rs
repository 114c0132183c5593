//! Converts the options of commands that read recordings to the library's types.

use crate::cli::args::{self, joined};
use crate::output::Output;
use crate::output::error::{Error, Result};
use crate::output::names::abbreviated;
use halprof_measure::{did_you_mean, selection};
use halprof_profile::aggregate::filter::{self, Filter, Meant};
use halprof_profile::aggregate::functions::functions;
use halprof_profile::aggregate::key::{Key, Value};
use halprof_profile::file;
use halprof_profile::symbols::{FunctionPattern, Pattern, SymbolPath, qualified, shortened};
use halprof_profile::views::branches::Grouping;
use halprof_profile::views::report::{Query, Report};
use std::collections::{BTreeSet, HashSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// Which samples count.
pub(crate) fn filter(options: &args::Filters, files: &[PathBuf]) -> Result<Filter> {
    let processors =
        joined(&options.processors).map(|list| selection::parse_processors(&list)).transpose()?;
    if let Some(last) = processors.as_ref().and_then(|all| all.last()) {
        exists(*last, files)?;
    }
    Ok(Filter {
        sources: patterns(&options.source),
        processes: patterns(&options.process),
        threads: patterns(&options.thread),
        modules: patterns(&options.module),
        symbols: options.symbol.iter().map(|name| FunctionPattern::new(name)).collect(),
        addresses: options.address.iter().map(|text| addresses(text)).collect::<Result<_>>()?,
        processors: processors.map(|all| all.into_iter().collect()),
        time: options.time.as_deref().map(filter::time).transpose()?,
    })
}

fn addresses(text: &str) -> Result<Range<u64>> {
    filter::addresses(text).filter(|range| !range.is_empty()).ok_or_else(|| {
        Error::usage(
            format!("`--address {text}` is not a range of addresses"),
            "Give FROM-TO with FROM before TO, or FROM+LENGTH, as in `0x401000-0x401040` or `0x401000+64`.",
        )
    })
}

/// The same, with each name of a function settled: it stands for those functions with samples that it
/// means best. Says which these are, unless it is the whole name of one.
pub(crate) fn settled(
    options: &args::Filters,
    files: &[PathBuf],
    path: &SymbolPath,
    output: &Output,
) -> Result<Filter> {
    let mut filter = filter(options, files)?;
    if filter.symbols.is_empty() {
        return Ok(filter);
    }
    let with_samples = functions(files, &filter, path)?;
    for Meant { name, functions, is_whole } in filter.settle(&with_samples) {
        if !is_whole && !functions.is_empty() {
            output.note(&format!("`--symbol {name}` is {}", abbreviated(&functions)));
        }
    }
    Ok(filter)
}

/// Why no sample passes the filters: the names that no sample has, each with those that may be meant.
pub(crate) fn explain_empty_result(
    options: &args::Filters,
    files: &[PathBuf],
    path: &SymbolPath,
) -> Vec<String> {
    let named = [
        (Key::Process, &options.process),
        (Key::Thread, &options.thread),
        (Key::Module, &options.module),
        (Key::Symbol, &options.symbol),
    ];
    let tables = named.iter().filter(|(_, texts)| !texts.is_empty());
    let tables: Vec<Vec<Key>> = tables.map(|&(key, _)| vec![key]).collect();
    let mut warnings = vec!["no samples pass the filters".to_owned()];
    if tables.is_empty() {
        return warnings;
    }
    let Ok(report) = Report::read_all(files, &Query { tables, ..Query::default() }, path) else {
        return warnings;
    };
    let functions = if options.symbol.is_empty() {
        BTreeSet::new()
    } else {
        functions(files, &Filter::default(), path).unwrap_or_default()
    };
    let modules = report.recording.modules.iter();
    let paths: Vec<Arc<str>> =
        modules.filter_map(|module| module.path.as_deref().map(Arc::from)).collect();
    let is_function = |text: &str| {
        let pattern = FunctionPattern::new(text);
        functions.iter().any(|function| function.meaning(&pattern).is_some())
    };
    for (key, texts) in named {
        let tables = report.tables.iter().filter(|table| table.by == [key]);
        let rows = tables.flat_map(|table| &table.sections).flat_map(|section| &section.rows);
        let values: Vec<&Value> = rows.flat_map(|row| &row.values).collect();
        for text in texts {
            let is_known = key == Key::Symbol && is_function(text)
                || values.iter().any(|value| is_meant(text, value, &paths));
            if !is_known {
                let names: BTreeSet<String> =
                    values.iter().flat_map(|value| names_of(value)).collect();
                let meant = did_you_mean(text, &names);
                let meant = meant.map_or_else(String::new, |meant| format!(". {meant}"));
                warnings.push(format!("no sample has the {} `{text}`{meant}", key.name()));
            }
        }
    }
    warnings
}

/// Whether a name that a user typed is that of what samples have.
fn is_meant(text: &str, value: &Value, paths: &[Arc<str>]) -> bool {
    match value {
        Value::Symbol { module, symbol: Some(symbol) } => {
            FunctionPattern::new(text).matches(module, paths, symbol)
        }
        Value::Module(module) => {
            let own = paths.iter().filter(|path| path.ends_with(&**module));
            let own: Vec<Arc<str>> = own.map(Arc::clone).collect();
            Pattern::new(text).matches_module(module, &own)
        }
        value => names_of(value).iter().any(|name| Pattern::new(text).matches(name)),
    }
}

/// What a user can type for a value of samples: for a process or a thread also its number, for a function
/// its name with and without its module, and its own name alone.
fn names_of(value: &Value) -> Vec<String> {
    let numbered = |name: &Option<Arc<str>>, id: Option<u32>| {
        let name = name.as_deref().map(str::to_owned);
        name.into_iter().chain(id.map(|id| id.to_string())).collect()
    };
    match value {
        Value::Process(process) => numbered(&process.name, process.id),
        Value::Thread { id, name, .. } => numbered(name, Some(*id)),
        Value::Module(name) => vec![name.to_string()],
        Value::Symbol { module, symbol: Some(symbol) } => {
            let own = shortened(None, symbol, |_| false);
            let with_module = shortened(Some(module), symbol, |form| !form.contains('('));
            vec![qualified(module, symbol), with_module.into(), symbol.to_string(), own.into()]
        }
        _ => Vec::new(),
    }
}

pub(crate) fn patterns(texts: &[String]) -> Vec<Pattern> {
    texts.iter().map(|text| Pattern::new(text)).collect()
}

/// Names or identifiers that the user chose; without any, all pass.
pub(crate) struct Names(Vec<Pattern>);

impl Names {
    pub(crate) fn new(texts: &[String]) -> Self {
        Self(patterns(texts))
    }

    pub(crate) fn pass(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|pattern| pattern.matches(name))
    }

    /// Whether a process passes by its name or by its identifier.
    pub(crate) fn pass_process(&self, name: Option<&str>, id: Option<u32>) -> bool {
        let id = id.map(|id| id.to_string());
        self.0.is_empty() || [name, id.as_deref()].into_iter().flatten().any(|one| self.pass(one))
    }
}

/// Refuses a processor that is in none of the recordings.
fn exists(processor: u32, files: &[PathBuf]) -> Result<()> {
    let mut most = 0;
    for file in files {
        most = most.max(file::processors(file)?);
    }
    match most.checked_sub(1) {
        Some(last) if processor > last => Err(Error::usage(
            format!("no recording has a processor {processor}"),
            format!("The processors are 0 to {last}."),
        )),
        _ => Ok(()),
    }
}

/// The recordings, as the user named them.
pub(crate) fn names(files: &[PathBuf]) -> String {
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    names.join(", ")
}

/// A warning if a recording is given more than once.
pub(crate) fn given_twice(files: &[PathBuf]) -> Option<String> {
    let canonical = |file: &PathBuf| file.canonicalize().unwrap_or_else(|_| file.clone());
    let mut known = HashSet::new();
    let twice = files.iter().find(|file| !known.insert(canonical(file)))?;
    Some(format!("{} is given more than once: its samples count each time", twice.display()))
}

pub(crate) fn tables(lists: &[String]) -> Result<Vec<Vec<Key>>> {
    lists.iter().map(|list| keys(list)).collect()
}

fn keys(list: &str) -> Result<Vec<Key>> {
    let mut keys = Vec::new();
    for name in list.split(',').map(str::trim) {
        let key = Key::of(name).ok_or_else(|| unknown_key(list, name))?;
        if keys.contains(&key) {
            return Err(Error::usage(
                format!("`--by {list}`: `{name}` is listed twice"),
                "Name each key once.",
            ));
        }
        keys.push(key);
    }
    Ok(keys)
}

fn unknown_key(list: &str, name: &str) -> Error {
    let names: Vec<_> = Key::ALL.iter().map(|key| key.name()).collect();
    let meant = did_you_mean(name, &names).map_or_else(String::new, |meant| meant + " ");
    Error::usage(
        format!("`--by {list}`: `{name}` is not a key"),
        format!("{meant}The keys are {}; for branches {}.", names.join(", "), keys_of_branches()),
    )
}

/// The values of `--by` for branches, for a message.
fn keys_of_branches() -> String {
    let sides: Vec<&str> = Grouping::sides().map(Key::name).collect();
    format!("{}, alone or with one of {}", Grouping::NAMES.join(" and "), sides.join(", "))
}

/// The error that there is more than one table of comma-separated values.
pub(crate) fn one_table() -> Error {
    Error::usage(
        "`--csv` prints one table",
        "Give `--by` once; several keys divide its rows further.",
    )
}
