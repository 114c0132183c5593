//! The tool's errors: each has a code, an exit status, and advice on what to do.

use crate::output::error_codes::Code;
use halprof_measure::Error as Measure;
use halprof_measure::{Failure, Hint, Refusal, Remedy};
use halprof_setup::installation::InstallError;
use std::io;

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Measuring, or reading a recording, failed.
    #[error(transparent)]
    Measure(#[from] Measure),
    /// Windows refused to install, remove or start the driver.
    #[error("{0}")]
    Installation(InstallError),
    /// A refusal whose cause is known better than its code says.
    #[error("{message}")]
    Explained {
        /// The code of the refusal.
        code: &'static str,
        /// What was refused, and why.
        message: String,
        /// What helps.
        hint: String,
    },
    /// The result could not be written to standard output.
    #[error("standard output: {0}")]
    Output(io::Error),
}

/// The result of every command.
pub type Result<T> = std::result::Result<T, Error>;

impl From<halprof_setup::Error> for Error {
    fn from(error: halprof_setup::Error) -> Self {
        use halprof_setup::Error as Setup;
        let message = error.to_string();
        match error {
            Setup::Install(error) => Self::Installation(error),
            Setup::Measure(error) => Self::Measure(error),
            Setup::NotInstalled => Self::no_driver(
                message,
                "Run `halprof install` from the package's folder, or measure on a model: `--machine NAME`.",
            ),
            Setup::Arm => Self::unavailable(
                message,
                "Use WindowsPerf, which is for Windows on Arm; halprof measures on models here: `--machine NAME`.",
            ),
            Setup::WindowsOnly => Self::unavailable(
                message,
                "Measure on a model here: `--machine NAME`, see `halprof machines`.",
            ),
        }
    }
}

impl Error {
    /// A command line that makes no sense.
    pub fn usage(message: impl Into<String>, hint: impl Into<Hint>) -> Self {
        Measure::usage(message, hint).into()
    }

    /// Something that is not available here to anyone.
    pub(crate) fn unavailable(message: impl Into<String>, hint: impl Into<Hint>) -> Self {
        Measure::unavailable(message, hint).into()
    }

    /// The driver could not be opened.
    pub(crate) fn no_driver(message: impl Into<String>, hint: impl Into<Hint>) -> Self {
        Self::Measure(Measure::NoDriver { message: message.into(), hint: hint.into() })
    }

    /// A defect of halprof.
    #[expect(clippy::needless_pass_by_value, reason = "it stands in `map_err`")]
    pub(crate) fn internal(why: impl ToString) -> Self {
        Self::Measure(Measure::Internal(why.to_string()))
    }

    /// Whether a request to the driver failed: what was measured before remains.
    pub(crate) const fn is_of_request(&self) -> bool {
        match self {
            Self::Measure(error) => error.is_of_request(),
            _ => false,
        }
    }

    /// The stable name that programs may compare.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Measure(error) => error.code(),
            Self::Explained { code, .. } => code,
            Self::Installation(error) => error.code(),
            Self::Output(_) => "output",
        }
    }

    /// The exit status of a process that ends with this error.
    #[must_use]
    pub fn exit_status(&self) -> u32 {
        Code::of(self.code()).status.into()
    }

    /// Advice on what to do, as a sentence.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Measure(error) => hint_of(error),
            Self::Installation(error) => error.hint().to_owned(),
            Self::Explained { hint, .. } => hint.clone(),
            Self::Output(_) => Code::of(self.code()).hint.clone(),
        }
    }

    /// The error as a result shows it.
    pub(crate) fn failure(&self) -> Failure {
        Failure { code: self.code(), message: self.to_string(), hint: self.hint() }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Measure::Refused(refusal).into()
    }
}

/// A remedy in terms of this tool: which of its commands and options does what the library means. There
/// is no other arm, so that a new remedy of the libraries is spelled here before it compiles.
fn spelled(remedy: Remedy) -> String {
    let by_option = match remedy {
        // Where the tool has a command of its own for it, the library's sentence says nothing more.
        Remedy::InstallDriver => return "Run `halprof install`.".to_owned(),
        Remedy::ReinstallDriver => {
            return "`halprof uninstall` and `halprof install` put it back; %SystemRoot%\\INF\\setupapi.dev.log has what Windows did.".to_owned();
        }
        Remedy::ListProcessors => return "`halprof info` shows the processors.".to_owned(),
        Remedy::ProcessorList => {
            return "A list is like `0-3,8`; `halprof info` shows the processors.".to_owned();
        }
        Remedy::Record => return "`halprof record -o FILE` makes one.".to_owned(),
        // The tool is always built with models, and counts no regions.
        Remedy::BuildWithModels | Remedy::FewerAtOnce => return remedy.to_string(),
        Remedy::TracingRights => {
            "An administrator can give them to an account: `halprof install --tracing --user NAME`."
        }
        Remedy::SeveralRuns => "`--passes` does.",
        Remedy::EventInOwnList => "`halprof list --all --event-file FILE NAME` shows it.",
        Remedy::EventInVendorsList => "`halprof explain NAME` shows it.",
        Remedy::Symbols | Remedy::SameBuild => "`--symbol-path` names folders.",
        Remedy::RecordBranches => "`halprof record --branches` does.",
        Remedy::TraceWaits => "`halprof --machine etw record --off-cpu -o FILE.etl` records one.",
        Remedy::RecordAllBranches => "`halprof record --branches` does, without `+KINDS`.",
    };
    format!("{remedy} {by_option}")
}

/// A hint of the libraries in terms of this tool.
pub(crate) fn in_words(hint: &Hint) -> String {
    match hint {
        Hint::Text(text) => text.clone(),
        Hint::Remedy(remedy) => spelled(*remedy),
    }
}

/// Advice on an error of measuring: from the error itself, or from its code.
fn hint_of(error: &Measure) -> String {
    match (error.hint(), error) {
        (Some(hint), _) => in_words(hint),
        (None, Measure::File { error, .. }) => hint_of_file(error).to_owned(),
        (None, _) => Code::of(error.code()).hint.clone(),
    }
}

/// An error of measuring as a result shows it.
pub(crate) fn failure_of(error: &Measure) -> Failure {
    Failure { code: error.code(), message: error.to_string(), hint: hint_of(error) }
}

/// Advice for a file that cannot be read or written.
fn hint_of_file(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull => {
            "The disk is full: free some space, or name a file on another."
        }
        io::ErrorKind::InvalidData => "The file must be text in UTF-8.",
        io::ErrorKind::IsADirectory => "This is a folder: name a file.",
        _ => &Code::of("file").hint,
    }
}
