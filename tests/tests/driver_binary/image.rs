//! The driver's image: headers, sections, imports, guarded functions, and the PDB's symbols.

use object::LittleEndian as LE;
use object::pe::{self, ImageNtHeaders64};
use object::read::pe::PeFile64;
use pdb2::{FallibleIterator, PDB, SymbolData};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

/// An image as it is in its file, and what was parsed from it.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) bytes: Vec<u8>,
    pub(crate) headers: ImageNtHeaders64,
    pub(crate) sections: Vec<Section>,
    pub(crate) imports: Vec<Import>,
    pub(crate) exports: Vec<String>,
    pub(crate) guard: Guard,
    /// Names by address: several if the linker has folded functions.
    pub(crate) symbols: BTreeMap<u32, Symbol>,
    directories: Vec<(u32, u32)>,
}

/// A section. All addresses here and below are relative to the image's base.
#[derive(Clone)]
pub(crate) struct Section {
    pub(crate) name: String,
    pub(crate) address: u32,
    pub(crate) size: u32,
    pub(crate) characteristics: u32,
    /// The offset of its header in the file.
    pub(crate) header: usize,
    file: usize,
    file_size: usize,
}

/// An imported function or variable.
#[derive(Clone)]
pub(crate) struct Import {
    pub(crate) dll: String,
    pub(crate) name: String,
    /// Where the loader writes its address.
    pub(crate) slot: u32,
    /// The address of its name in the image.
    pub(crate) name_at: u32,
}

/// What the load configuration says about control-flow guard.
#[derive(Clone, Default)]
pub(crate) struct Guard {
    pub(crate) flags: u32,
    pub(crate) check: u32,
    pub(crate) dispatch: u32,
    pub(crate) functions: Vec<u32>,
}

/// What the PDB says about a function.
#[derive(Clone, Default)]
pub(crate) struct Symbol {
    pub(crate) names: Vec<String>,
    /// 0 if the PDB does not say.
    pub(crate) length: u32,
}

/// Members of IMAGE_LOAD_CONFIG_DIRECTORY64 (winnt.h).
const GUARD_CHECK: u32 = 0x70;
const GUARD_DISPATCH: u32 = 0x78;
const GUARD_FUNCTIONS: u32 = 0x80;
/// GuardCFFunctionCount.
pub(crate) const GUARD_COUNT: u32 = 0x88;
const GUARD_FLAGS: u32 = 0x90;
/// DllCharacteristics, from the beginning of the NT headers.
pub(crate) const DLL_CHARACTERISTICS: usize = 24 + 70;
/// Characteristics, from the beginning of a section's header.
pub(crate) const SECTION_CHARACTERISTICS: usize = 36;

impl Image {
    /// Reads an image and its symbols.
    pub(crate) fn read(sys: &Path, pdb: &Path) -> Self {
        let bytes = std::fs::read(sys).expect("the image");
        Self::of(bytes, symbols(pdb))
    }

    /// A copy with some bytes of its file changed.
    pub(crate) fn changed(&self, change: impl FnOnce(&Self, &mut Vec<u8>)) -> Self {
        let mut bytes = self.bytes.clone();
        change(self, &mut bytes);
        assert!(bytes != self.bytes, "nothing was changed");
        Self::of(bytes, self.symbols.clone())
    }

    fn of(bytes: Vec<u8>, symbols: BTreeMap<u32, Symbol>) -> Self {
        let file = PeFile64::parse(&*bytes).expect("a PE image of 64 bits");
        let headers = *file.nt_headers();
        let sections = sections(&file);
        let directories = file.data_directories().iter();
        let directories = directories.map(pe::ImageDataDirectory::address_range);
        let directories = directories.collect();
        let imports = imports(&file);
        let exports = file.export_table().expect("exports");
        let exports = exports.map_or_else(Vec::new, |table| {
            let exports = table.exports().expect("exports");
            exports.iter().filter_map(|one| text(one.name?)).collect()
        });
        let mut image = Self {
            headers,
            sections,
            imports,
            exports,
            guard: Guard::default(),
            symbols,
            directories,
            bytes,
        };
        image.guard = image.read_guard();
        image
    }

    fn read_guard(&self) -> Guard {
        let (at, size) = self.directory(pe::IMAGE_DIRECTORY_ENTRY_LOAD_CONFIG);
        if size < GUARD_FLAGS + 4 {
            return Guard::default();
        }
        let base = self.headers.optional_header.image_base.get(LE);
        let pointer = |member| {
            let value = self.u64_at(at + member);
            u32::try_from(value.saturating_sub(base)).expect("an address in the image")
        };
        let flags = self.u32_at(at + GUARD_FLAGS);
        let stride = 4 + (flags >> 28);
        let (table, count) = (pointer(GUARD_FUNCTIONS), self.u32_at(at + GUARD_COUNT));
        Guard {
            flags,
            check: pointer(GUARD_CHECK),
            dispatch: pointer(GUARD_DISPATCH),
            functions: (0..count).map(|index| self.u32_at(table + index * stride)).collect(),
        }
    }

    /// Address and size of a data directory; zeros if there is none.
    pub(crate) fn directory(&self, index: usize) -> (u32, u32) {
        self.directories.get(index).copied().unwrap_or_default()
    }

    /// The section with this name.
    pub(crate) fn section(&self, name: &str) -> &Section {
        let found = self.sections.iter().find(|section| section.name == name);
        found.unwrap_or_else(|| panic!("no section {name}"))
    }

    /// The file offset of what the loader places at `address`.
    pub(crate) fn offset(&self, address: u32) -> usize {
        let section = self.sections.iter().find(|section| {
            let from = section.address as usize;
            (from..from + section.file_size).contains(&(address as usize))
        });
        let section = section.unwrap_or_else(|| panic!("nothing is loaded at {address:#x}"));
        section.file + (address - section.address) as usize
    }

    /// The contents of a section, as far as they are in the file.
    pub(crate) fn contents(&self, section: &Section) -> &[u8] {
        let length = section.file_size.min(section.size as usize);
        &self.bytes[section.file..section.file + length]
    }

    pub(crate) fn u32_at(&self, address: u32) -> u32 {
        let at = self.offset(address);
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().expect("four bytes"))
    }

    pub(crate) fn u64_at(&self, address: u32) -> u64 {
        u64::from(self.u32_at(address + 4)) << 32 | u64::from(self.u32_at(address))
    }

    /// The offset of the NT headers in the file.
    pub(crate) fn headers_at(&self) -> usize {
        u32::from_le_bytes(self.bytes[0x3C..0x40].try_into().expect("four bytes")) as usize
    }

    /// The address of the function with this name.
    pub(crate) fn function(&self, name: &str) -> u32 {
        let named = |symbol: &Symbol| symbol.names.iter().any(|one| one == name);
        let found = self.symbols.iter().find(|(_, symbol)| named(symbol));
        *found.unwrap_or_else(|| panic!("the PDB has no {name}")).0
    }
}

fn sections(file: &PeFile64<'_>) -> Vec<Section> {
    let table = file.section_table();
    let nt = file.dos_header().nt_headers_offset() as usize;
    let optional = usize::from(file.nt_headers().file_header.size_of_optional_header.get(LE));
    let headers = nt + 24 + optional;
    let section = |(index, header): (usize, &pe::ImageSectionHeader)| Section {
        name: text(header.raw_name()).expect("a name"),
        address: header.virtual_address.get(LE),
        size: header.virtual_size.get(LE),
        characteristics: header.characteristics.get(LE),
        header: headers + index * size_of::<pe::ImageSectionHeader>(),
        file: header.pointer_to_raw_data.get(LE) as usize,
        file_size: header.size_of_raw_data.get(LE) as usize,
    };
    table.iter().enumerate().map(section).collect()
}

fn imports(file: &PeFile64<'_>) -> Vec<Import> {
    let mut imports = Vec::new();
    let Some(table) = file.import_table().expect("imports") else {
        return imports;
    };
    let mut descriptors = table.descriptors().expect("imports");
    while let Some(descriptor) = descriptors.next().expect("a DLL") {
        let dll = text(table.name(descriptor.name.get(LE)).expect("a DLL")).expect("its name");
        let lookup = descriptor.original_first_thunk.get(LE);
        let mut thunks = table.thunks(lookup).expect("its imports");
        let mut slot = descriptor.first_thunk.get(LE);
        while let Some(thunk) = thunks.next::<ImageNtHeaders64>().expect("an import") {
            let hint_at = u32::try_from(thunk.0.get(LE)).expect("an import by name");
            let (_, name) = table.hint_name(hint_at).expect("its name");
            imports.push(Import {
                dll: dll.clone(),
                name: text(name).expect("its name"),
                slot,
                name_at: hint_at + 2,
            });
            slot += 8;
        }
    }
    imports
}

/// The functions in the PDB.
fn symbols(pdb: &Path) -> BTreeMap<u32, Symbol> {
    let mut pdb = PDB::open(File::open(pdb).expect("the PDB")).expect("a PDB");
    let addresses = pdb.address_map().expect("the PDB's sections");
    let mut symbols: BTreeMap<u32, Symbol> = BTreeMap::new();
    let mut add = |data: SymbolData<'_>| {
        let (offset, length, name) = match &data {
            SymbolData::Procedure(one) => (one.offset, one.len, one.name),
            SymbolData::Public(one) if one.function => (one.offset, 0, one.name),
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
                if let Ok(data) = symbol.parse() {
                    add(data);
                }
            }
        }
    }
    let globals = pdb.global_symbols().expect("the PDB's public symbols");
    let mut all = globals.iter();
    while let Some(symbol) = all.next().expect("a symbol") {
        if let Ok(data) = symbol.parse() {
            add(data);
        }
    }
    symbols
}

fn text(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}
