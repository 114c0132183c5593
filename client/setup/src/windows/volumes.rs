//! Drives and the devices behind them.

use super::wide;
use halprof_measure::native_path::{self, Volume};
use halprof_measure::windows_folder;
use windows_sys::Win32::Storage::FileSystem::QueryDosDeviceW;

/// The longest device name.
const NAME_UNITS: usize = 1024;

/// Converts a path in the kernel's form to one that programs can open.
pub(super) fn on_disk(native: &str, volumes: &[Volume]) -> String {
    let windows = windows_folder().unwrap_or_default();
    native_path::on_disk(native, &windows.to_string_lossy(), volumes)
}

/// The drives of this machine.
pub(super) fn all() -> Vec<Volume> {
    let volume = |letter: char| {
        let drive = format!("{letter}:");
        let name = wide::terminated(&drive);
        let mut units = [0u16; NAME_UNITS];
        // SAFETY: the name ends with a zero; `units` is valid for writes of its length.
        let length =
            unsafe { QueryDosDeviceW(name.as_ptr(), units.as_mut_ptr(), NAME_UNITS as u32) };
        // A drive may have several targets: the first one applies.
        (length != 0).then(|| Volume { drive, device: wide::text(&units) })
    };
    ('A'..='Z').filter_map(volume).collect()
}
