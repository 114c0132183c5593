//! `halprof.sys`: what Windows does, around `hal_profile::service`.
#![no_std]

extern crate wdk_panic;

use wdk_alloc::WdkAllocator;
use wdk_sys::{NTSTATUS, PCUNICODE_STRING, PDRIVER_OBJECT, STATUS_SUCCESS};

#[global_allocator]
static ALLOCATOR: WdkAllocator = WdkAllocator;

#[expect(unsafe_code, reason = "Windows finds the entry by its name")]
// SAFETY: no other function of this name is linked.
#[unsafe(export_name = "DriverEntry")]
extern "system" fn driver_entry(_driver: PDRIVER_OBJECT, _path: PCUNICODE_STRING) -> NTSTATUS {
    STATUS_SUCCESS
}
