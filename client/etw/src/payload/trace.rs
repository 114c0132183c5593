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

/// The units of a FILETIME in a second.
const FILETIME_SECOND: u64 = 10_000_000;

/// How long after the end of a session another begins that belongs to it: 10 seconds.
const LONGEST_PAUSE: u64 = 10 * FILETIME_SECOND;

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

    /// Whether another trace was made in the same boot of a machine, by the same clock: then the times
    /// of both are one order. The boot's time is corrected as the clock on the wall is.
    pub fn is_of_same_boot(&self, other: &Self) -> bool {
        let fixed = |header: &Self| {
            (header.clock_type, header.perf_freq, header.pointer_size, header.processors)
        };
        fixed(self) == fixed(other) && self.boot_time.abs_diff(other.boot_time) < FILETIME_SECOND
    }

    /// Whether another trace was made in the same boot, and at the same time or within seconds: by
    /// sessions of programs, of the kernel, and for what runtimes name at the end.
    pub fn is_of_same_session(&self, other: &Self) -> bool {
        let end = |header: &Self| header.end_time.max(header.start_time);
        let pause = self.start_time.max(other.start_time).saturating_sub(end(self).min(end(other)));
        self.is_of_same_boot(other) && pause <= LONGEST_PAUSE
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
