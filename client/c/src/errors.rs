//! Why a function failed, kept for the thread that called it.

use crate::text::owned;
use crate::{HALPROF_FAILED, HALPROF_OK};
use halprof_measure::Error;
use std::cell::RefCell;
use std::ffi::{CString, c_char};

/// A failure: its message and its stable name.
pub(crate) struct Failure {
    code: &'static str,
    message: String,
}

thread_local! {
    /// Message and name of the last failure.
    static LAST: RefCell<(CString, CString)> = RefCell::default();
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let message = match hint(&error) {
            Some(hint) => format!("{error}. {hint}"),
            None => error.to_string(),
        };
        Self {
            code: error.code(),
            message,
        }
    }
}

/// What to do, if the error itself says it.
fn hint(error: &Error) -> Option<&str> {
    match error {
        Error::Usage { hint, .. }
        | Error::NoDriver { hint, .. }
        | Error::Unavailable { hint, .. }
        | Error::BadFile { hint, .. } => Some(hint),
        Error::UnknownName { hint, .. } => hint.as_deref(),
        _ => None,
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

/// Turns a result into a return value; the reason of a failure is kept.
pub(crate) fn answer(act: impl FnOnce() -> Result<(), Failure>) -> i32 {
    match act() {
        Ok(()) => HALPROF_OK,
        Err(failure) => {
            LAST.set((owned(&failure.message), owned(failure.code)));
            HALPROF_FAILED
        }
    }
}

pub(crate) fn text() -> *const c_char {
    LAST.with_borrow(|(message, _)| message.as_ptr())
}

pub(crate) fn code() -> *const c_char {
    LAST.with_borrow(|(_, code)| code.as_ptr())
}
