//! How deep can each entry's stack get?
//!
//! Frames are read from the unwind information, which Windows uses too, and added up along the call
//! graph. What imported functions need comes on top, and so does what was on the stack before; a
//! kernel stack has 24 KiB in all
//! (<https://learn.microsoft.com/windows-hardware/drivers/kernel/using-the-kernel-stack>).

use super::code::{Code, Function, Place};
use super::entries::{ENTRIES, Irql, guarded};
use super::image::Image;
use super::{Refusals, accepted, image, overwrite, refused};
use iced_x86::Mnemonic;
use object::pe::IMAGE_DIRECTORY_ENTRY_EXCEPTION;
use std::collections::BTreeMap;

/// Bytes that each entry may take.
const LIMITS: [(Irql, u32); 3] =
    [(Irql::Passive, 12 << 10), (Irql::Dispatch, 12 << 10), (Irql::Profile, 4 << 10)];

/// RUNTIME_FUNCTION: begin, end, unwind information.
const RUNTIME_FUNCTION: u32 = 12;
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
    code: Code<'a>,
    frames: BTreeMap<u32, u32>,
    known: BTreeMap<u32, Depth>,
    refusals: Refusals,
}

impl<'a> Stacks<'a> {
    fn of(image: &'a Image) -> Self {
        Self {
            code: Code::of(image),
            frames: frames(image),
            known: BTreeMap::new(),
            refusals: Refusals::new(),
        }
    }

    /// The deepest chain from `at`, below the functions in `above`.
    fn depth(&mut self, at: u32, above: &mut Vec<u32>) -> Depth {
        if let Some(known) = self.known.get(&at) {
            return known.clone();
        }
        let Some(function) = self.code.functions.get(&at) else {
            self.refusals.push(format!("code without a name at {at:#x}"));
            return Depth::default();
        };
        let name = function.name().to_owned();
        if above.contains(&at) {
            self.refusals.push(format!("{name} calls itself"));
            return Depth::default();
        }
        let own = self.frames.get(&at).copied().unwrap_or(0) + transient(function);
        let callees = self.code.callees(function, &|function| guarded(&self.code, function));
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

/// The frame of each function that has one, without its return address.
fn frames(image: &Image) -> BTreeMap<u32, u32> {
    let (table, size) = image.directory(IMAGE_DIRECTORY_ENTRY_EXCEPTION);
    let entries = (table..table + size).step_by(RUNTIME_FUNCTION as usize);
    entries.map(|entry| (image.u32_at(entry), frame(image, image.u32_at(entry + 8)))).collect()
}

fn frame(image: &Image, unwind: u32) -> u32 {
    let header = image.u32_at(unwind).to_le_bytes();
    let (flags, count) = (header[0] >> 3, u32::from(header[2]));
    assert_eq!(header[0] & 7, 1, "the version of the unwind information");
    let slot = |index: u32| {
        let word = image.u32_at(unwind + 4 + (index & !1) * 2);
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
        bytes += frame(image, image.u32_at(chained + 8));
    }
    bytes
}

/// A function that moves the stack pointer must be in the unwind information.
fn unwound(image: &Image) -> Refusals {
    let frames = frames(image);
    let code = Code::of(image);
    let moves = |function: &&Function| {
        let all = function.instructions.iter();
        let moved = all.map(iced_x86::Instruction::stack_pointer_increment);
        let pushed = moved.filter(|&by| by == -8).count() > usize::from(transient(function) > 8);
        let mut all = function.instructions.iter();
        pushed
            || all.any(|one| {
                one.op0_register() == iced_x86::Register::RSP && one.mnemonic() == Mnemonic::Sub
            })
    };
    let leaf = |function: &&Function| !frames.contains_key(&function.range.start);
    let unknown = code.functions.values().filter(leaf).filter(moves);
    unknown.map(|function| format!("{} has a frame that nobody knows", function.name())).collect()
}

fn depths(image: &Image) -> Refusals {
    let mut stacks = Stacks::of(image);
    for entry in ENTRIES {
        let limit = LIMITS.iter().find(|(irql, _)| *irql == entry.irql).expect("a limit").1;
        let depth = stacks.depth(image.function(entry.name), &mut Vec::new());
        if depth.bytes > limit {
            stacks.refusals.push(format!(
                "{}: {} bytes, more than {limit}:\n    {}",
                entry.name, depth.bytes, depth.chain
            ));
        }
    }
    stacks.refusals
}

#[test]
fn no_entry_goes_deeper_than_its_limit() {
    if let Some(image) = image() {
        let mut stacks = Stacks::of(&image);
        for entry in ENTRIES {
            let depth = stacks.depth(image.function(entry.name), &mut Vec::new());
            println!("{:6} {}\n    {}", depth.bytes, entry.name, depth.chain);
        }
    }
    accepted(depths);
    let overflow = "halprof_driver::overflow::overflow_interrupt";
    refused(depths, "more than 4096", |image, file| {
        let at = large_frame_below(image, overflow);
        overwrite(image, file, at, &4096u16.to_le_bytes());
    });
    refused(depths, "calls itself", |image, file| {
        // CALL of itself.
        overwrite(image, file, image.function(overflow), &[0xE8, 0xFB, 0xFF, 0xFF, 0xFF]);
    });
}

#[test]
fn every_frame_is_in_the_unwind_information() {
    accepted(unwound);
    refused(unwound, "a frame that nobody knows", |image, file| {
        // SUB RSP, 28h in a function without a frame.
        let code = Code::of(image);
        let frames = frames(image);
        let mut all = code.functions.values();
        let leaf = all.find(|one| !frames.contains_key(&one.range.start) && one.range.len() >= 4);
        let at = leaf.expect("a function without a frame").range.start;
        overwrite(image, file, at, &[0x48, 0x83, 0xEC, 0x28]);
    });
}

/// The address of the frame size, in the unwind information of a function that an entry calls.
fn large_frame_below(image: &Image, entry: &str) -> u32 {
    let code = Code::of(image);
    let below = code.reach(image.function(entry), &|function| guarded(&code, function));
    let (table, size) = image.directory(IMAGE_DIRECTORY_ENTRY_EXCEPTION);
    let entries = (table..table + size).step_by(RUNTIME_FUNCTION as usize);
    let mut entries =
        entries.filter(|&entry| below.contains_key(&Place::Function(image.u32_at(entry))));
    let large = entries.find_map(|entry| {
        let unwind = image.u32_at(entry + 8);
        let slots = (unwind + 4..).step_by(2);
        let mut slots = slots.take(usize::from(image.u32_at(unwind).to_le_bytes()[2]));
        slots.find(|at| image.bytes[image.offset(*at) + 1] == ALLOC_LARGE)
    });
    large.expect("a large frame") + 2
}
