//! Random amounts of what symbol files have.

use super::dwarf::{self, Dwarf};
use super::elf::{self, Compression};
use super::pdb::{self, INT, Pdb};
use super::{Bytes, SymbolFile, pe};
use fastrand::Rng;

/// The longest file.
const LENGTH_MAX: usize = 1 << 20;

/// A file of at most 1 MiB. Its first function is `first` or is mangled, if it has any name.
pub fn file(rng: &mut Rng) -> SymbolFile {
    loop {
        let file = match rng.u8(..3) {
            0 => pdb_file(rng),
            1 => elf_file(rng),
            _ => pe_file(rng),
        };
        if file.contents.len() <= LENGTH_MAX {
            return file;
        }
    }
}

/// Few, or up to 2^`bits`.
fn amount(rng: &mut Rng, bits: u32) -> usize {
    let bits = if rng.bool() { 2 } else { rng.u32(..=bits) };
    rng.usize(..1 << bits)
}

/// A name that is mangled or not, short or long.
fn name(rng: &mut Rng) -> Vec<u8> {
    let length = amount(rng, 16);
    match rng.u8(..6) {
        0 => [b"_Z1fP1a".to_vec(), doubled(b"PFvS0_S0_E", length.min(90))].concat(),
        1 => [b"_ZN".to_vec(), b"1aI".repeat(length.min(300)), b"E".repeat(length)].concat(),
        2 => [b"_RN".to_vec(), b"I".repeat(length.min(900)), b"vC1a1bE".to_vec()].concat(),
        3 => [b"?f@@YAX".to_vec(), b"P6AX000@Z".repeat(length.min(100)), b"@Z".to_vec()].concat(),
        4 => [b"?".to_vec(), b"?$a@V".repeat(length.min(200)), b"b@@".repeat(length)].concat(),
        _ => [b"first".to_vec(), vec![b'n'; length]].concat(),
    }
}

fn doubled(level: &[u8], levels: usize) -> Vec<u8> {
    (0..levels)
        .flat_map(|n| level.iter().map(move |&byte| if byte == b'0' { digit(n) } else { byte }))
        .collect()
}

fn digit(n: usize) -> u8 {
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[n % 36]
}

fn pdb_file(rng: &mut Rng) -> SymbolFile {
    let mut types = Vec::new();
    for n in 0..amount(rng, 15) as u32 {
        // Mostly the one before; sometimes itself, or one that comes later.
        let other = match rng.u8(..8) {
            0 => INT,
            1 => pdb::FIRST + rng.u32(..=n + 1),
            _ => (pdb::FIRST + n).saturating_sub(1).max(pdb::FIRST),
        };
        types.push(match rng.u8(..8) {
            0 => pdb::modifier(other, rng.bool()),
            1 => pdb::pointer(other),
            2 => pdb::array(other, rng.u16(..1000)),
            3 => pdb::procedure(other),
            4 => pdb::class(&name(rng)),
            5 => pdb::enumeration(other, b"E"),
            _ => pdb::list(&vec![other; amount(rng, 8)]),
        });
    }
    let last = pdb::FIRST + types.len() as u32;
    types.push(pdb::list(&vec![last.saturating_sub(1).max(INT); 1 + amount(rng, 4)]));
    types.push(pdb::procedure(last));
    let scope = if rng.u8(..4) == 0 { pdb::FIRST + rng.u32(..4) } else { 0 };
    let identifiers = (0..4).map(|_| pdb::function(scope, last + 1, b"inner")).collect();
    let (modules, each) = (1 + amount(rng, 6), 1 + amount(rng, 8));
    let inlined = amount(rng, 14);
    let mut offset = 0;
    let mut function = |rng: &mut Rng| {
        offset += rng.u32(..32);
        pdb::Function {
            name: if offset < 32 { b"first".to_vec() } else { name(rng) },
            offset,
            length: rng.u32(1..64),
            index: if rng.bool() { last + 1 } else { 0 },
            inlined: if rng.u8(..4) == 0 { inlined } else { 0 },
            overlap: if rng.u8(..4) == 0 { rng.u32(..1 << 20) } else { 0 },
        }
    };
    let modules = (0..modules).map(|_| (0..each).map(|_| function(rng)).collect()).collect();
    let publics = (0..amount(rng, 6)).map(|n| (name(rng), (1 << 16) | (16 * n as u32))).collect();
    let shares_stream = rng.u8(..16) == 0;
    let repeated = if rng.u8(..16) == 0 { amount(rng, 16) } else { 0 };
    Pdb { types, identifiers, modules, publics, shares_stream, repeated }.file()
}

fn elf_file(rng: &mut Rng) -> SymbolFile {
    let count = 1 + amount(rng, 12);
    let step = rng.u64(..64);
    let address = |n: usize| 0x1000 + step * n as u64;
    let mut sections = vec![elf::Section::code(0x1000, (64 * count).min(1 << 16))];
    for _ in 0..amount(rng, 10) {
        sections.push(elf::Section::code(rng.u64(..1 << 20), 1 << 10));
    }
    if rng.bool() {
        let strings = [b"\0first\0".to_vec(), name(rng), vec![0]].concat();
        let offset = |rng: &mut Rng, n| if n == 0 { 1 } else { rng.u32(..strings.len() as u32) };
        let shared = rng.bool().then(|| rng.u32(1..strings.len() as u32));
        let functions: Vec<_> = (0..count)
            .map(|n| (shared.unwrap_or_else(|| offset(rng, n)), address(n), rng.u64(..64)))
            .collect();
        let index = sections.len() as u32 + 1;
        sections.extend(elf::Section::symbols(index, strings.clone(), &functions));
    }
    if rng.bool() {
        let letters = [b"zR".to_vec(), vec![b'S'; amount(rng, 18)]].concat();
        let functions: Vec<_> = (0..count).map(|n| (address(n), rng.u32(..64))).collect();
        sections.push(dwarf::frames(0x80_0000, &letters, &functions));
    }
    let units = 1 + amount(rng, 11);
    let each = 1 + amount(rng, 4);
    let mut n = 0;
    let mut function = |rng: &mut Rng, inlined| {
        n += 1;
        dwarf::Function {
            name: if n == 1 { b"first".to_vec() } else { name(rng) },
            address: address(n - 1),
            length: rng.u32(1..64),
            inlined,
        }
    };
    let inlined = amount(rng, 15);
    let dwarf = Dwarf {
        units: (0..units).map(|_| (0..each).map(|_| function(rng, inlined)).collect()).collect(),
        folder: [b"/".to_vec(), vec![b'x'; amount(rng, 18)]].concat(),
        files: amount(rng, 15),
        shared_ranges: amount(rng, 15),
        shares_lines: rng.bool(),
        overlapping_tables: rng.bool(),
        attributes: amount(rng, 15),
    };
    let mut own = dwarf.sections();
    if rng.u8(..4) == 0 {
        let (packed, length) = packed(1 << rng.u32(..12));
        let length = if rng.bool() { length } else { rng.u64(..1 << 33) };
        // Lines and texts, not what tells where functions are.
        for section in own.iter_mut().skip(2).take(2) {
            if rng.bool() {
                let packed =
                    elf::Section::compressed(section.name, Compression::Zstandard, &packed, length);
                *section = packed;
            }
        }
    }
    sections.extend(own);
    let addresses = (0..count.min(1000)).map(address).collect();
    SymbolFile { name: "a", contents: elf::file(&sections), identity: None, addresses }
}

/// Zeros as Zstandard packs them: blocks that say one byte 131,071 times (RFC 8878, `RLE_Block`); and
/// their length.
pub fn packed(blocks: u32) -> (Vec<u8>, u64) {
    const LENGTH: u32 = (1 << 17) - 1;
    let mut packed = Bytes::default();
    // The window is as long as a block.
    packed.u32(&[0xFD2F_B528]).u8(&[0, 0x38]);
    for block in 0..blocks {
        let header = LENGTH << 3 | 1 << 1 | u32::from(block + 1 == blocks);
        packed.u8(&header.to_le_bytes()[..3]).u8(&[0]);
    }
    (packed.take(), u64::from(blocks) * u64::from(LENGTH))
}

fn pe_file(rng: &mut Rng) -> SymbolFile {
    let section = |name, address, contents, is_code| pe::Section {
        name,
        address,
        contents,
        is_code,
        ..pe::Section::default()
    };
    let count = 1 + amount(rng, 15) as u32;
    let mut sections = vec![section(".text", 0x1000, vec![0x90; count as usize], true)];
    let mut directories = Vec::new();
    if rng.bool() {
        let names = [b"first\0".to_vec(), name(rng), vec![0]].concat();
        let shared = rng.bool();
        let name = |rng: &mut Rng, n| match n {
            0 => 0,
            _ if shared => 6,
            _ => rng.u32(..names.len() as u32),
        };
        let functions: Vec<_> = (0..count).map(|n| (name(rng, n), 0x1000 + n)).collect();
        let table = pe::exports(0x200_0000, &names, &functions);
        directories.push((pe::EXPORTS, 0x200_0000, table.len() as u32));
        sections.push(section(".edata", 0x200_0000, table, false));
    }
    if rng.bool() {
        let mut data = Bytes::default();
        for n in 0..amount(rng, 10) as u32 {
            let next = if rng.u8(..8) == 0 { n } else { n + 1 };
            data.u8(&[0x21, 0, 0, 0]).u32(&[0x1000, 0x1001, 0x400_0000 + 16 * next]);
        }
        let mut entries = Bytes::default();
        for n in 0..count {
            let first = 0x400_0000 + 16 * rng.u32(..2);
            entries.u32(&[0x1000 + n, 0x1001 + n, first]);
        }
        let entries = entries.take();
        directories.push((pe::EXCEPTIONS, 0x300_0000, entries.len() as u32));
        sections.push(section(".pdata", 0x300_0000, entries, false));
        sections.push(section(".xdata", 0x400_0000, data.take(), false));
    }
    for _ in 0..amount(rng, 13) {
        sections.push(pe::Section {
            size: rng.u32(..0x7F00_0000),
            ..section(".x", 0x1000, vec![0x90; 16], rng.bool())
        });
    }
    let symbols = rng.bool().then(|| {
        let name = name(rng);
        let functions: Vec<(&[u8], u32)> = (0..count.min(1 << 8))
            .map(|n| (if n == 0 { b"first" } else { &name[..] }, n))
            .collect();
        pe::symbols(&functions)
    });
    let addresses = (0..count.min(1000)).map(|n| u64::from(0x1000 + n)).collect();
    let contents = pe::file(&sections, &directories, symbols);
    SymbolFile { name: "a.exe", contents, identity: None, addresses }
}
