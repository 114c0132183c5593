//! Functions and lines from a PDB.

use super::demangle;
use super::functions::Function;
use super::image;
use super::symbol_match::{InlineFrame, SymbolMatch};
use crate::file::Identity;
use pdb_addr2line::pdb::{FallibleIterator, PDB, StreamIndex};
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

pub(super) struct Pdb(Opened);

impl Pdb {
    /// Opens it, if it is of the recorded build.
    pub(super) fn open(path: &Path, recorded: &Identity) -> Result<Self, String> {
        let text = |error: pdb_addr2line::Error| error.to_string();
        let mut pdb = PDB::open(image::open(path)?).map_err(|error| error.to_string())?;
        let actual = identity(&mut pdb, recorded).map_err(|error| error.to_string())?;
        if !actual.is_same_build(recorded) {
            return Err(format!("build mismatch: file has {actual}, recording needs {recorded}"));
        }
        let is_whole = is_whole(&mut pdb).map_err(|error| error.to_string())?;
        if !is_whole {
            return Err("it is damaged: it has parts that are shorter than it says".to_owned());
        }
        let data = ContextPdbData::try_from_pdb(pdb).map_err(text)?;
        Opened::try_new(data, Data::make_context).map(Self).map_err(text)
    }

    /// The code at an address relative to the module's start.
    pub(super) fn find(&self, address: u64) -> Option<SymbolMatch> {
        let address = u32::try_from(address).ok()?;
        self.0.with_dependent(|_, context| {
            let frames = context.find_frames(address).ok()??;
            let all = frames.frames.iter().map(|frame| InlineFrame {
                name: demangle::demangle(frame.function.as_deref().unwrap_or_default()),
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

    pub(super) fn functions(&self) -> Vec<Function> {
        self.0.with_dependent(|_, context| {
            let functions = context.functions().filter_map(|function| {
                Some(Function {
                    name: demangle::demangle(&function.name?),
                    start: function.start_rva.into(),
                    end: function.end_rva.unwrap_or(function.start_rva).into(),
                })
            });
            functions.collect()
        })
    }
}

/// The stream with the names of other streams.
const INFORMATION: StreamIndex = StreamIndex(1);

/// Whether the parts that the parser cuts out of streams unchecked are there; it panics where they are
/// not: each module's symbols and lines, by the sizes in the list of modules, and the names of streams.
fn is_whole(pdb: &mut PDB<'_, File>) -> Result<bool, pdb_addr2line::pdb::Error> {
    let names = pdb.raw_stream(INFORMATION)?;
    if names.is_some_and(|stream| has_names(stream.as_slice()) == Some(false)) {
        return Ok(false);
    }
    let information = pdb.debug_information()?;
    let mut modules = information.modules()?;
    while let Some(module) = modules.next()? {
        let info = module.info();
        let stated = u64::from(info.symbols_size) + u64::from(info.c13_lines_size);
        let stream = pdb.raw_stream(info.stream)?;
        if stream.is_some_and(|stream| (stream.as_slice().len() as u64) < stated) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether each name begins within the names; `None` if the stream ends before its tables do.
fn has_names(stream: &[u8]) -> Option<bool> {
    let number = |at: usize| {
        let bytes = stream.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes) as usize)
    };
    // Behind the version, the time, the age and the GUID: the names, the number of entries and their
    // room, two arrays of words, and the entries.
    let size = number(28)?;
    let map = 32 + size;
    let first = map + 12 + 4 * number(map + 8)?;
    let entries = first + 4 + 4 * number(first)?;
    for entry in 0..number(map)? {
        if number(entries + 8 * entry)? > size {
            return Some(false);
        }
    }
    Some(true)
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
