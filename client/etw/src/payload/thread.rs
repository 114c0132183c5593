//! Threads (MOF classes `Thread_V1_TypeGroup1` to `Thread_V3_TypeGroup1`; version 4 has a name), and
//! the names that programs give them (opcode 72); `ReadyThread`.

use super::Change;
use crate::bytes::{Fields, Output, PointerSize, layout};

/// A thread. The process is this one's, while the event's header has the creator's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    pub change: Change,
    pub process: u32,
    pub thread: u32,
    pub name: Option<String>,
}

impl Thread {
    /// A thread without a name.
    pub const fn new(change: Change, process: u32, thread: u32) -> Self {
        Self { change, process, thread, name: None }
    }
}

layout! {
    /// A thread becomes ready to run. Whoever made it so runs on the processor of the event's buffer.
    #[derive(Copy)]
    pub struct Ready {
        thread: u32,
        /// `AdjustReason`: why its priority is raised.
        reason: i8,
        increment: i8,
        /// Bit 0: a deferred procedure call made it ready.
        flags: u8,
        reserved: u8,
    }
}

impl Ready {
    /// Whether a deferred procedure call made it ready, and not the thread on whose time that ran.
    pub const fn is_by_dpc(&self) -> bool {
        self.flags & 1 != 0
    }
}

/// A thread got a name (SetThreadDescription).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadName {
    pub process: u32,
    pub thread: u32,
    /// Empty if its name was taken away.
    pub name: String,
}

/// How long the fields are that say where a thread runs: its stacks, start addresses and priorities.
/// They are not read.
const fn details_length(version: u16, pointer: PointerSize) -> usize {
    match version {
        0 | 1 => 6 * pointer.bytes() + 1,
        2 => 7 * pointer.bytes() + 4,
        _ => 7 * pointer.bytes() + 8,
    }
}

pub(super) fn thread(opcode: u8, version: u16, mut fields: Fields<'_>) -> Option<Thread> {
    let change = Change::from_opcode(opcode)?;
    let (process, thread) = (fields.u32()?, fields.u32()?);
    // The oldest end events have no more.
    if !(change == Change::End && fields.rest.is_empty()) {
        fields.take(details_length(version, fields.pointer_size))?;
    }
    let has_name = version >= 3 && fields.rest.len() >= 2;
    let name = if has_name { fields.utf16() } else { None };
    Some(Thread { change, process, thread, name })
}

pub(super) fn name(mut fields: Fields<'_>) -> Option<ThreadName> {
    let (process, thread) = (fields.u32()?, fields.u32()?);
    Some(ThreadName { process, thread, name: fields.utf16().unwrap_or_default() })
}

/// Appends a name.
pub fn write_name(named: &ThreadName, output: &mut Output) {
    output.u32(named.process);
    output.u32(named.thread);
    output.utf16(&named.name);
}

/// Appends version 4.
pub fn write(thread: &Thread, output: &mut Output) {
    output.u32(thread.process);
    output.u32(thread.thread);
    output.zeros(details_length(4, output.pointer_size));
    if let Some(name) = &thread.name {
        output.utf16(name);
    }
}
