//! What `export` writes, and the page that other commands open.

use crate::cli::args::{self, Exported};
use crate::metrics::Metrics;
use crate::output::Output;
use crate::output::error::{Error, Result};
use crate::output::number::percent;
use crate::results::output_file::renamed;
use crate::results::sample_rows::metric_cells;
use crate::results::with_metrics;
use crate::select::filters;
use halprof_measure::Error as Cause;
use halprof_profile::aggregate::filter::Filter;
use halprof_profile::aggregate::key::Key;
use halprof_profile::export::{self, Export, Format, MetricRow, MetricTable, Samples};
use halprof_profile::file::{replace_keeping_old, sessions};
use halprof_profile::symbols::SymbolPath;
use halprof_profile::views::report::{Query, SourceSection};
use std::ffi::OsStr;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes a page of recordings beside the first of them, for a command that prints something else.
/// Returns its path.
pub(crate) fn write_page(options: &args::Export, output: &Output) -> Result<PathBuf> {
    let file = beside(&options.files, Exported::Samples(Format::Html));
    let path = options.naming.path(output)?;
    let filter = filters::settled(&options.filters, &options.files, &path, output)?;
    let samples = read(options, Format::Html, &filter, &path)?;
    let view = view(options, Format::Html, &samples, &filter, &path)?;
    write(Some(&file), output, |mut out| export::write(&view, Format::Html, &mut out))?;
    Ok(file)
}

/// What is exported, under the name of the file, with the metrics that were requested.
pub(crate) fn view<'a>(
    options: &args::Export,
    format: Format,
    samples: &'a Samples,
    filter: &Filter,
    path: &SymbolPath,
) -> Result<Export<'a>> {
    let title = match options.files.as_slice() {
        [file] => file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        several => format!("{} recordings", several.len()),
    };
    let mut view = Export::new(samples, title, format);
    view.metrics = metric_table(options, filter, path)?;
    Ok(view)
}

/// The metrics of the functions with the most events; `None` if none are requested.
fn metric_table(
    options: &args::Export,
    filter: &Filter,
    path: &SymbolPath,
) -> Result<Option<MetricTable>> {
    /// What a person still reads.
    const ROWS_MAX: usize = 500;
    let metrics = Metrics::with_file(options.metric_file.as_deref(), false)?;
    let requested = metrics.requested(&options.metrics)?;
    if requested.is_empty() {
        return Ok(None);
    }
    let query = Query {
        tables: vec![vec![Key::Symbol]],
        filter: filter.clone(),
        rows: Some(ROWS_MAX),
        ..Query::default()
    };
    let (report, serving) =
        with_metrics::read((&metrics, &requested), &options.files, &query, path)?;
    let sampled = report.sources.iter().filter(|source| source.totals.samples != 0);
    let hidden = with_metrics::hidden(&metrics, &serving, sampled.map(|source| &source.name));
    let mut sections = report.tables.iter().flat_map(|table| &table.sections);
    let is_shown = |section: &&SourceSection| {
        section.source.as_ref().is_some_and(|source| !hidden.contains(source))
    };
    let Some(section) = sections.find(is_shown) else {
        return Ok(None);
    };
    let source = section.source.as_deref().unwrap_or_default();
    let names = requested.iter().flat_map(|one| [one.name(), "95 %".to_owned()]);
    let share = section.rows.iter().map(|row| row.share.map_or(0.0, |share| share.value));
    let rows = section.rows.iter().zip(share).map(|(row, share)| MetricRow {
        function: row.values.iter().map(ToString::to_string).collect(),
        cells: [percent(share)]
            .into_iter()
            .chain(row.metrics.iter().flat_map(metric_cells))
            .collect(),
        values: [Some(share)]
            .into_iter()
            .chain(row.metrics.iter().flat_map(|metric| [metric.value, metric.low]))
            .collect(),
    });
    Ok(Some(MetricTable {
        about: format!(
            "The functions with the most events of {source}, with 95 % intervals of sampling. Skid makes \
             the figures of short functions those of the code around them."
        ),
        heads: ["share".to_owned()].into_iter().chain(names).collect(),
        rows: rows.collect(),
    }))
}

/// Everything that is exported: all recordings, each with its own modules and symbols.
pub(crate) fn read(
    options: &args::Export,
    format: Format,
    filter: &Filter,
    path: &SymbolPath,
) -> Result<Samples> {
    if format.has_times() && sessions(&options.files)?.len() > 1 {
        return Err(Error::usage(
            format!("`{}` shows times, and each machine has a clock of its own", format.name()),
            "Export each recording by itself, or several as `flamegraph`, `folded` or `pprof`.",
        ));
    }
    Ok(export::read(&options.files, format, options.by, filter, path)?)
}

/// The first recording's path with the format's extension; standard input has none.
pub(crate) fn beside(recordings: &[PathBuf], exported: Exported) -> PathBuf {
    const NAMELESS: &str = "halprof";
    let first = recordings.first().filter(|file| file.as_os_str() != "-");
    let stem = first.and_then(|file| file.file_stem()).unwrap_or(OsStr::new(NAMELESS));
    let mut name = stem.to_owned();
    name.push(exported.ending());
    first.map_or_else(|| PathBuf::from(&name), |file| file.with_file_name(&name))
}

/// Writes what `put` writes. What is there now is kept beside it.
pub(crate) fn write(
    file: Option<&Path>,
    output: &Output,
    put: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    match file {
        None => match buffered(io::stdout().lock(), put) {
            // If the reader has closed the pipe, that is no error.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written.map_err(Error::Output),
        },
        Some(path) => {
            let old = replace_keeping_old(path, |file| buffered(file, put))
                .map_err(|error| Cause::writing(path, error))?;
            if let Some(old) = old {
                output.note(&renamed(path, &old));
            }
            Ok(())
        }
    }
}

fn buffered(out: impl Write, put: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    put(&mut out)?;
    out.flush()
}
