//! The damage of a trace and the losses of its session, as values beside what could be read.

use std::collections::BTreeMap;
use std::fmt;

/// Why something could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The file ends inside a buffer. What is there of it was read.
    CutBuffer,
    /// A buffer's size is impossible, so that the next cannot be found: what follows is not read.
    BufferSize,
    /// The rest of the file is empty: it was copied while its session ran, which had its room reserved
    /// (evntrace.h, `EVENT_TRACE_FILE_MODE_PREALLOCATE`).
    NotClosed,
    /// A buffer says that more is used than it has. It is left out.
    BufferUse,
    /// A buffer is compressed in a file that is not. It is left out.
    CompressedBuffer,
    /// A compressed buffer could be decompressed only in part.
    Decompression,
    /// Buffers would be decompressed to more than the file justifies. The buffer is left out.
    Expansion,
    /// The header of an event is not one. The rest of its buffer is left out.
    EventHeader,
    /// An event reaches beyond its buffer. The rest of the buffer is left out.
    EventSize,
    /// What extends an event's header reaches beyond the event, which is left out.
    HeaderExtension,
    /// An event is too short for what it is, or contradicts itself. It is left out.
    Payload,
    /// An event is older than the one before it on its processor.
    TimeBackwards,
    /// An event is older than the trace, or later than its buffer was written.
    TimeOutside,
    /// A processor's number is beyond those that the trace header has.
    Processor,
    /// The trace header counts more buffers than the file has.
    MissingBuffers,
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::CutBuffer => "the file ends inside a buffer",
            Self::BufferSize => "a buffer's size is impossible; nothing after it was read",
            Self::NotClosed => "the file was copied before its session had closed it",
            Self::BufferUse => "a buffer uses more bytes than it has",
            Self::CompressedBuffer => "a buffer is compressed although the trace is not",
            Self::Decompression => "a compressed buffer is damaged",
            Self::Expansion => "a buffer decompresses to more than its file justifies",
            Self::EventHeader => "an event's header is damaged",
            Self::EventSize => "an event reaches beyond its buffer",
            Self::HeaderExtension => "an event's header reaches beyond the event",
            Self::Payload => "an event is too short or contradicts itself",
            Self::TimeBackwards => "an event is older than the one before it on its processor",
            Self::TimeOutside => "an event is older than the trace, or later than its buffer",
            Self::Processor => "a processor's number is beyond those that the trace names",
            Self::MissingBuffers => "the trace counts more buffers than the file has",
        })
    }
}

/// The damage of a trace, by cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    counts: BTreeMap<Cause, u64>,
}

impl Damage {
    pub(crate) fn add(&mut self, cause: Cause) {
        self.add_many(cause, 1);
    }

    pub(crate) fn add_many(&mut self, cause: Cause, count: u64) {
        if count > 0 {
            *self.counts.entry(cause).or_default() += count;
        }
    }

    /// Counts something that whoever decodes payloads by himself has found.
    pub fn found(&mut self, cause: Cause) {
        self.add(cause);
    }

    /// Whether all could be read.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// How often something was found.
    pub fn count(&self, cause: Cause) -> u64 {
        self.counts.get(&cause).copied().unwrap_or(0)
    }

    /// The causes, each with its count.
    pub fn counts(&self) -> impl Iterator<Item = (Cause, u64)> {
        self.counts.iter().map(|(&cause, &count)| (cause, count))
    }
}

/// What a session lost, by what says so. Any of them makes counts lower bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Events, by the trace header.
    pub events: u64,
    /// Buffers, by the trace header.
    pub buffers: u64,
    /// Buffers before which events were lost, by their flags.
    pub buffers_after_lost_events: u64,
    /// Buffers before which a buffer was lost, by their flags.
    pub buffers_after_lost_buffers: u64,
    /// Numbers missing in the sequence of buffers, where anything else says that something was lost or
    /// that buffers are missing.
    pub missing_buffers: u64,
    /// Numbers missing in the sequence of buffers, where nothing else does. A buffer gets its number when
    /// a processor takes it, and one in which nothing is written is not in the file: no loss.
    pub unused_numbers: u64,
    /// Events that say that a real-time session lost something.
    pub notices: u64,
    /// Events that say that counters were changed by somebody else.
    pub corruptions: u64,
}

impl Losses {
    /// What two files lack together.
    pub(crate) const fn sum(self, other: Self) -> Self {
        Self {
            events: self.events.saturating_add(other.events),
            buffers: self.buffers.saturating_add(other.buffers),
            buffers_after_lost_events: self
                .buffers_after_lost_events
                .saturating_add(other.buffers_after_lost_events),
            buffers_after_lost_buffers: self
                .buffers_after_lost_buffers
                .saturating_add(other.buffers_after_lost_buffers),
            missing_buffers: self.missing_buffers.saturating_add(other.missing_buffers),
            unused_numbers: self.unused_numbers.saturating_add(other.unused_numbers),
            notices: self.notices.saturating_add(other.notices),
            corruptions: self.corruptions.saturating_add(other.corruptions),
        }
    }

    /// At least so many events were lost, besides those in lost buffers.
    pub const fn lost_events(&self) -> u64 {
        max(max(self.events, self.buffers_after_lost_events), self.notices)
    }

    /// At least so many buffers were lost, with all events in them.
    pub const fn lost_buffers(&self) -> u64 {
        max(max(self.buffers, self.buffers_after_lost_buffers), self.missing_buffers)
    }
}

const fn max(a: u64, b: u64) -> u64 {
    if a > b { a } else { b }
}
