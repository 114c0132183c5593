//! What an event is, by its header: kernel events by group and opcode, others by their provider.

use std::fmt;

/// A GUID, as the number that its text shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(pub u128);

impl Guid {
    /// From memory: the first three parts are little-endian.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        let [a0, a1, a2, a3, b0, b1, c0, c1, d @ ..] = bytes;
        let [d0, d1, d2, d3, d4, d5, d6, d7] = d;
        Self(u128::from_be_bytes([a3, a2, a1, a0, b1, b0, c1, c0, d0, d1, d2, d3, d4, d5, d6, d7]))
    }

    /// As in memory.
    pub const fn to_bytes(self) -> [u8; 16] {
        Self::from_bytes(self.0.to_be_bytes()).0.to_be_bytes()
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(number) = *self;
        write!(
            formatter,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            number >> 96,
            number >> 80 & 0xFFFF,
            number >> 64 & 0xFFFF,
            number >> 48 & 0xFFFF,
            number & 0xFFFF_FFFF_FFFF
        )
    }
}

/// Groups of kernel events (the high byte of a hook id) whose payloads are read.
#[expect(missing_docs, reason = "the names say it")]
pub mod group {
    pub const HEADER: u8 = 0;
    pub const PROCESS: u8 = 3;
    pub const THREAD: u8 = 5;
    pub const PERFINFO: u8 = 15;
    pub const IMAGE: u8 = 20;
    pub const STACKWALK: u8 = 24;
}

/// The classes of the documented kernel events (NT Kernel Logger constants), which relogged files and
/// real-time consumers show in place of the group.
const CLASSES: [(u8, Guid); 6] = [
    (group::HEADER, Guid(0x68fdd900_4a3e_11d1_84f4_0000f80464e3)),
    (group::PROCESS, Guid(0x3d6fa8d0_fe05_11d0_9dda_00c04fd7ba7c)),
    (group::THREAD, Guid(0x3d6fa8d1_fe05_11d0_9dda_00c04fd7ba7c)),
    (group::PERFINFO, Guid(0xce1dbfb4_137e_4da6_87b0_3f59aa102cbc)),
    (group::IMAGE, Guid(0x2cb15d1d_5fc1_11d2_abe1_00a0c911f518)),
    (group::STACKWALK, Guid(0xdef2fe46_7bd6_4b80_bd94_f57fe20d0ce3)),
];

/// What images are, beyond their names; added when traces are merged.
pub const IMAGE_ID: Guid = Guid(0xb3e675d7_2554_4f18_830b_2762732560de);
/// How the traced system is set up; added when traces are merged.
pub const SYSTEM_CONFIG_EX: Guid = Guid(0x9b79ee91_b5fd_41c0_a243_4248e266e9d0);
/// The branches before an event (evntrace.h, `LastBranchRecordProviderGuid`).
pub const LAST_BRANCH_RECORD: Guid = Guid(0x99134383_5248_43fc_834b_529454e75df3);
/// What a real-time session lost (evntrace.h, `RT_LostEvent`).
pub const LOST_EVENT: Guid = Guid(0x6a399ae0_4bc6_4de9_870b_3657f8947e7e);

const GROUP_NAMES: [(u8, &str); 25] = [
    (0, "header"),
    (1, "io"),
    (2, "memory"),
    (3, "process"),
    (4, "file"),
    (5, "thread"),
    (6, "tcpip"),
    (7, "job"),
    (8, "udpip"),
    (9, "registry"),
    (11, "config"),
    (14, "pool"),
    (15, "perfinfo"),
    (16, "heap"),
    (17, "object"),
    (18, "power"),
    (20, "image"),
    (21, "dpc"),
    (22, "cache"),
    (24, "stackwalk"),
    (25, "ums"),
    (26, "alpc"),
    (27, "splitio"),
    (28, "threadpool"),
    (29, "hypervisor"),
];

/// What an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventId {
    /// A kernel event (system, compact and perfinfo headers).
    Kernel {
        /// The group of the hook id.
        group: u8,
        /// The opcode, or type, in the group.
        opcode: u8,
        /// The version of the payload.
        version: u16,
    },
    /// A classic event (full and instance headers).
    Classic {
        /// The event class.
        guid: Guid,
        /// The opcode, or type.
        opcode: u8,
        /// The version of the payload.
        version: u16,
    },
    /// A manifest or TraceLogging event.
    Manifest {
        /// The provider.
        guid: Guid,
        /// The event's number in the manifest; 0 for all TraceLogging events.
        id: u16,
        /// The version of the payload.
        version: u8,
    },
    /// An event whose header has no identity that is read here (timed, error, wnode, message).
    Other {
        /// The type of the header.
        header: u8,
    },
}

impl EventId {
    /// The event as the kernel's hook names it, where its class is one of the kernel's.
    pub fn normalized(self) -> Self {
        let Self::Classic { guid, opcode, version } = self else {
            return self;
        };
        let class = CLASSES.iter().find(|(_, class)| *class == guid);
        class.map_or(self, |&(group, _)| Self::Kernel { group, opcode, version })
    }

    /// The event by the class of its group, where it is the kernel's and has one, as real-time consumers
    /// show it.
    pub fn by_class(self) -> Self {
        let Self::Kernel { group, opcode, version } = self else {
            return self;
        };
        // The kernel's hook for a loaded image is in the group of processes.
        let group = if (group, opcode) == (group::PROCESS, 10) { group::IMAGE } else { group };
        let class = CLASSES.iter().find(|(number, _)| *number == group);
        class.map_or(self, |&(_, guid)| Self::Classic { guid, opcode, version })
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Kernel { group, opcode, version } => {
                match GROUP_NAMES.iter().find(|(number, _)| *number == group) {
                    Some((_, name)) => write!(formatter, "{name} op {opcode} v{version}"),
                    None => write!(formatter, "group {group} op {opcode} v{version}"),
                }
            }
            Self::Classic { guid, opcode, version } => {
                write!(formatter, "{guid} op {opcode} v{version}")
            }
            Self::Manifest { guid, id, version } => write!(formatter, "{guid} id {id} v{version}"),
            Self::Other { header } => write!(formatter, "header type {header}"),
        }
    }
}
