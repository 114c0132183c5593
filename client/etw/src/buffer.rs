//! A buffer: its header (`WMI_BUFFER_HEADER`; its public part is evntrace.h's `ETW_BUFFER_HEADER`), and the
//! events in it.

use crate::bytes::{Fields, Layout, PointerSize, layout};
use crate::damage::Cause;
use crate::header::{Header, Refusal};

/// The header's length; the first event follows it.
pub const HEADER_LENGTH: usize = 72;
/// The largest buffer that a session can have: 16 MB (evntrace.h, `EVENT_TRACE_PROPERTIES`,
/// `BufferSize`).
pub const MOST: u32 = 16 << 20;

/// Flags of a buffer.
pub mod flag {
    /// Events were lost before this buffer.
    pub const EVENTS_LOST: u16 = 2;
    /// A buffer was lost before this one.
    pub const BUFFER_LOST: u16 = 4;
    /// The processor has 16 bits; without it, as on Windows 7, 8.
    pub const PROCESSOR_INDEX: u16 = 0x20;
    /// What follows the header is compressed.
    pub const COMPRESSED: u16 = 0x40;
}

/// The type of the first buffer of a file, which has the trace header.
pub const TYPE_HEADER: u16 = 4;

layout! {
    /// A buffer's header.
    pub struct BufferHeader {
        /// The distance to the next buffer; of a compressed one, its length on disk.
        buffer_size: u32,
        /// What was used when it was saved; wrong in the first buffer of some files.
        saved_offset: u32,
        /// Without meaning in a file.
        current_offset: u32,
        /// References at the time of writing.
        reference_count: i32,
        /// When it was written.
        time: i64,
        /// Counts a session's buffers as processors take them.
        sequence_number: i64,
        /// A clock word.
        clock: u64,
        /// The processor whose events it has.
        processor: u16,
        /// The session's number.
        logger_id: u16,
        /// The state; in the first buffer's low half the compression.
        state: u32,
        /// The bytes used, this header included; of a compressed buffer once it is decompressed.
        used: u32,
        /// See [`flag`].
        flags: u16,
        /// The type.
        buffer_type: u16,
        /// The wall clock at the start; in the first buffer.
        start_time: u64,
        /// The performance counter at the start; in the first buffer.
        start_perf_clock: u64,
    }
}

impl BufferHeader {
    /// Reads a header; `None` if there are too few bytes.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut header = Self::read(&mut Fields::new(bytes, PointerSize::Eight))?;
        if header.flags & flag::PROCESSOR_INDEX == 0 {
            // The other byte is the alignment.
            header.processor &= 0xFF;
        }
        Some(header)
    }

    /// Whether the buffer is compressed.
    pub const fn is_compressed(&self) -> bool {
        self.flags & flag::COMPRESSED != 0
    }

    /// Whether the next buffer can be found by this one's size.
    pub const fn has_valid_size(&self) -> bool {
        self.buffer_size as usize >= HEADER_LENGTH && self.buffer_size <= MOST
    }

    /// Whether the used bytes can be what the buffer has.
    pub const fn has_valid_use(&self) -> bool {
        let most = if self.is_compressed() { MOST } else { self.buffer_size };
        self.used as usize >= HEADER_LENGTH && self.used <= most
    }
}

/// A buffer in memory, as a real-time session hands it over (evntrace.h, `PETW_BUFFER_CALLBACK`).
#[derive(Clone, Debug)]
pub struct Buffer<'a> {
    /// Its header.
    pub header: BufferHeader,
    events: &'a [u8],
}

/// An event in a buffer.
#[derive(Clone, Copy, Debug)]
pub struct BufferEvent<'a> {
    /// Its header.
    pub header: Header,
    /// The values of the counters that are attached to it, each of 8 bytes.
    pub values: &'a [u8],
    /// Its payload.
    pub payload: &'a [u8],
}

impl<'a> Buffer<'a> {
    /// Reads a buffer that is not compressed: Windows compresses buffers of files only.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Cause> {
        let header = BufferHeader::parse(bytes).ok_or(Cause::CutBuffer)?;
        if header.is_compressed() {
            return Err(Cause::CompressedBuffer);
        }
        let events = bytes.get(HEADER_LENGTH..header.used as usize).ok_or(Cause::BufferUse)?;
        Ok(Self { header, events })
    }

    /// Whether events of its processor are missing before it.
    pub const fn is_after_loss(&self) -> bool {
        self.header.flags & (flag::EVENTS_LOST | flag::BUFFER_LOST) != 0
    }

    /// Its events, in their order, and what cannot be read of them.
    pub fn events(&self) -> impl Iterator<Item = Result<BufferEvent<'a>, Cause>> + use<'a> {
        let (bytes, mut at) = (self.events, 0);
        std::iter::from_fn(move || match step(bytes, at) {
            Step::Event { header, next } => {
                let event = &bytes[at..at + usize::from(header.size)];
                at = next;
                let payload = &event[usize::from(header.length)..];
                Some(Ok(BufferEvent { header, values: header.counters(event).bytes(), payload }))
            }
            Step::Skipped { cause, next } => {
                at = next;
                Some(Err(cause))
            }
            Step::Refused(cause) => {
                at = bytes.len();
                Some(Err(cause))
            }
            Step::End => None,
        })
    }
}

/// What follows in the events of a buffer.
pub(crate) enum Step {
    /// An event, and where the next one begins.
    Event { header: Header, next: usize },
    /// An event that cannot be read, and where the next one begins.
    Skipped { cause: Cause, next: usize },
    /// What follows is no event, so nobody knows where the next one begins.
    Refused(Cause),
    /// Nothing.
    End,
}

/// Reads what begins at a place.
pub(crate) fn step(events: &[u8], at: usize) -> Step {
    let Some(rest) = events.get(at..).filter(|rest| !is_end(rest)) else {
        return Step::End;
    };
    match Header::parse(rest) {
        Ok(header) if usize::from(header.size) <= rest.len() => {
            Step::Event { header, next: at + padded(header.size) }
        }
        Ok(_) => Step::Refused(Cause::EventSize),
        Err(Refusal::Extension { size }) => {
            Step::Skipped { cause: Cause::HeaderExtension, next: at + padded(size) }
        }
        Err(_) => Step::Refused(Cause::EventHeader),
    }
}

/// Whether no event follows: the rest is too short for one, or marked as unused.
fn is_end(rest: &[u8]) -> bool {
    rest.first_chunk().is_none_or(|first| *first == [0xFF; 4])
}

/// Events begin at multiples of 8.
fn padded(size: u16) -> usize {
    (usize::from(size) + 7) & !7
}
