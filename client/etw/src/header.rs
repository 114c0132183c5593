//! The headers of events. Those of classic and manifest events are evntrace.h's
//! `EVENT_TRACE_HEADER` and evntcons.h's `EVENT_HEADER`; those of the kernel's own events
//! (system, compact, perfinfo) are what public readers and real files agree on.

use crate::bytes::{Fields, Layout, PointerSize, layout};
use crate::id::EventId;

/// Set in the flags of every header.
const MARKER: u8 = 0x80;
/// These bits say whether the header belongs to an event with a type (wmistr.h, `TRACE_HEADER_FLAG`,
/// and `EVENT_TRACE`) or to a WPP message, whose third byte is reserved (evntrace.h,
/// `MESSAGE_TRACE_HEADER`).
const KINDS: u8 = 0x50;
const MESSAGE: u8 = 0x10;
/// The bits of a perfinfo header's first word that are its version.
const VERSION: u16 = 0x78FF;
/// The number of counter values that follow a perfinfo header, in its first word.
pub const COUNTERS_SHIFT: u16 = 8;
const COUNTERS: u16 = 7;
/// A PEBS index follows a perfinfo header.
const PEBS: u16 = 0x8000;
/// Extended items follow an event header (evntcons.h, `EVENT_HEADER_FLAG_EXTENDED_INFO`).
const EXTENDED: u16 = 1;
/// The process that wrote an event has pointers of 32 bits (evntcons.h, `EVENT_HEADER_FLAG_32_BIT_HEADER`),
/// or of 64.
pub const POINTER_32: u16 = 0x20;
pub const POINTER_64: u16 = 0x40;
/// An extended item of counter values (evntcons.h, `EVENT_HEADER_EXT_TYPE_PMC_COUNTERS`).
pub const ITEM_COUNTERS: u16 = 8;

layout! {
    /// A kernel event with the thread that wrote it, and that thread's times.
    pub struct System {
        version: u16,
        header_type: u8,
        flags: u8,
        size: u16,
        opcode: u8,
        group: u8,
        thread: u32,
        process: u32,
        time: i64,
        /// The compact header ends before it.
        kernel_time: u32,
        user_time: u32,
    }
}

layout! {
    /// A kernel event, with what classes 8 and 9 of `TraceSetInformation` attach behind it.
    pub struct PerfInfo {
        /// The version, and what is attached.
        word: u16,
        header_type: u8,
        flags: u8,
        size: u16,
        opcode: u8,
        group: u8,
        time: i64,
    }
}

layout! {
    /// A classic event. Of an instance, the class is only a number of the session's, and 24 bytes
    /// more follow.
    pub struct Full {
        size: u16,
        header_type: u8,
        flags: u8,
        opcode: u8,
        level: u8,
        version: u16,
        thread: u32,
        process: u32,
        time: i64,
        guid: guid,
        processor_time: u64,
    }
}

layout! {
    /// A manifest or TraceLogging event (evntcons.h, `EVENT_HEADER`).
    pub struct Manifest {
        size: u16,
        header_type: u8,
        marker: u8,
        flags: u16,
        property: u16,
        thread: u32,
        process: u32,
        time: i64,
        guid: guid,
        id: u16,
        version: u8,
        channel: u8,
        level: u8,
        opcode: u8,
        task: u16,
        keywords: u64,
        processor_time: u64,
        activity: guid,
    }
}

layout! {
    /// What follows the header of an event that a real-time session delivers: `ETW_BUFFER_CONTEXT` and two
    /// lengths (evntcons.h, `EVENT_RECORD`).
    pub struct RecordContext {
        /// With [`PROCESSOR_INDEX`] in the header's flags 16 bits, else 8.
        processor: u16,
        logger: u16,
        item_count: u16,
        payload_length: u16,
    }
}

/// An event as a real-time session delivers it, up to its pointers (evntcons.h, `EVENT_RECORD`, x64).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventRecord {
    /// Its header.
    pub header: Manifest,
    /// Where it was written, and how long it is.
    pub context: RecordContext,
}

/// The processor of an [`EventRecord`] has 16 bits (evntcons.h, `EVENT_HEADER_FLAG_PROCESSOR_INDEX`).
pub const PROCESSOR_INDEX: u16 = 0x200;
/// The length of an [`EventRecord`].
pub const RECORD_LENGTH: usize = 88;

impl EventRecord {
    /// Reads a record up to its pointers; `None` if there are too few bytes.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields::new(bytes, PointerSize::Eight);
        let mut record = Self {
            header: Manifest::read(&mut fields)?,
            context: RecordContext::read(&mut fields)?,
        };
        if record.header.flags & PROCESSOR_INDEX == 0 {
            // The other byte is the alignment.
            record.context.processor &= 0xFF;
        }
        Some(record)
    }
}

/// The layouts of headers, in the type without its pointer size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    System,
    Compact,
    PerfInfo,
    Full,
    Instance,
    Manifest,
    /// Timed, error, wnode or message: only the size is read.
    Skipped,
}

impl Form {
    /// Finds the form from the third and the fourth byte of a header.
    const fn of(header_type: u8, flags: u8) -> Option<Self> {
        if flags & KINDS == MESSAGE { Some(Self::Skipped) } else { Self::from_type(header_type) }
    }

    const fn from_type(header_type: u8) -> Option<Self> {
        match header_type {
            1 | 2 => Some(Self::System),
            3 | 4 => Some(Self::Compact),
            16 | 17 => Some(Self::PerfInfo),
            10 | 20 => Some(Self::Full),
            11 | 21 => Some(Self::Instance),
            18 | 19 => Some(Self::Manifest),
            12..=15 => Some(Self::Skipped),
            _ => None,
        }
    }

    /// The length; where the size, the time and the thread with its process are.
    const fn offsets(self) -> (u16, usize, Option<usize>, Option<usize>) {
        match self {
            Self::System => (32, 4, Some(16), Some(8)),
            Self::Compact => (24, 4, Some(16), Some(8)),
            Self::PerfInfo => (16, 4, Some(8), None),
            Self::Full => (48, 0, Some(16), Some(8)),
            Self::Instance => (72, 0, Some(16), Some(8)),
            Self::Manifest => (80, 0, Some(16), Some(8)),
            Self::Skipped => (8, 0, None, None),
        }
    }

    /// What the event is, of a header that has its length.
    fn id(self, bytes: &[u8]) -> Option<EventId> {
        Some(match self {
            Self::System | Self::Compact | Self::PerfInfo => EventId::Kernel {
                group: bytes[7],
                opcode: bytes[6],
                version: at(bytes, 0).u16()?
                    & if self == Self::PerfInfo { VERSION } else { u16::MAX },
            },
            Self::Full => EventId::Classic {
                guid: at(bytes, 24).guid()?,
                opcode: bytes[4],
                version: at(bytes, 6).u16()?,
            },
            Self::Manifest => EventId::Manifest {
                guid: at(bytes, 24).guid()?,
                id: at(bytes, 40).u16()?,
                version: bytes[42],
            },
            Self::Instance | Self::Skipped => EventId::Other { header: bytes[2] },
        })
    }
}

/// The pointer size in the flags of a manifest event.
const fn pointer(flags: u16) -> Option<PointerSize> {
    match flags & (POINTER_32 | POINTER_64) {
        POINTER_32 => Some(PointerSize::Four),
        POINTER_64 => Some(PointerSize::Eight),
        _ => None,
    }
}

/// The fields from an offset on.
fn at(bytes: &[u8], offset: usize) -> Fields<'_> {
    Fields::new(bytes.get(offset..).unwrap_or_default(), PointerSize::Eight)
}

/// An event's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The layout.
    pub form: Form,
    /// The length of the event, header and payload.
    pub size: u16,
    /// The length of the header with what extends it.
    pub length: u16,
    /// What the event is.
    pub id: EventId,
    /// When it was, in ticks of the trace's clock; skipped headers have none that is read.
    pub time: Option<i64>,
    /// The thread that wrote it and its process, where the header has them.
    pub writer: Option<(u32, u32)>,
    /// The pointer size of the process that wrote it, where the header has it.
    pub pointer: Option<PointerSize>,
    /// The number of counter values that end a perfinfo header.
    counters: u16,
}

/// Why a header is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The bytes end inside the header.
    Short,
    /// The bit that every header has is clear, the layout is unknown, and with it where the size is, or
    /// the size is less than the header's.
    Invalid,
    /// What extends the header reaches beyond the event, which can be skipped.
    Extension {
        /// The event's size.
        size: u16,
    },
}

impl Header {
    /// Reads the header at the front of `bytes`. Its size may exceed them.
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        let &[_, _, header_type, flags, ..] = bytes else {
            return Err(Refusal::Short);
        };
        if flags & MARKER == 0 {
            return Err(Refusal::Invalid);
        }
        let form = Form::of(header_type, flags).ok_or(Refusal::Invalid)?;
        let mut header = Self::fixed(form, bytes).ok_or(Refusal::Short)?;
        if header.size < header.length {
            return Err(Refusal::Invalid);
        }
        let extension = header.extension(bytes);
        let length = extension.and_then(|extension| header.length.checked_add(extension));
        header.length = length
            .filter(|&length| length <= header.size)
            .ok_or(Refusal::Extension { size: header.size })?;
        Ok(header)
    }

    fn fixed(form: Form, bytes: &[u8]) -> Option<Self> {
        let (length, size, time, writer) = form.offsets();
        let bytes = bytes.get(..usize::from(length))?;
        let word = at(bytes, 0).u16()?;
        Some(Self {
            form,
            size: at(bytes, size).u16()?,
            length,
            id: form.id(bytes)?,
            time: time.and_then(|offset| at(bytes, offset).i64()),
            writer: writer
                .and_then(|offset| Some((at(bytes, offset).u32()?, at(bytes, offset + 4).u32()?))),
            pointer: if form == Form::Manifest { pointer(at(bytes, 4).u16()?) } else { None },
            counters: if form == Form::PerfInfo { word >> COUNTERS_SHIFT & COUNTERS } else { 0 },
        })
    }

    /// The length of what extends the header. `None` if it is not whole.
    fn extension(&self, bytes: &[u8]) -> Option<u16> {
        match self.form {
            Form::PerfInfo if at(bytes, 0).u16()? & PEBS != 0 => Some(8 + 8 * self.counters),
            Form::PerfInfo => Some(8 * self.counters),
            Form::Manifest if at(bytes, 4).u16()? & EXTENDED != 0 => {
                let end = bytes.len().min(usize::from(self.size));
                u16::try_from(items_length(bytes.get(80..end)?)?).ok()
            }
            _ => Some(0),
        }
    }

    /// The extended items of the event that this header begins.
    pub fn items<'a>(&self, bytes: &'a [u8]) -> Items<'a> {
        let has_items = self.form == Form::Manifest && self.length > 80;
        let items = bytes.get(80..usize::from(self.length));
        Items(items.filter(|_| has_items).unwrap_or_default())
    }

    /// The counter values that are attached to the event that this header begins.
    pub fn counters<'a>(&self, bytes: &'a [u8]) -> Counters<'a> {
        if self.form == Form::Manifest {
            let item = self.items(bytes).find(|item| item.item_type == ITEM_COUNTERS);
            return Counters(item.map(|item| item.data).unwrap_or_default());
        }
        let end = usize::from(self.length);
        let values = bytes.get(end - 8 * usize::from(self.counters)..end);
        Counters(values.unwrap_or_default())
    }
}

/// The time in the header at the front of `bytes`, of which the first 24 are enough.
pub(crate) fn time(bytes: &[u8]) -> Option<i64> {
    let (_, _, time, _) = Form::of(*bytes.get(2)?, *bytes.get(3)?)?.offsets();
    at(bytes, time?).i64()
}

/// Counter values attached to an event, in the order of the counter configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters<'a>(&'a [u8]);

impl<'a> Counters<'a> {
    /// Values as they are delivered, each of 8 bytes.
    pub const fn of_values(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The values as bytes, each of 8.
    pub const fn bytes(&self) -> &'a [u8] {
        self.0
    }

    /// The values.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u64> + use<'a> {
        let (values, _) = self.0.as_chunks();
        values.iter().map(|value| u64::from_le_bytes(*value))
    }
}

/// An extended item of a manifest event (evntcons.h, `EVENT_HEADER_EXTENDED_DATA_ITEM`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    pub item_type: u16,
    pub data: &'a [u8],
}

/// The extended items of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Items<'a>(&'a [u8]);

impl<'a> Iterator for Items<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        let (item, length, more) = item(self.0)?;
        self.0 = if more { &self.0[length..] } else { &[] };
        Some(item)
    }
}

/// The first item, its length with its padding, and whether another follows.
fn item(bytes: &[u8]) -> Option<(Item<'_>, usize, bool)> {
    let mut fields = Fields::new(bytes, PointerSize::Eight);
    let length = usize::from(fields.u16()?);
    let item_type = fields.u16()?;
    let linkage = fields.u16()?;
    let data_size = usize::from(fields.u16()?);
    let data = fields.take(data_size)?;
    let least = 8 + data_size;
    let length = match length {
        0 => least.next_multiple_of(8),
        length => length,
    };
    let fits = least <= length && length <= bytes.len();
    fits.then_some((Item { item_type, data }, length, linkage & 1 != 0))
}

/// The length of all items, if each is whole.
fn items_length(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let (_, length, more) = item(&bytes[at..])?;
        at += length;
        if !more {
            return Some(at);
        }
    }
}
