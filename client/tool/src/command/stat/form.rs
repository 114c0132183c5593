//! Which form of output `stat` has.

use crate::cli::args;
use crate::output::Output;

/// The form of the output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Csv,
    Json,
    JsonLines,
}

impl Form {
    /// The form that the options request.
    pub(super) fn of(options: &args::Stat, output: &Output) -> Self {
        match (output.is_csv(), options.jsonl, output.is_json()) {
            (true, _, _) => Self::Csv,
            (_, true, _) => Self::JsonLines,
            (_, _, true) => Self::Json,
            _ => Self::Text,
        }
    }

    /// Whether standard output is reserved for the result, which a program's own output would
    /// spoil.
    pub(super) fn owns_output(self, options: &args::Stat) -> bool {
        self != Self::Text && options.file().is_none()
    }
}
