//! Runs the program that is in the tool.

use crate::model::image;
use crate::target::built_in::{FILE, NAME};
use halprof_profile::file::Module;
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
