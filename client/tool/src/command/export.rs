//! `halprof export`: what was sampled, as a picture or for another profiler.

use crate::args;
use crate::command::report::names;
use crate::output::{Output, Told, thousands};
use crate::shown::Shown;
use crate::{Error, Result};
use halprof_profile::export::{self, Format, Gathered, Gatherer, View, listed};
use halprof_profile::recording::Reader;
use halprof_profile::report;
use halprof_profile::symbols::Symbols;
use schemars::JsonSchema;
use serde::Serialize;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// The status that tells scripts that the file is not the whole recording.
const INCOMPLETE: u8 = 5;

#[derive(JsonSchema, Serialize)]
pub(crate) struct Body {
    recording: String,
    machine: String,
    format: &'static str,
    /// Null for standard output.
    file: Option<String>,
    bytes: u64,
    sources: Vec<String>,
    samples: u64,
    lost: u64,
    /// How exact times are; null where the format has none.
    time_resolution_ns: Option<u64>,
    /// Why this is not the whole recording.
    flaw: Option<String>,
}

pub(crate) fn run(options: &args::Export, output: &Output) -> Result<u8> {
    let place = place(options, output)?;
    let gathered = gather(options)?;
    let metadata = &gathered.recording.metadata;
    let (modelled, machine) = (metadata.modelled, metadata.machine.clone());
    output.note_model(&Told { modelled, machine });
    let title = match options.files.as_slice() {
        [file] => file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        several => format!("{} recordings", several.len()),
    };
    let view = View::new(&gathered, title, options.format, options.source.as_deref())?;
    let bytes = write(&view, options.format, &place)?;
    let body = body(options, &view, &place, bytes);
    if let Some(flaw) = &body.flaw {
        output.warn(flaw);
    }
    for estimated in view.sources.iter().filter_map(|source| source.estimated()) {
        output.warn(&estimated);
    }
    for note in notes(&body, &view) {
        output.note(&note);
    }
    if place != Place::Stdout {
        output.result("export", modelled, &body, |body| text(body, &view))?;
    }
    Ok(if body.flaw.is_some() { INCOMPLETE } else { 0 })
}

/// What is exported: all recordings, each with its own modules and symbols.
fn gather(options: &args::Export) -> Result<Gathered> {
    let traits = options.format.traits();
    if options.files.len() > 1 && traits.clock {
        return Err(Error::usage(
            format!(
                "`{}` shows times, and each machine has a clock of its own",
                options.format.name()
            ),
            "Export each recording by itself, or several as `flamegraph`, `folded` or `pprof`.",
        ));
    }
    let path = options.naming.path()?;
    let mut all = Vec::new();
    for file in &options.files {
        let reader = Reader::open(file)?;
        let mut taken = Gatherer::new(reader.metadata(), options.by, traits.moments);
        let recording =
            reader.samples(|samples| samples.iter().for_each(|sample| taken.add(sample)))?;
        let machine = report::machine(file, &recording);
        let mut symbols = Symbols::open(&recording, &path);
        let gathered = taken.finish(recording, |process, address, mode| {
            let module = symbols.module(process, address, mode);
            (symbols.frame(process, address, mode), module)
        });
        all.push((machine, gathered));
    }
    Gathered::combined(all).ok_or_else(|| Error::internal("an export of no recording"))
}

/// Where the result goes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Stdout,
    File(PathBuf),
}

fn place(options: &args::Export, output: &Output) -> Result<Place> {
    match &options.output {
        Some(path) if path.as_os_str() == "-" => {
            if output.is_json() {
                return Err(Error::usage(
                    "`-o -` and `--json` both want standard output",
                    "Name a file with `-o`, or leave out `--json`.",
                ));
            }
            if io::stdout().is_terminal() {
                return Err(Error::usage(
                    "an export is for other programs, and standard output is a terminal",
                    "Name a file with `-o`, or send it on: `-o - > FILE`.",
                ));
            }
            Ok(Place::Stdout)
        }
        Some(path) => Ok(Place::File(path.clone())),
        None => Ok(Place::File(beside(&options.files, options.format))),
    }
}

/// The first recording's name in the current folder, with the format's ending.
fn beside(recordings: &[PathBuf], format: Format) -> PathBuf {
    let stem = recordings.first().and_then(|file| file.file_stem());
    let stem = stem.unwrap_or(OsStr::new("halprof"));
    let mut name = stem.to_owned();
    name.push(format.traits().ending);
    PathBuf::from(name)
}

/// Writes the view; answers how many bytes it has.
fn write(view: &View<'_>, format: Format, place: &Place) -> Result<u64> {
    match place {
        Place::Stdout => match put(view, format, io::stdout().lock()) {
            // Who has stopped listening has heard enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(0),
            written => written.map(|(bytes, _)| bytes).map_err(Error::Output),
        },
        Place::File(path) => file(view, format, path).map_err(|error| Error::writing(path, error)),
    }
}

/// Under the name stands the old file or the new one, never half of one.
fn file(view: &View<'_>, format: Format, path: &Path) -> io::Result<u64> {
    if path.metadata().is_ok_and(|there| !there.is_file()) {
        // A device or a pipe is written to; only files are replaced.
        let device = OpenOptions::new().write(true).open(path)?;
        return put(view, format, device).map(|(bytes, _)| bytes);
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let file = new_file(folder.unwrap_or(Path::new(".")))?;
    let (bytes, file) = put(view, format, file)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(bytes)
}

/// A file without a name yet, for whom the umask lets read it.
fn new_file(folder: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new().make_in(folder, |path| {
        File::options().write(true).create_new(true).open(path)
    })
}

fn put<W: Write>(view: &View<'_>, format: Format, out: W) -> io::Result<(u64, W)> {
    let mut counted = Counted {
        out: BufWriter::new(out),
        bytes: 0,
    };
    export::write(view, format, &mut counted)?;
    let bytes = counted.bytes;
    let mut out = counted
        .out
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?;
    out.flush()?;
    Ok((bytes, out))
}

struct Counted<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.out.write(buffer)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn body(options: &args::Export, view: &View<'_>, place: &Place, bytes: u64) -> Body {
    let gathered = view.gathered;
    let resolution = gathered.ticks_to_ns(gathered.moment_ticks);
    Body {
        recording: names(&options.files),
        machine: gathered.recording.metadata.machine.clone(),
        format: options.format.name(),
        file: match place {
            Place::Stdout => None,
            Place::File(path) => Some(path.display().to_string()),
        },
        bytes,
        sources: view
            .sources
            .iter()
            .map(|source| source.name.clone())
            .collect(),
        samples: view
            .sources
            .iter()
            .map(|source| source.weight.samples)
            .sum(),
        lost: gathered.lost(),
        time_resolution_ns: options.format.traits().moments.then_some(resolution),
        flaw: gathered.recording.flaw(),
    }
}

/// What is otherwise than one might think.
fn notes(body: &Body, view: &View<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let others = view.left_out();
    if !others.is_empty() {
        notes.push(format!(
            "this shows {} alone; `--source` shows another of {}",
            listed(view.sources.iter().copied()),
            listed(others)
        ));
    }
    if body.samples == 0 {
        notes.push("there are no samples to show".to_owned());
    }
    let exact = view.gathered.moment_ticks == 1;
    if let Some(resolution) = body.time_resolution_ns.filter(|_| !exact) {
        notes.push(format!(
            "samples within {resolution} ns at one place are told as one, with their number: there are too many to open otherwise"
        ));
    }
    notes
}

fn text(body: &Body, view: &View<'_>) -> String {
    format!(
        "{} samples of {}, {} lost, written to {} ({} bytes)\n",
        thousands(body.samples),
        Shown(listed(view.sources.iter().copied())),
        thousands(body.lost),
        body.file.as_deref().unwrap_or("standard output"),
        thousands(body.bytes)
    )
}
