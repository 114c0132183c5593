//! The formats in which a view can be written.

/// The formats that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Flame graph, SVG
    Flamegraph,
    /// One page with flame graphs, rates over time, marks and a table
    Html,
    /// Firefox Profiler, JSON
    Firefox,
    /// pprof, protocol buffer in gzip
    Pprof,
    /// Folded stacks, text
    Folded,
}

/// Properties of a format that matter before it is written.
#[derive(Clone, Copy, Debug)]
pub struct FormatTraits {
    /// The file extension, including the leading dot.
    pub ending: &'static str,
    /// Whether one file holds one source, because events of different sources may not be added.
    pub single_source: bool,
    /// Whether it shows the time of each sample.
    pub timed_samples: bool,
    /// Whether it shows any time at all: each machine has a clock of its own.
    pub clock: bool,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 5] =
        [Self::Flamegraph, Self::Html, Self::Firefox, Self::Pprof, Self::Folded];

    /// A one-line description.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Flamegraph => "Flame graph, SVG",
            Self::Html => "One page with flame graphs, rates over time, marks and a table",
            Self::Firefox => "Firefox Profiler, JSON",
            Self::Pprof => "pprof, protocol buffer in gzip",
            Self::Folded => "Folded stacks, text",
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flamegraph => "flamegraph",
            Self::Html => "html",
            Self::Firefox => "firefox",
            Self::Pprof => "pprof",
            Self::Folded => "folded",
        }
    }

    /// Whether it shows a program's marks.
    pub const fn shows_marks(self) -> bool {
        matches!(self, Self::Html | Self::Firefox)
    }

    /// Its properties.
    pub const fn traits(self) -> FormatTraits {
        let (ending, single_source, timed_samples) = match self {
            Self::Flamegraph => (".flamegraph.svg", true, false),
            Self::Html => (".html", false, false),
            Self::Firefox => (".firefox.json", true, true),
            Self::Pprof => (".pb.gz", true, false),
            Self::Folded => (".folded", true, false),
        };
        FormatTraits {
            ending,
            single_source,
            timed_samples,
            clock: timed_samples || matches!(self, Self::Html),
        }
    }
}
