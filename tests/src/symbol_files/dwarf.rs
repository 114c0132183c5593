//! Debug information of ELF files, in DWARF 4 or 5.

use super::Bytes;
use super::elf::Section;

/// A function and what is inlined into it.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name.
    pub name: Vec<u8>,
    /// Its first address.
    pub address: u64,
    /// Its length.
    pub length: u32,
    /// How often functions are inlined at its first byte, each into the one before.
    pub inlined: usize,
}

/// The units of a file.
#[derive(Clone, Debug)]
pub struct Dwarf {
    /// The functions of each unit.
    pub units: Vec<Vec<Function>>,
    /// The folder where the compiler ran.
    pub folder: Vec<u8>,
    /// Files of each unit.
    pub files: usize,
    /// Ranges that each unit and each function have, in a list that all share.
    pub shared_ranges: usize,
    /// All units have the lines of the first.
    pub shares_lines: bool,
    /// Each unit's table of abbreviations begins within that of the first.
    pub overlapping_tables: bool,
    /// Attributes without bytes that each entry of an inlined call has.
    pub attributes: usize,
}

impl Default for Dwarf {
    fn default() -> Self {
        Self {
            units: Vec::new(),
            folder: b"/src".to_vec(),
            files: 1,
            shared_ranges: 0,
            shares_lines: false,
            overlapping_tables: false,
            attributes: 0,
        }
    }
}

impl Dwarf {
    fn abbreviations(&self) -> (Vec<u8>, usize) {
        let mut table = Bytes::default();
        // What comes before the codes that are used, for tables that begin at each of them.
        let unused = if self.overlapping_tables { self.units.len() } else { 0 };
        for code in 0..unused {
            table.leb(200 + code as u64).u8(&[0x0B, 0, 0, 0]);
        }
        let first = table.0.len();
        // A unit: the name, the folder, the lines, and the addresses.
        table.u8(&[1, 0x11, 1, 0x03, 0x08, 0x1B, 0x0E, 0x10, 0x17, 0x11, 0x01]);
        table.u8(if self.shared_ranges > 0 { &[0x55, 0x17] } else { &[0x12, 0x06] }).u8(&[0, 0]);
        // A function: the name and the addresses.
        table.u8(&[2, 0x2E, 1, 0x03, 0x08, 0x11, 0x01]);
        table.u8(if self.shared_ranges > 0 { &[0x55, 0x17] } else { &[0x12, 0x06] }).u8(&[0, 0]);
        // An inlined call: whose, the addresses, the line.
        table.u8(&[3, 0x1D, 1, 0x31, 0x13, 0x11, 0x01, 0x12, 0x06, 0x59, 0x0B]);
        // `DW_AT_artificial`, a flag that is there.
        (0..self.attributes).for_each(|_| {
            table.u8(&[0x34, 0x19]);
        });
        table.u8(&[0, 0, 0]);
        (table.0, first)
    }

    fn program(&self, functions: &[Function]) -> Vec<u8> {
        let mut header = Bytes::default();
        header.u8(&[1, 1, 1, 0xFB, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1]).u8(&[0]);
        (0..self.files).for_each(|_| {
            header.text("a.c").u8(&[0, 0, 0]);
        });
        header.u8(&[0]);
        let mut program = Bytes::default();
        for function in functions {
            // The address, line 42, a row, the length, the end.
            program.u8(&[0, 9, 2]).u64(&[function.address]).u8(&[3, 41, 1, 2]);
            program.leb(function.length.into()).u8(&[0, 1, 1]);
        }
        let mut bytes = Bytes::default();
        let (header, program) = (header.take(), program.take());
        bytes.u32(&[(2 + 4 + header.len() + program.len()) as u32]).u16(&[4]);
        bytes.u32(&[header.len() as u32]).u8(&header).u8(&program);
        bytes.0
    }

    /// The sections.
    pub fn sections(&self) -> Vec<Section> {
        let (table, first) = self.abbreviations();
        let (mut info, mut lines) = (Bytes::default(), Bytes::default());
        for (index, functions) in self.units.iter().enumerate() {
            let line = if self.shares_lines { 0 } else { lines.0.len() as u32 };
            if index == 0 || !self.shares_lines {
                lines.u8(&self.program(functions));
            }
            let abbreviations = if self.overlapping_tables { 6 * index } else { first };
            let mut unit = Bytes::default();
            unit.u16(&[4]).u32(&[abbreviations.min(first) as u32]).u8(&[8]);
            let low = functions.iter().map(|function| function.address).min().unwrap_or(0);
            let ends = functions.iter().map(|one| one.address + u64::from(one.length));
            let length = (ends.max().unwrap_or(0) - low) as u32;
            unit.u8(&[1]).text("a.c").u32(&[0, line]).u64(&[low]);
            unit.u32(&[if self.shared_ranges > 0 { 0 } else { length }]);
            for function in functions {
                let origin = unit.0.len() as u32 + 4;
                unit.u8(&[2]).text(&function.name).u64(&[function.address]);
                unit.u32(&[if self.shared_ranges > 0 { 0 } else { function.length }]);
                for _ in 0..function.inlined {
                    unit.u8(&[3]).u32(&[origin]).u64(&[function.address]).u32(&[1]).u8(&[7]);
                }
                unit.0.resize(unit.0.len() + function.inlined + 1, 0);
            }
            unit.u8(&[0]);
            let unit = unit.take();
            info.u32(&[unit.len() as u32]).u8(&unit);
        }
        let mut ranges = Bytes::default();
        if self.shared_ranges > 0 {
            // What is first in each unit.
            ranges.u64(&[0, 64]);
        }
        for range in 0..self.shared_ranges as u64 {
            ranges.u64(&[0x10_0000 + 16 * range, 0x10_0008 + 16 * range]);
        }
        ranges.u64(&[0, 0]);
        let mut folder = Bytes::default();
        folder.text(&self.folder);
        vec![
            Section::data(".debug_abbrev", table),
            Section::data(".debug_info", info.take()),
            Section::data(".debug_line", lines.take()),
            Section::data(".debug_str", folder.take()),
            Section::data(".debug_ranges", ranges.take()),
        ]
    }
}

/// `.eh_frame`: one common entry with these letters, and an entry for each function.
pub fn frames(section: u64, letters: &[u8], functions: &[(u64, u32)]) -> Section {
    let mut bytes = Bytes::default();
    let entry = |bytes: &mut Bytes, mut contents: Vec<u8>| {
        contents.resize(contents.len().next_multiple_of(8) + 4, 0);
        bytes.u32(&[contents.len() as u32]).u8(&contents);
    };
    let mut common = Bytes::default();
    // The number, the version, the letters, the alignments, the return address; addresses are relative
    // to where they stand, of four bytes.
    common.u32(&[0]).u8(&[1]).text(letters).u8(&[1, 0x78, 16]);
    if letters.starts_with(b"z") {
        common.u8(&[1, 0x1B]);
    }
    entry(&mut bytes, common.take());
    for &(address, length) in functions {
        let at = bytes.0.len() as u32 + 4;
        let place = section + u64::from(at) + 4;
        let mut own = Bytes::default();
        own.u32(&[at, address.wrapping_sub(place) as u32, length]).u8(&[0]);
        entry(&mut bytes, own.take());
    }
    bytes.u32(&[0]);
    Section {
        name: ".eh_frame",
        kind: 1,
        flags: 2,
        address: section,
        contents: bytes.0,
        ..Section::default()
    }
}
