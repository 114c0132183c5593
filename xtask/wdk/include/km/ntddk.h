/*
 * ntddk.h: Debian's, with what is newer than it.
 *
 * Source: https://learn.microsoft.com/windows-hardware/drivers/ddi/, the page
 * named at each item; HalAllocateHardwareCounters, its structures and those of
 * the profile classes also by the published WDK metadata of the crate
 * windows-sys.
 */
#pragma once

/*
 * Debian's copies are those of Windows 7, too short since Windows 10 1903;
 * they go by other names.
 */
#define _PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR_TYPE _WIN7_COUNTER_RESOURCE_TYPE
#define PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR_TYPE WIN7_COUNTER_RESOURCE_TYPE
#define ResourceTypeSingle Win7ResourceTypeSingle
#define ResourceTypeRange Win7ResourceTypeRange
#define ResourceTypeExtendedCounterConfiguration Win7ResourceTypeExtendedCounterConfiguration
#define ResourceTypeOverflow Win7ResourceTypeOverflow
#define ResourceTypeMax Win7ResourceTypeMax
#define _PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR _WIN7_COUNTER_RESOURCE_DESCRIPTOR
#define PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR WIN7_COUNTER_RESOURCE_DESCRIPTOR
#define PPHYSICAL_COUNTER_RESOURCE_DESCRIPTOR PWIN7_COUNTER_RESOURCE_DESCRIPTOR
#define _PHYSICAL_COUNTER_RESOURCE_LIST _WIN7_COUNTER_RESOURCE_LIST
#define PHYSICAL_COUNTER_RESOURCE_LIST WIN7_COUNTER_RESOURCE_LIST
#define PPHYSICAL_COUNTER_RESOURCE_LIST PWIN7_COUNTER_RESOURCE_LIST
#define HalAllocateHardwareCounters Win7HalAllocateHardwareCounters
#include_next <ntddk.h>
#undef _PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR_TYPE
#undef PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR_TYPE
#undef ResourceTypeSingle
#undef ResourceTypeRange
#undef ResourceTypeExtendedCounterConfiguration
#undef ResourceTypeOverflow
#undef ResourceTypeMax
#undef _PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR
#undef PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR
#undef PPHYSICAL_COUNTER_RESOURCE_DESCRIPTOR
#undef _PHYSICAL_COUNTER_RESOURCE_LIST
#undef PHYSICAL_COUNTER_RESOURCE_LIST
#undef PPHYSICAL_COUNTER_RESOURCE_LIST
#undef HalAllocateHardwareCounters

/* wdm/nf-wdm-exallocatepool2; wdk-sys itself has the POOL_FLAG_ values. */
typedef ULONG64 POOL_FLAGS;

NTKERNELAPI PVOID NTAPI ExAllocatePool2(
    POOL_FLAGS Flags,
    SIZE_T NumberOfBytes,
    ULONG Tag);

/* wdm/nf-wdm-exquerytimerresolution, in units of 100 ns */
NTKERNELAPI VOID NTAPI ExQueryTimerResolution(
    PULONG MaximumTime,
    PULONG MinimumTime,
    PULONG CurrentTime);

/* wdm/nf-wdm-mmmapiospaceex */
NTKERNELAPI PVOID NTAPI MmMapIoSpaceEx(
    PHYSICAL_ADDRESS PhysicalAddress,
    SIZE_T NumberOfBytes,
    ULONG Protect);

/* ntddk/ne-ntddk-_physical_counter_resource_descriptor_type */
typedef enum _PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR_TYPE {
    ResourceTypeSingle = 0,
    ResourceTypeRange = 1,
    ResourceTypeExtendedCounterConfiguration = 2,
    ResourceTypeOverflow = 3,
    ResourceTypeEventBuffer = 4,
    /* The second I is Microsoft's. */
    ResourceTypeIdenitificationTag = 5,
    ResourceTypeMax = 6
} PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR_TYPE;

/* ntddk/nc-ntddk-physical_counter_overflow_handler; at PROFILE_LEVEL */
typedef VOID NTAPI PHYSICAL_COUNTER_OVERFLOW_HANDLER(
    ULONGLONG OverflowBits,
    HANDLE OwningHandle);
typedef PHYSICAL_COUNTER_OVERFLOW_HANDLER *PPHYSICAL_COUNTER_OVERFLOW_HANDLER;

/* ntddk/nc-ntddk-physical_counter_event_buffer_overflow_handler; at PROFILE_LEVEL */
typedef VOID NTAPI PHYSICAL_COUNTER_EVENT_BUFFER_OVERFLOW_HANDLER(
    PVOID EventBuffer,
    SIZE_T EntrySize,
    SIZE_T NumberOfEntries,
    HANDLE OwningHandle);
typedef PHYSICAL_COUNTER_EVENT_BUFFER_OVERFLOW_HANDLER
    *PPHYSICAL_COUNTER_EVENT_BUFFER_OVERFLOW_HANDLER;

/* ntddk/ns-ntddk-_physical_counter_event_buffer_configuration */
typedef struct _PHYSICAL_COUNTER_EVENT_BUFFER_CONFIGURATION {
    PPHYSICAL_COUNTER_EVENT_BUFFER_OVERFLOW_HANDLER OverflowHandler;
    ULONG CustomEventBufferEntrySize;
    ULONG EventThreshold;
} PHYSICAL_COUNTER_EVENT_BUFFER_CONFIGURATION, *PPHYSICAL_COUNTER_EVENT_BUFFER_CONFIGURATION;

/* ntddk/ns-ntddk-_physical_counter_resource_descriptor */
typedef struct _PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR {
    PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR_TYPE Type;
    ULONG Flags;
    union {
        ULONG CounterIndex;
        ULONG ExtendedRegisterAddress;
        struct {
            ULONG Begin;
            ULONG End;
        } Range;
        PPHYSICAL_COUNTER_OVERFLOW_HANDLER OverflowHandler;
        PHYSICAL_COUNTER_EVENT_BUFFER_CONFIGURATION EventBufferConfiguration;
        ULONG IdentificationTag;
    } u;
} PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR, *PPHYSICAL_COUNTER_RESOURCE_DESCRIPTOR;

/* ntddk/ns-ntddk-_physical_counter_resource_list */
typedef struct _PHYSICAL_COUNTER_RESOURCE_LIST {
    ULONG Count;
    PHYSICAL_COUNTER_RESOURCE_DESCRIPTOR Descriptors[ANYSIZE_ARRAY];
} PHYSICAL_COUNTER_RESOURCE_LIST, *PPHYSICAL_COUNTER_RESOURCE_LIST;

/* ntddk/nf-ntddk-halallocatehardwarecounters; the parameter's name is Microsoft's. */
NTHALAPI NTSTATUS NTAPI HalAllocateHardwareCounters(
    PGROUP_AFFINITY GroupAffinty,
    ULONG GroupCount,
    PPHYSICAL_COUNTER_RESOURCE_LIST ResourceList,
    PHANDLE CounterSetHandle);
