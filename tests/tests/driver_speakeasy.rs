//! Does a third-party emulator of Windows load the driver and run its entry?
//!
//! Speakeasy (<https://github.com/mandiant/speakeasy>), unmodified, loads the image, resolves its
//! imports, and runs the real entry: WdfVersionBind, DriverEntry, WdfDriverCreate. Its report is
//! the evidence. It adds no device, and has one processor and no performance counters.

use halprof_tests::driver;
use object::LittleEndian as LE;
use object::read::pe::PeFile64;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the entry must call, in this order, each returning success; between them it may only copy.
const CALLS: [&str; 2] = ["WDFLDR.WdfVersionBind", "wdfldr.WdfDriverCreate"];
const COPIES: [&str; 3] = ["ntoskrnl.RtlCopyUnicodeString", "ntoskrnl.memcpy", "ntoskrnl.memset"];
const SUCCESS: &str = "0x0";

/// The Python interpreter that has Speakeasy, as `cargo xtask setup` installs it.
fn python() -> Option<PathBuf> {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/speakeasy/bin/python");
    if python.is_file() {
        return Some(python);
    }
    driver::skip(&format!("no {}: run `cargo xtask setup`", python.display()));
    None
}

/// What Speakeasy reports about the image's entry, or why it could not report anything.
fn report(python: &Path, sys: &Path) -> Result<Value, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("speakeasy/load.py");
    let output = Command::new(python).arg(script).arg(sys).output();
    let output = output.expect("python runs");
    let report: Value = serde_json::from_slice(&output.stdout)
        .map_err(|_| format!("no report: {}", String::from_utf8_lossy(&output.stderr)))?;
    let entries = report["entry_points"].as_array().cloned().unwrap_or_default();
    let mut entries = entries.into_iter();
    entries
        .find(|entry| entry["ep_type"] == "entry_point")
        .ok_or_else(|| "the entry was not run".to_owned())
}

/// What is wrong with a driver, if anything.
fn judge(python: &Path, sys: &Path) -> Result<(), String> {
    let entry = report(python, sys)?;
    let error = &entry["error"];
    if error.as_object().is_some_and(|error| !error.is_empty()) {
        return Err(format!("the entry failed: {}", error["type"]));
    }
    let calls = entry["apis"].as_array().cloned().unwrap_or_default();
    let mut made = Vec::new();
    for call in &calls {
        let name = call["api_name"].as_str().unwrap_or_default();
        if COPIES.contains(&name) {
            continue;
        }
        if call["ret_val"] != SUCCESS {
            return Err(format!("{name} answered {}", call["ret_val"]));
        }
        made.push(name);
    }
    if made != CALLS {
        return Err(format!("the entry called {made:?}"));
    }
    if entry["ret_val"] != SUCCESS {
        return Err(format!("the entry answered {}", entry["ret_val"]));
    }
    Ok(())
}

/// The driver, and the locations of things in its file.
struct Driver {
    bytes: Vec<u8>,
}

impl Driver {
    fn offset(&self, address: u32) -> usize {
        let file = PeFile64::parse(&*self.bytes).expect("a PE image");
        let (offset, _) =
            file.section_table().pe_file_range_at(address).expect("an address in the file");
        offset as usize
    }

    fn entry(&self) -> usize {
        let file = PeFile64::parse(&*self.bytes).expect("a PE image");
        let optional = &file.nt_headers().optional_header;
        self.offset(optional.address_of_entry_point.get(LE))
    }

    fn driver_entry(&self) -> usize {
        let file = PeFile64::parse(&*self.bytes).expect("a PE image");
        let table = file.export_table().expect("exports").expect("exports");
        let exports = table.exports().expect("exports");
        let export = exports.iter().find(|one| one.name == Some(b"DriverEntry"));
        let object::read::pe::ExportTarget::Address(at) = export.expect("DriverEntry").target
        else {
            panic!("DriverEntry is forwarded");
        };
        self.offset(at)
    }

    fn text(&self, text: &[u8]) -> usize {
        let all = self.bytes.windows(text.len());
        all.clone().position(|bytes| bytes == text).expect("the text")
    }
}

/// MOV EAX, STATUS_UNSUCCESSFUL; RET.
const FAIL: &[u8] = &[0xB8, 0x01, 0x00, 0x00, 0xC0, 0xC3];
/// XOR EAX, EAX; RET.
const SUCCEED: &[u8] = &[0x31, 0xC0, 0xC3];
/// UD2.
const CRASH: &[u8] = &[0x0F, 0x0B];

#[test]
fn speakeasy_runs_the_entry_to_success() {
    let (Some(folder), Some(python)) = (driver::folder(), python()) else {
        return;
    };
    judge(&python, &folder.join("halprof.sys")).expect("a driver that binds and creates itself");
}

#[test]
fn speakeasy_notices_what_is_broken() {
    let (Some(folder), Some(python)) = (driver::folder(), python()) else {
        return;
    };
    let driver = Driver { bytes: std::fs::read(folder.join("halprof.sys")).expect("the driver") };
    let broken: [(&str, usize, &[u8], &str); 6] = [
        ("import", driver.text(b"WdfVersionBind\0"), b"WdfVersionBand", "the entry failed"),
        ("crash", driver.entry(), CRASH, "the entry"),
        ("entry", driver.entry(), FAIL, "the entry called []"),
        ("nothing", driver.entry(), SUCCEED, "the entry called []"),
        ("driver_entry", driver.driver_entry(), FAIL, "the entry failed"),
        ("image", driver.text(b"PE\0\0"), b"NE", "no report"),
    ];
    let folder = std::env::temp_dir().join(format!("halprof-speakeasy-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    for (name, at, bytes, words) in broken {
        let mut changed = driver.bytes.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        let sys = folder.join(format!("{name}.sys"));
        std::fs::write(&sys, changed).expect("a changed driver");
        let refused = judge(&python, &sys).expect_err(name);
        assert!(refused.contains(words), "{name}: {refused}");
    }
    std::fs::remove_dir_all(folder).expect("the folder goes");
}
