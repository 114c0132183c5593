//! An unnamed section behind an inherited handle.
#![expect(unsafe_code, reason = "calls Windows' functions")]

use super::shared::Shared;
use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr::{self, NonNull};
use windows_sys::Win32::Foundation::{HANDLE, INVALID_HANDLE_VALUE, TRUE};
use windows_sys::Win32::Security::SECURITY_ATTRIBUTES;
use windows_sys::Win32::System::Memory::{
    CreateFileMappingW, FILE_MAP_READ, FILE_MAP_WRITE, MEMORY_MAPPED_VIEW_ADDRESS, MapViewOfFile,
    PAGE_READWRITE, UnmapViewOfFile,
};
use windows_sys::Win32::System::Threading::GetCurrentThreadId;

const SIZE: usize = size_of::<Shared>();

/// The recorder's own mapping.
#[derive(Debug)]
pub(super) struct Mapping {
    section: OwnedHandle,
    at: NonNull<Shared>,
}

// SAFETY: the memory holds only atomics, and the view belongs to no thread.
unsafe impl Send for Mapping {}

impl Mapping {
    pub(super) fn create() -> io::Result<Self> {
        let inherited = SECURITY_ATTRIBUTES {
            nLength: size_of::<SECURITY_ATTRIBUTES>() as u32,
            lpSecurityDescriptor: ptr::null_mut(),
            bInheritHandle: TRUE,
        };
        // SAFETY: `inherited` is valid for reads, and no name is given.
        let section = unsafe {
            CreateFileMappingW(
                INVALID_HANDLE_VALUE,
                &raw const inherited,
                PAGE_READWRITE,
                0,
                SIZE as u32,
                ptr::null(),
            )
        };
        if section.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: CreateFileMappingW succeeded, so the handle is open and owned by nobody else.
        let section = unsafe { OwnedHandle::from_raw_handle(section) };
        let at = map(section.as_raw_handle()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { section, at })
    }

    /// The handle by which the program attaches.
    pub(super) fn handle(&self) -> isize {
        self.section.as_raw_handle() as isize
    }

    pub(super) const fn shared(&self) -> &Shared {
        // SAFETY: it is mapped until this is dropped, a section keeps its length, and any bits in it
        // are valid atomics.
        unsafe { self.at.as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let view = MEMORY_MAPPED_VIEW_ADDRESS { Value: self.at.as_ptr().cast() };
        // SAFETY: the view is ours, and nobody borrows it any more.
        unsafe { UnmapViewOfFile(view) };
    }
}

fn map(section: HANDLE) -> Option<NonNull<Shared>> {
    // SAFETY: Windows chooses the address, and fails if the section is shorter.
    let view = unsafe { MapViewOfFile(section, FILE_MAP_READ | FILE_MAP_WRITE, 0, 0, SIZE) };
    NonNull::new(view.Value.cast())
}

/// The buffer behind an inherited handle, mapped for as long as the process lives; `None` if there
/// is no such handle, or if it is something else.
pub(super) fn attach(handle: isize) -> Option<&'static Shared> {
    let view = map(handle as HANDLE)?;
    // SAFETY: it is never unmapped, a section keeps its length, and any bits in it are valid atomics.
    Some(unsafe { view.as_ref() })
}

/// The process in the upper half, the thread in the lower half.
pub(super) fn owner() -> u64 {
    // SAFETY: takes no argument and cannot fail.
    let thread = unsafe { GetCurrentThreadId() };
    u64::from(std::process::id()) << 32 | u64::from(thread)
}

/// Windows has no forks.
pub(super) const fn watch_forks() {}
