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

/*
 * What an interrupt comes upon, x64. Source: the public symbols of ntoskrnl.exe
 * (dt nt!_KTRAP_FRAME); the WDK's ntddk.h has the same.
 */
typedef struct _KTRAP_FRAME {
    ULONG64 P1Home;
    ULONG64 P2Home;
    ULONG64 P3Home;
    ULONG64 P4Home;
    ULONG64 P5;
    KPROCESSOR_MODE PreviousMode;
    KIRQL PreviousIrql;
    UCHAR FaultIndicator;
    UCHAR ExceptionActive;
    ULONG MxCsr;
    ULONG64 Rax;
    ULONG64 Rcx;
    ULONG64 Rdx;
    ULONG64 R8;
    ULONG64 R9;
    ULONG64 R10;
    ULONG64 R11;
    ULONG64 GsBase;
    M128A Xmm0;
    M128A Xmm1;
    M128A Xmm2;
    M128A Xmm3;
    M128A Xmm4;
    M128A Xmm5;
    ULONG64 FaultAddress;
    ULONG64 Dr0;
    ULONG64 Dr1;
    ULONG64 Dr2;
    ULONG64 Dr3;
    ULONG64 Dr6;
    ULONG64 Dr7;
    ULONG64 DebugControl;
    ULONG64 LastBranchToRip;
    ULONG64 LastBranchFromRip;
    ULONG64 LastExceptionToRip;
    ULONG64 LastExceptionFromRip;
    USHORT SegDs;
    USHORT SegEs;
    USHORT SegFs;
    USHORT SegGs;
    ULONG64 TrapFrame;
    ULONG64 Rbx;
    ULONG64 Rdi;
    ULONG64 Rsi;
    ULONG64 Rbp;
    ULONG64 ErrorCode;
    ULONG64 Rip;
    USHORT SegCs;
    UCHAR Fill0;
    UCHAR Logging;
    USHORT Fill1[2];
    ULONG EFlags;
    ULONG Fill2;
    ULONG64 Rsp;
    USHORT SegSs;
    USHORT Fill3;
    ULONG Fill4;
} KTRAP_FRAME, *PKTRAP_FRAME;
