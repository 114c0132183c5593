//! PE files of x64.

use super::Bytes;

/// A section.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Its name, of at most eight letters.
    pub name: &'static str,
    /// Its RVA.
    pub address: u32,
    /// Its size in memory; the length of its contents if it is 0.
    pub size: u32,
    /// Its contents. Sections with equal contents share them.
    pub contents: Vec<u8>,
    /// Whether it is code.
    pub is_code: bool,
}

/// The directories of exports and of unwinding information.
pub const EXPORTS: usize = 0;
/// See [`EXPORTS`].
pub const EXCEPTIONS: usize = 3;

/// A file with these sections; each of `directories` has its index, its RVA and its size. `symbols` is
/// a table of COFF symbols with its strings.
pub fn file(
    sections: &[Section],
    directories: &[(usize, u32, u32)],
    symbols: Option<(u32, Vec<u8>)>,
) -> Vec<u8> {
    const ALIGNMENT: usize = 512;
    let headers = (0x40 + 4 + 20 + 240 + 40 * sections.len()).next_multiple_of(ALIGNMENT);
    let (mut body, mut table) = (Bytes::default(), Bytes::default());
    let mut known: Vec<(&[u8], usize)> = Vec::new();
    for section in sections {
        let contents = section.contents.as_slice();
        let shared = known.iter().find(|(other, _)| *other == contents).map(|(_, at)| *at);
        let at = shared.unwrap_or(headers + body.0.len());
        if shared.is_none() {
            body.u8(contents).pad(ALIGNMENT);
            known.push((contents, at));
        }
        let mut name = section.name.as_bytes().to_vec();
        name.resize(8, 0);
        let size = if section.size == 0 { contents.len() as u32 } else { section.size };
        let kind = if section.is_code { 0x6000_0020 } else { 0x4000_0040 };
        table.u8(&name).u32(&[size, section.address, contents.len() as u32, at as u32]);
        table.u32(&[0, 0, 0, kind]);
    }
    let (count, symbols) = symbols.unwrap_or_default();
    let symbols_at = if count == 0 { 0 } else { headers + body.0.len() };
    let mut file = Bytes(b"MZ".to_vec());
    file.pad(0x3C).u32(&[0x40]).u8(b"PE\0\0");
    file.u16(&[0x8664, sections.len() as u16]).u32(&[0x5F00_0000, symbols_at as u32, count]);
    file.u16(&[240, 0x22, 0x20B]).u8(&[14, 0]).u32(&[0, 0, 0, 0x1000, 0x1000]);
    file.u64(&[0x1_4000_0000]).u32(&[0x1000, ALIGNMENT as u32]).u16(&[6, 0, 0, 0, 6, 0]);
    file.u32(&[0, 0x7000_0000, headers as u32, 0]).u16(&[3, 0x8160]);
    file.u64(&[0x10_0000, 0x1000, 0x10_0000, 0x1000]).u32(&[0, 16]);
    for index in 0..16 {
        let own = directories.iter().find(|(directory, ..)| *directory == index);
        file.u32(&own.map_or([0, 0], |&(_, address, size)| [address, size]));
    }
    file.u8(&table.take());
    file.0.resize(headers, 0);
    file.u8(&body.take()).u8(&symbols);
    file.0
}

/// A directory of exports that is loaded at `address`: each has the offset of its name in `names` and
/// its RVA.
pub fn exports(address: u32, names: &[u8], functions: &[(u32, u32)]) -> Vec<u8> {
    let count = functions.len() as u32;
    let addresses = address + 40;
    let pointers = addresses + 4 * count;
    let ordinals = pointers + 4 * count;
    let texts = ordinals + 2 * count;
    let mut table = Bytes::default();
    table.u32(&[0, 0, 0, texts, 1, count, count, addresses, pointers, ordinals]);
    for (_, function) in functions {
        table.u32(&[*function]);
    }
    for (name, _) in functions {
        table.u32(&[texts + name]);
    }
    for index in 0..count {
        table.u16(&[index as u16]);
    }
    table.u8(names);
    table.0
}

/// A table of COFF symbols: each function's name and offset in the first section.
pub fn symbols(functions: &[(&[u8], u32)]) -> (u32, Vec<u8>) {
    let (mut table, mut strings) = (Bytes::default(), Bytes::default());
    for &(name, offset) in functions {
        table.u32(&[0, 4 + strings.0.len() as u32, offset]);
        // Section 1, a function, external.
        table.u16(&[1, 0x20]).u8(&[2, 0]);
        strings.text(name);
    }
    table.u32(&[4 + strings.0.len() as u32]).u8(&strings.take());
    (functions.len() as u32, table.take())
}
