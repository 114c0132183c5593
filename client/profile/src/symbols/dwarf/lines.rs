//! The lines of one unit.

use super::Slice;
use super::entries::text;
use super::limits::Limits;
use gimli::{AttributeValue, DebugLineOffset, DwForm, Format, Reader, Section, UnitRef};
use std::ops::Range;

/// The most files that a unit may have. The largest, of whole programs that were optimized when they
/// were linked, have some tens of thousands.
const FILES_MAX: u64 = 1 << 20;

/// The longest list of files, in bytes.
const HEADER_MAX: u64 = 1 << 23;

/// Code whose rows follow each other.
struct Sequence {
    range: Range<u64>,
    rows: Range<usize>,
}

struct Row {
    address: u64,
    file: u64,
    /// 0 if the compiler gave the code no line.
    line: u32,
}

struct File<'a> {
    name: AttributeValue<Slice<'a>>,
    folder: u64,
}

pub(super) struct Lines<'a> {
    /// In order of their starts.
    sequences: Vec<Sequence>,
    rows: Vec<Row>,
    folders: Vec<AttributeValue<Slice<'a>>>,
    files: Vec<File<'a>>,
    /// The number of the first file and of the first folder.
    first: u64,
}

impl<'a> Lines<'a> {
    /// Runs the program of a unit's lines.
    pub(super) fn read(
        unit: UnitRef<'_, Slice<'a>>,
        program: DebugLineOffset,
        limits: &Limits,
    ) -> Option<Self> {
        let length = checked(*unit.dwarf.debug_line.reader(), program, limits).ok()??;
        if !limits.steps(length) {
            return None;
        }
        let (address_size, folder, name) = (unit.header.address_size(), unit.comp_dir, unit.name);
        let program = unit.dwarf.debug_line.program(program, address_size, folder, name).ok()?;
        let header = program.header();
        // DWARF 5 numbers files and folders from 0; before, 0 was the unit itself and its folder.
        let first = u64::from(header.version() <= 4);
        let mut lines = Self {
            sequences: Vec::new(),
            rows: Vec::new(),
            folders: header.include_directories().to_vec(),
            files: Vec::new(),
            first,
        };
        let mut rows = program.rows();
        // A program that is damaged has the lines before that.
        while let Ok(Some((_, row))) = rows.next_row() {
            let line = row.line().and_then(|line| u32::try_from(line.get()).ok()).unwrap_or(0);
            let next = Row { address: row.address(), file: row.file_index(), line };
            if !lines.add(next, row.end_sequence(), limits) {
                break;
            }
        }
        // Nothing says where the last rows end that no sequence has.
        lines.rows.truncate(lines.sequences.last().map_or(0, |last| last.rows.end));
        lines.sequences.sort_unstable_by_key(|one| (one.range.start, one.rows.start));
        let files = rows.header().file_names().iter();
        lines.files.extend(
            files.map(|file| File { name: file.path_name(), folder: file.directory_index() }),
        );
        (limits.entries(lines.files.len() as u64)).then_some(lines)
    }

    /// Adds a row, or ends a sequence; `false` if there is room for no more.
    fn add(&mut self, row: Row, ends: bool, limits: &Limits) -> bool {
        let first = self.sequences.last().map_or(0, |last| last.rows.end);
        if ends {
            let start = self.rows.get(first).map(|row| row.address);
            match start.filter(|&start| start < row.address) {
                Some(start) => self
                    .sequences
                    .push(Sequence { range: start..row.address, rows: first..self.rows.len() }),
                None => self.rows.truncate(first),
            }
            return true;
        }
        // A row ends where the next one begins: of several at one address, the last has the code.
        let own = self.rows.get_mut(first..).and_then(<[_]>::last_mut);
        if let Some(last) = own.filter(|last| last.address == row.address) {
            *last = row;
            return true;
        }
        let is_left = limits.entries(1);
        if is_left {
            self.rows.push(row);
        }
        is_left
    }

    /// The addresses that have lines.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        self.sequences.iter().map(|sequence| sequence.range.clone())
    }

    /// The index of the file and the line at an address.
    pub(super) fn at(&self, address: u64) -> Option<(u64, u32)> {
        // A stranger's file may have any number of sequences that overlap; the search ends at this
        // many.
        const OVERLAPPING: usize = 16;
        let next = self.sequences.partition_point(|one| one.range.start <= address);
        let mut before = self.sequences.get(..next)?.iter().rev().take(OVERLAPPING);
        let sequence = before.find(|one| one.range.contains(&address))?;
        let rows = self.rows.get(sequence.rows.clone())?;
        let next = rows.partition_point(|row| row.address <= address);
        let row = rows.get(next.checked_sub(1)?)?;
        Some((row.file, row.line))
    }

    /// The path of a file: the folder of the compiler, the file's folder, and its name, of which each
    /// may be absolute.
    pub(super) fn file(&self, unit: UnitRef<'_, Slice<'a>>, index: u64) -> Option<String> {
        let at = |index: u64| usize::try_from(index.checked_sub(self.first)?).ok();
        let mut path = String::new();
        let mut add = |part: &[u8]| {
            let part = String::from_utf8_lossy(part);
            if is_absolute(&part) {
                path.clear();
            } else if !path.is_empty() {
                let separator = if is_of_windows(&path) { '\\' } else { '/' };
                if !path.ends_with(separator) {
                    path.push(separator);
                }
            }
            path.push_str(&part);
        };
        if let Some(folder) = &unit.comp_dir {
            add(folder.slice());
        }
        // Before DWARF 5, file 0 is the unit itself.
        if self.first == 1 && index == 0 {
            add(unit.name.as_ref()?.slice());
            return Some(path);
        }
        let file = self.files.get(at(index)?)?;
        if file.folder != 0
            && let Some(folder) = at(file.folder).and_then(|folder| self.folders.get(folder))
        {
            add(text(unit, *folder)?);
        }
        add(text(unit, file.name)?);
        Some(path)
    }
}

fn is_absolute(path: &str) -> bool {
    path.starts_with('/') || path.get(1..3) == Some(":/") || is_of_windows(path)
}

fn is_of_windows(path: &str) -> bool {
    path.starts_with('\\') || path.get(1..3) == Some(":\\")
}

/// The length of a program, with its header; `None` if it says that it has more files than it can.
///
/// The parser makes a list of as many folders and files as DWARF 5's header says. Where each of them
/// takes no bytes, nothing ends it.
fn checked(
    mut section: Slice<'_>,
    program: DebugLineOffset,
    limits: &Limits,
) -> gimli::Result<Option<u64>> {
    section.skip(program.0)?;
    let (length, format) = section.read_initial_length()?;
    let mut program = section.split(length)?;
    let version = program.read_u16()?;
    if version >= 5 {
        // The sizes of an address and of a segment's selector (DWARF 5, 6.2.4).
        program.skip(2)?;
    }
    let header_length = program.read_length(format)?;
    let mut header = program.split(header_length)?;
    if header_length as u64 > HEADER_MAX {
        return Ok(None);
    }
    if version < 5 {
        return Ok(Some(length as u64));
    }
    // From the shortest instruction's length to the range of special opcodes.
    header.skip(5)?;
    let opcodes = header.read_u8()?;
    // The number of operands of each standard opcode: numbers begin with 1.
    header.skip(usize::from(opcodes).saturating_sub(1))?;
    let folder = forms(&mut header)?;
    let folders = header.read_uleb128()?;
    if !takes_bytes(&folder) || folders > FILES_MAX {
        return Ok(None);
    }
    for _ in 0..folders {
        for &form in &folder {
            if !skip(&mut header, form, format)? {
                return Ok(None);
            }
        }
    }
    let file = forms(&mut header)?;
    let files = header.read_uleb128()?;
    let is_possible = takes_bytes(&file) && files <= FILES_MAX && limits.steps(folders + files);
    Ok(is_possible.then_some(length as u64))
}

/// The forms of what a folder or a file has.
fn forms(header: &mut Slice<'_>) -> gimli::Result<Vec<DwForm>> {
    let mut forms = Vec::new();
    for _ in 0..header.read_u8()? {
        header.skip_leb128()?;
        forms.push(DwForm(header.read_uleb128_u16()?));
    }
    Ok(forms)
}

fn takes_bytes(forms: &[DwForm]) -> bool {
    forms
        .iter()
        .any(|form| !matches!(*form, gimli::DW_FORM_flag_present | gimli::DW_FORM_implicit_const))
}

/// Skips a value, if its form is one that a folder or a file may have (DWARF 5, 6.2.4.1).
fn skip(header: &mut Slice<'_>, form: DwForm, format: Format) -> gimli::Result<bool> {
    let length = match form {
        gimli::DW_FORM_string => header.read_null_terminated_slice().map(|_| 0)?,
        gimli::DW_FORM_line_strp | gimli::DW_FORM_strp => usize::from(format.word_size()),
        gimli::DW_FORM_strx | gimli::DW_FORM_udata => header.skip_leb128().map(|()| 0)?,
        gimli::DW_FORM_data1 | gimli::DW_FORM_strx1 => 1,
        gimli::DW_FORM_data2 | gimli::DW_FORM_strx2 => 2,
        gimli::DW_FORM_strx3 => 3,
        gimli::DW_FORM_data4 | gimli::DW_FORM_strx4 => 4,
        gimli::DW_FORM_data8 => 8,
        gimli::DW_FORM_data16 => 16,
        gimli::DW_FORM_block => header.read_uleb128().map(usize::try_from)?.unwrap_or(usize::MAX),
        _ => return Ok(false),
    };
    header.skip(length)?;
    Ok(true)
}
