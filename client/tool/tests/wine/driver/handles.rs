//! What do access rights and lengths come to, through the I/O manager?

use super::{Driven, OVERRIDES, Running, SOURCES, compile, program};
use shared_types::WIRE_VERSION;
use shared_types::request::{machine, session};
use std::collections::BTreeMap;

/// The Win32 error of each request, and the bytes that it returned: `None` for HELLO's reply.
///
/// Refused before the driver sees them: 5, ERROR_ACCESS_DENIED; 6, ERROR_INVALID_HANDLE, which is
/// Wine's for input that cannot be read; 1784, ERROR_INVALID_USER_BUFFER. The service's own: 122,
/// STATUS_BUFFER_TOO_SMALL; 24, STATUS_INFO_LENGTH_MISMATCH; 1, STATUS_INVALID_DEVICE_REQUEST; and a
/// refusal of 24 bytes where only that fits, or for CLOSE without a session.
const WANTED: &[(&str, u32, Option<usize>)] = &[
    ("none reads", 5, Some(0)),
    ("none writes", 5, Some(0)),
    ("read reads", 0, None),
    ("read writes", 5, Some(0)),
    ("write reads", 5, Some(0)),
    ("write writes", 0, Some(24)),
    ("both reads", 0, None),
    ("both writes", 0, Some(24)),
    ("a duplicate for reading writes", 5, Some(0)),
    ("output of 0", 122, Some(0)),
    ("output of 1", 122, Some(0)),
    ("output of 15", 122, Some(0)),
    ("output of 16", 122, Some(0)),
    ("output of 31", 0, Some(24)),
    ("output of 100", 0, Some(24)),
    ("output of 4096", 0, None),
    ("output of 1048576", 0, None),
    ("input of 0", 24, Some(0)),
    ("input of 4", 24, Some(0)),
    ("input of 8", 24, Some(0)),
    ("input of 12", 24, Some(0)),
    ("input of nowhere", 6, Some(0)),
    ("output to nowhere", 1784, Some(0)),
    ("method 1", 1, Some(0)),
    ("method 2", 1, Some(0)),
    ("method 3", 1, Some(0)),
    ("any access", 1, Some(0)),
    ("a duplicate", 0, None),
    ("below the device", 2, Some(0)),
];

#[test]
fn rights_and_lengths_are_checked() {
    let Some(driven) = Driven::new() else {
        return;
    };
    driven.install("");
    let here = driven.wine.folder();
    compile(&here.join("requests.exe"), &[&format!("{SOURCES}/requests.c")]);
    let header = [16, WIRE_VERSION, 0, 0].map(u32::to_le_bytes).concat();
    let hex: Vec<String> = header.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut requests = driven.wine.command(&program("wine64"));
    let codes = [machine::HELLO, session::CLOSE].map(|code| code.0.to_string());
    requests.arg("requests.exe").args(codes).arg(hex.concat()).env(OVERRIDES.0, OVERRIDES.1);
    let ran = Running::of(&driven, requests).ended();
    assert_eq!(ran.status, Some(0), "{}", ran.errors);
    let hello = size_of::<machine::Hello>();
    let found: BTreeMap<&str, &str> =
        ran.output.lines().filter_map(|line| line.trim_end().split_once(": ")).collect();
    assert_eq!(found.len(), WANTED.len(), "{}", ran.output);
    for (what, error, bytes) in WANTED {
        let wanted = format!("{error}, {}", bytes.unwrap_or(hello));
        assert_eq!(found.get(what), Some(&wanted.as_str()), "{what}:\n{}", ran.output);
    }
    driven.uninstall();
}
