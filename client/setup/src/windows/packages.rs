//! Driver packages: their INF files, their class, and the driver store.

use super::library::Library;
use super::{last_error, succeeded, wide};
use crate::Result;
use crate::inf::serves;
use shared_types::device::HARDWARE_ID;
use std::fs;
use std::path::Path;
use std::ptr;
use windows_sys::Win32::Devices::DeviceAndDriverInstallation::{
    INSTALLFLAG_FORCE, INSTALLFLAG_NONINTERACTIVE, MAX_CLASS_NAME_LEN, SUOI_FORCEDELETE,
    SetupDiGetINFClassW, SetupUninstallOEMInfW,
};
use windows_sys::Win32::Foundation::{FALSE, HWND};
use windows_sys::core::{BOOL, GUID, PCWSTR};

type UpdateDriver = unsafe extern "system" fn(HWND, PCWSTR, PCWSTR, u32, *mut BOOL) -> BOOL;

/// The device setup class in an INF file.
pub(super) fn class_of(inf: &Path) -> Result<GUID> {
    let path = wide::terminated(inf);
    let mut class = GUID::from_u128(0);
    let mut name = [0u16; MAX_CLASS_NAME_LEN as usize];
    // SAFETY: the path ends with a zero; `class` is valid for a write, `name` for writes of the
    // characters given; the size needed is not requested.
    let done = unsafe {
        SetupDiGetINFClassW(
            path.as_ptr(),
            &raw mut class,
            name.as_mut_ptr(),
            MAX_CLASS_NAME_LEN,
            ptr::null_mut(),
        )
    };
    succeeded(done, "the install file's class could not be read")?;
    Ok(class)
}

/// Puts the package into the driver store and installs it on every device with halprof's hardware
/// id, whatever driver the device has; returns whether Windows asks for a restart.
pub(super) fn install(inf: &Path) -> Result<bool> {
    let id = wide::terminated(HARDWARE_ID);
    let path = wide::terminated(inf);
    let mut restart = FALSE;
    let library = Library::load("newdev.dll")?;
    // SAFETY: this is the function's type (newdev.h).
    let update =
        unsafe { library.function::<UpdateDriver>(c"UpdateDriverForPlugAndPlayDevicesW") }?;
    // SAFETY: there is no window, both texts end with a zero, and `restart` is valid for a write.
    let done = unsafe {
        update(
            ptr::null_mut(),
            id.as_ptr(),
            path.as_ptr(),
            INSTALLFLAG_FORCE | INSTALLFLAG_NONINTERACTIVE,
            &raw mut restart,
        )
    };
    succeeded(done, "the driver package could not be installed")?;
    Ok(restart != FALSE)
}

/// The INF files in the driver store with a driver for halprof's hardware id, such as `oem12.inf`.
pub(super) fn in_store() -> Result<Vec<String>> {
    let windows = halprof_measure::windows_folder();
    let windows = windows.map_err(|_| last_error("the folder of Windows could not be found"))?;
    let folder = windows.join("INF");
    let unreadable = |error| halprof_measure::Error::reading(&folder, error);
    let mut ours = Vec::new();
    for entry in fs::read_dir(&folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        // An unreadable one may be on its way out; halprof's is readable.
        if let Some(name) = published(&path)
            && fs::read(&path).is_ok_and(|inf| serves(&inf, HARDWARE_ID))
        {
            ours.push(name);
        }
    }
    ours.sort_unstable();
    Ok(ours)
}

/// The name, if it is one that the driver store gives to packages that did not come with Windows.
fn published(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    let number = name.strip_prefix("oem")?.strip_suffix(".inf")?;
    number.parse::<u32>().ok()?;
    Some(name)
}

/// Removes a package from the driver store; `in_use` if its device is still waiting for a restart
/// to be removed.
pub(super) fn remove(name: &str, in_use: bool) -> Result<()> {
    let name = wide::terminated(name);
    let flags = if in_use { SUOI_FORCEDELETE } else { 0 };
    // SAFETY: the name ends with a zero, and the reserved argument is null.
    let done = unsafe { SetupUninstallOEMInfW(name.as_ptr(), flags, ptr::null()) };
    succeeded(done, "the driver package could not be removed")
}
