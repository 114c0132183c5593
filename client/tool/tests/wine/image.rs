//! Does halprof.exe need nothing but Windows, and is it small?

use crate::cli::support::skipped_unless;
use crate::wine::prefix::EXE;
use object::LittleEndian as LE;
use object::read::pe::{ImageNtHeaders, ImageOptionalHeader, PeFile64};
use std::collections::BTreeSet;

/// Libraries that a file beside halprof.exe cannot replace: Windows' known DLLs with what they
/// import, and what Rust's standard library imports itself. Others are loaded from System32 when
/// needed. msvcrt.dll is the C runtime that belongs to Windows.
const SYSTEM: &[&str] = &[
    "advapi32.dll",
    "bcryptprimitives.dll",
    "cfgmgr32.dll",
    "kernel32.dll",
    "msvcrt.dll",
    "ntdll.dll",
    "ole32.dll",
    "oleaut32.dll",
    "psapi.dll",
    "setupapi.dll",
    "shell32.dll",
    "user32.dll",
    "userenv.dll",
    "ws2_32.dll",
];

/// The size that the executable stays below, in bytes; no page promises it.
const LARGEST: usize = 12_000_000;

fn exe() -> Option<Vec<u8>> {
    let exe = std::fs::read(EXE).ok();
    if exe.is_none() {
        skipped_unless("HALPROF_REQUIRE_DRIVER", &format!("{EXE} is absent"));
    }
    exe
}

#[test]
fn it_loads_on_a_bare_windows() {
    let Some(exe) = exe() else {
        return;
    };
    let file = PeFile64::parse(exe.as_slice()).expect("an image");
    let table = file.import_table().expect("imports").expect("some");
    let mut libraries = BTreeSet::new();
    let mut descriptors = table.descriptors().expect("a list");
    while let Some(descriptor) = descriptors.next().expect("a descriptor") {
        let name = table.name(descriptor.name.get(LE)).expect("a name");
        libraries.insert(String::from_utf8_lossy(name).to_lowercase());
    }
    assert!(libraries.contains("kernel32.dll"), "{libraries:?}");
    for library in &libraries {
        let known = SYSTEM.contains(&library.as_str()) || library.starts_with("api-ms-win-core-");
        assert!(known, "{library} is no part of Windows");
    }
    // Address-space randomisation is on, and data is not executable.
    let flags = file.nt_headers().optional_header().dll_characteristics();
    let wanted = object::pe::IMAGE_DLLCHARACTERISTICS_DYNAMIC_BASE
        | object::pe::IMAGE_DLLCHARACTERISTICS_NX_COMPAT;
    assert_eq!(flags & wanted, wanted);
}

#[test]
fn it_is_small() {
    let Some(exe) = exe() else {
        return;
    };
    assert!(exe.len() < LARGEST, "{} bytes", exe.len());
}
