//! What can code reach that Windows calls at a raised IRQL?
//!
//! The walk follows every call and jump of every function, whether it can be taken or not, so what
//! it does not reach cannot be reached.

use super::code::{Code, Place};
use super::entries::{ENTRIES, Irql, guarded};
use super::image::Image;
use super::{Refusals, accepted, overwrite, refused};

/// What may be called at PROFILE_LEVEL: nothing that waits, takes a lock, or touches pool.
const AT_PROFILE: [&str; 5] = [
    "KeGetCurrentProcessorNumberEx",
    "PsGetCurrentProcessId",
    "PsGetCurrentThreadId",
    "memcpy",
    "memset",
];
/// What may additionally be called at DISPATCH_LEVEL; setting an event does not wait (its `Wait` is
/// FALSE).
const AT_DISPATCH: [&str; 5] = [
    "KeInsertQueueDpc",
    "KeSetEvent",
    "KeAcquireSpinLockRaiseToDpc",
    "KeReleaseSpinLock",
    "memcmp",
];

/// Functions of these crates and modules stop the machine, or format text to say why.
const PANICS: [&str; 7] = [
    "core::panicking::",
    "core::fmt::",
    "core::result::unwrap_failed",
    "core::option::",
    "core::slice::index::",
    "alloc::",
    "wdk_panic::",
];

fn reached(image: &Image) -> Refusals {
    let code = Code::of(image);
    let mut refusals = Refusals::new();
    for entry in ENTRIES.iter().filter(|entry| entry.irql != Irql::Passive) {
        let all = code.reach(image.function(entry.name), &|function| guarded(&code, function));
        for (place, chain) in all {
            let allowed = match &place {
                Place::Function(at) => code
                    .functions
                    .get(at)
                    .is_some_and(|function| !PANICS.iter().any(|name| function.begins(name))),
                Place::Import(name) => {
                    AT_PROFILE.contains(&&**name)
                        || entry.irql == Irql::Dispatch && AT_DISPATCH.contains(&&**name)
                }
                Place::Guarded | Place::Anywhere => false,
            };
            if !allowed {
                refusals.push(format!("{:?}: {chain}", entry.irql));
            }
        }
    }
    refusals
}

/// Writes a CALL of one function at the beginning of another.
fn call(image: &Image, file: &mut [u8], from: &str, to: &str) {
    let from = image.function(from);
    let distance = image.function(to).wrapping_sub(from + 5);
    let bytes = [&[0xE8][..], &distance.to_le_bytes()].concat();
    overwrite(image, file, from, &bytes);
}

#[test]
fn nothing_at_a_raised_irql_waits_allocates_or_panics() {
    accepted(reached);
    let overflow = "halprof_driver::overflow::overflow_interrupt";
    let forbidden = [
        (overflow, "core::panicking::panic_bounds_check"),
        (overflow, "wdk_panic::kernel_panic_handler::panic"),
        (overflow, "KeBugCheckEx"),
        (overflow, "ExAllocatePool2"),
        (overflow, "ExFreePoolWithTag"),
        (overflow, "KeWaitForSingleObject"),
        (overflow, "KeSetEvent"),
        (overflow, "DbgPrintEx"),
        ("halprof_driver::per_cpu::tick", "KeDelayExecutionThread"),
        ("halprof_driver::per_cpu::poll_due", "ExDeleteTimer"),
    ];
    for (from, to) in forbidden {
        refused(reached, to, |image, file| call(image, file, from, to));
    }
    // Through a closure that `work` calls by pointer.
    refused(reached, "ExFreePoolWithTag", |image, file| {
        let code = Code::of(image);
        let work = code.function("halprof_driver::dpc::work");
        let closure = guarded(&code, work)[0];
        let closure = code.functions[&closure].name();
        call(image, file, closure, "ExFreePoolWithTag");
    });
    refused(reached, "an unguarded target", |image, file| {
        overwrite(image, file, image.function(overflow), &[0xFF, 0xD0]);
    });
}
