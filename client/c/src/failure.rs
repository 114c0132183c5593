//! What is said of a call that fails: a message and a stable name.

use halprof_measure::{Error, Hint, Remedy};

/// A failure: its message and its stable name.
pub(crate) struct Failure {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let message = match error.hint() {
            Some(hint) => format!("{error}. {}", in_words(hint)),
            None => error.to_string(),
        };
        Self { code: error.code(), message }
    }
}

/// A hint of the libraries in terms of this one.
fn in_words(hint: &Hint) -> String {
    match hint {
        Hint::Text(text) => text.clone(),
        Hint::Remedy(remedy) => spelled(*remedy),
    }
}

/// A remedy in terms of C and Python: by which call. There is no other arm, so that a new remedy of the
/// libraries is spelled here before it compiles.
fn spelled(remedy: Remedy) -> String {
    match remedy {
        // `sweep` is Rust's alone.
        Remedy::FewerAtOnce | Remedy::SeveralRuns => {
            "Name fewer sources, and count the others in another run: halprof_choose and halprof_counts_open take a list.".to_owned()
        }
        Remedy::BuildWithModels
        | Remedy::InstallDriver
        | Remedy::ReinstallDriver
        | Remedy::TracingRights
        | Remedy::ListProcessors
        | Remedy::ProcessorList
        | Remedy::EventInOwnList
        | Remedy::EventInVendorsList
        | Remedy::Record
        | Remedy::SameBuild
        | Remedy::Symbols
        | Remedy::RecordBranches
        | Remedy::RecordAllBranches
        | Remedy::TraceWaits => remedy.to_string(),
    }
}

/// The failure of a call that makes no sense.
pub(crate) fn usage(message: impl Into<String>, hint: &str) -> Failure {
    Error::usage(message, hint).into()
}

/// A failure with a given name.
pub(crate) fn fail<R>(code: &'static str, message: &str, hint: &str) -> Result<R, Failure> {
    let message = format!("{message}. {hint}");
    Err(Failure { code, message })
}
