//! Branch records (`LastBranchRecordProviderGuid` of evntrace.h). No document has their layout: it is
//! that of TraceEvent's reader.

use crate::bytes::{Fields, Layout, Output, PointerSize, layout};

/// What a session leaves out of the records (`TRACE_LBR_CONFIGURATION` of evntrace.h). The first nine
/// are the bits of the processors' `LBR_SELECT`.
pub mod filter {
    /// Branches that end in the kernel.
    pub const KERNEL: u32 = 1 << 0;
    /// Branches that end in user mode.
    pub const USER: u32 = 1 << 1;
    pub const CONDITIONAL: u32 = 1 << 2;
    pub const NEAR_RELATIVE_CALLS: u32 = 1 << 3;
    pub const NEAR_INDIRECT_CALLS: u32 = 1 << 4;
    pub const NEAR_RETURNS: u32 = 1 << 5;
    pub const NEAR_INDIRECT_JUMPS: u32 = 1 << 6;
    pub const NEAR_RELATIVE_JUMPS: u32 = 1 << 7;
    pub const FAR: u32 = 1 << 8;
    /// Leaves nothing out: a return takes the record of its call away.
    pub const CALL_STACK: u32 = 1 << 9;
}

layout! {
    /// A branch that was taken.
    #[derive(Copy)]
    pub struct Entry {
        from: pointer,
        to: pointer,
        /// Nobody documents it. On Intel it may be the processor's LBR_INFO register: mispredictions
        /// and cycles must not be read from it before a trace has shown that.
        reserved: pointer,
    }
}

impl Entry {
    const POINTERS: usize = 3;
}

/// Branches, newest first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Entries<'a> {
    bytes: &'a [u8],
    pointer: PointerSize,
}

impl<'a> Entries<'a> {
    /// Little-endian entries of three pointers each.
    pub const fn from_bytes(bytes: &'a [u8], pointer: PointerSize) -> Self {
        Self { bytes, pointer }
    }

    /// The whole entries.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Entry> + use<'a> {
        let pointer = self.pointer;
        let entries = self.bytes.chunks_exact(Entry::POINTERS * pointer.bytes());
        entries.map(move |entry| Entry::read(&mut Fields::new(entry, pointer)).unwrap_or_default())
    }
}

impl std::fmt::Debug for Entries<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

/// The branches before an event of the same thread. The event's own header says when they were
/// written, and names no thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastBranches<'a> {
    /// The time of that event, in the trace's ticks.
    pub event_time: u64,
    pub process: u32,
    pub thread: u32,
    /// What was left out: see [`filter`].
    pub filter: u32,
    pub entries: Entries<'a>,
}

/// Entries are aligned to pointers.
const fn padding(pointer: PointerSize) -> usize {
    pointer.bytes() - size_of::<u32>()
}

pub(super) fn last_branches(mut fields: Fields<'_>) -> Option<LastBranches<'_>> {
    let (event_time, process, thread) = (fields.u64()?, fields.u32()?, fields.u32()?);
    let filter = fields.u32()?;
    fields.take(padding(fields.pointer_size))?;
    let entries = Entries::from_bytes(fields.rest, fields.pointer_size);
    Some(LastBranches { event_time, process, thread, filter, entries })
}

impl LastBranches<'_> {
    pub fn write(&self, output: &mut Output) {
        output.u64(self.event_time);
        output.u32(self.process);
        output.u32(self.thread);
        output.u32(self.filter);
        output.zeros(padding(output.pointer_size));
        self.entries.iter().for_each(|entry| entry.write(output));
    }
}
