//! What Windows reports of itself, for `doctor`: documented interfaces, read only.

use super::library::Library;
use super::{cpuid, privilege, running, service, volumes, wide};
use crate::doctor::{Power, Signature, System};
use shared_types::device::SERVICE;
use std::ffi::c_void;
use std::fs;
use std::path::PathBuf;
use std::ptr;
use windows_sys::Wdk::System::SystemInformation::{
    NtQuerySystemInformation, SystemCodeIntegrityInformation,
};
use windows_sys::Win32::Foundation::{ERROR_FILE_NOT_FOUND, ERROR_SUCCESS, FALSE};
use windows_sys::Win32::System::Power::{
    GetSystemPowerStatus, POWER_INFORMATION_LEVEL, PROCESSOR_POWER_INFORMATION,
    ProcessorInformation, SYSTEM_POWER_STATUS,
};
use windows_sys::Win32::System::Registry::{
    HKEY_LOCAL_MACHINE, REG_ROUTINE_FLAGS, RRF_RT_REG_DWORD, RRF_RT_REG_SZ, RegGetValueW,
};
use windows_sys::Win32::System::SystemInformation::{
    IMAGE_FILE_MACHINE_ARM64, IMAGE_FILE_MACHINE_UNKNOWN,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, IsWow64Process2};
use windows_sys::Win32::System::WindowsProgramming::SYSTEM_CODEINTEGRITY_INFORMATION;

type CallNtPowerInformation =
    unsafe extern "system" fn(POWER_INFORMATION_LEVEL, *const c_void, u32, *mut c_void, u32) -> i32;

const VERSION: &str = r"SOFTWARE\Microsoft\Windows NT\CurrentVersion";
const SECURE_BOOT: &str = r"SYSTEM\CurrentControlSet\Control\SecureBoot\State";

/// All facts.
#[must_use]
pub fn facts() -> System {
    System {
        build: build(),
        arm: arm(),
        elevated: privilege::elevated(),
        code_integrity: code_integrity(),
        secure_boot: secure_boot(),
        signature: signature(),
        services: service::active(),
        processes: running::processes().map(|all| all.into_iter().map(|(_, name)| name).collect()),
        modules: Some(running::seen()),
        power: Power {
            battery: on_battery(),
            held: held(),
        },
        invariant_tsc: cpuid::invariant_tsc(),
    }
}

/// The identifier that Windows gave this machine when it was installed.
#[must_use]
pub fn machine_guid() -> Option<String> {
    text(r"SOFTWARE\Microsoft\Cryptography", "MachineGuid")
}

fn build() -> Option<(u32, u32)> {
    let build = text(VERSION, "CurrentBuild")?.parse().ok()?;
    let revision = number(VERSION, "UBR").ok().unwrap_or(0);
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

fn signature() -> Option<Signature> {
    let image = installed_image().filter(|path| path.is_file());
    let image = image.or_else(beside_the_tool)?;
    Signature::of(&fs::read(image).ok()?)
}

fn beside_the_tool() -> Option<PathBuf> {
    let tool = std::env::current_exe().ok()?;
    Some(tool.with_file_name(format!("{SERVICE}.sys")))
}

/// The driver's file from its service: a path in the NT namespace, or one below the Windows folder.
fn installed_image() -> Option<PathBuf> {
    let key = format!(r"SYSTEM\CurrentControlSet\Services\{SERVICE}");
    let path = text(&key, "ImagePath")?;
    Some(volumes::on_disk(&path, &volumes::all()).into())
}

fn on_battery() -> Option<bool> {
    let mut status = SYSTEM_POWER_STATUS::default();
    // SAFETY: `status` is valid for a write.
    let done = unsafe { GetSystemPowerStatus(&raw mut status) };
    match status.ACLineStatus {
        _ if done == FALSE => None,
        0 => Some(true),
        1 => Some(false),
        _ => None,
    }
}

/// The maximum speed and the limit of the processor with the lowest limit, in this group.
fn held() -> Option<(u32, u32)> {
    // A group has 64 processors at most.
    let mut all = [PROCESSOR_POWER_INFORMATION::default(); 64];
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let all = all.get_mut(..count.min(64))?;
    let library = Library::load("powrprof.dll").ok()?;
    // SAFETY: this is the function's type (powerbase.h).
    let ask = unsafe { library.function::<CallNtPowerInformation>(c"CallNtPowerInformation") };
    let ask = ask.ok()?;
    // SAFETY: there is no input; `all` is valid for writes of the length given.
    let status = unsafe {
        ask(
            ProcessorInformation,
            ptr::null(),
            0,
            all.as_mut_ptr().cast::<c_void>(),
            size_of_val(all) as u32,
        )
    };
    if status < 0 {
        return None;
    }
    let told = all.iter().filter(|one| one.MaxMhz != 0);
    let lowest = told.min_by_key(|one| u64::from(one.MhzLimit) * 1000 / u64::from(one.MaxMhz))?;
    Some((lowest.MaxMhz, lowest.MhzLimit))
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
    kinds: REG_ROUTINE_FLAGS,
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
            kinds,
            ptr::null_mut(),
            into,
            &raw mut length,
        )
    };
    if error == ERROR_SUCCESS {
        Ok(length)
    } else {
        Err(error)
    }
}
