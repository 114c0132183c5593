//! ELF files.

use super::Bytes;

/// A section.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Its name.
    pub name: &'static str,
    /// `SHT_*`
    pub kind: u32,
    /// `SHF_*`
    pub flags: u64,
    /// Where it is loaded.
    pub address: u64,
    /// Its contents. Sections with equal contents share them.
    pub contents: Vec<u8>,
    /// The index of the section that it refers to.
    pub link: u32,
    /// The size of an entry.
    pub entry: u64,
}

const SHT_PROGBITS: u32 = 1;
const SHT_SYMTAB: u32 = 2;
const SHT_STRTAB: u32 = 3;
const SHF_COMPRESSED: u64 = 1 << 11;

/// `ELFCOMPRESS_*`
#[derive(Clone, Copy, Debug)]
pub enum Compression {
    /// With zlib.
    Zlib = 1,
    /// With Zstandard.
    Zstandard = 2,
}

impl Section {
    /// Code: no operations, at an address.
    pub fn code(address: u64, length: usize) -> Self {
        let contents = vec![0x90; length];
        Self { name: ".text", kind: SHT_PROGBITS, flags: 6, address, contents, ..Self::default() }
    }

    /// Data that is not loaded.
    pub fn data(name: &'static str, contents: Vec<u8>) -> Self {
        Self { name, kind: SHT_PROGBITS, contents, ..Self::default() }
    }

    /// Data that is compressed already, and has `length` bytes once it is expanded.
    pub fn compressed(
        name: &'static str,
        compression: Compression,
        packed: &[u8],
        length: u64,
    ) -> Self {
        let mut contents = Bytes::default();
        contents.u32(&[compression as u32, 0]).u64(&[length, 1]).u8(packed);
        let contents = contents.take();
        Self { name, kind: SHT_PROGBITS, flags: SHF_COMPRESSED, contents, ..Self::default() }
    }

    /// The tables of symbols: each function's offset in the strings, address and size. They are the
    /// next two sections, of which the first has the index `index`.
    pub fn symbols(index: u32, strings: Vec<u8>, functions: &[(u32, u64, u64)]) -> [Self; 2] {
        let mut symbols = Bytes(vec![0; 24]);
        for &(name, address, size) in functions {
            // A global function of section 1.
            symbols.u32(&[name]).u8(&[0x12, 0]).u16(&[1]).u64(&[address, size]);
        }
        let table = Self {
            name: ".symtab",
            kind: SHT_SYMTAB,
            contents: symbols.take(),
            link: index + 1,
            entry: 24,
            ..Self::default()
        };
        let strings =
            Self { name: ".strtab", kind: SHT_STRTAB, contents: strings, ..Self::default() };
        [table, strings]
    }
}

/// A file of x64 with these sections, the first of which has the index 1. It is loaded at 0.
pub fn file(sections: &[Section]) -> Vec<u8> {
    let mut names = Bytes(vec![0]);
    let mut starts = Vec::new();
    let mut all = sections.to_vec();
    all.push(Section { name: ".shstrtab", kind: SHT_STRTAB, ..Section::default() });
    for section in &all {
        starts.push(names.0.len() as u32);
        names.text(section.name);
    }
    if let Some(last) = all.last_mut() {
        last.contents = names.take();
    }
    let mut body = Bytes(vec![0; 64 + 56]);
    let mut headers = Bytes(vec![0; 64]);
    let mut known: Vec<(&[u8], u64)> = Vec::new();
    for (section, start) in all.iter().zip(starts) {
        let shared = known.iter().find(|(contents, _)| *contents == section.contents);
        let offset = shared.map_or_else(|| body.pad(8).0.len() as u64, |(_, offset)| *offset);
        if shared.is_none() {
            body.u8(&section.contents);
            // Only the long ones are worth a look.
            if section.contents.len() > 64 {
                known.push((&section.contents, offset));
            }
        }
        let length = section.contents.len() as u64;
        headers.u32(&[start, section.kind]).u64(&[section.flags, section.address, offset, length]);
        headers.u32(&[section.link, 0]).u64(&[1, section.entry]);
    }
    let at = body.pad(8).0.len() as u64;
    let count = all.len() as u16 + 1;
    let mut file = Bytes(b"\x7FELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec());
    file.u16(&[3, 62]).u32(&[1]).u64(&[0x1000, 64, at]).u32(&[0]);
    file.u16(&[64, 56, 1, 64, count, count - 1]);
    file.u32(&[1, 5]).u64(&[0, 0, 0, 1 << 28, 1 << 28, 0x1000]);
    file.0.extend(body.0.split_off(64 + 56));
    file.0.extend(headers.take());
    file.0
}
