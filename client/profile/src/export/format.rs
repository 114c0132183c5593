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

    /// The file extension, including the leading dot.
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Flamegraph => ".flamegraph.svg",
            Self::Html => ".html",
            Self::Firefox => ".firefox.json",
            Self::Pprof => ".pb.gz",
            Self::Folded => ".folded",
        }
    }

    /// Whether one file holds one source, because events of different sources may not be added.
    pub const fn is_of_one_source(self) -> bool {
        !matches!(self, Self::Html)
    }

    /// Whether it shows the time of each sample.
    pub const fn has_sample_times(self) -> bool {
        matches!(self, Self::Firefox)
    }

    /// Whether it shows any times, marks among them: each machine has a clock of its own.
    pub const fn has_times(self) -> bool {
        matches!(self, Self::Html | Self::Firefox)
    }
}
