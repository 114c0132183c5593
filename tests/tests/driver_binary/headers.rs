//! Subsystem, protections, sections, guarded functions, and no path from the build machine.

use super::code::Code;
use super::entries::{ENTRIES, is_closure};
use super::image::{DLL_CHARACTERISTICS, GUARD_COUNT, Image, SECTION_CHARACTERISTICS};
use super::{Refusals, accepted, image, refused};
use object::LittleEndian as LE;
use object::pe;

/// Each flag of DllCharacteristics, with what it provides.
const PROTECTIONS: [(u16, &str); 5] = [
    (pe::IMAGE_DLLCHARACTERISTICS_DYNAMIC_BASE, "DYNAMIC_BASE: loaded anywhere"),
    (pe::IMAGE_DLLCHARACTERISTICS_HIGH_ENTROPY_VA, "HIGH_ENTROPY_VA: anywhere in 64 bits"),
    (pe::IMAGE_DLLCHARACTERISTICS_NX_COMPAT, "NX_COMPAT: data is not executed"),
    (pe::IMAGE_DLLCHARACTERISTICS_FORCE_INTEGRITY, "FORCE_INTEGRITY: the signature is checked"),
    (pe::IMAGE_DLLCHARACTERISTICS_GUARD_CF, "GUARD_CF: indirect calls are checked"),
];
/// IMAGE_GUARD_CF_INSTRUMENTED and IMAGE_GUARD_CF_FUNCTION_TABLE_PRESENT (winnt.h).
const GUARDED: u32 = 0x100 | 0x400;
const PAGE: u32 = 0x1000;
/// The size limit of the file in bytes.
const LARGEST: usize = 160 << 10;
/// IMAGE_DEBUG_TYPE_EX_DLLCHARACTERISTICS and IMAGE_DLLCHARACTERISTICS_EX_CET_COMPAT (winnt.h).
const DEBUG_EXTENDED: u32 = 20;
const CET_COMPATIBLE: u32 = 1;
/// How a path or a user's name on a build machine begins.
const PATHS: [&str; 9] =
    ["/root", "/home", "/usr", "/work", "/tmp", ".cargo", ".rustup", "C:\\", "\\Users\\"];

fn kind(image: &Image) -> Refusals {
    let mut refusals = Refusals::new();
    let optional = &image.headers.optional_header;
    if image.headers.file_header.machine.get(LE) != pe::IMAGE_FILE_MACHINE_AMD64 {
        refusals.push("not for x64".to_owned());
    }
    if optional.subsystem.get(LE) != pe::IMAGE_SUBSYSTEM_NATIVE {
        refusals.push("not a native image".to_owned());
    }
    if optional.address_of_entry_point.get(LE) != image.function("FxDriverEntry") {
        refusals.push("the framework's entry is not the entry".to_owned());
    }
    if image.bytes.len() > LARGEST {
        refusals.push(format!("{} bytes, more than {LARGEST}", image.bytes.len()));
    }
    refusals
}

fn protections(image: &Image) -> Refusals {
    let set = image.headers.optional_header.dll_characteristics.get(LE);
    let missing = PROTECTIONS.iter().filter(|(bit, _)| set & bit != *bit);
    let mut refusals: Refusals = missing.map(|(_, what)| format!("without {what}")).collect();
    if extended_characteristics(image) & CET_COMPATIBLE == 0 {
        refusals.push("without CETCOMPAT: returns are not checked".to_owned());
    }
    refusals
}

fn extended_characteristics(image: &Image) -> u32 {
    let (table, size) = image.directory(pe::IMAGE_DIRECTORY_ENTRY_DEBUG);
    let entries = (table..table + size).step_by(size_of::<pe::ImageDebugDirectory>());
    let mut extended = entries.filter(|entry| image.u32_at(entry + 12) == DEBUG_EXTENDED);
    extended.next().map_or(0, |entry| image.u32_at(image.u32_at(entry + 20)))
}

fn sections(image: &Image) -> Refusals {
    let mut refusals = Refusals::new();
    if image.headers.optional_header.section_alignment.get(LE) != PAGE {
        refusals.push("sections do not begin with pages".to_owned());
    }
    for section in &image.sections {
        let has = |bit| section.characteristics & bit != 0;
        if has(pe::IMAGE_SCN_MEM_WRITE) && has(pe::IMAGE_SCN_MEM_EXECUTE) {
            refusals.push(format!("{} is writable and executable", section.name));
        }
        if has(pe::IMAGE_SCN_MEM_EXECUTE) != (section.name == ".text") {
            refusals.push(format!("{}: code is in .text alone", section.name));
        }
        if section.address % PAGE != 0 {
            refusals.push(format!("{} does not begin with a page", section.name));
        }
    }
    refusals
}

/// Every entry is a permitted target of indirect calls, and apart from entries only closures are.
fn guarded_functions(image: &Image) -> Refusals {
    let mut refusals = Refusals::new();
    let code = Code::of(image);
    if image.guard.flags & GUARDED != GUARDED {
        refusals.push(format!("guard flags {:#x}", image.guard.flags));
    }
    for entry in ENTRIES {
        if !image.guard.functions.contains(&image.function(entry.name)) {
            refusals.push(format!("{} is not guarded", entry.name));
        }
    }
    for at in &image.guard.functions {
        let known = code.functions.get(at).is_some_and(|function| {
            let entry = ENTRIES.iter().any(|entry| function.is(entry.name));
            entry || is_closure(function) || LINKED.iter().any(|name| function.begins(name))
        });
        if !known {
            refusals.push(format!("indirect calls may go to {at:#x}, and nobody knows why"));
        }
    }
    refusals
}

/// Guarded functions that nothing calls: names that wdk-sys gives the linker, and functions that
/// the load configuration points to.
const LINKED: [&str; 5] = [
    "__CxxFrameHandler3",
    "__CxxFrameHandler4",
    "__GSHandlerCheck_EH4",
    "the guard's check",
    "the guard's dispatch",
];

fn paths(image: &Image) -> Refusals {
    let narrow = String::from_utf8_lossy(&image.bytes);
    // Text in 16-bit characters, at either alignment.
    let wide = [0, 1].map(|skip| {
        let pairs = image.bytes[skip..].chunks_exact(2);
        pairs.map(|pair| if pair[1] == 0 { char::from(pair[0]) } else { '\0' }).collect::<String>()
    });
    let has =
        |path: &&&str| narrow.contains(**path) || wide.iter().any(|text| text.contains(**path));
    let found = PATHS.iter().filter(has);
    found.map(|path| format!("`{path}` is in the image")).collect()
}

#[test]
fn the_image_is_a_native_driver_of_x64() {
    accepted(kind);
    if let Some(image) = image() {
        println!("{} bytes, {} imports", image.bytes.len(), image.imports.len());
    }
    refused(kind, "not a native image", |image, file| {
        file[image.headers_at() + 24 + 68] = 3;
    });
    refused(kind, "not for x64", |image, file| {
        file[image.headers_at() + 4] ^= 1;
    });
    refused(kind, "entry", |image, file| {
        file[image.headers_at() + 24 + 16] ^= 0x10;
    });
    refused(kind, "more than", |_, file| file.resize(LARGEST + 1, 0));
}

#[test]
fn every_protection_is_on() {
    accepted(protections);
    for (bit, what) in PROTECTIONS {
        refused(protections, what, |image, file| {
            let at = image.headers_at() + DLL_CHARACTERISTICS;
            file[at] &= !(bit.to_le_bytes()[0]);
            file[at + 1] &= !(bit.to_le_bytes()[1]);
        });
    }
    refused(protections, "CETCOMPAT", |image, file| {
        let (table, _) = image.directory(pe::IMAGE_DIRECTORY_ENTRY_DEBUG);
        let entry = (0..8).map(|n| table + n * 28).find(|e| image.u32_at(e + 12) == DEBUG_EXTENDED);
        let at = image.u32_at(entry.expect("an entry") + 20);
        super::overwrite(image, file, at, &[0]);
    });
}

#[test]
fn no_section_is_writable_and_executable() {
    accepted(sections);
    refused(sections, ".data is writable and executable", |image, file| {
        file[image.section(".data").header + SECTION_CHARACTERISTICS + 3] |= 0x20;
    });
    refused(sections, ".text is writable and executable", |image, file| {
        file[image.section(".text").header + SECTION_CHARACTERISTICS + 3] |= 0x80;
    });
    refused(sections, "do not begin with pages", |image, file| {
        file[image.headers_at() + 24 + 33] = 8;
    });
}

#[test]
fn indirect_calls_may_go_to_callbacks_and_closures_alone() {
    accepted(guarded_functions);
    refused(guarded_functions, "guard flags", |image, file| {
        let (at, _) = image.directory(pe::IMAGE_DIRECTORY_ENTRY_LOAD_CONFIG);
        super::overwrite(image, file, at + 0x91, &[0]);
    });
    refused(guarded_functions, "is not guarded", |image, file| {
        let (at, _) = image.directory(pe::IMAGE_DIRECTORY_ENTRY_LOAD_CONFIG);
        super::overwrite(image, file, at + GUARD_COUNT, &[1]);
    });
    refused(guarded_functions, "nobody knows why", |image, file| {
        let (at, _) = image.directory(pe::IMAGE_DIRECTORY_ENTRY_LOAD_CONFIG);
        let base = image.headers.optional_header.image_base.get(LE);
        let table = image.u64_at(at + 0x80) - base;
        super::overwrite(image, file, table as u32, &[1]);
    });
}

#[test]
fn no_path_of_the_build_machine_is_in_the_image() {
    accepted(paths);
    refused(paths, "/home", |image, file| {
        super::overwrite(image, file, image.section(".rdata").address, b"/home/somebody");
    });
    refused(paths, ".cargo", |image, file| {
        let wide: Vec<u8> = ".cargo".bytes().flat_map(|byte| [byte, 0]).collect();
        super::overwrite(image, file, image.section(".rdata").address + 1, &wide);
    });
}
