//! Functions and lines from a PDB.

use super::Inlined;
use super::demangle;
use super::functions::Function;
use super::image;
use super::symbol_match::SymbolMatch;
use crate::file::Identity;
use pdb_addr2line::pdb::PDB;
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
    /// Opens it, if it is of the wanted build.
    pub(super) fn open(path: &Path, wanted: &Identity) -> Result<Self, String> {
        let told = |error: pdb_addr2line::Error| error.to_string();
        let mut pdb = PDB::open(image::open(path)?).map_err(|error| error.to_string())?;
        let symbol_match = identity(&mut pdb, wanted).map_err(|error| error.to_string())?;
        if !symbol_match.is_same_build(wanted) {
            return Err(format!(
                "it belongs to another build: it is {symbol_match}, and {wanted} is wanted"
            ));
        }
        let data = ContextPdbData::try_from_pdb(pdb).map_err(told)?;
        Opened::try_new(data, Data::make_context).map(Self).map_err(told)
    }

    /// The code at an address relative to the module's start.
    pub(super) fn find(&self, address: u64) -> Option<SymbolMatch> {
        let address = u32::try_from(address).ok()?;
        self.0.with_dependent(|_, context| {
            let frames = context.find_frames(address).ok()??;
            let (outer, inner) = frames.frames.split_last()?;
            let innermost = frames.frames.first()?;
            let inlined = inner.iter().zip(frames.frames.iter().skip(1));
            Some(SymbolMatch {
                function: outer.function.as_deref().map(|name| Function {
                    name: demangle::demangle(name),
                    start: frames.start_rva.into(),
                    end: frames.end_rva.unwrap_or(u32::MAX).into(),
                }),
                file: innermost.file.as_deref().map(str::to_owned),
                line: innermost.line,
                inlined: inlined
                    .map(|(frame, caller)| Inlined {
                        function: demangle::demangle(frame.function.as_deref().unwrap_or_default())
                            .into(),
                        caller_file: caller.file.as_deref().map(Into::into),
                        caller_line: caller.line,
                    })
                    .collect(),
            })
        })
    }

    /// All functions.
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

/// The identity of a PDB. It holds two ages: linkers copy the second one into the image, and tools
/// that add to a PDB raise only the first.
fn identity(
    pdb: &mut PDB<'_, File>,
    wanted: &Identity,
) -> Result<Identity, pdb_addr2line::pdb::Error> {
    let information = pdb.pdb_information()?;
    let second = pdb.debug_information()?.age();
    let age = match wanted {
        Identity::Pdb { age, .. } if *age == information.age => *age,
        _ => second.unwrap_or(information.age),
    };
    let guid = information.guid.simple().to_string().to_ascii_uppercase();
    Ok(Identity::Pdb { guid, age, file: String::new() })
}
