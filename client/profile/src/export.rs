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
mod view;

pub use crate::aggregate::gathered::binned;
pub use crate::aggregate::gathered::{
    Bin, Bins, Gathered, Gatherer, Lane, Lanes, Moment, Place, Source, Spot,
};
pub use crate::export::format::{Format, Traits};
pub use crate::export::view::{View, listed};

use std::io::{self, Write};

/// The largest number of marks in a file: what a browser can still load.
pub const MARKS_MAX: usize = 1 << 19;

/// Writes a view in a format.
pub fn write(view: &View<'_>, format: Format, out: &mut impl Write) -> io::Result<()> {
    match format {
        Format::Flamegraph => out.write_all(pictures::flamegraph(view).as_bytes()),
        Format::Html => out.write_all(pictures::page(view).as_bytes()),
        Format::Firefox => firefox::write(view, out),
        Format::Pprof => pprof::write(view, out),
        Format::Folded => folded::write(view, out),
    }
}
