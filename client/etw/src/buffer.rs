//! A buffer's header (`WMI_BUFFER_HEADER`; its public part is evntrace.h's `ETW_BUFFER_HEADER`).

use crate::bytes::{Fields, Layout, PointerSize, layout};

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
