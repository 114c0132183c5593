//! `halprof.sys`: what Windows does, around [`hal_profile::service`], which decides.
//!
//! # Where what stands
//! | module | is | unsafe |
//! |---|---|---|
//! | `entry` | DriverEntry, and the table of what the framework calls | yes |
//! | `debugger` | the global that a debugger starts from; no code reads it | no |
//! | `device` | what one device has between PrepareHardware and ReleaseHardware | no |
//! | `host` | all processors, as the core sees them | yes |
//! | `lock` | a value under the framework's wait lock | yes |
//! | `wdf` | framework objects, given that table; requests | yes |
//! | `notify` | the ring of system events, and what Windows calls for processes and images | yes |
//! | `overflow` | the counters, reserved with Windows, and the overflow interrupt | yes |
//! | `trace` | what happened lately, for a debugger | no |
//! | `print` | refusals in the debug output | yes |
//! | `block` | what belongs to each processor; ticks | yes |
//! | `dpc` | work on a chosen processor | yes |
//! | `clock` | the rate of the time-stamp counter, and the timers' resolution | yes |
//! | `cpu` | RDMSR, WRMSR, RDPMC, and masking interrupts | yes |
//! | `apic` | the local APIC's page, and LVTPC's mask | yes |
//! | `timer`, `pool` | Windows' own, each behind a safe type | yes |
//! | `status` | NTSTATUS as a result | no |
//!
//! Arrows go down this table only.
//!
//! # IRQL legend
//! Every function says where it runs, in these words:
//! - **PASSIVE_LEVEL** (0): may wait and take the device's lock. All requests, PnP and power.
//! - **DISPATCH_LEVEL** (2): a DPC or a timer's callback; does not wait, takes no lock but that of
//!   the events' ring.
//! - **Masked**: any IRQL, with interrupts masked on this processor for a bounded stretch; on x64
//!   this is equivalent to PROFILE_LEVEL (15). Registers are changed only here.
//! - **PROFILE_LEVEL** (15 on x64): the overflow interrupt; touches what belongs to its processor,
//!   and atomics. No pool, no lock, no wait, no panic.
//!
//! # Who may touch what
//! - `block::Block`: a processor's state and machine, only on that processor, masked
//!   or at PROFILE_LEVEL; its ring by atomics.
//! - `device::Hardware`: under the device's lock, at PASSIVE_LEVEL.
//! - `notify::EVENTS`: under its own lock, at DISPATCH_LEVEL at most; its reader by atomics.
//! - The program that processors run: written while none runs, read by those that run.
#![no_std]
#![expect(
    clippy::redundant_closure_for_method_calls,
    reason = "a method of `Local` is not general enough over its lifetime"
)]
// A panic is a bug check, so nothing here may reach one.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::todo,
    clippy::unreachable,
    clippy::unwrap_used
)]

extern crate wdk_panic;

mod apic;
mod block;
mod clock;
mod cpu;
mod debugger;
mod device;
mod dpc;
mod entry;
mod host;
mod lock;
mod notify;
mod overflow;
mod pool;
mod print;
mod status;
mod timer;
mod trace;
mod wdf;

use wdk_alloc::WdkAllocator;

/// Linked because crates in the kernel expect one; this driver makes no allocation through it, as
/// such a one cannot fail gracefully. `clippy.toml` refuses the types that would.
#[global_allocator]
static ALLOCATOR: WdkAllocator = WdkAllocator;
