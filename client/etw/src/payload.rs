//! Payloads: what an event says, by what it is.
//!
//! Layouts depend on the version and on the pointer size of the trace's system. They are those of
//! the MOF classes that Microsoft documents ("NT Kernel Logger Constants" and the classes below it),
//! completed by what public readers and real files agree on where no class is documented
//! (configuration of counters, stack keys, image identities, branch records). Fields have the names of
//! those classes.

pub mod branches;
pub mod counters;
pub mod image;
pub mod managed;
pub mod process;
pub mod processor;
pub mod stack;
pub mod thread;
pub mod trace;
pub mod volume;

use crate::bytes::{Fields, Layout, PointerSize};
use crate::id::{self, EventId, Guid, group};

/// What an event says.
#[derive(Clone, Debug, PartialEq)]
pub enum EventKind<'a> {
    /// The first event of a file.
    TraceHeader(Box<trace::TraceHeader>),
    /// All that existed when the session began has been listed.
    RundownComplete,
    Sample(processor::Sample),
    CounterSample(processor::CounterSample),
    Switch(processor::Switch),
    Stack(stack::Stack<'a>),
    StackKey(stack::StackKey),
    StackDefinition(stack::StackDefinition<'a>),
    LastBranches(branches::LastBranches<'a>),
    Process(Box<process::Process>),
    Thread(Box<thread::Thread>),
    ThreadName(Box<thread::ThreadName>),
    Ready(thread::Ready),
    Image(Box<image::Image>),
    ImageId(Box<image::ImageId>),
    Pdb(Box<image::Pdb>),
    Volume(Box<volume::Volume>),
    CounterNames(counters::CounterNames),
    Corruption(counters::Corruption),
    Interval(Box<counters::Interval>),
    Managed(Box<managed::Managed>),
    /// A real-time session lost events (opcode 32), buffers (33) or its file (34).
    Lost,
    /// Something that is not read here.
    Unknown,
    /// An event whose payload is shorter than its layout, or contradicts itself.
    Damaged,
}

/// Reads the payload of an event. `None` if it is shorter than its layout, or contradicts itself.
/// `pointer` is that of the event's header, where it has one, else the trace's.
pub fn decode(id: EventId, pointer: PointerSize, payload: &[u8]) -> Option<EventKind<'_>> {
    let fields = Fields::new(payload, pointer);
    match id.normalized() {
        EventId::Kernel { group, opcode, version } => kernel(group, opcode, version, fields),
        EventId::Classic { guid, opcode, version } => classic(guid, opcode, version, fields),
        // A program's own event says nothing of whether the kernel's trace is whole.
        EventId::Manifest { guid, id, .. } => Some(
            managed::managed(guid, id, fields)
                .map_or(EventKind::Unknown, |managed| EventKind::Managed(Box::new(managed))),
        ),
        EventId::Other { .. } => Some(EventKind::Unknown),
    }
}

/// A layout on its own.
fn plain<T: Layout>(mut fields: Fields<'_>) -> Option<T> {
    T::read(&mut fields)
}

/// A layout that is rare and large.
fn boxed<T: Layout>(fields: Fields<'_>) -> Option<Box<T>> {
    plain(fields).map(Box::new)
}

fn kernel(group: u8, opcode: u8, version: u16, fields: Fields<'_>) -> Option<EventKind<'_>> {
    Some(match (group, opcode) {
        (group::HEADER, 0) => EventKind::TraceHeader(Box::new(trace::header(fields)?)),
        (group::HEADER, 8) => EventKind::RundownComplete,
        (group::PERFINFO, 46) => EventKind::Sample(plain(fields)?),
        (group::PERFINFO, 47) => EventKind::CounterSample(plain(fields)?),
        (group::PERFINFO, 48) => EventKind::CounterNames(counters::names(fields)?),
        (group::PERFINFO, 49) => EventKind::Corruption(counters::corruption(fields)?),
        (group::PERFINFO, 72..=74) => EventKind::Interval(boxed(fields)?),
        (group::THREAD, 36) => EventKind::Switch(plain(fields)?),
        (group::THREAD, 50) => EventKind::Ready(plain(fields)?),
        (group::THREAD, 1..=4) => {
            EventKind::Thread(Box::new(thread::thread(opcode, version, fields)?))
        }
        (group::THREAD, 72) => EventKind::ThreadName(Box::new(thread::name(fields)?)),
        (group::STACKWALK, 32) => EventKind::Stack(stack::stack(fields)?),
        // When a key is made, when it is deleted and when the session ends.
        (group::STACKWALK, 34..=36) => EventKind::StackDefinition(stack::definition(fields)?),
        (group::STACKWALK, 37 | 38) => EventKind::StackKey(stack::key(opcode, fields)?),
        (group::PROCESS, 1..=4 | 39) => {
            EventKind::Process(Box::new(process::process(opcode, version, fields)?))
        }
        (group::PROCESS, 10) | (group::IMAGE, 2..=4 | 10) => {
            EventKind::Image(Box::new(image::image(opcode, version, fields)?))
        }
        _ => EventKind::Unknown,
    })
}

fn classic(guid: Guid, opcode: u8, version: u16, fields: Fields<'_>) -> Option<EventKind<'_>> {
    Some(match (guid, opcode) {
        (id::IMAGE_ID, 0) if version >= 1 => EventKind::ImageId(boxed(fields)?),
        (id::IMAGE_ID, 36) => EventKind::Pdb(boxed(fields)?),
        (id::SYSTEM_CONFIG_EX, 35) => EventKind::Volume(boxed(fields)?),
        (id::LAST_BRANCH_RECORD, 32) if version >= 2 => {
            EventKind::LastBranches(branches::last_branches(fields)?)
        }
        (id::LOST_EVENT, 32..=34) => EventKind::Lost,
        _ => EventKind::Unknown,
    })
}

/// What the opcodes of processes, threads and images say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Start,
    End,
    /// It was there when the session began.
    RundownStart,
    /// It was there when the session ended.
    RundownEnd,
    /// A process that is only held by handles.
    Defunct,
}

impl Change {
    pub(crate) const fn from_opcode(opcode: u8) -> Option<Self> {
        match opcode {
            1 | 10 => Some(Self::Start),
            2 => Some(Self::End),
            3 => Some(Self::RundownStart),
            4 => Some(Self::RundownEnd),
            39 => Some(Self::Defunct),
            _ => None,
        }
    }

    /// The opcode by which the newest versions write it.
    pub const fn opcode(self) -> u8 {
        match self {
            Self::Start => 1,
            Self::End => 2,
            Self::RundownStart => 3,
            Self::RundownEnd => 4,
            Self::Defunct => 39,
        }
    }
}
