//! The memory of a machine, as in a kernel dump, written to a folder.
//!
//! `memory.bin` has the bytes: the driver's image, then all allocations. `memory.json` gives their
//! addresses, one range after the other.

use crate::machine::Machine;
use crate::memory::IMAGE;
use anyhow::{Context, Result};
use object::LittleEndian as LE;
use object::pe::ImageNtHeaders64;
use object::read::pe::PeFile;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Enough for what a debugger reads first of an image: its headers.
const HEADERS: usize = 0x1000;

/// Writes the memory of a machine between two instructions.
pub fn write(machine: &Machine, folder: &Path) -> Result<()> {
    let mut ranges = vec![(IMAGE, size_of_image(machine)?)];
    ranges.extend(machine.engine.bus_ref().arena.allocated());
    let bytes: Vec<u8> =
        ranges.iter().flat_map(|&(at, size)| machine.engine.bytes(at, size as usize)).collect();
    let ranges: Vec<Value> = ranges
        .iter()
        .map(|(at, size)| json!({ "address": format!("{at:#x}"), "size": size }))
        .collect();
    let told = json!({ "image": format!("{IMAGE:#x}"), "ranges": ranges });
    fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    fs::write(folder.join("memory.bin"), bytes).context("write the memory")?;
    fs::write(folder.join("memory.json"), told.to_string()).context("write the addresses")
}

fn size_of_image(machine: &Machine) -> Result<u64> {
    let headers = machine.engine.bytes(IMAGE, HEADERS);
    let image = PeFile::<ImageNtHeaders64>::parse(&*headers).context("the image's headers")?;
    let size = image.nt_headers().optional_header.size_of_image.get(LE);
    Ok(size.into())
}
