//! Libraries that not every process has: loaded when needed, and only from System32. If they were
//! imported, Windows would take a file of their name beside halprof.exe.

use super::{last_error, wide};
use crate::Result;
use std::ffi::CStr;
use windows_sys::Win32::Foundation::HMODULE;
use windows_sys::Win32::System::LibraryLoader::{
    GetProcAddress, LOAD_LIBRARY_SEARCH_SYSTEM32, LoadLibraryExW, SetDefaultDllDirectories,
};

/// From now on this process loads no library from the folder of its program.
pub fn load_from_system32_only() {
    // SAFETY: the function takes no pointers. A Windows that refuses the request searches as
    // before.
    unsafe { SetDefaultDllDirectories(LOAD_LIBRARY_SEARCH_SYSTEM32) };
}

/// A library, which stays loaded.
pub(super) struct Library(HMODULE);

impl Library {
    pub(super) fn load(name: &str) -> Result<Self> {
        let name = wide::terminated(name);
        // SAFETY: the name ends with a zero.
        let library = unsafe {
            LoadLibraryExW(name.as_ptr(), std::ptr::null_mut(), LOAD_LIBRARY_SEARCH_SYSTEM32)
        };
        if library.is_null() {
            return Err(last_error("a library of Windows could not be loaded"));
        }
        Ok(Self(library))
    }

    /// One of its functions.
    ///
    /// # Safety
    /// `F` is the type of a pointer to the function of this name.
    pub(super) unsafe fn function<F: Copy>(&self, name: &CStr) -> Result<F> {
        const { assert!(size_of::<F>() == size_of::<usize>()) };
        // SAFETY: the library is loaded, the name ends with a zero.
        let entry = unsafe { GetProcAddress(self.0, name.as_ptr().cast()) };
        let function = entry.ok_or_else(|| last_error("a library of Windows lacks a function"))?;
        // SAFETY: both are function pointers, and the caller vouches for the type.
        Ok(unsafe { std::mem::transmute_copy(&function) })
    }
}
