//! What can code reach that Windows calls at a raised IRQL, and how deep does its stack get?
//!
//! The walk follows every call and jump of every function, whether it can be taken or not, so what
//! it does not reach cannot be reached. Frames are read from the unwind information, which Windows
//! uses too, and added up along the call graph. What imported functions need comes on top, and so does
//! what was on the stack before; a kernel stack has 24 KiB in all
//! (<https://learn.microsoft.com/windows-hardware/drivers/kernel/using-the-kernel-stack>).

use super::code::{Function, Place};
use super::driver::Driver;
use super::entries::{ENTRIES, Irql, guarded_targets};
use super::{Policy, Refusals};
use iced_x86::{Instruction, Mnemonic, Register};
use object::pe::IMAGE_DIRECTORY_ENTRY_EXCEPTION;
use std::collections::BTreeMap;

const OVERFLOW: &str = "halprof_driver::reservation::overflow_interrupt";

pub(crate) const POLICIES: &[Policy] = &[
    Policy {
        holds: "nothing at a raised IRQL waits, allocates or panics",
        refuses: reached,
        notices: |driver| {
            let (tick, poll) =
                ("halprof_driver::per_cpu::tick", "halprof_driver::per_cpu::poll_due");
            // Through a closure that `work` calls by pointer.
            let work = &driver.functions[&driver.function("halprof_driver::dpc::work")];
            let closure = driver.functions[&guarded_targets(driver, work)[0]].name();
            let call = |(from, to): (&str, &str)| {
                let from = driver.function(from);
                let distance = driver.function(to).wrapping_sub(from + 5);
                let code = [&[0xE8][..], &distance.to_le_bytes()].concat();
                (to.to_owned(), driver.over(from, &code))
            };
            let calls = [
                (OVERFLOW, "core::panicking::panic_bounds_check"),
                (OVERFLOW, "wdk_panic::kernel_panic_handler::panic"),
                (OVERFLOW, "KeBugCheckEx"),
                (OVERFLOW, "ExAllocatePool2"),
                (OVERFLOW, "ExFreePoolWithTag"),
                (OVERFLOW, "KeWaitForSingleObject"),
                (OVERFLOW, "KeSetEvent"),
                (OVERFLOW, "DbgPrintEx"),
                (tick, "KeDelayExecutionThread"),
                (poll, "ExDeleteTimer"),
                (closure, "ExFreePoolWithTag"),
            ];
            let unguarded = driver.in_function(OVERFLOW, &[0xFF, 0xD0]);
            let unguarded = ("an unguarded target".to_owned(), unguarded);
            calls.into_iter().map(call).chain([unguarded]).collect()
        },
    },
    Policy {
        holds: "no entry's stack gets deeper than its limit",
        refuses: depths,
        notices: |driver| {
            let deep = driver.over(large_frame(driver), &4096u16.to_le_bytes());
            let to_itself = driver.in_function(OVERFLOW, &[0xE8, 0xFB, 0xFF, 0xFF, 0xFF]);
            vec![("more than 4096".to_owned(), deep), ("calls itself".to_owned(), to_itself)]
        },
    },
    Policy {
        holds: "every frame is in the unwind information",
        refuses: unwound,
        notices: |driver| {
            let frames = frames(driver);
            let mut all = driver.functions.values();
            let leaf =
                all.find(|one| !frames.contains_key(&one.range.start) && one.range.len() >= 4);
            // SUB RSP, 28h in a function without a frame.
            let at = leaf.expect("a function without a frame").range.start;
            let change = driver.over(at, &[0x48, 0x83, 0xEC, 0x28]);
            vec![("a frame that nobody knows".to_owned(), change)]
        },
    },
];

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

fn reached(driver: &Driver) -> Refusals {
    let mut refusals = Refusals::new();
    for entry in ENTRIES.iter().filter(|entry| entry.irql != Irql::Passive) {
        for (place, chain) in driver.reach(driver.function(entry.name)) {
            let allowed = match &place {
                Place::Function(at) => driver
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

/// Bytes that each entry may take.
const fn limit(irql: Irql) -> u32 {
    match irql {
        Irql::Passive | Irql::Dispatch => 12 << 10,
        Irql::Profile => 4 << 10,
    }
}

/// RUNTIME_FUNCTION: begin, end, unwind information.
const RUNTIME_FUNCTION: usize = 12;
/// Unwind operations (https://learn.microsoft.com/cpp/build/exception-handling-x64).
const PUSH_NONVOL: u8 = 0;
const ALLOC_LARGE: u8 = 1;
const ALLOC_SMALL: u8 = 2;
const SET_FPREG: u8 = 3;
const SAVE_NONVOL: u8 = 4;
const SAVE_NONVOL_FAR: u8 = 5;
const SAVE_XMM128: u8 = 8;
const SAVE_XMM128_FAR: u8 = 9;
const CHAINED: u8 = 4;

/// The deepest chain from a function: bytes and names.
#[derive(Clone, Default)]
struct Depth {
    bytes: u32,
    chain: String,
}

struct Stacks<'a> {
    driver: &'a Driver,
    frames: BTreeMap<u32, u32>,
    known: BTreeMap<u32, Depth>,
    refusals: Refusals,
}

impl Stacks<'_> {
    /// The deepest chain from `at`, below the functions in `above`.
    fn depth(&mut self, at: u32, above: &mut Vec<u32>) -> Depth {
        if let Some(known) = self.known.get(&at) {
            return known.clone();
        }
        let Some(function) = self.driver.functions.get(&at) else {
            self.refusals.push(format!("code without a name at {at:#x}"));
            return Depth::default();
        };
        let name = function.name().to_owned();
        if above.contains(&at) {
            self.refusals.push(format!("{name} calls itself"));
            return Depth::default();
        }
        let own = self.frames.get(&at).copied().unwrap_or(0) + transient(function);
        let callees = self.driver.callees(function);
        above.push(at);
        let deepest = callees.into_iter().filter_map(|place| match place {
            Place::Function(callee) => Some(self.depth(callee, above)),
            _ => None,
        });
        let deepest = deepest.max_by_key(|depth| depth.bytes).unwrap_or_default();
        above.pop();
        let depth = Depth {
            bytes: own + deepest.bytes,
            chain: format!("{own} {name}\n    {}", deepest.chain),
        };
        self.known.insert(at, depth.clone());
        depth
    }
}

/// The return address, and flags that are pushed and popped immediately.
fn transient(function: &Function) -> u32 {
    let pushes_flags = function.instructions.iter().any(|one| one.mnemonic() == Mnemonic::Pushfq);
    if pushes_flags { 16 } else { 8 }
}

/// The start of each function in the unwind information, and its unwind information.
pub(crate) fn unwind_entries(driver: &Driver) -> impl Iterator<Item = (u32, u32)> {
    let (table, size) = driver.directory(IMAGE_DIRECTORY_ENTRY_EXCEPTION);
    let entries = (table..table + size).step_by(RUNTIME_FUNCTION);
    entries.map(|entry| (driver.u32_at(entry), driver.u32_at(entry + 8)))
}

/// The frame of each function that has one, without its return address.
fn frames(driver: &Driver) -> BTreeMap<u32, u32> {
    unwind_entries(driver).map(|(start, unwind)| (start, frame(driver, unwind))).collect()
}

fn frame(driver: &Driver, unwind: u32) -> u32 {
    let header = driver.u32_at(unwind).to_le_bytes();
    let (flags, count) = (header[0] >> 3, u32::from(header[2]));
    assert_eq!(header[0] & 7, 1, "the version of the unwind information");
    let slot = |index: u32| {
        let word = driver.u32_at(unwind + 4 + (index & !1) * 2);
        (word >> ((index & 1) * 16)) as u16
    };
    let (mut bytes, mut index) = (0, 0);
    while index < count {
        let [_, operation] = slot(index).to_le_bytes();
        let (operation, info) = (operation & 0xF, operation >> 4);
        index += match (operation, info) {
            (PUSH_NONVOL, _) => {
                bytes += 8;
                1
            }
            (ALLOC_SMALL, _) => {
                bytes += u32::from(info) * 8 + 8;
                1
            }
            (ALLOC_LARGE, 0) => {
                bytes += u32::from(slot(index + 1)) * 8;
                2
            }
            (ALLOC_LARGE, _) => {
                bytes += u32::from(slot(index + 1)) | u32::from(slot(index + 2)) << 16;
                3
            }
            (SET_FPREG, _) => 1,
            (SAVE_NONVOL | SAVE_XMM128, _) => 2,
            (SAVE_NONVOL_FAR | SAVE_XMM128_FAR, _) => 3,
            _ => panic!("unwind operation {operation} at {unwind:#x}"),
        };
    }
    if flags & CHAINED != 0 {
        let chained = unwind + 4 + count.next_multiple_of(2) * 2;
        bytes += frame(driver, driver.u32_at(chained + 8));
    }
    bytes
}

/// A function that moves the stack pointer must be in the unwind information.
fn unwound(driver: &Driver) -> Refusals {
    let frames = frames(driver);
    let moves = |function: &&Function| {
        let all = function.instructions.iter();
        let pushes = all.clone().map(Instruction::stack_pointer_increment).filter(|&by| by == -8);
        let mut subtractions = all.filter(|one| one.mnemonic() == Mnemonic::Sub);
        pushes.count() > usize::from(transient(function) > 8)
            || subtractions.any(|one| one.op0_register() == Register::RSP)
    };
    let leaf = |function: &&Function| !frames.contains_key(&function.range.start);
    let unknown = driver.functions.values().filter(leaf).filter(moves);
    unknown.map(|function| format!("{} has a frame that nobody knows", function.name())).collect()
}

fn depths(driver: &Driver) -> Refusals {
    let (known, refusals) = (BTreeMap::new(), Refusals::new());
    let mut stacks = Stacks { driver, frames: frames(driver), known, refusals };
    for entry in ENTRIES {
        let depth = stacks.depth(driver.function(entry.name), &mut Vec::new());
        let (name, limit, Depth { bytes, chain }) = (entry.name, limit(entry.irql), depth);
        if bytes > limit {
            stacks.refusals.push(format!("{name}: {bytes} bytes, more than {limit}:\n    {chain}"));
        } else {
            println!("{name}: {bytes} bytes\n    {chain}");
        }
    }
    stacks.refusals
}

/// The address of a frame's size, in the unwind information of a function below the overflow handler.
fn large_frame(driver: &Driver) -> u32 {
    let below = driver.reach(driver.function(OVERFLOW));
    let mut entries =
        unwind_entries(driver).filter(|(start, _)| below.contains_key(&Place::Function(*start)));
    let large = entries.find_map(|(_, unwind)| {
        let [_, _, count, _] = driver.u32_at(unwind).to_le_bytes();
        let mut slots = (unwind + 4..).step_by(2).take(count.into());
        slots.find(|&at| driver.data(at)[1] == ALLOC_LARGE)
    });
    large.expect("a large frame") + 2
}
