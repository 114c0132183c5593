//! `halprof.sys`: what Windows does, around [`hal_profile::service`], which decides.
//!
//! # Where what stands
//! | module | is | unsafe |
//! |---|---|---|
//! | `callbacks` | in from Windows: the entry, and everything that Windows calls | yes |
//! | `kernel` | out to Windows: memory, DPCs, timers, counters, framework objects | yes |
//! | `machine` | to the processor: RDMSR, WRMSR, RDPMC, the local APIC's page | yes |
//! | `device` | what one device has between PrepareHardware and ReleaseHardware | no |
//! | `trace` | what happened lately, for a debugger, and refusals for the debug output | no |
//! | `global` | the one global that a debugger starts from | no |
//!
//! # IRQL legend
//! Every function says where it runs, in these words:
//! - **PASSIVE_LEVEL** (0): may wait and take the device's lock. All requests, PnP and power.
//! - **DISPATCH_LEVEL** (2): a DPC or a timer's callback; does not wait, takes no lock.
//! - **Masked**: any IRQL, with interrupts masked on this processor for a bounded stretch; on x64
//!   this is as good as PROFILE_LEVEL. Registers are changed only here.
//! - **PROFILE_LEVEL** (15 on x64): the overflow interrupt; touches what belongs to its processor,
//!   and atomics. No pool, no lock, no wait, no panic.
//!
//! # Who may touch what
//! - `kernel::processors::Block`: a processor's state and machine, only on that processor, masked
//!   or at PROFILE_LEVEL; its ring by atomics.
//! - `device::Hardware`: under the device's lock, at PASSIVE_LEVEL.
//! - The program that processors run: written while none runs, read by those that run.
#![no_std]
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

mod callbacks;
mod device;
mod global;
mod kernel;
mod machine;
mod trace;

use wdk_alloc::WdkAllocator;

/// Linked because crates in the kernel expect one; this driver makes no allocation through it, as
/// such a one cannot fail gracefully. `clippy.toml` refuses the types that would.
#[global_allocator]
static ALLOCATOR: WdkAllocator = WdkAllocator;
