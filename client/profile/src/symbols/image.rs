//! A PE or ELF file: its build, its code sections, and the functions that its own tables name.

use super::arm64ec::arm_code;
use super::bytes::{self, Bytes};
use super::functions::{self, Symbol, SymbolTable, Symbols};
use super::sections::{Section, Sections};
use super::trust::{has_links, local};
use super::unwind::Unwinding;
use crate::file::{Build, Identity, Stamp};
use iced_x86::{Decoder, DecoderOptions, FlowControl};
use object::read::ReadRef;
use object::read::pe::{ImageNtHeaders, ImageOptionalHeader, PeFile};
use object::{
    Architecture, LittleEndian, Object, ObjectSection, ObjectSegment, ObjectSymbol, SectionFlags,
    SectionKind, SymbolFlags, SymbolKind, elf, pe,
};
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The section that every file with DWARF has.
const INFO: &str = ".debug_info";

/// The name of a section of DWARF that the linker compressed in the old way, `.zdebug_info`.
pub(super) fn zdebug(name: &str) -> String {
    name.replacen(".debug_", ".zdebug_", 1)
}

/// What a file says of the file with its separate symbols (GDB, "Debugging Information in Separate
/// Files").
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DebugLink {
    pub(super) name: String,
    /// The CRC-32 of that file.
    pub(super) crc: u32,
}

impl DebugLink {
    /// From the section's contents: the name, zeros up to a multiple of four bytes, the CRC.
    fn of(section: &[u8]) -> Option<Self> {
        let length = section.iter().position(|&byte| byte == 0)?;
        let (name, _) = section.split_at_checked(length)?;
        let crc = section.get((length + 1).next_multiple_of(4)..)?.first_chunk()?;
        let name = String::from_utf8(name.to_vec()).ok().filter(|name| !name.is_empty())?;
        Some(Self { name, crc: u32::from_le_bytes(*crc) })
    }

    /// Whether a file has the contents that the link names.
    pub(super) fn is_of(&self, path: &Path) -> Result<bool, String> {
        let mut file = bytes::open(path)?;
        let mut hasher = crc32fast::Hasher::new();
        let mut bytes = vec![0; 1 << 16];
        loop {
            match file.read(&mut bytes) {
                Ok(0) => return Ok(hasher.finalize() == self.crc),
                Ok(length) => hasher.update(bytes.get(..length).unwrap_or_default()),
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

/// What is known about an executable file.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) path: PathBuf,
    pub(super) identity: Option<Identity>,
    pub(super) stamp: Option<Stamp>,
    /// 32 or 64; `None` if its code is not x86.
    bitness: Option<u32>,
    /// Code of Arm64 in a file of x64, in order.
    arm: Vec<Range<u64>>,
    /// Its size in memory.
    pub(super) size: u64,
    /// The address of its start in its own tables.
    pub(super) base: u64,
    pub(super) has_dwarf: bool,
    pub(super) debug_link: Option<DebugLink>,
    /// Code sections, relative to the start.
    pub(super) code: Sections,
    /// `None` once they are taken.
    pub(super) symbols: Option<Symbols>,
    pub(super) unwinding: Unwinding,
}

impl Image {
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let bytes = Bytes::open(path)?;
        let mut image = Self::of(path, &parse(&bytes)?, bytes.length())?;
        // What is read for the symbols stays; all else does not.
        let symbols = Symbols::try_new(Bytes::open(path)?, |bytes| {
            let file = parse(bytes)?;
            Ok::<_, String>(symbols(&file, bytes, image.base, &image.code, &image.unwinding))
        })?;
        image.symbols = Some(symbols);
        Ok(image)
    }

    fn of<'a, R: ReadRef<'a>>(
        path: &Path,
        file: &object::File<'a, R>,
        length: u64,
    ) -> Result<Self, String> {
        if !matches!(file.format(), object::BinaryFormat::Pe | object::BinaryFormat::Elf) {
            return Err("it is neither PE nor ELF".to_owned());
        }
        let base = base(file);
        let code = file.sections().filter(is_code);
        Ok(Self {
            path: path.to_owned(),
            identity: identity(file),
            stamp: stamp(file),
            bitness: bitness(file),
            arm: match file {
                object::File::Pe64(file) => arm_code(file, base, length),
                _ => Vec::new(),
            },
            size: size(file, base),
            base,
            has_dwarf: [INFO.to_owned(), zdebug(INFO)]
                .iter()
                .any(|name| file.section_by_name(name).is_some()),
            debug_link: debug_link(file),
            code: Sections::new(code.filter_map(|section| Section::of(&section, base)), length),
            symbols: None,
            unwinding: Unwinding::of(file, base, length),
        })
    }

    /// 32 or 64, if a range of its code is of x86 or x64.
    pub(super) fn bitness_of(&self, range: &Range<u64>) -> Result<u32, String> {
        let bitness = self.bitness.ok_or("its code is not of x86 or x64")?;
        let next = self.arm.partition_point(|arm| arm.start < range.end);
        let before = self.arm.get(..next).unwrap_or_default();
        if before.iter().any(|arm| range.start < arm.end) {
            return Err("its code there is of Arm64 (ARM64EC), not of x86 or x64".to_owned());
        }
        Ok(bitness)
    }

    /// 32 or 64, if all its code is of x86 or x64.
    pub(super) fn bitness_of_all(&self) -> Result<u32, String> {
        self.bitness_of(&(0..u64::MAX))
    }

    /// What of the file was left out, if anything was.
    pub(super) fn notes(&self) -> impl Iterator<Item = String> {
        let left_out = self.code.left_out;
        let sections = (left_out > 0).then(|| {
            format!(
                "{left_out} of its sections are left out: they overlap others, or have their bytes"
            )
        });
        sections.into_iter().chain(self.unwinding.note())
    }

    /// Its code, to be read.
    pub(super) fn code(&self) -> Result<Code<'_>, String> {
        Ok(Code { sections: &self.code, bytes: Bytes::open(&self.path)? })
    }

    /// The bytes of a range of code.
    pub(super) fn bytes(&self, range: &Range<u64>) -> Result<Vec<u8>, String> {
        self.code()?.within(range).map(<[u8]>::to_vec)
    }
}

/// The code of a file, read where it is needed.
pub(super) struct Code<'a> {
    sections: &'a Sections,
    bytes: Bytes,
}

impl Code<'_> {
    /// The bytes of a range that lies within one section.
    pub(super) fn within(&self, range: &Range<u64>) -> Result<&[u8], String> {
        let section = self.sections.at(range.start);
        let length = range.end.saturating_sub(range.start);
        let place = section.and_then(|section| section.place(range));
        let read = |offset| (&self.bytes).read_bytes_at(offset, length).ok();
        place.and_then(read).ok_or_else(|| {
            let section = section.map(|section| &section.range);
            match section.filter(|section| range.end > section.end) {
                None => format!("its file does not have the code at {:#x}", range.start),
                Some(section) => format!(
                    "the range of {length} bytes leaves its section of code, which ends {} bytes behind its start",
                    section.end - range.start
                ),
            }
        })
    }
}

/// Whether a section is code, also in an ELF file with separate symbols, where it has no bytes.
fn is_code<'a>(section: &impl ObjectSection<'a>) -> bool {
    let executable = match section.flags() {
        SectionFlags::Elf { sh_flags, .. } => sh_flags.contains(elf::SHF_EXECINSTR),
        _ => false,
    };
    executable || section.kind() == SectionKind::Text
}

fn parse(bytes: &Bytes) -> Result<object::File<'_, &Bytes>, String> {
    object::File::parse(bytes).map_err(|error| error.to_string())
}

/// Which build a file is.
///
/// # Errors
/// A message, if the file cannot be read or is no executable.
pub fn build_of(path: &Path) -> Result<Build, String> {
    let bytes = Bytes::open(path)?;
    let file = parse(&bytes)?;
    Ok(Build { identity: identity(&file), stamp: stamp(&file) })
}

/// Which build the file is that a process says it has loaded: any process can say any path, so a
/// file of another machine, one behind a link, which may lead there, and a device are not opened.
///
/// # Errors
/// A message, if the file cannot be read, is not local or is no executable.
pub fn build_where_loaded(named: &str) -> Result<Build, String> {
    let path = local(named).filter(|path| !has_links(path));
    build_of(&path.ok_or("it is no local file, or a link leads to it")?)
}

/// What identifies a file's symbols; `None` if its linker recorded nothing.
///
/// # Errors
/// A message, if the file cannot be read or is no executable.
pub fn identity_of(path: &Path) -> Result<Option<Identity>, String> {
    build_of(path).map(|build| build.identity)
}

fn identity<'a>(file: &object::File<'a, impl ReadRef<'a>>) -> Option<Identity> {
    if let Ok(Some(pdb)) = file.pdb_info() {
        return Some(Identity::pdb(pdb.guid(), pdb.age(), pdb.path()));
    }
    file.build_id().ok()?.map(Identity::build_id)
}

fn stamp<'a>(file: &object::File<'a, impl ReadRef<'a>>) -> Option<Stamp> {
    match file {
        object::File::Pe32(file) => Some(stamp_in(file.nt_headers())),
        object::File::Pe64(file) => Some(stamp_in(file.nt_headers())),
        _ => None,
    }
}

fn stamp_in(headers: &impl ImageNtHeaders) -> Stamp {
    Stamp {
        time: headers.file_header().time_date_stamp.get(LittleEndian),
        size: headers.optional_header().size_of_image(),
    }
}

fn bitness<'a>(file: &object::File<'a, impl ReadRef<'a>>) -> Option<u32> {
    match file.architecture() {
        Architecture::X86_64 | Architecture::X86_64_X32 => Some(64),
        Architecture::I386 => Some(32),
        _ => None,
    }
}

fn size<'a>(file: &object::File<'a, impl ReadRef<'a>>, base: u64) -> u64 {
    let ends = file.segments().map(|s| s.address().saturating_add(s.size()));
    ends.max().unwrap_or(0).saturating_sub(base)
}

fn debug_link<'a>(file: &object::File<'a, impl ReadRef<'a>>) -> Option<DebugLink> {
    // An image without a table of strings has only eight letters of a section's name.
    let mut names = [".gnu_debuglink", ".gnu_deb"].into_iter();
    let section = names.find_map(|name| file.section_by_name(name))?;
    DebugLink::of(section.data().ok()?)
}

/// The image base of a PE file; for ELF, the page of its lowest segment.
fn base<'a>(file: &object::File<'a, impl ReadRef<'a>>) -> u64 {
    if file.format() == object::BinaryFormat::Pe {
        return file.relative_address_base();
    }
    let lowest = file.segments().map(|segment| segment.address()).min();
    lowest.unwrap_or(0) & !0xFFF
}

/// From the symbol table or, if there is none, from the exports.
fn symbols<'a>(
    file: &object::File<'a, &'a Bytes>,
    bytes: &'a Bytes,
    base: u64,
    code: &Sections,
    unwinding: &Unwinding,
) -> SymbolTable<'a> {
    let in_code = |address: u64| {
        let start = address.checked_sub(base)?;
        code.index(start).map(|_| start)
    };
    let symbol = |symbol: object::Symbol<'a, '_, _>| {
        let start = in_code(symbol.address())?;
        let kind = kind(&symbol)?;
        let end = (symbol.size() != 0).then(|| start.saturating_add(symbol.size()));
        Some(Symbol { name: name(symbol.name_bytes().ok()?)?, start, end, kind })
    };
    let all: Vec<_> = file.symbols().filter_map(symbol).collect();
    if !all.is_empty() {
        return SymbolTable { all, ..SymbolTable::default() };
    }
    if file.format() == object::BinaryFormat::Elf {
        let dynamic = file.dynamic_symbols().filter(ObjectSymbol::is_definition);
        let all = dynamic.filter_map(symbol).collect();
        return SymbolTable { all, only_exports: true, ..SymbolTable::default() };
    }
    let bitness = bitness(file);
    let all = match file {
        object::File::Pe32(pe) => exports(pe, bytes, base),
        object::File::Pe64(pe) => exports(pe, bytes, base),
        _ => Vec::new(),
    };
    let exports = all.into_iter().filter_map(|(text, start)| {
        let section = code.at(start)?;
        // Whatever has unwinding information is more than a jump.
        let has_entry = unwinding.part(start).is_some();
        let thunk = || thunk_length(bitness?, bytes, section, start);
        let thunk = if has_entry { None } else { thunk() };
        let end = thunk.map(|length| start.saturating_add(length));
        Some(Symbol { name: name(text)?, start, end, kind: functions::SymbolKind::Function })
    });
    SymbolTable { all: exports.collect(), only_exports: true, ..SymbolTable::default() }
}

/// What a PE file exports by name, and where that is, relative to its start. The names are in the
/// file's sections, and as many entries as it likes may have the same one.
fn exports<'a, Pe: ImageNtHeaders>(
    file: &PeFile<'a, Pe, &'a Bytes>,
    bytes: &'a Bytes,
    base: u64,
) -> Vec<(&'a [u8], u64)> {
    let Ok(Some(table)) = file.export_table() else {
        return Vec::new();
    };
    let sections = file.sections().filter_map(|section| Section::of(&section, base));
    let sections = Sections::new(sections, bytes.length());
    let name = |pointer: u32| {
        let section = sections.at(pointer.into())?;
        let (offset, length) = section.bytes;
        let start = offset.checked_add(u64::from(pointer) - section.range.start)?;
        bytes.read_bytes_at_until(start..offset.checked_add(length)?, 0).ok()
    };
    let exports = table.name_iter().filter_map(|(pointer, index)| {
        let address = table.address_by_index(index).ok()?;
        // A forwarded export is code of another module.
        let is_own = !table.is_forward(address);
        is_own.then(|| Some((name(pointer)?, address.into())))?
    });
    exports.collect()
}

fn name(bytes: &[u8]) -> Option<&[u8]> {
    (!bytes.is_empty()).then_some(bytes)
}

/// What a symbol in code is; `None` if it is neither a function nor a label.
///
/// In COFF, GNU as gives only those the type of a function that have a `.def`, and Go gives all its
/// symbols the type 0x308. A static symbol without any type is mostly a label.
fn kind<'a>(symbol: &impl ObjectSymbol<'a>) -> Option<functions::SymbolKind> {
    use functions::SymbolKind::{Function, Global, Label, Local};
    if symbol.kind() == SymbolKind::Text {
        return Some(Function);
    }
    match symbol.flags() {
        SymbolFlags::Coff { typ, storage_class } => match storage_class {
            pe::IMAGE_SYM_CLASS_EXTERNAL | pe::IMAGE_SYM_CLASS_WEAK_EXTERNAL => Some(Global),
            pe::IMAGE_SYM_CLASS_STATIC if typ.0 != 0 => Some(Local),
            pe::IMAGE_SYM_CLASS_STATIC => Some(Label),
            _ => None,
        },
        SymbolFlags::CoffSection { .. } => None,
        _ if symbol.kind() != SymbolKind::Unknown => None,
        _ => Some(if symbol.is_global() { Global } else { Local }),
    }
}

/// The length of an exported jump; `None` for any other code. What lies behind such a thunk is another
/// function, of which no entry may tell.
fn thunk_length(bitness: u32, bytes: &Bytes, section: &Section, start: u64) -> Option<u64> {
    /// An instruction's greatest length.
    const LENGTH: u64 = 15;
    let end = section.range.start.saturating_add(section.bytes.1);
    let range = start..end.min(section.range.end).min(start.saturating_add(LENGTH));
    let bytes = bytes.piece(section.place(&range)?, range.end - range.start)?;
    let mut decoder = Decoder::with_ip(bitness, bytes, start, DecoderOptions::NONE);
    let first = decoder.decode();
    let jumps = matches!(
        first.flow_control(),
        FlowControl::UnconditionalBranch | FlowControl::IndirectBranch
    );
    jumps.then(|| first.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_range_that_leaves_its_section_is_said_to() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        fs::write(&path, [0x90; 32]).expect("written");
        let section = Section { range: 0x1000..0x1010, bytes: (8, 16) };
        let sections = Sections::new([section], 32);
        let code = Code { sections: &sections, bytes: Bytes::open(&path).expect("a file") };
        assert_eq!(code.within(&(0x1004..0x1006)), Ok(&[0x90, 0x90][..]));
        let why = |range| code.within(&range).expect_err("refused");
        assert_eq!(
            why(0x1004..0x1024),
            "the range of 32 bytes leaves its section of code, which ends 12 bytes behind its start"
        );
        assert_eq!(why(0x2000..0x2001), "its file does not have the code at 0x2000");
    }

    #[test]
    fn a_debug_link_is_a_name_and_a_checksum() {
        let link = |section: &[u8]| DebugLink::of(section).map(|link| (link.name, link.crc));
        let one = Some(("a.dbg".to_owned(), 0x0403_0201));
        assert_eq!(link(b"a.dbg\0\0\0\x01\x02\x03\x04"), one);
        let four = Some(("abc".to_owned(), 0x0403_0201));
        assert_eq!(link(b"abc\0\x01\x02\x03\x04rest"), four);
        for damaged in [&b"a.dbg"[..], b"a.dbg\0\0\0\x01\x02", b"\0\0\0\0\x01\x02\x03\x04", b""] {
            assert_eq!(link(damaged), None);
        }
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.dbg");
        fs::write(&file, "123456789").expect("written");
        // The check value of CRC-32.
        for (crc, is_it) in [(0xCBF4_3926, true), (0xCBF4_3927, false)] {
            let link = DebugLink { name: "a.dbg".to_owned(), crc };
            assert_eq!(link.is_of(&file), Ok(is_it));
        }
    }

    #[test]
    fn a_loaded_file_s_build_is_read_from_this_machine_only() {
        let own = std::env::current_exe().expect("this test");
        let own = own.to_str().expect("UTF-8");
        assert!(build_where_loaded(own).is_ok());
        // Unix would open the same file.
        let of_a_host = format!("/{own}");
        for named in [&of_a_host, r"\\host\share\a.dll", r"\\.\pipe\a", "a.dll"] {
            assert!(build_where_loaded(named).is_err(), "{named}");
        }
    }

    /// Who records may have more rights than who made the link.
    #[cfg(unix)]
    #[test]
    fn a_loaded_file_behind_a_link_is_not_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().canonicalize().expect("a folder");
        fs::create_dir(folder.join("real")).expect("a folder");
        let own = std::env::current_exe().expect("this test");
        fs::copy(own, folder.join("real/a.dll")).expect("copied");
        std::os::unix::fs::symlink("real", folder.join("link")).expect("a link");
        std::os::unix::fs::symlink("real/a.dll", folder.join("b.dll")).expect("a link");
        for (path, opened) in [("real/a.dll", true), ("link/a.dll", false), ("b.dll", false)] {
            let path = folder.join(path);
            let build = build_where_loaded(path.to_str().expect("UTF-8"));
            assert_eq!(build.is_ok(), opened, "{}: {build:?}", path.display());
        }
    }
}
