//! Is the driver's image what Windows asks of a driver, and what it can do to protect one?
//!
//! Numbers and names: the PE format, <https://learn.microsoft.com/windows/win32/debug/pe-format>.

use halprof_tests::driver;
use object::endian::LittleEndian as LE;
use object::pe;
use object::read::pe::{ImageNtHeaders as _, ImageOptionalHeader as _, PeFile64};
use object::{Object as _, ReadRef as _};
use std::path::Path;
use std::sync::OnceLock;

/// The image in `target/driver`.
fn image() -> Option<&'static [u8]> {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    let file = driver::folder()?.join("halprof.sys");
    Some(IMAGE.get_or_init(|| std::fs::read(file).expect("the image")))
}

fn parse(image: &[u8]) -> PeFile64<'_> {
    PeFile64::parse(image).expect("a PE32+ image")
}

/// What is wrong with an image.
fn faults(image: &[u8]) -> Vec<&'static str> {
    let file = parse(image);
    let header = file.nt_headers().optional_header();
    let has = |bit| header.dll_characteristics() & bit != 0;
    let sections = || file.section_table().iter();
    let both = pe::IMAGE_SCN_MEM_EXECUTE | pe::IMAGE_SCN_MEM_WRITE;
    let configuration = load_configuration(&file);
    let flags = configuration.map_or(0, |at| at.guard_flags.get(LE));
    let guarded = configuration.map_or(0, |at| at.guard_cf_function_count.get(LE));
    let cookie = configuration.map_or(0, |at| at.security_cookie.get(LE));
    let rules = [
        (
            "not for x64",
            file.nt_headers().file_header().machine.get(LE) == pe::IMAGE_FILE_MACHINE_AMD64,
        ),
        (
            "not a driver",
            header.subsystem() == pe::IMAGE_SUBSYSTEM_NATIVE,
        ),
        (
            "its sections share pages",
            header.section_alignment() == 0x1000,
        ),
        (
            "its address is fixed",
            has(pe::IMAGE_DLLCHARACTERISTICS_DYNAMIC_BASE),
        ),
        (
            "its address is a low one",
            has(pe::IMAGE_DLLCHARACTERISTICS_HIGH_ENTROPY_VA),
        ),
        ("data can run", has(pe::IMAGE_DLLCHARACTERISTICS_NX_COMPAT)),
        (
            "it loads unsigned",
            has(pe::IMAGE_DLLCHARACTERISTICS_FORCE_INTEGRITY),
        ),
        (
            "indirect calls are not guarded",
            has(pe::IMAGE_DLLCHARACTERISTICS_GUARD_CF) && flags & 0x500 == 0x500 && guarded > 0,
        ),
        ("it has no security cookie", cookie != 0),
        (
            "not for shadow stacks",
            extended_characteristics(&file, image) & 1 != 0,
        ),
        (
            "code can be written",
            sections().all(|section| section.characteristics.get(LE) & both != both),
        ),
        (
            "its checksum is wrong",
            header.check_sum() == checksum(image),
        ),
        (
            "its symbols have another name",
            symbols(&file) == "halprof.pdb",
        ),
    ];
    let broken = rules.into_iter().filter(|(_, kept)| !kept);
    broken.map(|(fault, _)| fault).collect()
}

fn load_configuration<'d>(file: &PeFile64<'d>) -> Option<&'d pe::ImageLoadConfigDirectory64> {
    let directory = file.data_directory(pe::IMAGE_DIRECTORY_ENTRY_LOAD_CONFIG)?;
    let at = directory.virtual_address.get(LE);
    // Its own length ends before what newer versions of Windows know.
    let data = file.section_table().pe_data_at(file.data(), at)?;
    data.read_at(0).ok()
}

/// Entry type 20 of the debug directory.
fn extended_characteristics(file: &PeFile64, image: &[u8]) -> u32 {
    let find = || {
        let directory = file.data_directory(pe::IMAGE_DIRECTORY_ENTRY_DEBUG)?;
        let data = directory.data(image, &file.section_table()).ok()?;
        let count = data.len() / size_of::<pe::ImageDebugDirectory>();
        let entries = data
            .read_slice_at::<pe::ImageDebugDirectory>(0, count)
            .ok()?;
        let entry = entries.iter().find(|entry| entry.typ.get(LE) == 20)?;
        let at = u64::from(entry.pointer_to_raw_data.get(LE));
        image.read_at::<object::U32<LE>>(at).ok()
    };
    find().map_or(0, |bits| bits.get(LE))
}

fn symbols(file: &PeFile64) -> String {
    let named = file.pdb_info().expect("a debug directory");
    named.map_or_else(String::new, |symbols| {
        String::from_utf8_lossy(symbols.path()).into_owned()
    })
}

/// All 16-bit words but the checksum's own, added with their carries, and the length.
fn checksum(image: &[u8]) -> u32 {
    let at = checksum_at(image);
    let words = image.chunks(2).enumerate();
    let words = words.filter(|(index, _)| index * 2 != at && index * 2 != at + 2);
    let sum = words.fold(0_u32, |sum, (_, word)| {
        let word = [word[0], word.get(1).copied().unwrap_or(0)];
        let sum = sum + u32::from(u16::from_le_bytes(word));
        (sum & 0xFFFF) + (sum >> 16)
    });
    sum + u32::try_from(image.len()).expect("below 4 GiB")
}

fn optional_header_at(image: &[u8]) -> usize {
    let nt = u32::from_le_bytes(image[0x3C..0x40].try_into().expect("four bytes"));
    nt as usize + 0x18
}

fn checksum_at(image: &[u8]) -> usize {
    optional_header_at(image) + 0x40
}

#[test]
fn the_image_has_every_protection() {
    let Some(image) = image() else { return };
    assert_eq!(faults(image), [""; 0]);
}

#[test]
fn each_missing_protection_is_found() {
    let Some(image) = image() else { return };
    let header = optional_header_at(image);
    let wrong = |at: usize, mask: u8| {
        let mut image = image.to_vec();
        image[at] ^= mask;
        let sum = checksum(&image).to_le_bytes();
        let at = checksum_at(&image);
        image[at..at + 4].copy_from_slice(&sum);
        faults(&image)
    };
    for (at, mask, fault) in [
        (header + 0x44, 2, "not a driver"),
        (header + 0x21, 0x30, "its sections share pages"),
        (header + 0x46, 0x40, "its address is fixed"),
        (header + 0x46, 0x20, "its address is a low one"),
        (header + 0x46, 0x80, "it loads unsigned"),
        (header + 0x47, 0x01, "data can run"),
        (header + 0x47, 0x40, "indirect calls are not guarded"),
        (header + 0xF0 + 0x27, 0x80, "code can be written"),
    ] {
        assert_eq!(wrong(at, mask), [fault]);
    }
    let find = |bytes: &[u8]| {
        let windows = image.windows(bytes.len());
        let mut found = windows.enumerate().filter(|(_, window)| *window == bytes);
        found.next().expect("the bytes").0
    };
    assert_eq!(
        wrong(find(b"halprof.pdb\0"), 1),
        ["its symbols have another name"]
    );
    let mut unsummed = image.to_vec();
    unsummed[checksum_at(image)] ^= 1;
    assert_eq!(faults(&unsummed), ["its checksum is wrong"]);
}

/// The functions that it may import of a DLL: the list that its import library was made of.
fn allowed(dll: &str) -> Vec<String> {
    let stem = dll.split('.').next().expect("a name").to_lowercase();
    let lists = Path::new(env!("CARGO_MANIFEST_DIR")).join("../xtask/wdk/lib");
    let lists = std::fs::read_dir(lists).expect("the lists");
    let mut lists = lists.map(|list| list.expect("a list").path());
    let list = lists.find(|list| {
        let name = list.file_name().expect("a name").to_string_lossy();
        name.to_lowercase() == format!("{stem}.def")
    });
    let text = std::fs::read_to_string(list.unwrap_or_else(|| panic!("no list of {dll}")));
    let text = text.expect("text");
    let (_, exports) = text.split_once("EXPORTS").expect("a list");
    exports.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn it_imports_nothing_that_is_not_listed() {
    let Some(image) = image() else { return };
    let imports = parse(image).imports().expect("imports");
    assert!(!imports.is_empty());
    for import in imports {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let (dll, name) = (text(import.library()), text(import.name()));
        assert!(allowed(&dll).contains(&name), "{dll}: {name}");
    }
}

#[test]
fn no_path_of_the_machine_that_built_it_is_in_it() {
    let Some(folder) = driver::folder() else {
        return;
    };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the repository");
    let home = std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME"));
    let home = home.expect("a home");
    let paths = [
        here.to_str().expect("a path"),
        &home,
        "/registry/src/",
        "/rustc-",
    ];
    for file in ["halprof.sys", "halprof.pdb"] {
        let bytes = std::fs::read(folder.join(file)).expect(file);
        for path in paths {
            assert!(!contains(&bytes, path), "{file} has {path}");
        }
        assert!(contains(&bytes, "halprof"), "a name that is there is found");
    }
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}
