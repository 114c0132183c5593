//! The names of events: the kernel's by the MOF classes that Microsoft documents ("NT Kernel Logger
//! Constants" and the classes below it), and what a TraceLogging event says of itself.

use crate::PointerSize;
use crate::bytes::Fields;
use crate::header::Items;
use crate::id::{self, EventId, Guid, group};
use crate::payload::managed;

/// The groups of the kernel's events, with the names of their MOF classes.
const GROUPS: [(u8, &str); 17] = [
    (group::HEADER, "EventTrace"),
    (1, "DiskIo"),
    (2, "PageFault"),
    (group::PROCESS, "Process"),
    (4, "FileIo"),
    (group::THREAD, "Thread"),
    (6, "TcpIp"),
    (7, "Job"),
    (8, "UdpIp"),
    (9, "Registry"),
    (11, "SystemConfig"),
    (14, "Pool"),
    (group::PERFINFO, "PerfInfo"),
    (16, "Heap"),
    (group::IMAGE, "Image"),
    (group::STACKWALK, "StackWalk"),
    (26, "ALPC"),
];

/// The types of the kernel's events by group and opcode. Counter samples (47), counter names (48),
/// damaged counters (49), thread names (5, 72) and stack keys (24, 34 to 38) have no documented class:
/// what they are is known from files.
const TYPES: &[(u8, &[(u8, &str)])] = &[
    (group::HEADER, &[(0, "Header"), (5, "Extension"), (8, "RDComplete"), (32, "EndExtension")]),
    (
        1,
        &[
            (10, "Read"),
            (11, "Write"),
            (12, "ReadInit"),
            (13, "WriteInit"),
            (14, "FlushBuffers"),
            (15, "FlushInit"),
        ],
    ),
    (
        2,
        &[
            (10, "TransitionFault"),
            (11, "DemandZeroFault"),
            (12, "CopyOnWrite"),
            (13, "GuardPageFault"),
            (14, "HardPageFault"),
            (15, "AccessViolation"),
            (32, "HardFault"),
            (98, "VirtualAlloc"),
            (99, "VirtualFree"),
            (105, "ImageLoadBacked"),
        ],
    ),
    (
        group::PROCESS,
        &[
            (1, "Start"),
            (2, "End"),
            (3, "DCStart"),
            (4, "DCEnd"),
            (10, "ImageLoad"),
            (11, "Terminate"),
            (32, "PerfCtr"),
            (33, "PerfCtrRundown"),
            (39, "Defunct"),
        ],
    ),
    (
        4,
        &[
            (0, "Name"),
            (32, "FileCreate"),
            (35, "FileDelete"),
            (36, "FileRundown"),
            (64, "Create"),
            (65, "Cleanup"),
            (66, "Close"),
            (67, "Read"),
            (68, "Write"),
            (69, "SetInfo"),
            (70, "Delete"),
            (71, "Rename"),
            (72, "DirEnum"),
            (73, "Flush"),
            (74, "QueryInfo"),
            (75, "FSControl"),
            (76, "OperationEnd"),
            (77, "DirNotify"),
        ],
    ),
    (
        group::THREAD,
        &[
            (1, "Start"),
            (2, "End"),
            (3, "DCStart"),
            (4, "DCEnd"),
            (36, "CSwitch"),
            (50, "ReadyThread"),
            (72, "SetName"),
        ],
    ),
    (
        6,
        &[
            (10, "SendIPV4"),
            (11, "RecvIPV4"),
            (12, "ConnectIPV4"),
            (13, "DisconnectIPV4"),
            (14, "RetransmitIPV4"),
            (15, "AcceptIPV4"),
            (16, "ReconnectIPV4"),
            (17, "Fail"),
            (18, "TCPCopyIPV4"),
            (26, "SendIPV6"),
            (27, "RecvIPV6"),
            (28, "ConnectIPV6"),
            (29, "DisconnectIPV6"),
            (30, "RetransmitIPV6"),
            (31, "AcceptIPV6"),
            (32, "ReconnectIPV6"),
            (34, "TCPCopyIPV6"),
        ],
    ),
    (8, &[(10, "SendIPV4"), (11, "RecvIPV4"), (17, "Fail"), (26, "SendIPV6"), (27, "RecvIPV6")]),
    (
        9,
        &[
            (10, "Create"),
            (11, "Open"),
            (12, "Delete"),
            (13, "Query"),
            (14, "SetValue"),
            (15, "DeleteValue"),
            (16, "QueryValue"),
            (17, "EnumerateKey"),
            (18, "EnumerateValueKey"),
            (19, "QueryMultipleValue"),
            (20, "SetInformation"),
            (21, "Flush"),
            (22, "RunDown"),
        ],
    ),
    (
        11,
        &[
            (10, "CPU"),
            (11, "PhyDisk"),
            (12, "LogDisk"),
            (13, "NIC"),
            (14, "Video"),
            (15, "Services"),
            (16, "Power"),
            (21, "IRQ"),
            (22, "PnP"),
        ],
    ),
    (
        group::PERFINFO,
        &[
            (46, "SampleProf"),
            (47, "counter sample"),
            (48, "counter names"),
            (49, "counter damage"),
            (50, "ISR-MSI"),
            (51, "SysClEnter"),
            (52, "SysClExit"),
            (66, "ThreadDPC"),
            (67, "ISR"),
            (68, "DPC"),
            (69, "TimerDPC"),
            (72, "set interval"),
            (73, "interval at start"),
            (74, "interval at end"),
        ],
    ),
    (group::IMAGE, &[(2, "UnLoad"), (3, "DCStart"), (4, "DCEnd"), (10, "Load")]),
    (
        group::STACKWALK,
        &[
            (32, "Stack"),
            (34, "key made"),
            (35, "key deleted"),
            (36, "key at end"),
            (37, "kernel key"),
            (38, "user key"),
        ],
    ),
];

/// Classes and providers that are known by their GUIDs alone.
const PROVIDERS: [(Guid, &str); 14] = [
    (id::IMAGE_ID, "ImageId"),
    (id::SYSTEM_CONFIG_EX, "SystemConfigEx"),
    (id::LAST_BRANCH_RECORD, "LastBranchRecord"),
    (id::LOST_EVENT, "RT_LostEvent"),
    (managed::DOTNET, "Microsoft-Windows-DotNETRuntime"),
    (managed::DOTNET_RUNDOWN, "Microsoft-Windows-DotNETRuntimeRundown"),
    (managed::JAVASCRIPT, "Microsoft-JScript"),
    (Guid(0x3d6fa8d4_fe05_11d0_9dda_00c04fd7ba7c), "DiskIo"),
    (Guid(0x3d6fa8d3_fe05_11d0_9dda_00c04fd7ba7c), "PageFault"),
    (Guid(0x90cbdc39_4a3e_11d1_84f4_0000f80464e3), "FileIo"),
    (Guid(0x9a280ac0_c8e0_11d1_84e2_00c04fb998a2), "TcpIp"),
    (Guid(0xbf3a50c5_a9c9_4988_a005_2df0b7c80f80), "UdpIp"),
    (Guid(0xae53722e_c863_11d2_8659_00c04fa321a1), "Registry"),
    (Guid(0x01853a65_418f_4f36_aefc_dc0f1d2fd235), "SystemConfig"),
];

fn named<K: PartialEq, V: Copy>(rows: &[(K, V)], key: &K) -> Option<V> {
    rows.iter().find(|(own, _)| own == key).map(|&(_, value)| value)
}

/// The name of an event's group, class or provider.
pub fn provider(id: EventId) -> Option<&'static str> {
    match id.normalized() {
        EventId::Kernel { group, .. } => named(&GROUPS, &group),
        EventId::Classic { guid, .. } | EventId::Manifest { guid, .. } => named(&PROVIDERS, &guid),
        EventId::Other { .. } => None,
    }
}

/// What an event of the kernel's is called in its group or class.
pub fn event(id: EventId) -> Option<&'static str> {
    let (group, opcode) = match id.normalized() {
        EventId::Kernel { group, opcode, .. } => (group, opcode),
        EventId::Classic { guid, opcode, .. } => {
            let class = named(&PROVIDERS, &guid)?;
            let (group, _) = GROUPS.iter().find(|(_, name)| *name == class)?;
            (*group, opcode)
        }
        EventId::Manifest { .. } | EventId::Other { .. } => return None,
    };
    named(named(TYPES, &group)?, &opcode)
}

/// Extended items of a TraceLogging event: what it is, and what its provider is (evntcons.h,
/// `EVENT_HEADER_EXT_TYPE_EVENT_SCHEMA_TL` and `EVENT_HEADER_EXT_TYPE_PROV_TRAITS`).
const ITEM_SCHEMA: u16 = 11;
const ITEM_TRAITS: u16 = 12;

/// What a TraceLogging event says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SelfDescription {
    /// The name of its provider.
    pub provider: Option<String>,
    /// Its name.
    pub event: Option<String>,
}

impl SelfDescription {
    /// The names in an event's extended items.
    pub fn of(items: Items<'_>) -> Self {
        let mut own = Self::default();
        for item in items {
            match item.item_type {
                ITEM_SCHEMA => own.event = schema_name(item.data),
                ITEM_TRAITS => own.provider = traits_name(item.data),
                _ => {}
            }
        }
        own
    }
}

/// The event's name (TraceLoggingProvider.h): after the size, tags of which each byte but the last has
/// its top bit set.
fn schema_name(data: &[u8]) -> Option<String> {
    let mut fields = Fields::new(data, PointerSize::Eight);
    fields.u16()?;
    while fields.u8()? & 0x80 != 0 {}
    name(fields)
}

/// The provider's name (TraceLoggingProvider.h): after the size.
fn traits_name(data: &[u8]) -> Option<String> {
    let mut fields = Fields::new(data, PointerSize::Eight);
    fields.u16()?;
    name(fields)
}

fn name(mut fields: Fields<'_>) -> Option<String> {
    fields.text().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_the_name_of_its_class_in_every_form() {
        let switch = EventId::Kernel { group: group::THREAD, opcode: 36, version: 4 };
        let relogged = EventId::Classic {
            guid: Guid(0x3d6fa8d1_fe05_11d0_9dda_00c04fd7ba7c),
            opcode: 36,
            version: 4,
        };
        for id in [switch, relogged] {
            assert_eq!((provider(id), event(id)), (Some("Thread"), Some("CSwitch")));
        }
        let read = EventId::Classic {
            guid: Guid(0x90cbdc39_4a3e_11d1_84f4_0000f80464e3),
            opcode: 67,
            version: 2,
        };
        assert_eq!((provider(read), event(read)), (Some("FileIo"), Some("Read")));
        let method = EventId::Manifest { guid: managed::DOTNET, id: 143, version: 1 };
        assert_eq!(provider(method), Some("Microsoft-Windows-DotNETRuntime"));
        let unknown = EventId::Kernel { group: 200, opcode: 36, version: 4 };
        assert_eq!((provider(unknown), event(unknown)), (None, None));
    }

    #[test]
    fn a_name_without_its_end_is_none() {
        assert_eq!(schema_name(b"\x09\0\x80\x81\x01ab\0"), Some("ab".to_owned()));
        assert_eq!(traits_name(b"\x05\0ab\0"), Some("ab".to_owned()));
        for bytes in [&b"\x09\0\x80\x81"[..], b"\x09\0\x01ab", b"\x09", b"\x04\0\x01\0"] {
            assert_eq!(schema_name(bytes), None);
        }
    }
}
