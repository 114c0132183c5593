//! The names that programs give their threads (SetThreadDescription).

use std::mem;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::slice;
use windows_sys::Win32::Foundation::{FALSE, HANDLE, LocalFree};
use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleW, GetProcAddress};
use windows_sys::Win32::System::Threading::{OpenThread, THREAD_QUERY_LIMITED_INFORMATION};
use windows_sys::core::{HRESULT, PWSTR, s, w};

/// The most letters of a name that are read: the kernel keeps at most 65,535 bytes.
const LETTERS_MAX: usize = 1 << 15;

type GetThreadDescription = unsafe extern "system" fn(HANDLE, *mut PWSTR) -> HRESULT;

/// The name of a thread; `None` if it has none, has ended, may not be opened, or if this Windows is
/// older than thread names (Windows 10, version 1607).
pub fn thread_name(thread: u32) -> Option<String> {
    let describe = function()?;
    // SAFETY: takes numbers only; null is a failure.
    let handle = unsafe { OpenThread(THREAD_QUERY_LIMITED_INFORMATION, FALSE, thread) };
    if handle.is_null() {
        return None;
    }
    // SAFETY: the handle is open, and nobody else closes it.
    let handle = unsafe { OwnedHandle::from_raw_handle(handle) };
    let mut text: PWSTR = std::ptr::null_mut();
    // SAFETY: the handle has the right that the function needs, and `text` is valid for a write.
    let result = unsafe { describe(handle.as_raw_handle(), &raw mut text) };
    if result < 0 || text.is_null() {
        return None;
    }
    // SAFETY: the text ends with a zero, and nothing behind it is asked for.
    let letter = |at| unsafe { text.add(at) };
    // SAFETY: as above: reading stops at the zero.
    let length = (0..LETTERS_MAX).take_while(|&at| unsafe { letter(at).read() } != 0).count();
    // SAFETY: so many letters are in the text, which lives until it is freed below.
    let name = String::from_utf16_lossy(unsafe { slice::from_raw_parts(text, length) });
    // SAFETY: the function's documentation requires that its text is freed by this call, once.
    unsafe { LocalFree(text.cast()) };
    Some(name).filter(|name| !name.is_empty())
}

/// The function, which older versions of Windows lack.
fn function() -> Option<GetThreadDescription> {
    // SAFETY: the name ends with a zero; the library is loaded in every process and stays.
    let library = unsafe { GetModuleHandleW(w!("kernel32.dll")) };
    if library.is_null() {
        return None;
    }
    // SAFETY: the library is loaded, and the name ends with a zero.
    let function = unsafe { GetProcAddress(library, s!("GetThreadDescription")) }?;
    // SAFETY: the function of this name has this type (processthreadsapi.h).
    Some(unsafe {
        mem::transmute::<unsafe extern "system" fn() -> isize, GetThreadDescription>(function)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use windows_sys::Win32::System::Threading::{
        GetCurrentThread, GetCurrentThreadId, SetThreadDescription,
    };

    #[test]
    fn a_thread_has_the_name_that_it_gave_itself_and_a_closed_one_has_none() {
        // SAFETY: both take no argument; the name ends with a zero.
        let own = unsafe {
            SetThreadDescription(GetCurrentThread(), w!("größe"));
            GetCurrentThreadId()
        };
        assert_eq!(thread_name(own).as_deref(), Some("größe"));
        // No thread has this number.
        assert_eq!(thread_name(u32::MAX), None);
    }
}
