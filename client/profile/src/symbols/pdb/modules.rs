//! What the object files had that were linked: their procedures, lines and inlined calls.
//!
//! A module's stream is read when one of its addresses is first looked up, once from start to end.

use super::fields::Fields;
use crate::budget::DEPTH;
use pdb2::{PDB, StreamIndex};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::{Cell, OnceCell, RefCell};
use std::fs::File;
use std::ops::Range;

/// Kinds of symbols (cvinfo.h, `SYM_ENUM_e`).
const S_THUNK32: u16 = 0x1102;
const S_LPROC32: u16 = 0x110F;
const S_GPROC32: u16 = 0x1110;
const S_SEPCODE: u16 = 0x1132;
const S_LPROC32_ID: u16 = 0x1146;
const S_GPROC32_ID: u16 = 0x1147;
const S_INLINESITE: u16 = 0x114D;
const S_LPROC32_DPC: u16 = 0x1155;
const S_LPROC32_DPC_ID: u16 = 0x1156;
const S_INLINESITE2: u16 = 0x115D;

/// Kinds of subsections (cvinfo.h, `DEBUG_S_SUBSECTION_TYPE`).
const DEBUG_S_LINES: u32 = 0xF2;
const DEBUG_S_FILECHKSMS: u32 = 0xF4;
const DEBUG_S_INLINEELINES: u32 = 0xF6;
const DEBUG_S_CROSSSCOPEIMPORTS: u32 = 0xF7;
const DEBUG_S_CROSSSCOPEEXPORTS: u32 = 0xF8;

/// The lines of a list have columns (`CV_LINES_HAVE_COLUMNS`).
const HAS_COLUMNS: u16 = 1;
/// The functions of a list have more files (`CV_INLINEE_SOURCE_LINE_SIGNATURE_EX`).
const HAS_MORE_FILES: u32 = 1;

/// Lines of code that a debugger always or never steps into: the line before goes on.
const MARKS: [u32; 2] = [0xFE_EFEE, 0xF0_0F00];

/// A place in the code of a PDB: the section's number, from 1 on, and the offset in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) section: u16,
    pub(super) offset: u32,
}

impl Place {
    fn of(fields: &mut Fields<'_>) -> Option<Self> {
        let offset = fields.u32()?;
        Some(Self { section: fields.u16()?, offset })
    }

    fn end(self, length: u32) -> u32 {
        self.offset.saturating_add(length)
    }
}

/// A function that is in the source, or a thunk.
#[derive(Debug)]
pub(super) struct Procedure {
    pub(super) place: Place,
    pub(super) length: u32,
    /// 0 without one.
    pub(super) index: u32,
    /// Where its name is in the stream.
    name: Range<usize>,
}

/// A function that was inlined into a procedure or into another such function.
#[derive(Debug)]
struct Site {
    /// The one it was inlined into.
    parent: Option<usize>,
    inlinee: u32,
    depth: usize,
}

/// Code of an inlined function.
#[derive(Debug)]
struct InlinedRange {
    section: u16,
    range: Range<u32>,
    site: usize,
    depth: usize,
    file: u32,
    line: u32,
}

/// A function at an address: one that was inlined, or the procedure.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InlinedCall {
    pub(super) inlinee: u32,
    pub(super) line: Option<u32>,
    pub(super) file: Option<u32>,
}

/// The lines of one stretch of code.
#[derive(Debug)]
struct Lines {
    place: Place,
    /// The first offset after it: code behind it, which may be of the same object file, has no lines.
    end: u32,
    lines: Range<usize>,
}

#[derive(Debug)]
struct Line {
    offset: u32,
    line: u32,
    file: u32,
}

/// One object file.
#[derive(Debug, Default)]
pub(super) struct Module {
    stream: Vec<u8>,
    /// In the order of their places, each place once.
    pub(super) procedures: Vec<Procedure>,
    /// Further procedures at these places, whose code the linker folded, in the same order.
    others: Vec<Procedure>,
    sites: Vec<Site>,
    /// By depth, then by place.
    inlined: Vec<InlinedRange>,
    /// In the order of their places.
    stretches: Vec<Lines>,
    lines: Vec<Line>,
    files: Range<usize>,
    imports: Vec<(u32, Range<usize>)>,
    exports: Range<usize>,
}

/// What the list of modules says of one.
#[derive(Debug)]
pub(super) struct ModuleInfo {
    pub(super) name: String,
    pub(super) stream: StreamIndex,
    pub(super) symbols: u32,
    /// The length of lines in the form before CodeView 8, which are not read.
    pub(super) old_lines: u32,
    pub(super) lines: u32,
}

#[derive(Debug)]
pub(super) struct Modules {
    pdb: RefCell<PDB<'static, File>>,
    all: Vec<(ModuleInfo, OnceCell<Option<Box<Module>>>)>,
    by_name: OnceCell<FxHashMap<String, usize>>,
    /// The texts that modules share, `/names`.
    names: Vec<u8>,
    /// How many more sites and ranges may be kept.
    left: Cell<u64>,
    is_too_deep: Cell<bool>,
}

impl Modules {
    pub(super) fn new(
        pdb: PDB<'static, File>,
        modules: Vec<ModuleInfo>,
        names: Vec<u8>,
        entries: u64,
    ) -> Self {
        Self {
            pdb: RefCell::new(pdb),
            all: modules.into_iter().map(|module| (module, OnceCell::new())).collect(),
            by_name: OnceCell::new(),
            names,
            left: Cell::new(entries),
            is_too_deep: Cell::new(false),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// What was left out, if anything was.
    pub(super) fn note(&self) -> Option<String> {
        if self.left.get() == 0 {
            let why = "they have more code than the file is worth";
            return Some(format!("some of its inlined calls are left out: {why}"));
        }
        let deep = format!("inlined calls beyond a depth of {DEPTH} are cut");
        self.is_too_deep.get().then_some(deep)
    }

    pub(super) fn get(&self, index: usize) -> Option<&Module> {
        let (info, module) = self.all.get(index)?;
        let read = || {
            let stream = self.pdb.borrow_mut().raw_stream(info.stream).ok()??;
            let (stream, mut module) = (stream.as_slice().to_vec(), Module::default());
            let lines = info.symbols as usize + info.old_lines as usize;
            let lines = lines..lines + info.lines as usize;
            let inlinees = inlinees(stream.get(lines.clone()).unwrap_or_default());
            // What is damaged ends the symbols.
            module.read_symbols(stream.get(..info.symbols as usize)?, &inlinees, self);
            module.finish_symbols();
            module.read_lines(&stream, lines);
            module.stream = stream;
            Some(Box::new(module))
        };
        module.get_or_init(read).as_deref()
    }

    /// The path of a file of a module.
    pub(super) fn file(&self, module: &Module, file: u32) -> Option<&[u8]> {
        // The file's number is the offset of its checksum.
        let checksums = module.stream.get(module.files.clone())?;
        let name = Fields(checksums.get(usize::try_from(file).ok()?..)?).u32()?;
        self.text(name)
    }

    /// A text of `/names`: behind its signature, its version and its length.
    fn text(&self, offset: u32) -> Option<&[u8]> {
        let mut fields = Fields(&self.names);
        let (_signature, _version, length) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let texts = fields.bytes(usize::try_from(length).ok()?)?;
        let rest = texts.get(usize::try_from(offset).ok()?..)?;
        Some(Fields(rest.get(..crate::budget::NAME).unwrap_or(rest)).text())
    }

    /// The index, in the lists that all modules share, of what a module imports from another (LLVM,
    /// "CodeView Symbols", cross-module references).
    pub(super) fn imported(&self, module: usize, index: u32) -> Option<u32> {
        let importing = self.get(module)?;
        let (from, list) = importing.imports.get((index >> 20 & 0x7FF) as usize)?;
        let list = importing.stream.get(list.clone())?;
        let local = Fields(list.get((index & 0xF_FFFF) as usize * 4..)?).u32()?;
        let by_name = self.by_name.get_or_init(|| {
            let names = self.all.iter().enumerate();
            names.map(|(index, (info, _))| (info.name.to_ascii_lowercase(), index)).collect()
        });
        let from = String::from_utf8_lossy(self.text(*from)?).to_ascii_lowercase();
        let exporting = self.get(*by_name.get(&from)?)?;
        let (exports, _) = exporting.stream.get(exporting.exports.clone())?.as_chunks::<8>();
        let of = |export: &[u8; 8], at: usize| Fields(export.get(at..)?).u32();
        let found = exports.binary_search_by_key(&Some(local), |export| of(export, 0)).ok()?;
        of(exports.get(found)?, 4)
    }

    fn take(&self) -> bool {
        let left = self.left.get().checked_sub(1);
        self.left.set(left.unwrap_or(0));
        left.is_some()
    }
}

impl Module {
    /// The name of a procedure.
    pub(super) fn name(&self, procedure: &Procedure) -> &[u8] {
        self.stream.get(procedure.name.clone()).unwrap_or_default()
    }

    /// The procedure that has a place.
    pub(super) fn procedure(&self, place: Place) -> Option<(usize, &Procedure)> {
        let next = self.procedures.partition_point(|procedure| procedure.place <= place);
        let index = next.checked_sub(1)?;
        let procedure = self.procedures.get(index)?;
        let is_there = procedure.place.section == place.section
            && place.offset < procedure.place.end(procedure.length);
        is_there.then_some((index, procedure))
    }

    /// The other procedures that have the place of one.
    pub(super) fn others(&self, place: Place) -> &[Procedure] {
        let first = self.others.partition_point(|other| other.place < place);
        let rest = self.others.get(first..).unwrap_or_default();
        let end = rest.partition_point(|other| other.place <= place);
        rest.get(..end).unwrap_or_default()
    }

    /// The line of a place, of those of the stretch that a function begins in.
    ///
    /// If several procedures are at one place, each has a stretch, and the first stretch is that of the
    /// first procedure. If stretches are missing, the first may be another's, so no line is known.
    pub(super) fn line(&self, function: Place, place: Place) -> Option<(u32, u32)> {
        let next = self.stretches.partition_point(|stretch| stretch.place <= function);
        let last = self.stretches.get(next.checked_sub(1)?)?;
        let first = self.stretches.partition_point(|stretch| stretch.place < last.place);
        let others = self.others(function).len();
        if others != 0 && next - first != others + 1 {
            return None;
        }
        let stretch = if others == 0 { last } else { self.stretches.get(first)? };
        let covered = stretch.place.offset..stretch.end;
        let is_own = stretch.place.section == function.section
            && [function, place].iter().all(|place| covered.contains(&place.offset));
        let lines = self.lines.get(stretch.lines.clone()).filter(|_| is_own)?;
        let next = lines.partition_point(|line| line.offset <= place.offset);
        let line = lines.get(next.checked_sub(1)?)?;
        Some((line.file, line.line))
    }

    /// What was inlined at a place, outermost first. The innermost function that has the place is in
    /// all that enclose it, whether these have it or not.
    pub(super) fn inlined(&self, place: Place) -> Vec<InlinedCall> {
        let at = |depth: usize| {
            let key = (depth, place.section, place.offset);
            let next = self
                .inlined
                .partition_point(|one| (one.depth, one.section, one.range.start) <= key);
            let one = self.inlined.get(next.checked_sub(1)?)?;
            let is_there = (one.depth, one.section) == (depth, place.section);
            (is_there && one.range.contains(&place.offset)).then_some(one)
        };
        let deepest = self.inlined.last().map_or(0, |one| one.depth + 1);
        let Some(innermost) = (0..deepest).rev().find_map(at) else {
            return Vec::new();
        };
        let mut calls = Vec::new();
        let mut next = Some(innermost.site);
        while let Some((index, site)) = next.and_then(|index| Some((index, self.sites.get(index)?)))
        {
            let own = at(site.depth).filter(|one| one.site == index);
            calls.push(InlinedCall {
                inlinee: site.inlinee,
                line: own.map(|one| one.line),
                file: own.map(|one| one.file),
            });
            next = site.parent;
        }
        calls.reverse();
        calls
    }

    /// Reads procedures, and what was inlined into each.
    fn read_symbols(
        &mut self,
        symbols: &[u8],
        inlinees: &FxHashMap<u32, (u32, u32)>,
        modules: &Modules,
    ) -> Option<()> {
        /// An open scope: it ends at an offset, and is a procedure or a site.
        struct Scope {
            end: u32,
            procedure: Option<Place>,
            site: Option<usize>,
            depth: usize,
        }
        let mut open: Vec<Scope> = Vec::new();
        // Procedures whose code is that of one before; what was inlined is said of the first.
        let mut known: FxHashSet<Place> = FxHashSet::default();
        let mut fields = Fields(symbols);
        let _signature = fields.u32()?;
        while !fields.0.is_empty() {
            let start = symbols.len() - fields.0.len();
            let size = usize::from(fields.u16()?);
            let mut record = Fields(fields.bytes(size)?);
            while open.pop_if(|scope| start >= scope.end as usize).is_some() {}
            let kind = record.u16()?;
            let name_at = |record: &mut Fields<'_>| {
                let from = start + 2 + size - record.0.len();
                from..from + record.text().len()
            };
            match kind {
                S_LPROC32 | S_GPROC32 | S_LPROC32_ID | S_GPROC32_ID | S_LPROC32_DPC
                | S_LPROC32_DPC_ID => {
                    let (_parent, end, _next) = (record.u32()?, record.u32()?, record.u32()?);
                    let length = record.u32()?;
                    let (_from, _to, index) = (record.u32()?, record.u32()?, record.u32()?);
                    let place = Place::of(&mut record)?;
                    let _flags = record.u8()?;
                    let procedure = Some(place).filter(|_| length == 0 || known.insert(place));
                    open.push(Scope { end, procedure, site: None, depth: 0 });
                    let name = name_at(&mut record);
                    self.procedures.push(Procedure { place, length, index, name });
                }
                S_THUNK32 => {
                    let (_parent, _end, _next) = (record.u32()?, record.u32()?, record.u32()?);
                    let place = Place::of(&mut record)?;
                    let (length, _kind) = (record.u16()?.into(), record.u8()?);
                    let name = name_at(&mut record);
                    self.procedures.push(Procedure { place, length, index: 0, name });
                }
                S_SEPCODE => {
                    let (_parent, end, length) = (record.u32()?, record.u32()?, record.u32()?);
                    let (_flags, offset, of) = (record.u32()?, record.u32()?, record.u32()?);
                    let place = Place { section: record.u16()?, offset };
                    // It follows the procedure that it is a part of.
                    let last = self.procedures.last().filter(|last| last.place.offset == of);
                    if let Some((index, name)) = last.map(|last| (last.index, last.name.clone())) {
                        let scope = Scope { end, procedure: Some(place), site: None, depth: 0 };
                        open.push(scope);
                        self.procedures.push(Procedure { place, length, index, name });
                    }
                }
                S_INLINESITE | S_INLINESITE2 => {
                    let (_parent, end, inlinee) = (record.u32()?, record.u32()?, record.u32()?);
                    if kind == S_INLINESITE2 {
                        record.u32()?;
                    }
                    let within =
                        open.last().map(|scope| (scope.procedure, scope.site, scope.depth));
                    let Some((Some(procedure), parent, depth)) = within else {
                        continue;
                    };
                    let mut scope =
                        Scope { end, procedure: Some(procedure), site: parent, depth: depth + 1 };
                    if depth >= DEPTH {
                        modules.is_too_deep.set(true);
                    } else if modules.take() {
                        scope.site = Some(self.sites.len());
                        self.sites.push(Site { parent, inlinee, depth });
                        let (file, line) = inlinees.get(&inlinee).copied().unwrap_or_default();
                        self.read_site(record, procedure, (file, line), modules);
                    }
                    open.push(scope);
                }
                _ => {}
            }
        }
        Some(())
    }

    fn finish_symbols(&mut self) {
        self.procedures.retain(|procedure| procedure.length != 0);
        // Of several at one place, the first stays.
        self.procedures.sort_by_key(|procedure| procedure.place);
        let mut last = None;
        let procedures = std::mem::take(&mut self.procedures).into_iter();
        let is_first =
            |procedure: &Procedure| last.replace(procedure.place) != Some(procedure.place);
        (self.procedures, self.others) = procedures.partition(is_first);
        self.inlined.sort_by_key(|one| (one.depth, one.section, one.range.start));
    }

    /// Reads the code and the lines of the last site, which are a program (cvinfo.h,
    /// `BinaryAnnotationOpcode`).
    fn read_site(
        &mut self,
        mut program: Fields<'_>,
        procedure: Place,
        (mut file, mut line): (u32, u32),
        modules: &Modules,
    ) -> Option<()> {
        let site = self.sites.len().checked_sub(1)?;
        let depth = self.sites.get(site)?.depth;
        let (mut offset, mut base) = (procedure.offset, 0_u32);
        let mut last: Option<(u32, Option<u32>, u32, u32)> = None;
        let mut add = |(start, length, file, line): (u32, Option<u32>, u32, u32),
                       next: Option<u32>| {
            let end = match length {
                Some(length) => start.saturating_add(length),
                None => next.unwrap_or(start),
            };
            if start < end && modules.take() {
                let (section, range) = (procedure.section, start..end);
                self.inlined.push(InlinedRange { section, range, site, depth, file, line });
            }
        };
        while let Some(operation) = program.compressed().filter(|&operation| operation != 0) {
            let value = program.compressed()?;
            let signed = |value: u32| {
                let amount = value >> 1;
                if value & 1 == 0 { amount } else { amount.wrapping_neg() }
            };
            let mut length = None;
            match operation {
                1 => offset = value,
                2 => base = value,
                3 => offset = offset.wrapping_add(value),
                4 => {
                    if let Some((_, length @ None, ..)) = &mut last {
                        *length = Some(value);
                    }
                    offset = offset.wrapping_add(value);
                }
                5 => file = value,
                6 => line = line.wrapping_add(signed(value)),
                0xB => {
                    offset = offset.wrapping_add(value & 0xF);
                    line = line.wrapping_add(signed(value >> 4));
                }
                0xC => {
                    length = Some(value);
                    offset = offset.wrapping_add(program.compressed()?);
                }
                // Ends of lines, columns and kinds of ranges, which no view shows.
                7..=0xA | 0xD => {}
                _ => return None,
            }
            if matches!(operation, 3 | 0xB | 0xC) {
                let start = offset.wrapping_add(base);
                if let Some(last) = last.replace((start, length, file, line)) {
                    add(last, Some(start));
                }
            }
        }
        last.map(|last| add(last, None))
    }

    /// Reads the subsections behind the symbols.
    fn read_lines(&mut self, stream: &[u8], range: Range<usize>) {
        for (kind, range) in subsections(stream, range) {
            let Some(contents) = stream.get(range.clone()) else {
                continue;
            };
            match kind {
                // What is damaged ends its subsection.
                DEBUG_S_LINES => drop(self.read_stretch(Fields(contents))),
                DEBUG_S_FILECHKSMS => self.files = range,
                DEBUG_S_CROSSSCOPEIMPORTS => {
                    let mut fields = Fields(contents);
                    while let (Some(name), Some(count)) = (fields.u32(), fields.u32()) {
                        let from = range.end - fields.0.len();
                        let length = (count as usize).saturating_mul(4);
                        if fields.bytes(length).is_none() {
                            break;
                        }
                        self.imports.push((name, from..from + length));
                    }
                }
                DEBUG_S_CROSSSCOPEEXPORTS => self.exports = range,
                _ => {}
            }
        }
        self.stretches.sort_by_key(|stretch| stretch.place);
    }

    fn read_stretch(&mut self, mut fields: Fields<'_>) -> Option<()> {
        let place = Place::of(&mut fields)?;
        let (flags, length) = (fields.u16()?, fields.u32()?);
        let first = self.lines.len();
        self.stretches.push(Lines { place, end: place.end(length), lines: first..first });
        while let Some(file) = fields.u32() {
            let (count, _bytes) = (fields.u32()?, fields.u32()?);
            let (lines, _) = fields.bytes((count as usize).checked_mul(8)?)?.as_chunks::<8>();
            if flags & HAS_COLUMNS != 0 {
                // A line's first and last column, of two bytes each.
                fields.bytes((count as usize).checked_mul(4)?)?;
            }
            for line in lines {
                let mut fields = Fields(line);
                let offset = place.offset.saturating_add(fields.u32()?);
                // The other bits say how far it goes, and whether it is a statement (`CV_Line_t`,
                // cvinfo.h).
                let line = fields.u32()? & 0xFF_FFFF;
                if !MARKS.contains(&line) {
                    self.lines.push(Line { offset, line, file });
                }
            }
            let end = self.lines.len();
            self.stretches.last_mut()?.lines.end = end;
        }
        self.lines.get_mut(first..)?.sort_by_key(|line| line.offset);
        Some(())
    }
}

/// The subsections of a module, by their kinds. Their lengths are multiples of four.
fn subsections(stream: &[u8], range: Range<usize>) -> Vec<(u32, Range<usize>)> {
    let mut all = Vec::new();
    let mut fields = Fields(stream.get(range.clone()).unwrap_or_default());
    while let (Some(kind), Some(length)) = (fields.u32(), fields.u32()) {
        let start = range.end - fields.0.len();
        if fields.bytes(length as usize).is_none() {
            break;
        }
        all.push((kind, start..start + length as usize));
    }
    all
}

/// The file and the line where each function begins that was inlined.
fn inlinees(stream: &[u8]) -> FxHashMap<u32, (u32, u32)> {
    let mut all = FxHashMap::default();
    for (_, range) in subsections(stream, 0..stream.len())
        .into_iter()
        .filter(|&(kind, _)| kind == DEBUG_S_INLINEELINES)
    {
        let mut fields = Fields(stream.get(range).unwrap_or_default());
        let has_more = fields.u32() == Some(HAS_MORE_FILES);
        while let (Some(inlinee), Some(file), Some(line)) =
            (fields.u32(), fields.u32(), fields.u32())
        {
            all.insert(inlinee, (file, line));
            if has_more {
                let more = fields.u32().and_then(|count| (count as usize).checked_mul(4));
                if more.and_then(|length| fields.bytes(length)).is_none() {
                    break;
                }
            }
        }
    }
    all
}
