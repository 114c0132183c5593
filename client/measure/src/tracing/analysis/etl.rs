//! Opens a trace's file.

use crate::error::{Error, Result};
use halprof_etw::Trace;
use halprof_etw::payload::trace::TraceHeader;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// A trace in a file.
pub type Etl = Trace<BufReader<File>>;

/// The name of a modelled machine's session: its trace has nothing else that says so.
pub const MODEL_SESSION: &str = "halprof model";

/// Whether a trace is of a modelled machine.
pub fn is_modelled(header: &TraceHeader) -> bool {
    header.session_name == MODEL_SESSION
}

/// The system that wrote a trace, such as `Windows 10.0.19041`.
pub fn system(header: &TraceHeader) -> String {
    format!("Windows {}.{}.{}", header.major, header.minor, header.build)
}

/// Opens a trace.
pub fn open(path: &Path) -> Result<Etl> {
    let file = File::open(path).map_err(|error| Error::reading(path, error))?;
    Trace::open(BufReader::new(file)).map_err(|error| match error {
        halprof_etw::Error::Io(error) => Error::reading(path, error),
        halprof_etw::Error::NotATrace(why) => Error::bad_file(
            path,
            format!("is not a trace: {why}"),
            "`xperf -merge` and WPR write traces that can be read.",
        ),
        halprof_etw::Error::Compression(compression) => Error::bad_file(
            path,
            format!("is compressed with {compression}; only XPRESS is read"),
            "Record it again without compression, or merge it with compression off.",
        ),
    })
}
