//! Files for other programs: pictures, and the formats of other profilers.
//!
//! ```text
//! read (a Filter, files) -> Samples -> Export -> one file of a Format
//! ```
//!
//! Where samples have no call stacks and a format wants one, it gets only the sampled place.

mod firefox;
mod folded;
pub mod pictures;
mod pprof;
pub mod profgen;
mod selection;

pub use crate::aggregate::samples::binned;
pub use crate::aggregate::samples::{
    Bin, Bins, Level, LocationTotals, Samples, SamplesBuilder, ThreadLocation, TimedSample,
    TrackBy, TrackKey,
};
pub use crate::export::selection::{Export, MetricRow, MetricTable, listed};

use crate::aggregate::aggregator::stacked;
use crate::aggregate::filter::Filter;
use crate::aggregate::filtered::{BoundFilter, TimeRange};
use crate::aggregate::locations::LocatedCode;
use crate::file::combined::no_recording;
use crate::file::{Recording, mode_of, open_session, sessions};
use crate::symbols::code_location::CodeLocation;
use crate::symbols::{SymbolPath, Symbols};
use halprof_measure::Result;
use std::io::{self, Write};
use std::path::Path;

/// The formats of [`Export`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Flame graph, SVG
    Flamegraph,
    /// One page with a time line, a flame graph and a table of what is chosen, and marks
    Html,
    /// Firefox Profiler, JSON
    Firefox,
    /// pprof, protocol buffer in gzip
    Pprof,
    /// Folded stacks, text
    Folded,
}

/// Everything that is known of a format. A new one is a row here, with its module.
struct FormatRow {
    format: Format,
    name: &'static str,
    about: &'static str,
    ending: &'static str,
    is_of_one_source: bool,
    /// Whether it shows the times of samples and marks.
    has_times: bool,
    write: fn(&Export<'_>, &mut dyn Write) -> io::Result<()>,
}

const FORMATS: [FormatRow; 5] = [
    FormatRow {
        format: Format::Flamegraph,
        name: "flamegraph",
        about: "Flame graph, SVG",
        ending: ".flamegraph.svg",
        is_of_one_source: true,
        has_times: false,
        write: |export, out| out.write_all(pictures::flamegraph(export).as_bytes()),
    },
    FormatRow {
        format: Format::Html,
        name: "html",
        about: "One page with a time line, a flame graph and a table of what is chosen, and marks",
        ending: ".html",
        is_of_one_source: false,
        has_times: true,
        write: |export, out| out.write_all(pictures::page(export).as_bytes()),
    },
    FormatRow {
        format: Format::Firefox,
        name: "firefox",
        about: "Firefox Profiler, JSON",
        ending: ".firefox.json",
        is_of_one_source: true,
        has_times: true,
        write: firefox::write,
    },
    FormatRow {
        format: Format::Pprof,
        name: "pprof",
        about: "pprof, protocol buffer in gzip",
        ending: ".pb.gz",
        is_of_one_source: true,
        has_times: false,
        write: pprof::write,
    },
    FormatRow {
        format: Format::Folded,
        name: "folded",
        about: "Folded stacks, text",
        ending: ".folded",
        is_of_one_source: true,
        has_times: false,
        write: folded::write,
    },
];

impl Format {
    /// All formats.
    pub const ALL: [Self; FORMATS.len()] = {
        let mut all = [Self::Flamegraph; FORMATS.len()];
        let mut at = 0;
        while at < FORMATS.len() {
            all[at] = FORMATS[at].format;
            assert!(all[at] as usize == at, "rows and variants are in the same order");
            at += 1;
        }
        all
    };

    fn row(self) -> &'static FormatRow {
        const ROWS: &[FormatRow] = &FORMATS;
        &ROWS[self as usize]
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// A one-line description.
    pub fn about(self) -> &'static str {
        self.row().about
    }

    /// The file extension, including the leading dot.
    pub fn ending(self) -> &'static str {
        self.row().ending
    }

    /// Whether one file holds one source, because events of different sources may not be added.
    pub fn is_of_one_source(self) -> bool {
        self.row().is_of_one_source
    }

    /// Whether it shows the times of samples and marks: each machine has a clock of its own.
    pub fn has_times(self) -> bool {
        self.row().has_times
    }
}

/// The largest number of marks in a file: what a browser can still load.
pub const MARKS_MAX: usize = 1 << 19;

/// Reads what of recordings a format shows: the samples and sources that a filter accepts, each
/// recording with its own modules and symbols, and the marks of the filter's time if the format shows
/// marks.
///
/// # Errors
/// A recording cannot be read, none is given, or the filter names a source that one does not have.
pub fn read<P: AsRef<Path>>(
    paths: &[P],
    format: Format,
    tracks: TrackBy,
    filter: &Filter,
    symbol_path: &SymbolPath,
) -> Result<Samples> {
    let mut all = Vec::new();
    for session in sessions(paths)? {
        all.push(read_one(&session, format, tracks, filter, symbol_path)?);
    }
    Samples::combined(all).ok_or_else(no_recording)
}

fn read_one(
    session: &[&Path],
    format: Format,
    tracks: TrackBy,
    filter: &Filter,
    symbol_path: &SymbolPath,
) -> Result<Samples> {
    let mut source = open_session(session)?;
    if format.has_times() {
        source.keep_marks();
    }
    let mut builder = SamplesBuilder::new(tracks, format.has_times(), source.metadata());
    if filter.is_empty() {
        // In one pass, so that a pipe can be read.
        source.samples(&mut |samples, stacks| {
            stacked(samples, stacks).for_each(|(sample, stack)| builder.add_stacked(sample, stack));
        })?;
        let recording = source.take_recording();
        drop(source);
        let symbols = Symbols::open(&recording, symbol_path);
        return Ok(named(builder, recording, symbols));
    }
    let time = TimeRange::since_first(source.as_mut(), filter)?;
    let mut recording = source.take_recording();
    let time = time.or_since_first_mark(&recording);
    let bound = BoundFilter::new(filter, &recording)?;
    let marks = &mut recording.marked.marks;
    marks.retain(|mark| {
        time.contains(mark.time)
            && bound.passes_process(mark.process)
            && bound.passes_thread(mark.process, mark.thread)
    });
    recording.events.retain(|event| time.contains(event.timestamp));
    let mut code = LocatedCode::new(filter, Symbols::open(&recording, symbol_path));
    source.samples(&mut |samples, stacks| {
        for (sample, stack) in stacked(samples, stacks) {
            if !time.contains(sample.timestamp) || !bound.passes_sample(sample) {
                continue;
            }
            let location = CodeLocation::new(sample.process, sample.ip, mode_of(sample.mode));
            if !bound.needs_code() || code.at(location).1 {
                builder.add_stacked(sample, stack);
            }
        }
    })?;
    let mut samples = named(builder, recording, code.symbols);
    samples.start = time.first();
    samples.sources.retain(|source| bound.passes_source(source.index));
    Ok(samples)
}

/// The samples with the names of their code.
fn named(builder: SamplesBuilder, recording: Recording, mut symbols: Symbols) -> Samples {
    builder.finish(recording, |process, address, mode| {
        let module = symbols.module(process, address, mode);
        (symbols.frame(process, address, mode), module)
    })
}

/// Writes an export in a format.
pub fn write(export: &Export<'_>, format: Format, out: &mut impl Write) -> io::Result<()> {
    (format.row().write)(export, out)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::file::stacks::tests::{SAMPLES, recorded};
    use crate::symbols::Inlined;
    use std::sync::Arc;

    /// The samples of `recorded`, with `inner` inlined into `outer` and that into the function `f`.
    pub(crate) fn with_inlined(timed_samples: bool) -> Samples {
        let (_folder, path) = recorded(&SAMPLES);
        let mut source = crate::file::open(&path).expect("a recording");
        let mut builder = SamplesBuilder::new(TrackBy::default(), timed_samples, source.metadata());
        source
            .samples(&mut |samples, stacks| {
                stacked(samples, stacks)
                    .for_each(|(sample, stack)| builder.add_stacked(sample, stack));
            })
            .expect("read");
        let recording = source.take_recording();
        let mut symbols = Symbols::open(&recording, &SymbolPath::default());
        let call = |function: &str, line| Inlined {
            function: function.into(),
            caller_file: Some("f.h".into()),
            caller_line: Some(line),
        };
        let inlined: Arc<[Inlined]> = [call("inner", 20), call("outer", 30)].into();
        builder.finish(recording, |process, address, mode| {
            let mut frame = symbols.frame(process, address, mode);
            if &*frame.module == "f" {
                frame.symbol = Some("f".into());
                (frame.file, frame.line) = (Some("f.h".into()), Some(10));
                frame.inlined = Arc::clone(&inlined);
            }
            (frame, symbols.module(process, address, mode))
        })
    }

    fn written(samples: &Samples, format: Format) -> String {
        let mut out = Vec::new();
        write(&Export::new(samples, "a", format), format, &mut out).expect("written");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn inlined_functions_are_levels_of_stacks() {
        let samples = with_inlined(true);
        let lines = [
            "process 4;thread 0;g 10",
            "process 4;thread 0;main;f!f;f!outer_[i];f!inner_[i] 10",
            "process 4;thread 0;main;f!f;f!outer_[i];f!inner_[i];f!f;f!outer_[i];f!inner_[i] 10",
            "process 4;thread 0;main;f!f;f!outer_[i];f!inner_[i];g 10",
            "process 4;thread 0;main;f!f;f!outer_[i];f!inner_[i];g;kernel 10",
        ];
        assert_eq!(written(&samples, Format::Folded).lines().collect::<Vec<_>>(), lines);
        for format in [Format::Flamegraph, Format::Html, Format::Firefox] {
            let text = written(&samples, format);
            assert!(text.contains("inner (inlined)"), "{}: {text}", format.name());
        }
    }

    fn read_all(paths: &[&Path], format: Format) -> Samples {
        let (tracks, filter) = (TrackBy::default(), Filter::default());
        read(paths, format, tracks, &filter, &SymbolPath::default()).expect("read")
    }

    fn exported(paths: &[&Path], format: Format) -> String {
        written(&read_all(paths, format), format)
    }

    #[test]
    fn a_page_says_how_many_samples_have_call_stacks() {
        let (_folder, path) = recorded(&SAMPLES);
        let page = exported(&[&path], Format::Html);
        // The last has none.
        assert!(page.contains("4 of 5 samples have call stacks"), "{page}");
    }

    #[test]
    fn each_stack_is_a_line_from_the_outermost_function_down() {
        let (_folder, path) = recorded(&SAMPLES);
        let in_lines = |paths: &[&Path]| exported(paths, Format::Folded);
        let lines = [
            "process 4;thread 0;g 10",
            "process 4;thread 0;main;f 10",
            "process 4;thread 0;main;f;f 10",
            "process 4;thread 0;main;f;g 10",
            "process 4;thread 0;main;f;g;kernel 10",
        ];
        assert_eq!(in_lines(&[&path]).lines().collect::<Vec<_>>(), lines);
        let twice = in_lines(&[&path, &path]);
        let twice: Vec<&str> = twice.lines().collect();
        assert_eq!(twice, lines.map(|line| format!("a;{}", line.replace(" 10", " 20"))));
    }

    /// Lines and frames of pictures are made for each stack of names, not for each location.
    #[test]
    fn locations_with_the_same_levels_are_added_up() {
        let (_folder, path) = recorded(&SAMPLES);
        let samples = read_all(&[&path, &path], Format::Folded);
        let source = samples.sources.first().expect("a source");
        assert_eq!(samples.location_totals_of(source).count(), 2 * SAMPLES.len());
        assert_eq!(samples.level_totals_of(source).count(), SAMPLES.len());
    }
}
