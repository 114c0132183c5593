//! Functions and lines from a PDB.

use super::demangle;
use super::functions::Function;
use super::image;
use super::symbol_match::{InlineFrame, SymbolMatch};
use super::unwind::Unwinding;
use crate::file::Identity;
use pdb_addr2line::pdb::{FallibleIterator, MachineType, PDB, StreamIndex};
use pdb_addr2line::{Context, ContextPdbData};
use self_cell::self_cell;
use std::fs::File;
use std::path::Path;

type Data = ContextPdbData<'static, 'static, File>;
type Borrowed<'a> = Context<'a, 'static>;

self_cell!(
    struct Opened {
        owner: Data,
        #[not_covariant]
        dependent: Borrowed,
    }
);

pub(super) struct Pdb {
    opened: Opened,
    /// Whether it has lines.
    pub(super) has_lines: bool,
    /// Whether it was linked with /DEBUG:FASTLINK.
    pub(super) is_partial: bool,
    is_32_bit: bool,
}

impl Pdb {
    /// Opens it, if it is of the recorded build.
    pub(super) fn open(path: &Path, recorded: &Identity) -> Result<Self, String> {
        let text = |error: pdb_addr2line::Error| error.to_string();
        let mut pdb = PDB::open(image::open(path)?).map_err(|error| error.to_string())?;
        let actual = identity(&mut pdb, recorded).map_err(|error| error.to_string())?;
        if !actual.is_same_build(recorded) {
            return Err(format!("build mismatch: file has {actual}, recording needs {recorded}"));
        }
        let parts = check_parts(&mut pdb).map_err(|error| error.to_string())?;
        let Some(Parts { has_lines, is_partial, is_32_bit }) = parts else {
            return Err("it is damaged: it has parts that are shorter than it says".to_owned());
        };
        let data = ContextPdbData::try_from_pdb(pdb).map_err(text)?;
        let opened = Opened::try_new(data, Data::make_context).map_err(text)?;
        Ok(Self { opened, has_lines, is_partial, is_32_bit })
    }

    /// The code at an address relative to the module's start. A public symbol has no length: it ends
    /// where the unwinding information has another function.
    pub(super) fn find(&self, address: u64, unwinding: Option<&Unwinding>) -> Option<SymbolMatch> {
        let rva = u32::try_from(address).ok()?;
        self.opened.with_dependent(|_, context| {
            let frames = context.find_frames(rva).ok()??;
            let outer = frames.frames.last()?.function.as_deref();
            let is_other =
                |unwinding: &Unwinding| unwinding.divides(frames.start_rva.into(), address);
            if outer.is_none_or(is_public) && unwinding.is_some_and(is_other) {
                return None;
            }
            let all = frames.frames.iter().map(|frame| InlineFrame {
                name: self.name(frame.function.as_deref().unwrap_or_default()),
                file: frame.file.as_deref(),
                line: frame.line,
            });
            let all: Vec<_> = all.collect();
            let name = &all.last()?.name;
            let function = (!name.is_empty()).then(|| Function {
                name: name.clone(),
                start: frames.start_rva.into(),
                end: frames.end_rva.unwrap_or(u32::MAX).into(),
            });
            Some(SymbolMatch::new(function, &all))
        })
    }

    fn name(&self, name: &str) -> String {
        if is_public(name) {
            return demangle::demangle(demangle::without_decoration(name, self.is_32_bit));
        }
        demangle::demangle(&demangle::with_variable_arguments(name))
    }

    pub(super) fn functions(&self) -> Vec<Function> {
        self.opened.with_dependent(|_, context| {
            let functions = context.functions().filter_map(|function| {
                Some(Function {
                    name: self.name(&function.name?),
                    start: function.start_rva.into(),
                    end: function.end_rva.unwrap_or(function.start_rva).into(),
                })
            });
            functions.collect()
        })
    }
}

/// Whether a name is that of a public symbol, not of a procedure: only procedures have a type, and
/// their parameters behind their names.
fn is_public(name: &str) -> bool {
    !name.contains('(')
}

/// The stream with the names of other streams.
const INFORMATION: StreamIndex = StreamIndex(1);

/// What the lists of a PDB say of its contents.
struct Parts {
    has_lines: bool,
    is_partial: bool,
    is_32_bit: bool,
}

/// What it has; `None` if parts that the parser cuts out of streams unchecked are not there, where it
/// panics: each module's symbols and lines, by the sizes in the list of modules, and the names of
/// streams.
fn check_parts(pdb: &mut PDB<'_, File>) -> Result<Option<Parts>, pdb_addr2line::pdb::Error> {
    let names = pdb.raw_stream(INFORMATION)?;
    let after_names = names.as_ref().and_then(|stream| Names::of(stream.as_slice()));
    if after_names.as_ref().is_some_and(|names| !names.are_whole) {
        return Ok(None);
    }
    let is_partial = after_names.is_some_and(|names| names.features.contains(&MINIMAL));
    let information = pdb.debug_information()?;
    let is_32_bit = matches!(information.machine_type(), Ok(MachineType::X86));
    let mut has_lines = false;
    let mut modules = information.modules()?;
    while let Some(module) = modules.next()? {
        let info = module.info();
        let stated = u64::from(info.symbols_size) + u64::from(info.c13_lines_size);
        let stream = pdb.raw_stream(info.stream)?;
        if stream.is_some_and(|stream| (stream.as_slice().len() as u64) < stated) {
            return Ok(None);
        }
        has_lines |= info.c13_lines_size != 0;
    }
    Ok(Some(Parts { has_lines, is_partial, is_32_bit }))
}

/// The feature of a PDB that /DEBUG:FASTLINK made, `MINI` (LLVM, "The PDB Info Stream",
/// `MinimalDebugInfo`).
const MINIMAL: u32 = 0x494E_494D;

/// The end of the stream with the names of other streams.
struct Names {
    /// Whether each name begins within the names.
    are_whole: bool,
    /// The numbers behind the names, which say what the PDB has.
    features: Vec<u32>,
}

impl Names {
    /// `None` if the stream ends before its tables do.
    fn of(stream: &[u8]) -> Option<Self> {
        let number = |at: usize| {
            let bytes = stream.get(at..at.checked_add(4)?)?.try_into().ok()?;
            Some(u32::from_le_bytes(bytes) as usize)
        };
        // Behind the version, the time, the age and the GUID: the names, the number of entries and
        // their room, two arrays of words, and the entries.
        let size = number(28)?;
        let map = 32 + size;
        let first = map + 12 + 4 * number(map + 8)?;
        let entries = first + 4 + 4 * number(first)?;
        let count = number(map)?;
        let mut are_whole = true;
        for entry in 0..count {
            are_whole &= number(entries + 8 * entry)? <= size;
        }
        let (features, _) = stream.get(entries + 8 * count..)?.as_chunks::<4>();
        let features = features.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
        Some(Self { are_whole, features })
    }
}

/// The identity of a PDB. It holds two ages: linkers copy the second one into the image, and tools
/// that add to a PDB raise only the first.
fn identity(
    pdb: &mut PDB<'_, File>,
    recorded: &Identity,
) -> Result<Identity, pdb_addr2line::pdb::Error> {
    let information = pdb.pdb_information()?;
    let second = pdb.debug_information()?.age();
    let age = match recorded {
        Identity::Pdb { age, .. } if *age == information.age => *age,
        _ => second.unwrap_or(information.age),
    };
    let guid = information.guid.simple().to_string().to_ascii_uppercase();
    Ok(Identity::Pdb { guid, age, file: String::new() })
}
