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

/// The system that wrote a trace, such as `Windows 11 (10.0.22631)`. Windows 11 kept the version of
/// Windows 10, and began with build 22000; Server 2025 has the build of one of its releases
/// (Microsoft's release information of both).
pub fn system(header: &TraceHeader) -> String {
    let TraceHeader { major, minor, build, .. } = *header;
    match (major, minor, build) {
        (10, 0, 26_100) => format!("Windows 11 or Server 2025 ({major}.{minor}.{build})"),
        (10, 0, 22_000..) => format!("Windows 11 ({major}.{minor}.{build})"),
        _ => format!("Windows {major}.{minor}.{build}"),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_is_called_by_its_name() {
        for (major, minor, build, name) in [
            (6, 1, 7601, "Windows 6.1.7601"),
            (10, 0, 19_045, "Windows 10.0.19045"),
            (10, 0, 22_631, "Windows 11 (10.0.22631)"),
            (10, 0, 26_100, "Windows 11 or Server 2025 (10.0.26100)"),
            (10, 0, 26_200, "Windows 11 (10.0.26200)"),
        ] {
            let header = TraceHeader { major, minor, build, ..TraceHeader::default() };
            assert_eq!(system(&header), name);
        }
    }
}
