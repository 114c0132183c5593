//! The bytes that Windows takes and gives (evntrace.h, x64), and the numbers in them.

use super::TraceRequest;
use halprof_etw::clock::ClockType;
use serde::{Deserialize, Serialize};
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// The name of the session. There is one at a time.
pub const SESSION_NAME: &str = "halprof-etw";

/// The session's own identifier. It never changes: an administrator may grant it to others
/// (EventAccessControl).
pub const SESSION_GUID: u128 = 0x67c19e5b_a42d_4e1f_9370_0c58e2b641dd;
const SESSION_GUID_BYTES: [u8; 16] = halprof_etw::Guid(SESSION_GUID).to_bytes();

/// The length of a name in the properties, with its zero.
pub const NAME_UNITS: usize = 1024;
/// The size of EVENT_TRACE_PROPERTIES, which both names follow.
pub const HEADER_BYTES: usize = offset_of!(Properties, logger_name);

/// WNODE_FLAG_TRACED_GUID.
const TRACED_GUID: u32 = 0x2_0000;
/// EVENT_TRACE_FILE_MODE_SEQUENTIAL: the session ends when its file is full.
const FILE_SEQUENTIAL: u32 = 0x1;
/// EVENT_TRACE_SYSTEM_LOGGER_MODE: the kernel's events, from Windows 8 on.
const SYSTEM_LOGGER: u32 = 0x0200_0000;
/// EVENT_TRACE_REAL_TIME_MODE: buffers are delivered to a consumer.
const REAL_TIME: u32 = 0x100;
/// The seconds after which the buffers of a real-time session are delivered: the fewest that the
/// documents have. A program that needs them earlier flushes.
const DELIVER_SECONDS: u32 = 1;
/// Seconds after which Windows writes a whole buffer, however little is in it; 0 writes buffers
/// when they are full. That is enough, because nobody reads the file before the session has ended.
const FLUSH_SECONDS: u32 = 0;

/// The size of a buffer. Samples and switches are written where the kernel cannot allocate a
/// buffer, so all buffers exist from the start; many small ones waste less than few large ones.
const BUFFER_KB: u32 = 64;
const BUFFERS_PER_PROCESSOR: u32 = 32;
/// Windows wants at least two for each processor; Microsoft's one-collect takes 4 to 32, as here.
const FEWEST_PER_PROCESSOR: u32 = 4;
/// 256 MB of buffers, unless that would be fewer than FEWEST_PER_PROCESSOR: buffers are never paged
/// out.
const BUFFERS_MAX: u32 = 4096;

/// EVENT_TRACE_PROPERTIES and both names. Windows overwrites it at each call.
#[derive(Clone, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
#[expect(missing_docs, reason = "the fields of evntrace.h")]
pub struct Properties {
    pub buffer_size: u32,
    pub provider_id: u32,
    pub historical_context: u64,
    pub time_stamp: u64,
    pub guid: [u8; 16],
    pub client_context: u32,
    pub flags: u32,
    pub buffer_kb: u32,
    pub minimum_buffers: u32,
    pub maximum_buffers: u32,
    pub maximum_file_mb: u32,
    pub log_file_mode: u32,
    pub flush_timer: u32,
    pub enable_flags: u32,
    pub age_limit: u32,
    pub number_of_buffers: u32,
    pub free_buffers: u32,
    pub events_lost: u32,
    pub buffers_written: u32,
    pub log_buffers_lost: u32,
    pub real_time_buffers_lost: u32,
    pub logger_thread_id: u64,
    pub log_file_name_offset: u32,
    pub logger_name_offset: u32,
    pub logger_name: [u16; NAME_UNITS],
    pub log_file_name: [u16; NAME_UNITS],
}

impl Properties {
    /// The properties by which the session is found, with room for its state.
    pub fn named() -> Self {
        let mut properties = Self::new_zeroed();
        properties.buffer_size = size_of::<Self>() as u32;
        properties.guid = SESSION_GUID_BYTES;
        properties.flags = TRACED_GUID;
        properties.log_file_name_offset = offset_of!(Self, log_file_name) as u32;
        properties.logger_name_offset = offset_of!(Self, logger_name) as u32;
        copy_name(SESSION_NAME, &mut properties.logger_name);
        properties
    }

    /// The properties of a session that traces what is requested into a file of at most this many
    /// megabytes; `None` if the path is too long, or not valid Unicode.
    pub fn into_file(
        file: &Path,
        megabytes: u32,
        processors: u32,
        request: &TraceRequest,
    ) -> Option<Self> {
        let is_quiet = request.sampled.is_empty() && request.counted.is_empty();
        let mut properties = Self::with_buffers(processors, is_quiet);
        properties.client_context = request.clock.number();
        properties.maximum_file_mb = megabytes;
        properties.log_file_mode = FILE_SEQUENTIAL | SYSTEM_LOGGER;
        properties.flush_timer = FLUSH_SECONDS;
        copy_name(file.to_str()?, &mut properties.log_file_name).then_some(properties)
    }

    /// The properties of a session whose events are delivered while it runs.
    pub fn real_time(processors: u32) -> Self {
        let mut properties = Self::with_buffers(processors, false);
        properties.client_context = ClockType::PerformanceCounter.number();
        properties.log_file_mode = REAL_TIME | SYSTEM_LOGGER;
        properties.flush_timer = DELIVER_SECONDS;
        // "Set to zero" where no file is written.
        properties.log_file_name_offset = 0;
        properties
    }

    fn with_buffers(processors: u32, is_quiet: bool) -> Self {
        let mut properties = Self::named();
        let fewest = processors.saturating_mul(FEWEST_PER_PROCESSOR);
        let many = processors.saturating_mul(BUFFERS_PER_PROCESSOR).min(BUFFERS_MAX).max(fewest);
        let buffers = if is_quiet { fewest } else { many };
        properties.buffer_kb = BUFFER_KB;
        properties.minimum_buffers = buffers;
        properties.maximum_buffers = buffers.saturating_mul(2);
        properties
    }

    /// Whether this session is halprof's, by its GUID.
    pub fn is_ours(&self) -> bool {
        self.guid == SESSION_GUID_BYTES
    }

    /// Whether its events are delivered, and not written to a file.
    pub const fn is_real_time(&self) -> bool {
        self.log_file_mode & REAL_TIME != 0
    }

    /// What it has lost: events and buffers.
    pub fn lost(&self) -> u64 {
        [self.events_lost, self.log_buffers_lost, self.real_time_buffers_lost]
            .into_iter()
            .map(u64::from)
            .sum()
    }

    /// The session's file.
    pub fn file(&self) -> PathBuf {
        let length = self.log_file_name.iter().position(|&unit| unit == 0);
        let name = self.log_file_name.get(..length.unwrap_or(NAME_UNITS)).unwrap_or_default();
        String::from_utf16_lossy(name).into()
    }

    /// The bytes written to the file.
    pub fn bytes(&self) -> u64 {
        u64::from(self.buffers_written) * (u64::from(self.buffer_kb) << 10)
    }
}

/// Copies a name with a zero at its end; returns whether it fits.
fn copy_name(name: &str, field: &mut [u16; NAME_UNITS]) -> bool {
    let units: Vec<u16> = name.encode_utf16().collect();
    let fits = units.len() < NAME_UNITS;
    for (target, unit) in field.iter_mut().zip(units.iter().take(NAME_UNITS - 1)) {
        *target = *unit;
    }
    fits
}

/// CLASSIC_EVENT_ID: an event by the GUID of its class and its type.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct ClassicEventId {
    guid: [u8; 16],
    kind: u8,
    reserved: [u8; 7],
}

const fn event(guid: u128, kind: u8) -> ClassicEventId {
    ClassicEventId { guid: halprof_etw::Guid(guid).to_bytes(), kind, reserved: [0; 7] }
}

const PERF_INFO: u128 = 0xce1dbfb4_137e_4da6_87b0_3f59aa102cbc;
const THREAD: u128 = 0x3d6fa8d1_fe05_11d0_9dda_00c04fd7ba7c;

/// The samples that have stacks: of the timer and of counters. Each needs to be named, because the
/// first alone gives no stacks to the second.
pub(super) const STACKS: [ClassicEventId; 2] = [event(PERF_INFO, 46), event(PERF_INFO, 47)];
/// The same, with context switches and ReadyThread.
pub(super) const STACKS_OF_WAITS: [ClassicEventId; 4] =
    [STACKS[0], STACKS[1], event(THREAD, 36), event(THREAD, 50)];
/// The events that carry counts: context switches.
pub(super) const COUNTED: [ClassicEventId; 1] = [event(THREAD, 36)];

/// The samples that have branches before them, by their hook ids: group 15, then the type. Other
/// events can have them too, and context switches must not: the records are then those of the thread
/// before (microsoft/perfview, issue 2288).
pub(super) fn branched(timer: bool, counters: bool) -> Vec<u32> {
    let hooks = [(timer, 0x0F2E), (counters, 0x0F2F)];
    hooks.into_iter().filter_map(|(sampled, hook)| sampled.then_some(hook)).collect()
}

/// TRACE_PROFILE_INTERVAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable, Serialize, Deserialize)]
#[repr(C)]
pub(super) struct ProfileInterval {
    pub(super) source: u32,
    pub(super) interval: u32,
}

/// The groups of kernel events in the words of the mask: EnableFlags in word 0, and the PERF
/// groups, whose highest three bits are the index of their word.
///
/// `EVENT_TRACE_FLAG_NO_SYSCONFIG` leaves out what describes the machine: devices, services, disks.
const NO_CONFIGURATION: [u32; 8] = [0x1000_0000, 0, 0, 0, 0, 0, 0, 0];
const PROCESSES_THREADS_IMAGES: [u32; 8] = [0x7, 0, 0, 0, 0, 0, 0, 0];
const TIMER_SAMPLES: [u32; 8] = [0x0100_0000, 0x2, 0, 0, 0, 0, 0, 0];
const COUNTER_SAMPLES: [u32; 8] = [0, 0x400, 0, 0, 0, 0, 0, 0];
const SWITCHES: [u32; 8] = [0x10, 0x4, 0, 0, 0, 0, 0, 0];
/// ReadyThread (`EVENT_TRACE_FLAG_DISPATCHER`).
const WAKINGS: [u32; 8] = [0x800, 0x200, 0, 0, 0, 0, 0, 0];

/// The mask of what a session traces that samples the timer, counters or both.
pub(super) fn mask(timer: bool, counters: bool, request: &TraceRequest) -> [u32; 8] {
    let groups = [
        (true, NO_CONFIGURATION),
        (true, PROCESSES_THREADS_IMAGES),
        (timer, TIMER_SAMPLES),
        (counters, COUNTER_SAMPLES),
        (request.waits || !request.counted.is_empty(), SWITCHES),
        (request.waits, WAKINGS),
    ];
    union(groups.into_iter().filter_map(|(traced, group)| traced.then_some(group)))
}

/// The mask of a session that has context switches and nothing else: no thread is to be named, and
/// no rundown is to be delivered.
pub(super) fn mask_of_switches() -> [u32; 8] {
    union([NO_CONFIGURATION, SWITCHES])
}

fn union(groups: impl IntoIterator<Item = [u32; 8]>) -> [u32; 8] {
    let mut mask = [0; 8];
    for group in groups {
        for (word, bits) in mask.iter_mut().zip(group) {
            *word |= bits;
        }
    }
    mask
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting() -> TraceRequest {
        TraceRequest { counted: vec![2], ..TraceRequest::default() }
    }

    #[test]
    fn properties_are_as_evntrace_h_lays_them_out() {
        let file = Path::new(r"C:\Windows\System32\LogFiles\halprof\session.etl");
        let properties = Properties::into_file(file, 4096, 8, &counting()).expect("it fits");
        let bytes = properties.as_bytes();
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let fields = [0, 40, 44, 48, 52, 56, 60, 64, 68, 72, 112, 116].map(|at| (at, word(at)));
        assert_eq!(
            fields,
            [
                (0, 120 + 4096),
                (40, 1),
                (44, 0x20000),
                (48, 64),
                (52, 256),
                (56, 512),
                (60, 4096),
                (64, 0x0200_0001),
                (68, 0),
                (72, 0),
                (112, 120 + 2048),
                (116, 120),
            ]
        );
        assert_eq!(HEADER_BYTES, 120);
        let name = |at: usize, text: &str| {
            let units = text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes);
            bytes[at..].starts_with(&units.collect::<Vec<u8>>())
        };
        assert!(name(120, SESSION_NAME) && name(120 + 2048, file.to_str().expect("UTF-8")));
    }

    #[test]
    fn buffers_suffice_for_each_processor_and_are_no_more_than_needed() {
        let buffers = |processors| {
            [counting(), TraceRequest::default()].map(|request| {
                let properties = Properties::into_file(Path::new("a.etl"), 1, processors, &request);
                properties.expect("it fits").minimum_buffers
            })
        };
        let expected = [[32, 4], [2048, 256], [4096, 512], [8192, 8192]];
        assert_eq!([1, 64, 128, 2048].map(buffers), expected);
        let long = "x".repeat(NAME_UNITS);
        assert!(Properties::into_file(Path::new(&long), 1, 1, &counting()).is_none());
    }

    #[test]
    fn events_are_the_classic_ones() {
        let [timer, counter] = STACKS.map(|id| id.as_bytes().to_vec());
        // {ce1dbfb4-137e-4da6-87b0-3f59aa102cbc}, in memory order.
        let perf_info = [
            0xB4, 0xBF, 0x1D, 0xCE, 0x7E, 0x13, 0xA6, 0x4D, 0x87, 0xB0, 0x3F, 0x59, 0xAA, 0x10,
            0x2C, 0xBC,
        ];
        assert_eq!((timer.len(), &timer[..16], timer[16]), (24, &perf_info[..], 46));
        assert_eq!((&counter[..16], counter[16]), (&perf_info[..], 47));
        assert_eq!(COUNTED[0].as_bytes()[..4], [0xD1, 0xA8, 0x6F, 0x3D]);
        let [.., switch, ready] = STACKS_OF_WAITS.map(|id| id.as_bytes().to_vec());
        assert_eq!((&switch[..16], switch[16]), (&COUNTED[0].as_bytes()[..16], 36));
        assert_eq!((&ready[..16], ready[16]), (&COUNTED[0].as_bytes()[..16], 50));
        assert_eq!((COUNTED[0].as_bytes()[16], COUNTED[0].as_bytes()[17]), (36, 0));
    }

    #[test]
    fn a_mask_has_the_words_that_a_session_with_counters_showed() {
        // The header event of such a session: 0xF, 0x406, with disk events and more beside.
        let nothing = TraceRequest::default();
        assert_eq!(mask(true, true, &counting())[..2], [0x1100_0017, 0x406]);
        assert_eq!(mask(false, true, &nothing)[..3], [0x1000_0007, 0x400, 0]);
        assert_eq!(mask(false, false, &counting())[..2], [0x1000_0017, 4]);
        let waits = TraceRequest { waits: true, ..nothing };
        assert_eq!(mask(true, false, &waits)[..2], [0x1100_0817, 0x206]);
    }
}
