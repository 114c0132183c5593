//! Data lent by C, and data written for it: texts, structures and arrays.

use crate::failure::{Failure, usage};
use std::ffi::{CStr, CString, c_char};
use std::mem::size_of;

fn null() -> Failure {
    usage("a pointer is NULL", "Only those may be that are said to.")
}

/// # Safety
/// `pointer` is NULL or valid for reads during `'a`.
pub(crate) unsafe fn lent<'a, T>(pointer: *const T) -> Result<&'a T, Failure> {
    // SAFETY: the caller promises it.
    unsafe { pointer.as_ref() }.ok_or_else(null)
}

/// # Safety
/// `pointer` is NULL or valid for reads and writes during `'a`, and used by nobody else.
pub(crate) unsafe fn lent_mut<'a, T>(pointer: *mut T) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller promises it.
    unsafe { pointer.as_mut() }.ok_or_else(null)
}

/// # Safety
/// `pointer` is NULL or valid for reads up to a 0, during `'a`.
pub(crate) unsafe fn borrowed<'a>(pointer: *const c_char) -> Result<&'a str, Failure> {
    if pointer.is_null() {
        return Err(null());
    }
    // SAFETY: the caller promises it.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| usage("a text is not UTF-8", "Texts are UTF-8."))
}

/// # Safety
/// `pointer` is NULL or valid for reads up to a 0, during `'a`.
pub(crate) unsafe fn optional<'a>(pointer: *const c_char) -> Result<Option<&'a str>, Failure> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller promises it.
    unsafe { borrowed(pointer) }.map(Some)
}

/// # Safety
/// `pointer` is valid for writes of `length` numbers during `'a`, or `length` is 0.
pub(crate) unsafe fn slice<'a>(pointer: *mut u64, length: usize) -> Result<&'a mut [u64], Failure> {
    if length == 0 {
        return Ok(&mut []);
    }
    if pointer.is_null() {
        return Err(null());
    }
    // SAFETY: the caller promises it.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer, length) })
}

/// Writes as much of a structure as the caller's version has.
///
/// # Safety
/// `pointer` is NULL or valid for writes of `size` bytes.
pub(crate) unsafe fn put<T: Copy>(value: &T, pointer: *mut T, size: usize) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(null());
    }
    let known = size.min(size_of::<T>());
    let from: *const T = value;
    // SAFETY: `value` has that many bytes, and the caller guarantees as many at `pointer`.
    unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), pointer.cast::<u8>(), known) };
    Ok(())
}

/// A text for C; a 0 inside it, which would end it, becomes a space.
pub(crate) fn owned(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}
