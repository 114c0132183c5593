//! `halprof.sys`: the Windows side of the profiler, around [`hal_profile::service`], which makes
//! the decisions.
//!
//! # Modules
//! | module | contents | unsafe |
//! |---|---|---|
//! | `entry` | DriverEntry, the creation of the device, and the framework's callbacks | yes |
//! | `debugger` | the global from which a debugger starts; no code reads it | no |
//! | `device` | the state of the device between PrepareHardware and ReleaseHardware | no |
//! | `host` | all processors, as the core sees them | yes |
//! | `lock` | a value protected by the framework's wait lock | yes |
//! | `reservation` | the reservation of the counters, and the overflow interrupt | yes |
//! | `wdf` | whether the device may go, added processors, requests | yes |
//! | `trace` | recent events, for a debugger; refused requests in the debug output | yes |
//! | `per_cpu` | the data of each processor; ticks | yes |
//! | `system_events` | the ring of system events | yes |
//! | `dpc` | work on a chosen processor | yes |
//! | `clock` | the frequency of the time-stamp counter, and the resolution of timers | yes |
//! | `cpu` | RDMSR, WRMSR, RDPMC, and masking interrupts | yes |
//! | `fault` | RDMSR and WRMSR of a register that may not be there | yes |
//! | `apic` | the local APIC's page, and LVTPC's mask | yes |
//! | `timer`, `pool` | Windows' timers and pool, each behind a safe type | yes |
//! | `status` | NTSTATUS as a result | no |
//!
//! A module depends only on modules below it in this table.
//!
//! # IRQL legend
//! Every function states where it runs, in these terms:
//! - **PASSIVE_LEVEL** (0): may wait and take the device's lock. All requests, PnP and power.
//! - **DISPATCH_LEVEL** (2): a DPC or a timer's callback; does not wait, and takes no lock except
//!   that of the event ring.
//! - **Masked**: any IRQL, with interrupts masked on this processor for a bounded stretch; on x64
//!   this is equivalent to PROFILE_LEVEL (15). Registers are changed only here.
//! - **PROFILE_LEVEL** (15 on x64): the overflow interrupt; touches only its own processor's data,
//!   and atomics. No pool, no lock, no wait, no panic.
//!
//! # Who may touch what
//! - `per_cpu::PerCpu`: a processor's state and machine, only on that processor, masked or at
//!   PROFILE_LEVEL; its ring through atomics.
//! - `device::DEVICE`: under the device's lock, at PASSIVE_LEVEL; at its deletion without.
//! - `SYSTEM_EVENTS`: under its own lock, at most at DISPATCH_LEVEL; its reader through atomics.
//! - The program that processors run: written while no processor is running it, read by those that
//!   are.
#![no_std]
#![expect(
    clippy::redundant_closure_for_method_calls,
    reason = "a method of `Local` is not general enough over its lifetime"
)]
// A panic is a bug check, so no code here may panic.
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
mod clock;
mod cpu;
mod debugger;
mod device;
mod dpc;
mod entry;
mod fault;
mod host;
mod lock;
mod per_cpu;
mod pool;
mod reservation;
mod status;
mod system_events;
mod timer;
mod trace;
mod wdf;

use wdk_alloc::WdkAllocator;

/// Linked because kernel crates expect a global allocator. This driver allocates nothing through
/// it, because such an allocation cannot fail gracefully; `clippy.toml` forbids the types that
/// would.
#[global_allocator]
static ALLOCATOR: WdkAllocator = WdkAllocator;
