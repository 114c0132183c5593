//! A PE or ELF file: its build, its code sections, and the functions that its own tables name.

use super::demangle;
use super::functions::{Function, Functions};
use super::trust::local;
use crate::file::{Build, Identity, Stamp};
use object::read::pe::{ImageNtHeaders, ImageOptionalHeader};
use object::read::{ExportTarget, NameOrOrdinal, ReadCache, ReadRef};
use object::{
    Architecture, LittleEndian, Object, ObjectSection, ObjectSegment, ObjectSymbol, SectionKind,
    SymbolKind,
};
use std::fs::{self, File, Metadata};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What is known about an executable file.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) path: PathBuf,
    pub(super) identity: Option<Identity>,
    pub(super) stamp: Option<Stamp>,
    /// 32 or 64; `None` if its code is not x86.
    pub(super) bitness: Option<u32>,
    /// Its size in memory.
    pub(super) size: u64,
    /// The address of its start in its own tables.
    pub(super) base: u64,
    pub(super) has_dwarf: bool,
    /// The name of the file with its separate symbols.
    pub(super) debug_link: Option<String>,
    /// Code sections, relative to the start.
    pub(super) code: Vec<Range<u64>>,
    pub(super) functions: Functions,
}

impl Image {
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let cache = ReadCache::new(open(path)?);
        let file = object::File::parse(&cache).map_err(|error| error.to_string())?;
        Self::of(path, &file)
    }

    fn of<'a, R: ReadRef<'a>>(path: &Path, file: &object::File<'a, R>) -> Result<Self, String> {
        if !matches!(file.format(), object::BinaryFormat::Pe | object::BinaryFormat::Elf) {
            return Err("it is neither PE nor ELF".to_owned());
        }
        let base = base(file);
        let code: Vec<_> = file
            .sections()
            .filter(|section| section.kind() == SectionKind::Text)
            .filter_map(|section| {
                let start = section.address().checked_sub(base)?;
                Some(start..start.checked_add(section.size())?)
            })
            .collect();
        let functions = functions(file, base, &code);
        Ok(Self {
            path: path.to_owned(),
            identity: identity(file),
            stamp: stamp(file),
            bitness: bitness(file),
            size: size(file, base),
            base,
            has_dwarf: file.section_by_name(".debug_info").is_some(),
            debug_link: debug_link(file),
            code,
            functions,
        })
    }

    /// The bytes of the code sections, in the order of `code`.
    pub(super) fn sections(&self) -> Result<Vec<Vec<u8>>, String> {
        let cache = ReadCache::new(open(&self.path)?);
        let file = object::File::parse(&cache).map_err(|error| error.to_string())?;
        let bytes = |range: &Range<u64>| {
            let address = range.start.wrapping_add(self.base);
            let length = range.end.saturating_sub(range.start);
            let mut sections = file.sections();
            let data = sections.find_map(|s| s.data_range(address, length).ok().flatten());
            data.map(<[u8]>::to_vec).unwrap_or_default()
        };
        Ok(self.code.iter().map(bytes).collect())
    }

    /// The bytes of a range of code.
    pub(super) fn bytes(&self, range: &Range<u64>) -> Result<Vec<u8>, String> {
        let sections = self.sections()?;
        within(&self.code, &sections, range).map(<[u8]>::to_vec)
    }
}

/// The bytes of a range that lies within one section.
pub(super) fn within<'a>(
    code: &[Range<u64>],
    sections: &'a [Vec<u8>],
    range: &Range<u64>,
) -> Result<&'a [u8], String> {
    let mut all = code.iter().zip(sections);
    let code_bytes = all.find_map(|(section, bytes)| {
        let start = usize::try_from(range.start.checked_sub(section.start)?).ok()?;
        let end = usize::try_from(range.end.checked_sub(section.start)?).ok()?;
        bytes.get(start..end)
    });
    code_bytes.ok_or_else(|| format!("its file does not have the code at {:#x}", range.start))
}

/// Which build a file is.
///
/// # Errors
/// A message, if the file cannot be read or is no executable.
pub fn build_of(path: &Path) -> Result<Build, String> {
    let cache = ReadCache::new(open(path)?);
    let file = object::File::parse(&cache).map_err(|error| error.to_string())?;
    Ok(Build { identity: identity(&file), stamp: stamp(&file) })
}

/// Which build the file is that a process says it has loaded: any process can say any path, so a
/// file of another machine and a device are not opened.
///
/// # Errors
/// A message, if the file cannot be read, is not local or is no executable.
pub fn build_where_loaded(named: &str) -> Result<Build, String> {
    build_of(&local(named).ok_or("it is no local file")?)
}

/// What identifies a file's symbols; `None` if its linker recorded nothing.
///
/// # Errors
/// A message, if the file cannot be read or is no executable.
pub fn identity_of(path: &Path) -> Result<Option<Identity>, String> {
    build_of(path).map(|build| build.identity)
}

/// Opens a file. A folder, a pipe or a device is refused without being opened: opening a pipe may
/// take for ever, and opening a device may set something off.
pub(super) fn open(path: &Path) -> Result<File, String> {
    let text = |error: io::Error| error.to_string();
    let is_file = |metadata: Metadata| {
        let refused = || "it is not a regular file".to_owned();
        metadata.is_file().then_some(()).ok_or_else(refused)
    };
    is_file(fs::metadata(path).map_err(text)?)?;
    let file = File::open(path).map_err(text)?;
    // It may have been replaced in the meantime.
    is_file(file.metadata().map_err(text)?)?;
    Ok(file)
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

fn debug_link<'a>(file: &object::File<'a, impl ReadRef<'a>>) -> Option<String> {
    let (name, _) = file.gnu_debuglink().ok()??;
    String::from_utf8(name.to_vec()).ok()
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
fn functions<'a>(
    file: &object::File<'a, impl ReadRef<'a>>,
    base: u64,
    code: &[Range<u64>],
) -> Functions {
    let function_at = |name: &[u8], address: u64, size: u64| {
        let start = address.checked_sub(base)?;
        let in_code = code.iter().any(|range| range.contains(&start));
        let name = demangle::demangle(&String::from_utf8_lossy(name));
        let end = start.saturating_add(size);
        (in_code && !name.is_empty()).then_some(Function { name, start, end })
    };
    let symbols = file.symbols().filter_map(|symbol| {
        let function = matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Unknown);
        let name = symbol.name_bytes().ok().filter(|_| function)?;
        function_at(name, symbol.address(), symbol.size())
    });
    let symbols: Vec<_> = symbols.collect();
    if !symbols.is_empty() {
        return Functions::new(symbols, code, false);
    }
    let exports = file.exports().into_iter().flatten().filter_map(Result::ok);
    let exports = exports.filter_map(|export| match (export.name(), export.target()) {
        (NameOrOrdinal::Name(name), ExportTarget::Address { address }) => {
            function_at(name, address, 0)
        }
        _ => None,
    });
    Functions::new(exports.collect(), code, true)
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// Opening a pipe would wait for a writer.
    #[cfg(unix)]
    #[test]
    fn only_a_regular_file_is_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("mkfifo").success());
        for path in [&pipe, folder.path(), Path::new("/dev/zero")] {
            assert!(open(path).is_err(), "{}", path.display());
        }
    }
}
