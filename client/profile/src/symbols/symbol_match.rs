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

/// A function at an address: one that was inlined there, or the one that contains them all.
pub(super) struct InlineFrame<'a> {
    /// Demangled; empty if it is not known.
    pub(super) name: String,
    pub(super) file: Option<&'a str>,
    pub(super) line: Option<u32>,
}

impl SymbolMatch {
    /// What the frames at an address of a function say, the innermost first.
    pub(super) fn new(function: Option<Function>, frames: &[InlineFrame<'_>]) -> Self {
        let inlined = frames.iter().zip(frames.iter().skip(1)).map(|(frame, caller)| Inlined {
            function: frame.name.as_str().into(),
            caller_line: caller.line,
        });
        let innermost = frames.first();
        Self {
            function,
            file: innermost.and_then(|frame| frame.file).map(str::to_owned),
            line: innermost.and_then(|frame| frame.line),
            inlined: inlined.collect(),
        }
    }
}
