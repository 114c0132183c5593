//! Why a function failed, kept for the thread that called it.

use crate::failure::Failure;
use crate::text::owned;
use crate::{HALPROF_FAILED, HALPROF_OK};
use std::cell::RefCell;
use std::ffi::{CString, c_char};

thread_local! {
    /// Message and name of the last failure.
    static LAST: RefCell<(CString, CString)> = RefCell::default();
}

/// Turns a result into a return value; the reason of a failure is kept.
pub(crate) fn answer(act: impl FnOnce() -> Result<(), Failure>) -> i32 {
    match act() {
        Ok(()) => HALPROF_OK,
        Err(failure) => {
            let last = (owned(&failure.message), owned(failure.code));
            // The destructors at the end of a thread may come after this variable's own.
            let _ = LAST.try_with(|kept| kept.replace(last));
            HALPROF_FAILED
        }
    }
}

pub(crate) fn text() -> *const c_char {
    LAST.try_with(|last| last.borrow().0.as_ptr()).unwrap_or(c"".as_ptr())
}

pub(crate) fn code() -> *const c_char {
    LAST.try_with(|last| last.borrow().1.as_ptr()).unwrap_or(c"".as_ptr())
}
