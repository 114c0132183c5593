//! Last branch records (`TraceLbrConfigurationInfo`); the layout is that of one public reader, and no
//! real file is known.

use crate::bytes::{Fields, PointerSize};

/// The branches before an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branches<'a> {
    /// The time of the event that they belong to, in the trace's ticks.
    pub event_time: u64,
    /// The process.
    pub process: u32,
    /// The thread.
    pub thread: u32,
    /// What was left out (evntrace.h, `ETW_LBR_FILTER`).
    pub filters: u32,
    bytes: &'a [u8],
    pointer: PointerSize,
}

/// A branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The branch's address.
    pub source: u64,
    /// Where it went.
    pub target: u64,
}

impl<'a> Branches<'a> {
    /// The branches, newest first.
    pub fn iter(&self) -> impl Iterator<Item = Branch> + use<'a> {
        let pointer = self.pointer;
        let entries = self.bytes.chunks_exact(3 * pointer.bytes());
        entries.filter_map(move |entry| {
            let mut fields = Fields::new(entry, pointer);
            Some(Branch { source: fields.pointer()?, target: fields.pointer()? })
        })
    }
}

pub(super) fn branches(mut fields: Fields<'_>) -> Option<Branches<'_>> {
    let event_time = fields.u64()?;
    let (process, thread, filters) = (fields.u32()?, fields.u32()?, fields.u32()?);
    let pointer = fields.pointer_size;
    if pointer == PointerSize::Eight {
        fields.take(4)?;
    }
    Some(Branches { event_time, process, thread, filters, bytes: fields.rest, pointer })
}
