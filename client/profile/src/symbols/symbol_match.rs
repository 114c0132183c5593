//! What the symbols of a module say of one address.

use super::Inlined;
use super::functions::Function;
use std::sync::Arc;

/// What stands for "no line": 0 in DWARF and CodeView; in CodeView also the numbers of code that a
/// debugger always or never steps into (LLVM, `CodeView/Line.h`).
const NO_LINE: [u32; 3] = [0, 0xFE_EFEE, 0xF0_0F00];

/// What is known about an address.
#[derive(Clone, Debug, Default)]
pub(super) struct SymbolMatch {
    pub(super) function: Option<Function>,
    pub(super) file: Option<Arc<str>>,
    pub(super) line: Option<u32>,
    /// Inlined functions, innermost first.
    pub(super) inlined: Vec<Inlined>,
}

/// A function at an address: one that was inlined there, or the one that contains them all.
pub(super) struct InlineFrame {
    /// Demangled; empty if it is not known.
    pub(super) name: Arc<str>,
    /// The source file of the address; for the caller of an inlined function, that of the call.
    pub(super) file: Option<Arc<str>>,
    /// The line in that file.
    pub(super) line: Option<u32>,
}

impl SymbolMatch {
    /// What the frames at an address of a function say, the innermost first; the last is the function.
    pub(super) fn new(function: Option<Function>, frames: &[InlineFrame]) -> Self {
        let innermost = frames.first();
        let own = frames.len().saturating_sub(1);
        // An inlined function without a name is a part of what it was inlined into.
        let is_shown = |&(at, frame): &(usize, &InlineFrame)| at == own || !frame.name.is_empty();
        let shown = || frames.iter().enumerate().filter(is_shown).map(|(_, frame)| frame);
        let inlined = shown().zip(shown().skip(1)).map(|(frame, caller)| Inlined {
            function: Arc::clone(&frame.name),
            caller_file: caller.file.clone(),
            caller_line: line(caller),
        });
        Self {
            function,
            file: innermost.and_then(|frame| frame.file.clone()),
            line: innermost.and_then(line),
            inlined: inlined.collect(),
        }
    }
}

/// The line of a frame; `None` for code that the compiler gives no line.
fn line(frame: &InlineFrame) -> Option<u32> {
    frame.line.filter(|line| !NO_LINE.contains(line))
}
