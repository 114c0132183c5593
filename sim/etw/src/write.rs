//! Traces made from events, as a session on Windows would write them: for tests and for modelled
//! machines.
//!
//! Each processor fills a buffer of its own, which goes to the file when it is full. Buffers and
//! events can be lost, as they are when a disk is too slow.

use halprof_etw::PointerSize;
use halprof_etw::buffer::{BufferHeader, HEADER_LENGTH, TYPE_HEADER, flag};
use halprof_etw::bytes::{Layout, Output};
use halprof_etw::clock::ClockType;
use halprof_etw::header::{
    COUNTERS_SHIFT, Full, Manifest, POINTER_32, POINTER_64, PROCESSOR_INDEX, PerfInfo,
    RecordContext, System,
};
use halprof_etw::id::{self, EventId, group};
use halprof_etw::payload::stack::Half;
use halprof_etw::payload::trace::TraceHeader;
use halprof_etw::payload::{Change, EventKind, counters, image, managed, process, thread};
use std::collections::BTreeMap;
use std::io::{self, Seek, SeekFrom, Write};

/// A session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub pointer_size: PointerSize,
    /// The length of its buffers: a multiple of 8, of at least 1024.
    pub buffer_size: u32,
    pub processors: u16,
    pub clock_type: ClockType,
    /// The performance counter's frequency.
    pub perf_freq: u64,
    /// The processors' frequency.
    pub cpu_mhz: u32,
    /// When it began, in ticks of its clock.
    pub origin: i64,
    /// When it began (FILETIME).
    pub start_time: u64,
    pub name: String,
    pub file_name: String,
}

/// One of a 64-bit Windows on one processor, without names.
impl Default for Session {
    fn default() -> Self {
        Self {
            pointer_size: PointerSize::Eight,
            buffer_size: 4096,
            processors: 1,
            clock_type: ClockType::PerformanceCounter,
            perf_freq: 10_000_000,
            cpu_mhz: 3000,
            origin: 0,
            start_time: 133_000_000_000_000_000,
            name: String::new(),
            file_name: String::new(),
        }
    }
}

/// When and where an event was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// In ticks. On one processor it never falls.
    pub time: i64,
    pub processor: u16,
    pub thread: u32,
    pub process: u32,
}

/// Writes a whole trace of ten seconds: events with the counter values attached to each.
pub fn trace<'a>(
    output: impl Write + Seek,
    session: Session,
    events: impl IntoIterator<Item = (Origin, &'a EventKind<'a>, &'a [u64])>,
) -> io::Result<()> {
    let end_time = session.start_time + 10 * FILETIME_SECOND;
    let mut writer = Writer::new(output, session)?;
    for (origin, kind, counters) in events {
        writer.event(origin, kind, counters)?;
    }
    writer.finish(end_time).map(drop)
}

/// The units of FILETIME in a second.
const FILETIME_SECOND: u64 = 10_000_000;

#[derive(Clone, Default)]
struct Buffer {
    /// Without its header.
    bytes: Vec<u8>,
    flags: u16,
    time: i64,
}

/// Writes a trace.
pub struct Writer<W> {
    output: W,
    header: TraceHeader,
    origin: i64,
    buffers: Vec<Buffer>,
    sequence: i64,
    record: Vec<u8>,
}

impl<W: Write + Seek> Writer<W> {
    /// Begins a trace. Its header is written at the end.
    pub fn new(mut output: W, session: Session) -> io::Result<Self> {
        if session.buffer_size < 1024 || !session.buffer_size.is_multiple_of(8) {
            return Err(invalid("a buffer's size must be a multiple of 8, of at least 1024"));
        }
        output.write_all(&vec![0; session.buffer_size as usize])?;
        Ok(Self {
            output,
            origin: session.origin,
            buffers: vec![Buffer::default(); session.processors.into()],
            header: trace_header(session),
            sequence: 1,
            record: Vec::new(),
        })
    }

    /// Writes an event with the counter values that are attached to it, at most 7.
    pub fn event(
        &mut self,
        origin: Origin,
        kind: &EventKind<'_>,
        counters: &[u64],
    ) -> io::Result<()> {
        let mut record = std::mem::take(&mut self.record);
        record.clear();
        let record = usual(record, self.header.pointer(), origin, kind, counters)?;
        let room = self.header.buffer_size as usize - HEADER_LENGTH;
        if record.len() > room {
            return Err(invalid("the event does not fit in a buffer"));
        }
        if self.buffer(origin)?.bytes.len() + record.len() > room {
            self.flush(origin.processor)?;
        }
        let buffer = self.buffer(origin)?;
        buffer.bytes.extend_from_slice(&record);
        buffer.time = origin.time;
        self.record = record;
        Ok(())
    }

    /// Writes a processor's buffer, full or not, unless nothing is in it.
    pub fn flush(&mut self, processor: u16) -> io::Result<()> {
        let Some(buffer) = self.buffers.get_mut(usize::from(processor)) else {
            return Ok(());
        };
        if buffer.bytes.is_empty() {
            return Ok(());
        }
        let used = HEADER_LENGTH + buffer.bytes.len();
        let header = BufferHeader {
            time: buffer.time,
            sequence_number: self.sequence,
            processor,
            flags: flag::PROCESSOR_INDEX | std::mem::take(&mut buffer.flags),
            ..buffer_header(&self.header, used)
        };
        let header = bytes_of(&header);
        self.output.write_all(&header)?;
        self.output.write_all(&buffer.bytes)?;
        let rest = self.header.buffer_size as usize - used;
        self.output.write_all(&vec![0xFF; rest])?;
        buffer.bytes.clear();
        self.sequence += 1;
        self.header.buffers_written += 1;
        Ok(())
    }

    /// Loses a processor's buffer with all that is in it.
    pub fn lose_buffer(&mut self, processor: u16) {
        if let Some(buffer) = self.buffers.get_mut(usize::from(processor)) {
            buffer.bytes.clear();
            buffer.flags |= flag::BUFFER_LOST;
            self.sequence += 1;
            self.header.buffers_lost += 1;
        }
    }

    /// Notes that an event of a processor was lost.
    pub fn lose_event(&mut self, processor: u16) {
        if let Some(buffer) = self.buffers.get_mut(usize::from(processor)) {
            buffer.flags |= flag::EVENTS_LOST;
            self.header.events_lost += 1;
        }
    }

    /// Writes what is left, and the header. The session ended at `end_time` (FILETIME).
    pub fn finish(mut self, end_time: u64) -> io::Result<W> {
        for processor in 0..self.buffers.len() {
            self.flush(processor as u16)?;
        }
        self.header.end_time = end_time;
        let origin = Origin { time: self.origin, processor: 0, thread: 0, process: 0 };
        let mut record = Output { bytes: Vec::new(), pointer_size: self.header.pointer() };
        let kind = EventKind::TraceHeader(Box::new(self.header.clone()));
        let id = EventId::Kernel { group: group::HEADER, opcode: 0, version: 2 };
        encode(&mut record, origin, id, &kind, &[])?;
        let used = HEADER_LENGTH + record.bytes.len();
        if used > self.header.buffer_size as usize {
            return Err(invalid("the session's names do not fit in a buffer"));
        }
        let header = BufferHeader {
            time: self.origin,
            flags: flag::PROCESSOR_INDEX,
            buffer_type: TYPE_HEADER,
            ..buffer_header(&self.header, used)
        };
        self.output.seek(SeekFrom::Start(0))?;
        self.output.write_all(&bytes_of(&header))?;
        self.output.write_all(&record.bytes)?;
        self.output.seek(SeekFrom::End(0))?;
        Ok(self.output)
    }

    fn buffer(&mut self, origin: Origin) -> io::Result<&mut Buffer> {
        let buffer = self.buffers.get_mut(usize::from(origin.processor));
        buffer.ok_or_else(|| invalid("the session has no such processor"))
    }
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// The header of a session on Windows 10 2004 that writes a file, one buffer after the other.
fn trace_header(session: Session) -> TraceHeader {
    TraceHeader {
        buffer_size: session.buffer_size,
        major: 10,
        build: 19041,
        processors: session.processors.into(),
        timer_resolution: 156_250,
        log_file_mode: 1,
        buffers_written: 1,
        start_buffers: 1,
        pointer_size: session.pointer_size.bytes() as u32,
        cpu_mhz: session.cpu_mhz,
        boot_time: session.start_time,
        perf_freq: session.perf_freq,
        start_time: session.start_time,
        clock_type: session.clock_type.number(),
        session_name: session.name,
        file_name: session.file_name,
        ..TraceHeader::default()
    }
}

fn buffer_header(header: &TraceHeader, used: usize) -> BufferHeader {
    let used = used as u32;
    BufferHeader {
        buffer_size: header.buffer_size,
        saved_offset: used,
        current_offset: used,
        logger_id: 1,
        used,
        ..BufferHeader::default()
    }
}

/// A layout without pointers.
fn bytes_of(layout: &impl Layout) -> Vec<u8> {
    let mut output = Output { bytes: Vec::new(), pointer_size: PointerSize::Eight };
    layout.write(&mut output);
    output.bytes
}

/// What an event is, in the newest version each. `None` if it cannot be written.
fn usual_id(kind: &EventKind<'_>) -> Option<EventId> {
    let (group, opcode, version) = match kind {
        EventKind::Sample(_) => (group::PERFINFO, 46, 2),
        EventKind::CounterSample(_) => (group::PERFINFO, 47, 2),
        EventKind::CounterNames(_) => (group::PERFINFO, 48, 2),
        EventKind::Interval(_) => (group::PERFINFO, 73, 3),
        EventKind::Switch(_) => (group::THREAD, 36, 4),
        EventKind::Thread(thread) => (group::THREAD, thread.change.opcode(), 4),
        EventKind::ThreadName(_) => (group::THREAD, 72, 2),
        EventKind::Ready(_) => (group::THREAD, 50, 2),
        EventKind::Stack(_) => (group::STACKWALK, 32, 2),
        EventKind::StackDefinition(_) => (group::STACKWALK, 36, 2),
        EventKind::StackKey(key) => match key.half {
            Half::Kernel => (group::STACKWALK, 37, 2),
            Half::User => (group::STACKWALK, 38, 2),
        },
        EventKind::Process(process) => (group::PROCESS, process.change.opcode(), 4),
        EventKind::Image(image) if image.change == Change::Start => (group::PROCESS, 10, 3),
        EventKind::Image(image) => (group::IMAGE, image.change.opcode(), 3),
        EventKind::LastBranches(_) => {
            return Some(EventId::Classic { guid: id::LAST_BRANCH_RECORD, opcode: 32, version: 2 });
        }
        // Added when traces are merged.
        EventKind::Pdb(_) => {
            return Some(EventId::Classic { guid: id::IMAGE_ID, opcode: 36, version: 2 });
        }
        EventKind::ImageId(_) => {
            return Some(EventId::Classic { guid: id::IMAGE_ID, opcode: 0, version: 2 });
        }
        EventKind::Volume(_) => {
            return Some(EventId::Classic { guid: id::SYSTEM_CONFIG_EX, opcode: 35, version: 0 });
        }
        EventKind::Managed(managed) => {
            let (guid, id) = managed.event()?;
            return Some(EventId::Manifest { guid, id, version: 0 });
        }
        _ => return None,
    };
    Some(EventId::Kernel { group, opcode, version })
}

/// What an event is and says, as it is delivered; `None` if it cannot be written.
pub fn content(kind: &EventKind<'_>, pointer_size: PointerSize) -> Option<(EventId, Vec<u8>)> {
    let id = usual_id(kind)?;
    let mut output = Output { bytes: Vec::new(), pointer_size };
    payload(&mut output, kind);
    Some((id, output.bytes))
}

/// An event as a session delivers it on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SingleEvent {
    /// `EVENT_RECORD` up to its pointers.
    pub record: Vec<u8>,
    /// The payload.
    pub payload: Vec<u8>,
    /// The extended item of counter values.
    pub values: Vec<u8>,
}

/// An event as a session delivers it on its own (evntcons.h, `EVENT_RECORD`): by the class of its group, with
/// its counters beside it; `None` if it cannot be written.
pub fn single(
    origin: Origin,
    kind: &EventKind<'_>,
    counters: &[u64],
    pointer_size: PointerSize,
) -> Option<SingleEvent> {
    let (id, payload) = content(kind, pointer_size)?;
    let EventId::Classic { guid, opcode, version } = id.by_class() else { return None };
    // The kernel's events say who they are of in their payload.
    let named = has_writer(kind);
    let header = Manifest {
        flags: PROCESSOR_INDEX
            | if pointer_size == PointerSize::Eight { POINTER_64 } else { POINTER_32 },
        thread: if named { origin.thread } else { u32::MAX },
        process: if named { origin.process } else { u32::MAX },
        time: origin.time,
        guid,
        version: u8::try_from(version).ok()?,
        opcode,
        ..Manifest::default()
    };
    let context = RecordContext {
        processor: origin.processor,
        item_count: u16::from(!counters.is_empty()),
        payload_length: u16::try_from(payload.len()).ok()?,
        ..RecordContext::default()
    };
    let values = counters.iter().copied().flat_map(u64::to_le_bytes).collect();
    Some(SingleEvent { record: [bytes_of(&header), bytes_of(&context)].concat(), payload, values })
}

/// The events of a session as it hands them over in whole buffers (evntrace.h, `PETW_BUFFER_CALLBACK`): a
/// buffer of a processor when it is full, and at the end.
#[derive(Debug)]
pub struct LiveBuffers {
    header: TraceHeader,
    open: BTreeMap<u16, (Vec<u8>, i64)>,
    full: Vec<Vec<u8>>,
}

impl LiveBuffers {
    /// Nothing of a session yet.
    pub fn new(session: Session) -> Self {
        Self { header: trace_header(session), open: BTreeMap::new(), full: Vec::new() }
    }

    /// Adds an event with the counter values that are attached to it, at most 7.
    pub fn event(
        &mut self,
        origin: Origin,
        kind: &EventKind<'_>,
        counters: &[u64],
    ) -> io::Result<()> {
        let record = usual(Vec::new(), self.header.pointer(), origin, kind, counters)?;
        let room = self.header.buffer_size as usize - HEADER_LENGTH;
        let used = self.open.get(&origin.processor).map_or(0, |(bytes, _)| bytes.len());
        if used + record.len() > room {
            self.close(origin.processor);
        }
        let (bytes, time) = self.open.entry(origin.processor).or_default();
        bytes.extend(record);
        *time = origin.time;
        Ok(())
    }

    fn close(&mut self, processor: u16) {
        let Some((events, time)) = self.open.remove(&processor) else { return };
        let used = HEADER_LENGTH + events.len();
        let header = BufferHeader {
            time,
            processor,
            flags: flag::PROCESSOR_INDEX,
            ..buffer_header(&self.header, used)
        };
        let mut buffer = bytes_of(&header);
        buffer.extend(events);
        buffer.resize(self.header.buffer_size as usize, 0xFF);
        self.full.push(buffer);
    }

    /// A flush: the buffers that are full, and those that are being filled.
    pub fn flush(&mut self) -> Vec<Vec<u8>> {
        let open: Vec<u16> = self.open.keys().copied().collect();
        for processor in open {
            self.close(processor);
        }
        std::mem::take(&mut self.full)
    }
}

/// The flags of every header that the kernel writes.
const FLAGS: u8 = 0xC0;

/// Appends an event under its usual identifier.
fn usual(
    bytes: Vec<u8>,
    pointer_size: PointerSize,
    origin: Origin,
    kind: &EventKind<'_>,
    counters: &[u64],
) -> io::Result<Vec<u8>> {
    let id = usual_id(kind).ok_or_else(|| invalid("this event cannot be written"))?;
    let mut output = Output { bytes, pointer_size };
    encode(&mut output, origin, id, kind, counters)?;
    Ok(output.bytes)
}

/// Appends an event, padded to a multiple of 8.
fn encode(
    output: &mut Output,
    origin: Origin,
    id: EventId,
    kind: &EventKind<'_>,
    counters: &[u64],
) -> io::Result<()> {
    if counters.len() > 7 {
        return Err(invalid("an event has at most 7 counter values"));
    }
    let size_at = header(output, origin, id, has_writer(kind), counters);
    payload(output, kind);
    let size = u16::try_from(output.bytes.len());
    let size = size.map_err(|_| invalid("an event is at most 64 KB long"))?;
    output.bytes[size_at..size_at + 2].copy_from_slice(&size.to_le_bytes());
    output.bytes.resize(output.bytes.len().next_multiple_of(8), 0);
    Ok(())
}

/// Whether the kernel writes it with the thread that wrote it.
const fn has_writer(kind: &EventKind<'_>) -> bool {
    matches!(
        kind,
        EventKind::TraceHeader(_)
            | EventKind::Interval(_)
            | EventKind::Thread(_)
            | EventKind::ThreadName(_)
            | EventKind::Process(_)
            | EventKind::Image(_)
    )
}

/// Appends a header, and returns where its size is.
fn header(
    output: &mut Output,
    origin: Origin,
    id: EventId,
    has_writer: bool,
    counters: &[u64],
) -> usize {
    let Origin { time, thread, process, .. } = origin;
    let is_64 = output.pointer_size == PointerSize::Eight;
    match id {
        EventId::Kernel { group, opcode, version } if has_writer => {
            let header_type = if is_64 { 2 } else { 1 };
            let ids =
                System { version, header_type, flags: FLAGS, opcode, group, ..System::default() };
            System { thread, process, time, ..ids }.write(output);
            4
        }
        EventId::Kernel { group, opcode, version } => {
            let header_type = if is_64 { 17 } else { 16 };
            let word = version | (counters.len() as u16) << COUNTERS_SHIFT;
            PerfInfo { word, header_type, flags: FLAGS, size: 0, opcode, group, time }
                .write(output);
            for value in counters {
                output.u64(value);
            }
            4
        }
        EventId::Classic { guid, opcode, version } => {
            let header_type = if is_64 { 20 } else { 10 };
            let ids = Full { header_type, flags: FLAGS, opcode, version, guid, ..Full::default() };
            Full { thread, process, time, ..ids }.write(output);
            0
        }
        EventId::Manifest { guid, id, version } => {
            let header_type = if is_64 { 19 } else { 18 };
            let pointers = if is_64 { POINTER_64 } else { POINTER_32 };
            Manifest {
                header_type,
                marker: FLAGS,
                flags: pointers,
                thread,
                process,
                time,
                guid,
                id,
                version,
                ..Manifest::default()
            }
            .write(output);
            0
        }
        EventId::Other { .. } => 0,
    }
}

fn payload(output: &mut Output, kind: &EventKind<'_>) {
    match kind {
        EventKind::TraceHeader(header) => header.write(output),
        EventKind::Sample(sample) => sample.write(output),
        EventKind::CounterSample(sample) => sample.write(output),
        EventKind::CounterNames(names) => counters::write_names(names, output),
        EventKind::Interval(interval) => interval.write(output),
        EventKind::Switch(switch) => switch.write(output),
        EventKind::Thread(thread) => thread::write(thread, output),
        EventKind::ThreadName(name) => thread::write_name(name, output),
        EventKind::Ready(ready) => ready.write(output),
        EventKind::Stack(stack) => stack.write(output),
        EventKind::StackKey(key) => key.write(output),
        EventKind::LastBranches(records) => records.write(output),
        EventKind::StackDefinition(definition) => definition.write(output),
        EventKind::Process(process) => process::write(process, output),
        EventKind::Image(image) => image::write(image, output),
        EventKind::Pdb(pdb) => pdb.write(output),
        EventKind::ImageId(id) => id.write(output),
        EventKind::Volume(volume) => volume.write(output),
        EventKind::Managed(managed) => managed::write(managed, output),
        _ => {}
    }
}
