//! The trace itself (evntrace.h, `TRACE_LOGFILE_HEADER`).

use crate::bytes::{Fields, Layout, PointerSize, layout};
use crate::clock::{Clock, ClockType};

/// Buffers are compressed (evntrace.h, `EVENT_TRACE_COMPRESSED_MODE`).
const MODE_COMPRESSED: u32 = 0x0400_0000;

layout! {
    /// The trace's header.
    pub struct TraceHeader {
        /// The length of the session's buffers.
        buffer_size: u32,
        /// The version of Windows.
        major: u8,
        minor: u8,
        sub_version: u8,
        sub_minor: u8,
        /// The build of Windows.
        build: u32,
        processors: u32,
        /// When the session ended (FILETIME); 0 if it never did. Of merged files, not the last
        /// event's.
        end_time: u64,
        /// In units of 100 ns.
        timer_resolution: u32,
        /// In MB.
        max_file_size: u32,
        log_file_mode: u32,
        /// The buffers in the file.
        buffers_written: u32,
        /// Always 1.
        start_buffers: u32,
        /// The length of the system's pointers, in bytes.
        pointer_size: u32,
        events_lost: u32,
        cpu_mhz: u32,
        /// Without meaning in a file, like the next one.
        logger_name: pointer,
        log_file_name: pointer,
        /// When the system started (FILETIME), after the time zone (timezoneapi.h,
        /// `TIME_ZONE_INFORMATION`), which is not read.
        boot_time: u64 after 176,
        /// The performance counter's frequency.
        perf_freq: u64,
        /// When the session began (FILETIME).
        start_time: u64,
        clock_type: u32,
        buffers_lost: u32,
        session_name: utf16,
        file_name: utf16,
    }
}

/// Where the header has its pointer size, on which what follows depends.
const POINTER_SIZE: usize = 44;

impl TraceHeader {
    /// The pointer size of the system.
    pub fn pointer(&self) -> PointerSize {
        PointerSize::from_bytes(self.pointer_size).unwrap_or(PointerSize::Eight)
    }

    /// The clock, if the header's event was written at `time`. `None` if the header contradicts
    /// itself.
    pub fn clock(&self, time: i64) -> Option<Clock> {
        let clock_type = ClockType::from_number(self.clock_type)?;
        let frequency = match clock_type {
            ClockType::ProcessorCycles => u64::from(self.cpu_mhz) * 1_000_000,
            _ => self.perf_freq,
        };
        Clock::new(clock_type, frequency, time)
    }

    /// Whether the file's buffers are compressed.
    pub const fn is_compressed(&self) -> bool {
        self.log_file_mode & MODE_COMPRESSED != 0
    }
}

pub(super) fn header(fields: Fields<'_>) -> Option<TraceHeader> {
    let size = Fields::new(fields.rest.get(POINTER_SIZE..)?, fields.pointer_size).u32()?;
    TraceHeader::read(&mut Fields::new(fields.rest, PointerSize::from_bytes(size)?))
}
