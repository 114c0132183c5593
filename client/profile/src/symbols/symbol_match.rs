//! What the symbols of a module say of one address.

use super::Inlined;
use super::functions::Function;

/// What is known about an address.
#[derive(Clone, Debug, Default)]
pub(super) struct SymbolMatch {
    pub(super) function: Option<Function>,
    pub(super) file: Option<String>,
    pub(super) line: Option<u32>,
    /// Inlined functions, innermost first.
    pub(super) inlined: Vec<Inlined>,
}
