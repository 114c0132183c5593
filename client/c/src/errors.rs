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
