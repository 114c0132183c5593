//! The tool's errors: each has a code, an exit status, and advice on what to do.

use crate::output::error_codes::Code;
use halprof_measure::Error as Measure;
use halprof_measure::catalog::{OF_VENDORS_LIST, OF_YOUR_LIST};
use halprof_measure::tracing::session::RIGHTS;
use halprof_measure::tracing::session::plan::IN_PASSES;
use halprof_measure::{Failure, Refusal};
use halprof_profile::aggregate::branches::{WITH_ALL_BRANCHES, WITH_BRANCHES};
use halprof_profile::views::annotate::{OF_SAME_BUILD, SYMBOLS};
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
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Measure::usage(message, hint).into()
    }

    /// Something that is not available here to anyone.
    pub(crate) fn unavailable(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Measure::unavailable(message, hint).into()
    }

    /// The driver could not be opened.
    pub(crate) fn no_driver(message: impl Into<String>, hint: impl Into<String>) -> Self {
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

/// The options that do what a hint of the libraries advises.
const OPTIONS: [(&str, &str); 8] = [
    (
        RIGHTS,
        "An administrator can give them to an account: `halprof install --tracing --user NAME`.",
    ),
    (IN_PASSES, "`--passes` does."),
    (OF_YOUR_LIST, "`halprof list --all --event-file FILE NAME` shows it."),
    (OF_VENDORS_LIST, "`halprof explain NAME` shows it."),
    (SYMBOLS, "`--symbol-path` names folders."),
    (OF_SAME_BUILD, "`--symbol-path` names folders."),
    (WITH_BRANCHES, "`halprof record --branches` does."),
    (WITH_ALL_BRANCHES, "`halprof record --branches` does, without `+KINDS`."),
];

/// A hint of the libraries, with the options that do what it advises.
fn with_options(hint: &str) -> String {
    let mut options = OPTIONS.iter().filter(|(of, _)| *of == hint);
    options.next().map_or_else(|| hint.to_owned(), |(_, options)| format!("{hint} {options}"))
}

/// Advice on an error of measuring: from the error itself, or from its code.
fn hint_of(error: &Measure) -> String {
    match (error.hint(), error) {
        (Some(hint), _) => with_options(hint),
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
