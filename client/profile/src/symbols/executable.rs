//! An executable file and its symbols, before it runs.

use super::functions::Function;
use super::image::{Image, within};
use super::lookup::Lookup;
use super::search::SymbolPath;
use crate::recording::Module;
use iced_x86::{Decoder, DecoderOptions};
use std::ops::Range;
use std::path::Path;

/// The assumed load address of a file that has none of its own.
const ANYWHERE: u64 = 0x5555_5555_4000;

/// The most code that is scanned: 16 MiB.
const LONGEST: u64 = 1 << 24;

/// An executable file.
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
        let whole = path.canonicalize().map_err(|error| error.to_string())?;
        let name = whole.file_name().unwrap_or_default();
        let start = if image.base == 0 {
            ANYWHERE
        } else {
            image.base
        };
        let end = start.checked_add(image.size);
        let module = Module {
            name: name.to_string_lossy().into_owned(),
            path: Some(whole.to_str().ok_or("its path is not UTF-8")?.to_owned()),
            start,
            end: end.ok_or("its addresses have no end")?,
            identity: image.identity.clone(),
            ..Module::default()
        };
        let lookup = Lookup::open(&module, &symbols.clone().loaded_here());
        Ok(Self {
            image,
            lookup,
            module,
        })
    }

    /// The module, at its preferred load address.
    #[must_use]
    pub const fn module(&self) -> &Module {
        &self.module
    }

    /// Its named functions.
    #[must_use]
    pub fn functions(&self) -> Vec<Function> {
        self.lookup.functions()
    }

    /// The source file and line of an address relative to the start of the module.
    #[must_use]
    pub fn line(&self, address: u64) -> Option<(String, u32)> {
        let found = self.lookup.find(address);
        found.file.zip(found.line)
    }

    /// Problems with its symbols, and what to do about them.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.lookup.notes
    }

    /// The addresses of the instructions of these functions, or of all its code if there are none.
    ///
    /// # Errors
    /// A message, if there is no readable code.
    pub fn instructions(&self, functions: &[Function]) -> Result<Vec<u64>, String> {
        let code = &self.image.code;
        let clipped = |function: &Function| {
            let section = code.iter().find(|range| range.contains(&function.start))?;
            Some(function.start..function.end.min(section.end))
        };
        let mut ranges: Vec<Range<u64>> = functions.iter().filter_map(clipped).collect();
        if functions.is_empty() {
            ranges.clone_from(code);
        }
        let bytes = ranges.iter().map(|range| range.end - range.start);
        if bytes.fold(0, u64::saturating_add) > LONGEST {
            return Err(format!("it has more than {LONGEST} bytes of code"));
        }
        let bitness = self.image.bitness.ok_or("its code is not of x86 or x64")?;
        let sections = self.image.sections()?;
        let mut all = Vec::new();
        for range in ranges {
            let bytes = within(code, &sections, &range)?;
            let start = self.module.start.wrapping_add(range.start);
            let decoder = Decoder::with_ip(bitness, bytes, start, DecoderOptions::NONE);
            let valid = decoder
                .into_iter()
                .filter(|instruction| !instruction.is_invalid());
            all.extend(valid.map(|instruction| instruction.ip()));
        }
        if all.is_empty() {
            return Err("it has no code".to_owned());
        }
        Ok(all)
    }
}
