//! The formats in which a view can be written.

/// The formats that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Flame graph, SVG
    Flamegraph,
    /// Rates over time, SVG
    Timeline,
    /// One page with both and a table
    Html,
    /// Firefox Profiler, JSON
    Firefox,
    /// pprof, protocol buffer in gzip
    Pprof,
    /// Folded stacks, text
    Folded,
    /// Trace events for Perfetto and chrome://tracing, JSON
    Chrome,
}

/// Properties of a format that matter before it is written.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    /// The file extension, including the leading dot.
    pub ending: &'static str,
    /// Whether one file holds one source, because events of different sources may not be added.
    pub single_source: bool,
    /// Whether it shows the time of each sample.
    pub moments: bool,
    /// Whether it shows any time at all: each machine has a clock of its own.
    pub clock: bool,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 7] = [
        Self::Flamegraph,
        Self::Timeline,
        Self::Html,
        Self::Firefox,
        Self::Pprof,
        Self::Folded,
        Self::Chrome,
    ];

    /// A one-line description.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Flamegraph => "Flame graph, SVG",
            Self::Timeline => "Rates over time, SVG",
            Self::Html => "One page with both and a table",
            Self::Firefox => "Firefox Profiler, JSON",
            Self::Pprof => "pprof, protocol buffer in gzip",
            Self::Folded => "Folded stacks, text",
            Self::Chrome => "Trace events for Perfetto and chrome://tracing, JSON",
        }
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flamegraph => "flamegraph",
            Self::Timeline => "timeline",
            Self::Html => "html",
            Self::Firefox => "firefox",
            Self::Pprof => "pprof",
            Self::Folded => "folded",
            Self::Chrome => "chrome",
        }
    }

    /// Whether it shows a program's marks.
    #[must_use]
    pub const fn shows_marks(self) -> bool {
        matches!(self, Self::Html | Self::Firefox | Self::Chrome)
    }

    /// Its properties.
    #[must_use]
    pub const fn traits(self) -> Traits {
        let (ending, single_source, moments) = match self {
            Self::Flamegraph => (".flamegraph.svg", true, false),
            Self::Timeline => (".timeline.svg", true, false),
            Self::Html => (".html", false, false),
            Self::Firefox => (".firefox.json", true, true),
            Self::Pprof => (".pb.gz", true, false),
            Self::Folded => (".folded", true, false),
            Self::Chrome => (".trace.json", false, true),
        };
        Traits {
            ending,
            single_source,
            moments,
            clock: moments || matches!(self, Self::Timeline | Self::Html),
        }
    }
}
