//! Runs the program that is in the tool.

use crate::model::image;
use crate::target::built_in::{FILE, NAME};
use halprof_etw::id::Guid;
use halprof_etw::payload::image::Pdb;
use halprof_profile::file::{Identity, Module};
use halprof_profile::symbols::{Executable, SymbolPath};
use sim::load::workload::Workload;
use std::io::Write;
use tempfile::NamedTempFile;

/// The function from which it runs.
const ENTRY: &str = "run";

/// Makes the workload run its code; returns the module. Without a folder for temporary files the code
/// is of no file.
pub(crate) fn apply(workload: &mut Workload) -> Option<Module> {
    let mut file = NamedTempFile::new().ok()?;
    file.write_all(FILE).ok()?;
    let executable = Executable::open(file.path(), &SymbolPath::default()).ok()?;
    let mut functions = executable.functions();
    functions.retain(|function| &*function.name == ENTRY);
    image::run(workload, &executable, &functions).ok()?;
    Some(Module { name: NAME.to_owned(), path: None, ..executable.module().clone() })
}

/// What a trace says of its build.
pub(crate) fn pdb(identity: &Identity) -> Option<Pdb> {
    let Identity::Pdb { file, guid, age } = identity else { return None };
    let guid = Guid(u128::from_str_radix(guid, 16).ok()?);
    Some(Pdb { base: 0, process: 0, guid, age: *age, name: file.clone() })
}
