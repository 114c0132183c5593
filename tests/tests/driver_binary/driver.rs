//! The driver: its file, the PDB's symbols, and its functions.

use super::Change;
use super::code::Function;
use iced_x86::{Decoder, DecoderOptions};
use object::LittleEndian as LE;
use object::pe::{self, ImageLoadConfigDirectory64, ImageNtHeaders64, ImageSectionHeader};
use object::read::ReadRef as _;
use object::read::pe::PeFile64;
use pdb2::{FallibleIterator, PDB, SymbolData};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

/// A driver and what was parsed from it. All addresses are relative to the image's base.
pub(crate) struct Driver {
    /// Kept until the test ends, so that what is parsed can point into it.
    pub(crate) bytes: &'static [u8],
    pub(crate) file: PeFile64<'static>,
    pub(crate) imports: Vec<Import>,
    pub(crate) guard: Guard,
    pub(crate) functions: BTreeMap<u32, Function>,
    symbols: BTreeMap<u32, Symbol>,
}

/// An imported function or variable.
pub(crate) struct Import {
    pub(crate) dll: String,
    pub(crate) name: String,
    /// Where the loader writes its address.
    pub(crate) slot: u32,
    /// The address of its name.
    pub(crate) name_at: u32,
}

/// What the load configuration says about control-flow guard.
pub(crate) struct Guard {
    pub(crate) flags: u32,
    pub(crate) check: u32,
    pub(crate) dispatch: u32,
    /// Where the table of functions is.
    pub(crate) table: u32,
    pub(crate) functions: Vec<u32>,
}

/// What the PDB says about a function: several names if the linker has folded functions, and length 0
/// if the PDB does not say.
#[derive(Clone, Default)]
struct Symbol {
    names: Vec<String>,
    length: u32,
}

impl Driver {
    /// Reads a driver and its symbols.
    pub(crate) fn read(sys: &Path, pdb: &Path) -> Self {
        Self::new(std::fs::read(sys).expect("the driver"), symbols(pdb))
    }

    /// A copy with some bytes of its file changed, or added at its end.
    pub(crate) fn changed(&self, (at, new): &Change) -> Self {
        let mut bytes = self.bytes.to_vec();
        bytes.resize(bytes.len().max(at + new.len()), 0);
        bytes[*at..at + new.len()].copy_from_slice(new);
        assert!(bytes != self.bytes, "nothing is changed at {at:#x}");
        Self::new(bytes, self.symbols.clone())
    }

    fn new(bytes: Vec<u8>, symbols: BTreeMap<u32, Symbol>) -> Self {
        let bytes: &'static [u8] = bytes.leak();
        let file = PeFile64::parse(bytes).expect("a PE image of 64 bits");
        let imports = imports(&file);
        let guard = Guard { flags: 0, check: 0, dispatch: 0, table: 0, functions: Vec::new() };
        let functions = BTreeMap::new();
        let mut driver = Self { bytes, file, imports, guard, functions, symbols };
        driver.guard = driver.read_guard();
        driver.functions = driver.disassembled();
        driver
    }

    fn read_guard(&self) -> Guard {
        let configuration = self.load_configuration();
        let base = self.file.nt_headers().optional_header.image_base.get(LE);
        let address = |pointer: u64| (pointer - base) as u32;
        let flags = configuration.guard_flags.get(LE);
        let stride = 4 + (flags >> 28);
        let table = address(configuration.guard_cf_function_table.get(LE));
        let count = configuration.guard_cf_function_count.get(LE) as u32;
        Guard {
            flags,
            check: address(configuration.guard_cf_check_function_pointer.get(LE)),
            dispatch: address(configuration.guard_cf_dispatch_function_pointer.get(LE)),
            table,
            functions: (0..count).map(|index| self.u32_at(table + index * stride)).collect(),
        }
    }

    /// Every function that has a name, disassembled.
    fn disassembled(&self) -> BTreeMap<u32, Function> {
        let mut symbols = self.symbols.clone();
        for (pointer, name) in [
            (self.guard.check, "the guard's check where Windows does not watch"),
            (self.guard.dispatch, "the guard's dispatch where Windows does not watch"),
        ] {
            let base = self.file.nt_headers().optional_header.image_base.get(LE);
            let target = u64::from_le_bytes(self.array_at(pointer)) - base;
            symbols.entry(target as u32).or_default().names.push(name.to_owned());
        }
        let (start, size) = self.section(".text").pe_address_range();
        symbols.retain(|address, _| (start..start + size).contains(address));
        let starts: Vec<u32> = symbols.keys().copied().chain([start + size]).collect();
        let functions = symbols.into_iter().zip(&starts[1..]).map(|((start, symbol), &next)| {
            let end = if symbol.length == 0 { next } else { start + symbol.length };
            let code = &self.data(start)[..(end - start) as usize];
            let instructions = Decoder::with_ip(64, code, start.into(), DecoderOptions::NONE);
            let instructions = instructions.into_iter().collect();
            (start, Function { names: symbol.names, range: start..end, instructions })
        });
        functions.collect()
    }

    pub(crate) fn load_configuration(&self) -> &'static ImageLoadConfigDirectory64 {
        // The directory's own length ends before the fields that newer versions of Windows know.
        let (at, _) = self.directory(pe::IMAGE_DIRECTORY_ENTRY_LOAD_CONFIG);
        self.data(at).read_at(0).expect("a load configuration")
    }

    /// Address and size of a data directory.
    pub(crate) fn directory(&self, index: usize) -> (u32, u32) {
        self.file.data_directory(index).expect("a directory").address_range()
    }

    /// The section with this name.
    pub(crate) fn section(&self, name: &str) -> &'static ImageSectionHeader {
        let mut sections = self.file.section_table().iter();
        sections.find(|one| one.raw_name() == name.as_bytes()).expect(name)
    }

    /// The section that contains an address.
    pub(crate) fn section_of(&self, address: u32) -> &'static ImageSectionHeader {
        let mut sections = self.file.section_table().iter();
        let contains = |one: &&ImageSectionHeader| {
            let (start, size) = one.pe_address_range();
            (start..start + size).contains(&address)
        };
        sections.find(contains).expect("a section")
    }

    /// What the loader places at an address, up to the end of its section.
    pub(crate) fn data(&self, address: u32) -> &'static [u8] {
        let data = self.file.section_table().pe_data_at(self.bytes, address);
        data.unwrap_or_else(|| panic!("nothing is loaded at {address:#x}"))
    }

    fn array_at<const N: usize>(&self, address: u32) -> [u8; N] {
        *self.data(address).first_chunk().expect("as many bytes")
    }

    pub(crate) fn u32_at(&self, address: u32) -> u32 {
        u32::from_le_bytes(self.array_at(address))
    }

    /// The address of the function with this name.
    pub(crate) fn function(&self, name: &str) -> u32 {
        let named = |symbol: &Symbol| symbol.names.iter().any(|one| one == name);
        let found = self.symbols.iter().find(|(_, symbol)| named(symbol));
        *found.unwrap_or_else(|| panic!("the PDB has no {name}")).0
    }

    /// Other bytes at an address.
    pub(crate) fn over(&self, address: u32, bytes: &[u8]) -> Change {
        let range = self.file.section_table().pe_file_range_at(address);
        (range.expect("a loaded address").0 as usize, bytes.to_vec())
    }

    /// Other instructions at the beginning of a function.
    pub(crate) fn in_function(&self, name: &str, code: &[u8]) -> Change {
        self.over(self.function(name), code)
    }

    /// Another byte in the NT headers.
    pub(crate) fn in_headers(&self, offset: usize, change: impl Fn(u8) -> u8) -> Change {
        let at = self.file.dos_header().nt_headers_offset() as usize + offset;
        (at, vec![change(self.bytes[at])])
    }

    /// More characteristics of a section: those in the highest byte.
    pub(crate) fn in_section_header(&self, name: &str, bits: u8) -> Change {
        let sections = self.file.section_table();
        let index = sections.iter().position(|one| one.raw_name() == name.as_bytes());
        let optional = self.file.nt_headers().file_header.size_of_optional_header.get(LE);
        let before =
            std::mem::offset_of!(ImageNtHeaders64, optional_header) + usize::from(optional);
        let header = before + index.expect(name) * size_of::<ImageSectionHeader>();
        let high = std::mem::offset_of!(ImageSectionHeader, characteristics) + 3;
        self.in_headers(header + high, |byte| byte | bits)
    }
}

fn imports(file: &PeFile64<'_>) -> Vec<Import> {
    let mut imports = Vec::new();
    let table = file.import_table().expect("imports").expect("imports");
    let mut descriptors = table.descriptors().expect("imports");
    while let Some(descriptor) = descriptors.next().expect("a DLL") {
        let dll = text(table.name(descriptor.name.get(LE)).expect("a DLL"));
        let lookup = descriptor.original_first_thunk.get(LE);
        let mut thunks = table.thunks(lookup).expect("its imports");
        let mut slot = descriptor.first_thunk.get(LE);
        while let Some(thunk) = thunks.next::<ImageNtHeaders64>().expect("an import") {
            let hint_at = u32::try_from(thunk.0.get(LE)).expect("an import by name");
            let (_, name) = table.hint_name(hint_at).expect("its name");
            imports.push(Import { dll: dll.clone(), name: text(name), slot, name_at: hint_at + 2 });
            slot += 8;
        }
    }
    imports
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("a name")
}

/// The functions in the PDB, by address.
fn symbols(pdb: &Path) -> BTreeMap<u32, Symbol> {
    let mut pdb = PDB::open(File::open(pdb).expect("the PDB")).expect("a PDB");
    let addresses = pdb.address_map().expect("the PDB's sections");
    let mut symbols: BTreeMap<u32, Symbol> = BTreeMap::new();
    let mut add = |symbol: pdb2::Symbol<'_>| {
        let (offset, length, name) = match symbol.parse() {
            Ok(SymbolData::Procedure(one)) => (one.offset, one.len, one.name),
            Ok(SymbolData::Public(one)) if one.function => (one.offset, 0, one.name),
            _ => return,
        };
        let address = offset.to_rva(&addresses).expect("an address").0;
        let symbol = symbols.entry(address).or_default();
        symbol.length = symbol.length.max(length);
        let name = name.to_string().into_owned();
        if !symbol.names.contains(&name) {
            symbol.names.push(name);
        }
    };
    let information = pdb.debug_information().expect("the PDB's modules");
    let mut modules = information.modules().expect("the PDB's modules");
    while let Some(module) = modules.next().expect("a module") {
        if let Some(info) = pdb.module_info(&module).expect("a module") {
            let mut all = info.symbols().expect("its symbols");
            while let Some(symbol) = all.next().expect("a symbol") {
                add(symbol);
            }
        }
    }
    let globals = pdb.global_symbols().expect("the PDB's public symbols");
    let mut all = globals.iter();
    while let Some(symbol) = all.next().expect("a symbol") {
        add(symbol);
    }
    symbols
}
