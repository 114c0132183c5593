//! An executable file and its symbols, before it runs.

use super::code_path::{Code, CodePath};
use super::functions::Function;
use super::image::Image;
use super::lookup::Lookup;
use super::pattern::FunctionPattern;
use super::search::SymbolPath;
use super::{Kind, LONGEST};
use crate::file::Module;
use iced_x86::{Decoder, DecoderOptions};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The assumed load address of a file that has none of its own: Linux puts it there if addresses
/// are not randomized.
const ANYWHERE: u64 = 0x5555_5555_4000;

pub struct Executable {
    image: Image,
    lookup: Lookup,
    module: Module,
}

impl Executable {
    /// Opens a file and looks for its symbols.
    ///
    /// # Errors
    /// A message, if it is no readable PE or ELF file.
    pub fn open(path: &Path, symbols: &SymbolPath) -> Result<Self, String> {
        let image = Image::open(path)?;
        let canonical = path.canonicalize().map_err(|error| error.to_string())?;
        let name = canonical.file_name().unwrap_or_default();
        let start = if image.base == 0 { ANYWHERE } else { image.base };
        let end = start.checked_add(image.size);
        let module = Module {
            name: name.to_string_lossy().into_owned(),
            path: Some(canonical.to_str().ok_or("its path is not UTF-8")?.to_owned()),
            start,
            end: end.ok_or("its addresses have no end")?,
            identity: image.identity.clone(),
            ..Module::default()
        };
        let lookup = Lookup::open(&module, &module.name, &symbols.clone().loaded_here());
        Ok(Self { image, lookup, module })
    }

    /// The module, at its preferred load address.
    pub const fn module(&self) -> &Module {
        &self.module
    }

    /// The address for which the file is made; 0 if it runs at any. With it, an address relative to
    /// the start of the module is what `nm` prints.
    pub const fn base(&self) -> u64 {
        self.image.base
    }

    /// Its named functions.
    pub fn functions(&self) -> Vec<Function> {
        self.lookup.functions()
    }

    /// Returns the functions of `all` that `name` means best. Afterwards, `name` means no others.
    pub fn meant(&self, name: &mut FunctionPattern, all: Vec<Function>) -> Vec<Function> {
        let Module { name: module, path, .. } = &self.module;
        let paths: Vec<Arc<str>> = path.iter().map(|path| path.as_str().into()).collect();
        name.settle(all, |name, function| {
            function.names().filter_map(|own| name.meaning(module, &paths, own)).min()
        })
    }

    /// Whether it names all its functions, not only those that it exports.
    pub fn names_all(&self) -> bool {
        self.lookup.kind != Kind::Exports
    }

    /// The function at an address relative to the start of the module, as all views name it.
    pub fn function_at(&self, address: u64) -> Option<Function> {
        self.lookup.find(address).function
    }

    /// The source file and line of an address relative to the start of the module.
    pub fn line(&self, address: u64) -> Option<(String, u32)> {
        let symbol_match = self.lookup.find(address);
        symbol_match.file.map(|file| file.to_string()).zip(symbol_match.line)
    }

    /// Problems with its symbols, and what to do about them.
    pub fn notes(&self) -> &[String] {
        &self.lookup.notes
    }

    /// The addresses of the instructions of these functions, or of all its code if there are none.
    ///
    /// # Errors
    /// A message, if there is no readable code.
    pub fn instructions(&self, functions: &[Function]) -> Result<Vec<u64>, String> {
        let mut ranges = self.ranges(functions);
        if functions.is_empty() {
            ranges = self.image.code.iter().map(|section| section.range.clone()).collect();
        }
        let bytes = ranges.iter().map(|range| range.end - range.start);
        if bytes.fold(0, u64::saturating_add) > LONGEST {
            return Err(format!("it has more than {LONGEST} bytes of code"));
        }
        let bitness = self.image.bitness_of_all()?;
        let code = self.image.code()?;
        let mut all = Vec::new();
        for range in ranges {
            let bytes = code.within(&range)?;
            let start = self.module.start.wrapping_add(range.start);
            let decoder = Decoder::with_ip(bitness, bytes, start, DecoderOptions::NONE);
            let valid = decoder.into_iter().filter(|instruction| !instruction.is_invalid());
            all.extend(valid.map(|instruction| instruction.ip()));
        }
        if all.is_empty() {
            return Err("it has no code".to_owned());
        }
        Ok(all)
    }

    /// A way that branches can go through its code, from one of these functions on: closed, so that
    /// it can be repeated. Empty if it is not known, or the code has no branches.
    ///
    /// # Errors
    /// A message, if there is no readable code.
    pub fn code_path(&self, functions: &[Function]) -> Result<CodePath, String> {
        let mut ranges = self.ranges(&self.functions());
        ranges.sort_by_key(|range| range.start);
        let sections = self.image.code.iter().map(|section| section.range.clone());
        let is_unnamed = |section: &Range<u64>| {
            let next = ranges.partition_point(|range| range.start < section.start);
            ranges.get(next).is_none_or(|range| range.start >= section.end)
        };
        let unnamed: Vec<Range<u64>> = sections.filter(is_unnamed).collect();
        ranges.extend(unnamed);
        ranges.sort_by_key(|range| range.start);
        let entries: Vec<u64> = match functions {
            [] => ranges.iter().map(|range| range.start).collect(),
            _ => functions.iter().map(|function| function.start).collect(),
        };
        let starts = ranges.iter().map(|range| range.start).skip(1);
        let ends: Vec<u64> = starts.chain([u64::MAX]).collect();
        let bitness = self.image.bitness_of_all()?;
        let file = self.image.code()?;
        let mut code = Code::default();
        for (range, next) in ranges.into_iter().zip(ends) {
            let range = range.start..range.end.min(next);
            let bytes = file.within(&range)?;
            code.add(bitness, bytes, self.module.start.wrapping_add(range.start));
        }
        let entries: Vec<u64> =
            entries.iter().map(|entry| self.module.start.wrapping_add(*entry)).collect();
        Ok(code.code_path(&entries))
    }

    /// Where functions are, without what is outside of code.
    fn ranges(&self, functions: &[Function]) -> Vec<Range<u64>> {
        let clipped = |function: &Function| {
            let section = self.image.code.at(function.start)?;
            Some(function.start..function.end.min(section.range.end))
        };
        functions.iter().filter_map(clipped).collect()
    }
}
