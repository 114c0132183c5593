//! Stacks (MOF class `StackWalk_Event`; keys and their definitions are of `TraceStackCachingInfo`).

use crate::bytes::{Fields, Output, PointerSize};

/// Return addresses, innermost first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Frames<'a> {
    bytes: &'a [u8],
    pointer: PointerSize,
}

impl<'a> Frames<'a> {
    /// Little-endian addresses of a pointer's size each.
    pub const fn from_bytes(bytes: &'a [u8], pointer: PointerSize) -> Self {
        Self { bytes, pointer }
    }

    /// The whole frames that `fields` has left.
    fn new(fields: &Fields<'a>) -> Self {
        Self { bytes: fields.rest, pointer: fields.pointer_size }
    }

    /// The addresses.
    pub fn iter(&self) -> impl Iterator<Item = u64> + use<'a> {
        let pointer = self.pointer;
        let frames = self.bytes.chunks_exact(pointer.bytes());
        frames.filter_map(move |frame| Fields::new(frame, pointer).pointer())
    }

    /// The kernel's half and the user half: it begins at the first address of user mode.
    pub fn halves(&self) -> (Self, Self) {
        let pointer = self.pointer;
        let mut frames = self.iter();
        let kernel = frames.position(|frame| !pointer.is_kernel(frame));
        let count = self.bytes.len() / pointer.bytes();
        let at = kernel.unwrap_or(count) * pointer.bytes();
        let (kernel, user) = self.bytes.split_at(at);
        let half = |bytes| Self { bytes, pointer };
        (half(kernel), half(user))
    }

    /// Whether there is no whole frame.
    pub const fn is_empty(&self) -> bool {
        self.bytes.len() < self.pointer.bytes()
    }
}

impl std::fmt::Debug for Frames<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

/// The stack of an event that the same thread wrote before, or half of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack<'a> {
    /// The time of that event, in the trace's ticks.
    pub event_time: u64,
    pub process: u32,
    pub thread: u32,
    pub frames: Frames<'a>,
}

/// Which half of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    Kernel,
    User,
}

impl Half {
    /// The half that a code address belongs to.
    pub const fn of(address: u64, pointer: PointerSize) -> Self {
        if pointer.is_kernel(address) { Self::Kernel } else { Self::User }
    }
}

/// Half of a stack by its key, which is defined later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackKey {
    /// As in [`Stack`].
    pub event_time: u64,
    pub process: u32,
    pub thread: u32,
    pub half: Half,
    pub key: u64,
}

/// The frames of a key, which may name other frames afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackDefinition<'a> {
    pub key: u64,
    pub frames: Frames<'a>,
}

pub(super) fn stack(mut fields: Fields<'_>) -> Option<Stack<'_>> {
    Some(Stack {
        event_time: fields.u64()?,
        process: fields.u32()?,
        thread: fields.u32()?,
        frames: Frames::new(&fields),
    })
}

pub(super) fn key(opcode: u8, mut fields: Fields<'_>) -> Option<StackKey> {
    Some(StackKey {
        event_time: fields.u64()?,
        process: fields.u32()?,
        thread: fields.u32()?,
        half: if opcode == 37 { Half::Kernel } else { Half::User },
        key: fields.pointer()?,
    })
}

pub(super) fn definition(mut fields: Fields<'_>) -> Option<StackDefinition<'_>> {
    Some(StackDefinition { key: fields.pointer()?, frames: Frames::new(&fields) })
}

impl Stack<'_> {
    pub fn write(&self, output: &mut Output) {
        output.u64(self.event_time);
        output.u32(self.process);
        output.u32(self.thread);
        self.frames.iter().for_each(|frame| output.pointer(frame));
    }
}

impl StackKey {
    pub fn write(&self, output: &mut Output) {
        output.u64(self.event_time);
        output.u32(self.process);
        output.u32(self.thread);
        output.pointer(self.key);
    }
}

impl StackDefinition<'_> {
    pub fn write(&self, output: &mut Output) {
        output.pointer(self.key);
        self.frames.iter().for_each(|frame| output.pointer(frame));
    }
}
