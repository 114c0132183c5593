//! A trace: its header, and its events one after the other.

use crate::buffer::{BufferHeader, HEADER_LENGTH, TYPE_HEADER};
use crate::bytes::PointerSize;
use crate::clock::Clock;
use crate::damage::{Cause, Damage, Losses};
use crate::header::{Counters, Header, Items};
use crate::id::EventId;
use crate::merge::{Index, Input, Merge};
use crate::payload::trace::TraceHeader;
use crate::payload::{self, EventKind};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read, Seek};

/// Why a file is no trace that can be read.
#[derive(Debug)]
pub enum Error {
    /// The system could not read it.
    Io(io::Error),
    /// It is no trace, and why not.
    NotATrace(&'static str),
    /// Its buffers are compressed in a way that is not read, by its name.
    Compression(String),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(formatter),
            Self::NotATrace(why) => write!(formatter, "not a trace: {why}"),
            Self::Compression(compression) => write!(
                formatter,
                "the trace is compressed with {compression}, and only XPRESS is read: record it again \
                 without compression, or merge it with compression off"
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event<'a> {
    /// When it was, in ticks of the trace's clock: what stacks name.
    pub time: i64,
    /// When it was, in nanoseconds since the trace began.
    pub ns: i64,
    /// The processor that wrote it.
    pub processor: u16,
    /// The thread that wrote it and its process, where the header has them.
    pub writer: Option<(u32, u32)>,
    /// Whether events of its processor before it are missing: lost, or damaged in the file.
    pub is_after_gap: bool,
    /// The event's identity.
    pub id: EventId,
    /// The values of the counters, where they are attached.
    pub counters: Counters<'a>,
    /// What else its header is extended by.
    pub items: Items<'a>,
    /// The event's content.
    pub kind: EventKind<'a>,
}

/// A trace's file. Its events come in the order of time.
///
/// One buffer for each processor is in memory at a time, and a few words for each buffer of the file.
pub struct Trace<R> {
    input: Input<R>,
    header: TraceHeader,
    clock: Clock,
    merge: Merge,
    losses: Losses,
    unknown: BTreeMap<EventId, u64>,
    buffers: u64,
    events: u64,
}

impl<R: Read + Seek> Trace<R> {
    /// Reads the trace's header and finds the buffers.
    pub fn open(reader: R) -> Result<Self, Error> {
        Self::open_all(vec![reader])
    }

    /// Opens several files as one trace, in the order of time: of sessions that ran in the same boot of
    /// a machine and by the same clock, such as one of the kernel and one of programs.
    pub fn open_all(readers: Vec<R>) -> Result<Self, Error> {
        let mut input = Input::new(readers)?;
        let (mut losses, mut damage) = (Losses::default(), Damage::default());
        let mut index = Index::default();
        let mut first: Option<(TraceHeader, Clock)> = None;
        let mut last_buffers = 0;
        for file in 0..input.count() {
            let (header, clock) = first_event(&mut input, file)?;
            let mut own = Losses {
                events: header.events_lost.into(),
                buffers: header.buffers_lost.into(),
                ..Losses::default()
            };
            let found = (&mut damage, &mut own);
            index.read(&mut input, file, header.is_compressed(), found)?;
            let buffers = index.buffers - std::mem::replace(&mut last_buffers, index.buffers);
            let missing = u64::from(header.buffers_written).saturating_sub(buffers);
            damage.add_many(Cause::MissingBuffers, missing);
            if missing != 0 || own.lost_events() + own.lost_buffers() != 0 {
                own.missing_buffers = std::mem::take(&mut own.unused_numbers);
            }
            losses = losses.sum(own);
            first = Some(match first {
                None => (header, clock),
                Some((known, known_clock)) => {
                    if !known.is_of_same_boot(&header) {
                        return Err(Error::NotATrace("it is of another session"));
                    }
                    // Times count from the earliest.
                    let is_earlier = clock.origin() < known_clock.origin();
                    if is_earlier { (header, clock) } else { (known, known_clock) }
                }
            });
        }
        let (header, clock) = first.ok_or(Error::NotATrace("no file is named"))?;
        let beyond = index.processors().filter(|&number| u32::from(number) >= header.processors);
        damage.add_many(Cause::Processor, beyond.count() as u64);
        let buffers = index.buffers;
        let merge = Merge::new(&mut input, index, clock.origin(), damage)?;
        Ok(Self {
            input,
            header,
            clock,
            merge,
            losses,
            unknown: BTreeMap::new(),
            buffers,
            events: 0,
        })
    }

    /// The next event.
    pub fn next_event(&mut self) -> io::Result<Option<Event<'_>>> {
        let Some((record, damage)) = self.merge.next(&mut self.input)? else {
            return Ok(None);
        };
        self.events += 1;
        let &Header { id, length, writer, pointer, .. } = record.header;
        let payload = &record.bytes[usize::from(length)..];
        let pointer = pointer.unwrap_or(self.header.pointer());
        let kind = payload::decode(id, pointer, payload).unwrap_or_else(|| {
            damage.add(Cause::Payload);
            EventKind::Damaged
        });
        match kind {
            EventKind::Unknown => *self.unknown.entry(id).or_default() += 1,
            EventKind::Lost => self.losses.notices += 1,
            EventKind::Corruption(_) => self.losses.corruptions += 1,
            _ => {}
        }
        Ok(Some(Event {
            time: record.time,
            ns: self.clock.ns(record.time),
            processor: record.processor,
            writer,
            is_after_gap: record.is_after_gap,
            id,
            counters: record.header.counters(record.bytes),
            items: record.header.items(record.bytes),
            kind,
        }))
    }
}

impl<R> Trace<R> {
    /// What the trace says of itself.
    pub const fn header(&self) -> &TraceHeader {
        &self.header
    }

    /// The pointer size of the system that wrote it.
    pub fn pointer_size(&self) -> PointerSize {
        self.header.pointer()
    }

    /// The clock of the events' times.
    pub const fn clock(&self) -> Clock {
        self.clock
    }

    /// The buffers in the file.
    pub const fn buffers(&self) -> u64 {
        self.buffers
    }

    /// The events read so far.
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// What the session lost, as far as the trace was read.
    pub const fn losses(&self) -> Losses {
        self.losses
    }

    /// The damage of the trace, as far as it was read.
    pub const fn damage(&self) -> &Damage {
        self.merge.damage()
    }

    /// How many events of each kind were read whose payload is not known here.
    pub const fn unknown(&self) -> &BTreeMap<EventId, u64> {
        &self.unknown
    }
}

/// The trace's header, which is the first event of a file's first buffer.
fn first_event<R: Read + Seek>(
    input: &mut Input<R>,
    file: usize,
) -> Result<(TraceHeader, Clock), Error> {
    let mut bytes = Vec::new();
    // No header is longer than an event can be.
    input.read(file, 0, HEADER_LENGTH + usize::from(u16::MAX), &mut bytes)?;
    let buffer = BufferHeader::parse(&bytes).ok_or(Error::NotATrace("it is too short"))?;
    let used = bytes.len().min(buffer.used as usize);
    let is_first = buffer.buffer_type == TYPE_HEADER && buffer.has_valid_size();
    let body = bytes.get(HEADER_LENGTH..used).filter(|_| is_first);
    let body = body.ok_or(Error::NotATrace("it does not begin with a buffer's header"))?;
    let (header, clock) = trace_header(body)?;
    let number = buffer.state as u16;
    if header.is_compressed() && number != XPRESS {
        return Err(Error::Compression(compression(number)));
    }
    Ok((header, clock))
}

/// Plain LZ77 of the Xpress Compression Algorithm: how buffers are compressed that are read (the state
/// of the first buffer's header, where the log file mode has `EVENT_TRACE_COMPRESSED_MODE`).
const XPRESS: u16 = 3;

fn compression(number: u16) -> String {
    match number {
        2 => "LZNT1".to_owned(),
        4 => "XPRESS Huffman".to_owned(),
        _ => format!("number {number}"),
    }
}

fn trace_header(body: &[u8]) -> Result<(TraceHeader, Clock), Error> {
    const NO_HEADER: Error = Error::NotATrace("its first event is not a trace header");
    let event = Header::parse(body).map_err(|_| NO_HEADER)?;
    let payload = body.get(usize::from(event.length)..usize::from(event.size));
    // The pointer size is the header's own.
    let decoded =
        payload.and_then(|payload| payload::decode(event.id, PointerSize::Eight, payload));
    let Some(EventKind::TraceHeader(header)) = decoded else {
        return Err(NO_HEADER);
    };
    let clock = event.time.and_then(|time| header.clock(time));
    let clock = clock.ok_or(Error::NotATrace("its clock is unknown or has no frequency"))?;
    Ok((*header, clock))
}
