//! What is said of a call that fails: a message and a stable name.

use halprof_measure::Error;

/// A failure: its message and its stable name.
pub(crate) struct Failure {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let message = match error.hint() {
            Some(hint) => format!("{error}. {hint}"),
            None => error.to_string(),
        };
        Self { code: error.code(), message }
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
