//! What Windows reports of itself, for `doctor`: documented interfaces, read only.

use super::{rights, running, service, wide};
use crate::doctor::System;
use std::ffi::c_void;
use std::ptr;
use windows_sys::Wdk::System::SystemInformation::{
    NtQuerySystemInformation, SystemCodeIntegrityInformation,
};
use windows_sys::Win32::Foundation::{ERROR_FILE_NOT_FOUND, ERROR_SUCCESS, FALSE};
use windows_sys::Win32::System::Registry::{
    HKEY_LOCAL_MACHINE, REG_ROUTINE_FLAGS, RRF_RT_REG_DWORD, RRF_RT_REG_SZ, RegGetValueW,
};
use windows_sys::Win32::System::SystemInformation::{
    IMAGE_FILE_MACHINE_ARM64, IMAGE_FILE_MACHINE_UNKNOWN,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, IsWow64Process2};
use windows_sys::Win32::System::WindowsProgramming::SYSTEM_CODEINTEGRITY_INFORMATION;

const VERSION: &str = r"SOFTWARE\Microsoft\Windows NT\CurrentVersion";
const SECURE_BOOT: &str = r"SYSTEM\CurrentControlSet\Control\SecureBoot\State";

pub fn facts() -> System {
    System {
        build: build(),
        arm: arm(),
        elevated: halprof_measure::elevated(),
        tracing_rights: rights::of_this_process(),
        code_integrity: code_integrity(),
        secure_boot: secure_boot(),
        services: service::active(),
        processes: running::processes().map(|all| all.into_iter().map(|(_, name)| name).collect()),
        modules: Some(running::seen()),
    }
}

fn build() -> Option<(u32, u32)> {
    // No function of Windows tells the revision, so that both come from the registry.
    let build = text(VERSION, "CurrentBuild")?.parse().ok()?;
    let revision = number(VERSION, "UBR").unwrap_or(0);
    Some((build, revision))
}

/// Whether Windows itself runs on an Arm processor; this program is emulated there.
pub(super) fn arm() -> Option<bool> {
    let (mut program, mut native) = (IMAGE_FILE_MACHINE_UNKNOWN, IMAGE_FILE_MACHINE_UNKNOWN);
    // SAFETY: no requirement.
    let process = unsafe { GetCurrentProcess() };
    // SAFETY: the handle is this process's own; both numbers are valid for writes.
    let done = unsafe { IsWow64Process2(process, &raw mut program, &raw mut native) };
    (done != FALSE).then_some(native == IMAGE_FILE_MACHINE_ARM64)
}

fn code_integrity() -> Option<u32> {
    let mut information = SYSTEM_CODEINTEGRITY_INFORMATION {
        Length: size_of::<SYSTEM_CODEINTEGRITY_INFORMATION>() as u32,
        CodeIntegrityOptions: 0,
    };
    // SAFETY: `information` is valid for writes of the length given; the length needed is not
    // requested.
    let status = unsafe {
        NtQuerySystemInformation(
            SystemCodeIntegrityInformation,
            (&raw mut information).cast(),
            information.Length,
            ptr::null_mut(),
        )
    };
    (status >= 0).then_some(information.CodeIntegrityOptions)
}

/// Firmware without Secure Boot has no such value.
fn secure_boot() -> Option<bool> {
    match number(SECURE_BOOT, "UEFISecureBootEnabled") {
        Ok(value) => Some(value != 0),
        Err(ERROR_FILE_NOT_FOUND) => Some(false),
        Err(_) => None,
    }
}

/// A number from the registry, or Windows' error.
fn number(key: &str, name: &str) -> Result<u32, u32> {
    let mut value = 0u32;
    let length = value_into(key, name, RRF_RT_REG_DWORD, (&raw mut value).cast(), 4)?;
    if length == 4 { Ok(value) } else { Err(0) }
}

/// A text from the registry. If REG_SZ is requested, Windows also returns REG_EXPAND_SZ, with the
/// variables between percent signs expanded.
fn text(key: &str, name: &str) -> Option<String> {
    let mut units = [0u16; 512];
    let length = size_of_val(&units) as u32;
    value_into(key, name, RRF_RT_REG_SZ, units.as_mut_ptr().cast(), length).ok()?;
    Some(wide::text(&units))
}

/// Copies a registry value to where `into` points, which is valid for writes of `length` bytes;
/// returns the value's length.
fn value_into(
    key: &str,
    name: &str,
    types: REG_ROUTINE_FLAGS,
    into: *mut c_void,
    length: u32,
) -> Result<u32, u32> {
    let (key, name) = (wide::terminated(key), wide::terminated(name));
    let mut length = length;
    // SAFETY: both texts end with a zero, the type is not requested, `into` is valid for writes of
    // `length` bytes, and `length` for a write.
    let error = unsafe {
        RegGetValueW(
            HKEY_LOCAL_MACHINE,
            key.as_ptr(),
            name.as_ptr(),
            types,
            ptr::null_mut(),
            into,
            &raw mut length,
        )
    };
    if error == ERROR_SUCCESS { Ok(length) } else { Err(error) }
}
