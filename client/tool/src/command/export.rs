//! `halprof export`: a recording as a picture or in the format of another profiler.

use crate::cli::args::{self, Exported};
use crate::output::Output;
use crate::output::error::{Error, Result};
use crate::output::escape::Escaped;
use crate::output::number::thousands;
use crate::results::exported::{beside, read, view, write};
use crate::results::output_file::size;
use crate::results::recording_warnings;
use crate::run::browser;
use crate::select::branches::left_out;
use crate::select::filters;
use halprof_profile::export::profgen::{self, ProfgenFormat};
use halprof_profile::export::{self, Export, Format, MARKS_MAX, listed};
use halprof_profile::file::Recording;
use schemars::JsonSchema;
use serde::Serialize;
use std::io::{self};
use std::path::{Path, PathBuf};

#[derive(Default, JsonSchema, Serialize)]
pub(crate) struct ExportResult {
    recording: String,
    machine: String,
    format: &'static str,
    /// Null for standard output.
    file: Option<String>,
    bytes: u64,
    sources: Vec<String>,
    samples: u64,
    /// Null if the file is truncated or damaged: `damaged` says how.
    lost: Option<u64>,
    /// Marks in the recording; 0 if the file shows none.
    marks: u64,
    /// The resolution of times; null if the format has no times.
    time_resolution_ns: Option<u64>,
    /// Why this is not the whole recording.
    damaged: Option<String>,
}

pub(crate) fn run(options: &args::Export, output: &Output) -> Result<u32> {
    let exported = exported(options)?;
    let destination = destination(options, exported, output)?;
    if !options.metrics.is_empty() && exported != Exported::Samples(Format::Html) {
        return Err(Error::usage(
            "only `html` has a table of metrics",
            "Use `-f html`, or `halprof report -M` with `--csv` or `--json`.",
        ));
    }
    if options.open {
        check_can_be_opened(exported, destination.as_deref())?;
    }
    let format = match exported {
        Exported::Samples(format) => format,
        Exported::Branches(format) => {
            return branches(options, format, destination.as_deref(), output);
        }
    };
    let path = options.naming.path(output)?;
    let filter = filters::settled(&options.filters, &options.files, &path, output)?;
    let samples = read(options, format, &filter, &path)?;
    let view = view(options, format, &samples, &filter, &path)?;
    let given_twice = filters::given_twice(&options.files);
    let without_samples = recording_warnings::without_samples(&samples.recording, &options.files);
    let warnings = given_twice.into_iter().chain(without_samples).chain(view.warnings());
    let mut warnings: Vec<String> = warnings.collect();
    let passed: u64 = view.sources.iter().map(|source| source.totals.samples).sum();
    if passed == 0 && samples.recording.samples != 0 {
        let path = options.naming.path(output)?;
        warnings.extend(filters::explain_empty_result(&options.filters, &options.files, &path));
    }
    let status = recording_warnings::print_warnings(&samples.recording, &warnings, &[], output);
    let file = destination.as_deref();
    write(file, output, |mut out| export::write(&view, format, &mut out))?;
    let result = result(options, format, &view, file);
    for note in notes(&result, &view) {
        output.note(&note);
    }
    if let Some(file) = file {
        let sources = listed(view.sources.iter().copied());
        output.result("export", &result, |result| {
            output.width().fitted(&text(result, &sources, &samples.recording))
        })?;
        if options.open {
            browser::open(file, output);
        }
    }
    Ok(status)
}

/// The format that was requested, or that the extension of the file to write stands for.
fn exported(options: &args::Export) -> Result<Exported> {
    let name = options.output.as_ref().and_then(|path| path.file_name());
    let name = name.unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let of_name = || Exported::all().find(|one| name.ends_with(one.ending()));
    // `a.svg` is a flame graph as `a.flamegraph.svg` is.
    let is_svg = Path::new(&name).extension().is_some_and(|extension| extension == "svg");
    let svg = || is_svg.then_some(Exported::Samples(Format::Flamegraph));
    let page =
        (options.open && options.output.is_none()).then_some(Exported::Samples(Format::Html));
    options.format.or(page).or_else(of_name).or_else(svg).ok_or_else(|| {
        let endings: Vec<&str> = Exported::all().map(Exported::ending).collect();
        Error::usage(
            "the format is missing",
            format!(
                "Give `--format`, or `-o FILE` with one of these extensions: {}.",
                endings.join(", ")
            ),
        )
    })
}

/// A browser opens pages and pictures, and only files.
fn check_can_be_opened(exported: Exported, file: Option<&Path>) -> Result<()> {
    let is_shown = matches!(exported, Exported::Samples(Format::Html | Format::Flamegraph));
    if !is_shown {
        return Err(Error::usage(
            format!("`--open` opens a browser, which does not show `{}`", exported.name()),
            "Use `-f html` or `-f flamegraph`, or leave out `--open`.",
        ));
    }
    match file {
        Some(_) => Ok(()),
        None => Err(Error::usage(
            "`--open` opens a file, and `-o -` writes none",
            "Name a file with `-o`, or leave it out.",
        )),
    }
}

/// The file to write; `None` for standard output.
fn destination(
    options: &args::Export,
    exported: Exported,
    output: &Output,
) -> Result<Option<PathBuf>> {
    match &options.output {
        Some(path) if path.as_os_str() == "-" => output.check_takes_file().map(|()| None),
        Some(path) => Ok(Some(path.clone())),
        None => Ok(Some(beside(&options.files, exported))),
    }
}

impl ExportResult {
    /// What the results for samples and for branches have in common.
    fn new(
        options: &args::Export,
        format: &'static str,
        recording: &Recording,
        file: Option<&Path>,
    ) -> Self {
        Self {
            recording: filters::names(&options.files),
            machine: recording.metadata.machine.clone(),
            format,
            file: file.map(|path| path.display().to_string()),
            bytes: file.map_or(0, size),
            lost: recording.all_lost(),
            damaged: recording.damaged(),
            ..Self::default()
        }
    }
}

fn result(
    options: &args::Export,
    format: Format,
    view: &Export<'_>,
    file: Option<&Path>,
) -> ExportResult {
    let samples = view.samples;
    let resolution = samples.ticks_to_ns(samples.timed_sample_ticks);
    let is_shown = format != Format::Html || samples.marks.has_programs();
    ExportResult {
        sources: view.sources.iter().map(|source| source.name.to_string()).collect(),
        samples: view.sources.iter().map(|source| source.totals.samples).sum(),
        marks: if is_shown { samples.marks.len() as u64 } else { 0 },
        time_resolution_ns: format.has_times().then_some(resolution),
        ..ExportResult::new(options, format.name(), &samples.recording, file)
    }
}

/// Exports the branch records of one recording and one source.
fn branches(
    options: &args::Export,
    format: ProfgenFormat,
    file: Option<&Path>,
    output: &Output,
) -> Result<u32> {
    let [path] = options.files.as_slice() else {
        return Err(Error::usage(
            format!("`{}` is of one recording", format.name()),
            "Export each recording by itself: llvm-profgen takes several files.",
        ));
    };
    let naming = options.naming.path(output)?;
    let filter = filters::filter(&options.filters, &options.files)?;
    let mut outcome = None;
    let done = write(file, output, |mut out| {
        let mut written = profgen::write(path, format, &filter, &naming, &mut out);
        let stopped = match &mut written {
            Ok(written) => written.error.take(),
            Err(_) => Some(io::ErrorKind::InvalidData.into()),
        };
        outcome = Some(written);
        stopped.map_or(Ok(()), Err)
    });
    // Problems of the recording are reported before those of the file.
    let written = outcome.transpose()?;
    done?;
    let written = written.ok_or_else(|| Error::internal("an export of no recording"))?;
    let recording = &written.recording;
    let status = recording_warnings::print_warnings(
        recording,
        &branch_warnings(&written, format),
        &[],
        output,
    );
    let result = ExportResult {
        sources: vec![written.source.clone()],
        samples: written.kept.samples,
        ..ExportResult::new(options, format.name(), recording, file)
    };
    if file.is_some() {
        let records = thousands(written.kept.records);
        output.result("export", &result, |result| {
            format!("{records} branch records in {}", text(result, &written.source, recording))
        })?;
    }
    Ok(status)
}

fn branch_warnings(written: &profgen::Written, format: ProfgenFormat) -> Vec<String> {
    let mut warnings: Vec<String> = left_out(&written.kept, &written.recording).collect();
    if !written.others.is_empty() {
        warnings.push(format!(
            "these are the records of {} alone; `--source` exports those of another: {}",
            written.source,
            written.others.join(", ")
        ));
    }
    if !written.omitted.is_empty() {
        let omitted = written.omitted.join(", ");
        warnings.push(match format {
            ProfgenFormat::PerfScript => format!(
                "llvm-profgen is not told where these modules are, because no PE file of the same \
                 build was found: {omitted}; `--symbol-path` names a folder that has it"
            ),
            ProfgenFormat::Unsymbolized => format!(
                "these are the counts of the module with most records; `--module` exports those of \
                 another: {omitted}"
            ),
        });
    }
    warnings
}

/// Notes on what may be unexpected.
fn notes(result: &ExportResult, view: &Export<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let others = view.omitted_sources();
    if !others.is_empty() {
        notes.push(format!(
            "this shows {} alone; `--source` shows another of {}",
            listed(view.sources.iter().copied()),
            listed(others)
        ));
    }
    let marks = thousands(result.marks);
    if result.marks > MARKS_MAX as u64 && result.time_resolution_ns.is_some() {
        let shown = thousands(MARKS_MAX as u64);
        notes.push(format!(
            "only the first {shown} of {marks} marks are shown, because a viewer could not open so many"
        ));
    } else if result.marks != 0 {
        notes.push(format!("{marks} marks are shown"));
    }
    if result.samples == 0 {
        notes.push("there are no samples to show".to_owned());
    }
    let exact = view.samples.timed_sample_ticks == 1;
    if let Some(resolution) = result.time_resolution_ns.filter(|_| !exact) {
        notes.push(format!(
            "samples within {resolution} ns at one place are written as one, with their number, \
             because a viewer could not open so many"
        ));
    }
    notes
}

fn text(result: &ExportResult, sources: &str, recording: &Recording) -> String {
    format!(
        "{} samples of {}, {}, written to {} ({} bytes)\n",
        thousands(result.samples),
        Escaped(sources),
        recording.losses(),
        result.file.as_deref().unwrap_or("standard output"),
        thousands(result.bytes)
    )
}
