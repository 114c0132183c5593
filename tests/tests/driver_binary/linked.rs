//! What the linker adds to the code: checksum, security cookie, the symbols' name, the PDB.

use super::image::Image;
use super::{Refusals, accepted, refused};
use halprof_tests::driver;
use object::Object as _;
use object::endian::LittleEndian as LE;
use object::pe;
use object::read::ReadRef as _;
use object::read::pe::{ImageNtHeaders as _, ImageOptionalHeader as _, PeFile64};
use std::path::Path;

/// The checksum, relative to the NT headers.
const CHECKSUM: usize = 24 + 0x40;

fn linked(image: &Image) -> Refusals {
    let file = PeFile64::parse(&image.bytes[..]).expect("a PE32+ image");
    let header = file.nt_headers().optional_header();
    let mut refusals = Refusals::new();
    if header.check_sum() != checksum(image) {
        refusals.push("the checksum is wrong".to_owned());
    }
    if cookie(&file) == Some(0) || cookie(&file).is_none() {
        refusals.push("there is no security cookie".to_owned());
    }
    let symbols = file.pdb_info().expect("a debug directory");
    if symbols.is_none_or(|symbols| symbols.path() != b"halprof.pdb") {
        refusals.push("the symbols have another name".to_owned());
    }
    refusals
}

fn cookie(file: &PeFile64<'_>) -> Option<u64> {
    let directory = file.data_directory(pe::IMAGE_DIRECTORY_ENTRY_LOAD_CONFIG)?;
    let at = directory.virtual_address.get(LE);
    // The directory's own length ends before the fields that newer versions of Windows know.
    let data = file.section_table().pe_data_at(file.data(), at)?;
    let configuration = data.read_at::<pe::ImageLoadConfigDirectory64>(0).ok()?;
    Some(configuration.security_cookie.get(LE))
}

/// All 16-bit words except the checksum's own, added with their carries, plus the length.
fn checksum(image: &Image) -> u32 {
    let at = image.headers_at() + CHECKSUM;
    let words = image.bytes.chunks(2).enumerate();
    let words = words.filter(|(index, _)| index * 2 != at && index * 2 != at + 2);
    let sum = words.fold(0_u32, |sum, (_, word)| {
        let word = [word[0], word.get(1).copied().unwrap_or(0)];
        let sum = sum + u32::from(u16::from_le_bytes(word));
        (sum & 0xFFFF) + (sum >> 16)
    });
    sum + u32::try_from(image.bytes.len()).expect("below 4 GiB")
}

#[test]
fn checksum_cookie_and_name_are_there() {
    accepted(linked);
    refused(linked, "checksum", |image, file| {
        file[image.headers_at() + CHECKSUM] ^= 1;
    });
    refused(linked, "another name", |image, file| {
        let name = b"halprof.pdb\0";
        let found = image.bytes.windows(name.len()).position(|at| at == name);
        file[found.expect("the name")] ^= 1;
    });
}

#[test]
fn no_path_of_the_build_machine_is_in_the_symbols() {
    let Some(folder) = driver::folder() else {
        return;
    };
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let here = here.and_then(Path::to_str).expect("the repository");
    let home = std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME"));
    let home = home.expect("a home");
    let symbols = std::fs::read(folder.join("halprof.pdb")).expect("the PDB");
    let has = |text: &str| {
        let mut windows = symbols.windows(text.len());
        windows.any(|window| window == text.as_bytes())
    };
    for path in [here, &home, "/registry/src/", "/rustc-"] {
        assert!(!has(path), "{path}");
    }
    assert!(has("halprof"), "a name that is there is found");
}
