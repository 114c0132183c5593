//! The program that modelled machines run by default: its file and its source are in the tool, so
//! that samples have functions, code and lines wherever the tool is. `cargo xtask built-in` compiles
//! it.

use halprof_profile::file::Module;

/// What the program is called.
pub(crate) const NAME: &str = "modelled.exe";
pub(crate) const FILE: &[u8] = include_bytes!("built_in/modelled.exe");
/// The name of its source, as the file has it, and the text.
const SOURCE: (&str, &str) = ("modelled.c", include_str!("built_in/modelled.c"));

/// The file of a module that may be this program. Whoever opens it compares the builds.
pub(crate) fn file_of(module: &Module) -> Option<&'static [u8]> {
    (module.path.is_none() && module.identity.is_some()).then_some(FILE)
}

/// The text of its source, if that is the file with this path in its debug information.
pub(crate) fn source(file: &str) -> Option<&'static str> {
    let (name, text) = SOURCE;
    (file.rsplit('/').next() == Some(name)).then_some(text)
}
