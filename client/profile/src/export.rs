//! Files for other programs: pictures, and the formats of other profilers.
//!
//! ```text
//! file::Reader -> Gatherer -> Gathered -> View -> one file of a Format
//!                                  symbols ----^
//! ```
//!
//! Samples have no call stacks: where a format wants a stack, it gets only the sampled place.

mod firefox;
mod folded;
mod format;
pub mod perf_script;
pub mod pictures;
mod pprof;
mod selection;

pub use crate::aggregate::samples::binned;
pub use crate::aggregate::samples::{
    Aggregate, AggregateBuilder, Bin, Bins, LocationTotals, Source, ThreadLocation, TimedSample,
    TrackBy, TrackKey,
};
pub use crate::export::format::{Format, FormatTraits};
pub use crate::export::selection::{Export, listed};

use std::io::{self, Write};

/// The largest number of marks in a file: what a browser can still load.
pub const MARKS_MAX: usize = 1 << 19;

/// Writes a view in a format.
pub fn write(export: &Export<'_>, format: Format, out: &mut impl Write) -> io::Result<()> {
    match format {
        Format::Flamegraph => out.write_all(pictures::flamegraph(export).as_bytes()),
        Format::Html => out.write_all(pictures::page(export).as_bytes()),
        Format::Firefox => firefox::write(export, out),
        Format::Pprof => pprof::write(export, out),
        Format::Folded => folded::write(export, out),
    }
}
