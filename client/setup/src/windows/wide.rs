//! UTF-16 text, as Windows takes and returns it.

use std::ffi::OsStr;
use std::iter;
use std::os::windows::ffi::OsStrExt;
use windows_sys::Win32::Globalization::lstrlenW;

/// The text with its terminating zero.
pub(super) fn terminated(text: impl AsRef<OsStr>) -> Vec<u16> {
    text.as_ref().encode_wide().chain(iter::once(0)).collect()
}

/// A list with a single text: REG_MULTI_SZ ends with a second zero.
pub(super) fn list_of_one(text: impl AsRef<OsStr>) -> Vec<u16> {
    let mut list = terminated(text);
    list.push(0);
    list
}

/// The text up to its terminating zero.
pub(super) fn text(units: &[u16]) -> String {
    let text = units.split(|&unit| unit == 0).next().unwrap_or_default();
    String::from_utf16_lossy(text)
}

/// The texts of a list, up to the empty one that ends it.
pub(super) fn texts(units: &[u16]) -> Vec<String> {
    units
        .split(|&unit| unit == 0)
        .take_while(|text| !text.is_empty())
        .map(String::from_utf16_lossy)
        .collect()
}

/// The text at a pointer from Windows.
///
/// # Safety
/// It is valid for reads up to a terminating zero.
pub(super) unsafe fn at(text: *const u16) -> String {
    // SAFETY: the caller guarantees it.
    let length = unsafe { lstrlenW(text) };
    // SAFETY: that many characters precede the zero.
    let units = unsafe { std::slice::from_raw_parts(text, length.cast_unsigned() as usize) };
    String::from_utf16_lossy(units)
}
