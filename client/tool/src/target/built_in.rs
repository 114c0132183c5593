//! The program that modelled machines run by default: its file and its source are in the tool, so
//! that samples have functions, code and lines wherever the tool is. `cargo xtask built-in` compiles
//! it.

use halprof_profile::file::Module;
use sim_etw::generator::VOLUME;

/// What the program is called.
pub(crate) const NAME: &str = "modelled.exe";
pub(crate) const FILE: &[u8] = include_bytes!("built_in/modelled.exe");
/// The name of its source, as the file has it, and the text.
const SOURCE: (&str, &str) = ("modelled.c", include_str!("built_in/modelled.c"));

/// The file of a module that may be this program. Whoever opens it compares the builds.
pub(crate) fn file_of(module: &Module) -> Option<&'static [u8]> {
    let is_own = module.path.as_deref().is_none_or(is_traced_path);
    (is_own && module.identity.is_some()).then_some(FILE)
}

/// What a trace calls the file. It is in no folder.
pub(crate) fn traced_path() -> String {
    format!(r"{VOLUME}\{NAME}")
}

/// Whether a trace calls the file so.
pub(crate) fn is_traced_path(path: &str) -> bool {
    path.strip_prefix(VOLUME).and_then(|path| path.strip_prefix('\\')) == Some(NAME)
}

/// The text of its source, if that is the file with this path in its debug information.
pub(crate) fn source(file: &str) -> Option<&'static str> {
    let (name, text) = SOURCE;
    (file.rsplit('/').next() == Some(name)).then_some(text)
}
