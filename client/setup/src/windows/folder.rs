//! Where Windows itself is.

use super::last_error;
use crate::Result;
use std::ffi::OsString;
use std::os::windows::ffi::OsStringExt;
use std::path::PathBuf;
use windows_sys::Win32::System::SystemInformation::GetSystemWindowsDirectoryW;

/// The Windows folder.
pub(super) fn windows_folder() -> Result<PathBuf> {
    let mut path = [0u16; 260];
    // SAFETY: `path` is valid for writes of the characters given.
    let length = unsafe { GetSystemWindowsDirectoryW(path.as_mut_ptr(), path.len() as u32) };
    let windows = path.get(..length as usize).filter(|path| !path.is_empty());
    let windows = windows.ok_or_else(|| last_error("the folder of Windows could not be found"))?;
    Ok(PathBuf::from(OsString::from_wide(windows)))
}
