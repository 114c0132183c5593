/*
 * ntddk.h: Debian's, with what is newer than it.
 *
 * Source: https://learn.microsoft.com/windows-hardware/drivers/ddi/, the page
 * named at each item; the structures of the profile classes also by the
 * published WDK metadata of the crate windows-sys.
 */
#pragma once

#include_next <ntddk.h>

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
