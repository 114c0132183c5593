/*
 * WdfDriverEntry.c: the true entry of a KMDF driver, FxDriverEntry: binds to
 * the framework, then calls DriverEntry.
 *
 * Source: microsoft/Windows-Driver-Frameworks (MIT licence), the layout of
 * WDF_BIND_INFO and what a client driver defines;
 * https://learn.microsoft.com/windows-hardware/drivers/wdf/framework-library-versioning
 */
#include <ntddk.h>
#include <wdf.h>

/* The image has a load configuration only where something asks for it. */
#pragma comment(linker, "/include:_load_config_used")

typedef struct _WDF_BIND_INFO {
    ULONG Size;
    const WCHAR *Component;
    struct {
        ULONG Major;
        ULONG Minor;
        ULONG Build;
    } Version;
    ULONG FuncCount;
    const WDFFUNC **FuncTable;
    PVOID Module;
    /* From here on since KMDF 1.25: variables that the framework's loader sets. */
    const ULONG *MinimumVersionRequired;
    PBOOLEAN ClientVersionHigherThanFramework;
    PULONG FuncCountPtr;
    PULONG StructCountPtr;
    const size_t **StructTable;
} WDF_BIND_INFO;

C_ASSERT(FIELD_OFFSET(WDF_BIND_INFO, Component) == 0x08);
C_ASSERT(FIELD_OFFSET(WDF_BIND_INFO, Version) == 0x10);
C_ASSERT(FIELD_OFFSET(WDF_BIND_INFO, FuncCount) == 0x1C);
C_ASSERT(FIELD_OFFSET(WDF_BIND_INFO, FuncTable) == 0x20);
C_ASSERT(FIELD_OFFSET(WDF_BIND_INFO, Module) == 0x28);
C_ASSERT(FIELD_OFFSET(WDF_BIND_INFO, MinimumVersionRequired) == 0x30);
C_ASSERT(FIELD_OFFSET(WDF_BIND_INFO, StructTable) == 0x50);
C_ASSERT(sizeof(WDF_BIND_INFO) == 0x58);

NTSTATUS NTAPI WdfVersionBind(
    PDRIVER_OBJECT DriverObject,
    PUNICODE_STRING RegistryPath,
    WDF_BIND_INFO *BindInfo,
    PWDF_DRIVER_GLOBALS *Globals);
VOID NTAPI WdfVersionUnbind(
    PUNICODE_STRING RegistryPath,
    WDF_BIND_INFO *BindInfo,
    PWDF_DRIVER_GLOBALS Globals);

DRIVER_INITIALIZE DriverEntry;
DRIVER_INITIALIZE FxDriverEntry;

const WDFFUNC *WdfFunctions_01033;
PWDF_DRIVER_GLOBALS WdfDriverGlobals;
/* wdk-sys holds each table index against it. */
ULONG WdfFunctionCount = WdfFunctionTableNumEntries;
ULONG WdfStructureCount;
const size_t *WdfStructures;
const ULONG WdfMinimumVersionRequired = KMDF_MINIMUM_VERSION_REQUIRED;
BOOLEAN WdfClientVersionHigherThanFramework;

static WDF_BIND_INFO BindInfo = {
    .Size = sizeof(WDF_BIND_INFO),
    .Component = L"KmdfLibrary",
    .Version = {KMDF_VERSION_MAJOR, KMDF_VERSION_MINOR, 0},
    .FuncCount = WdfFunctionTableNumEntries,
    .FuncTable = &WdfFunctions_01033,
    .MinimumVersionRequired = &WdfMinimumVersionRequired,
    .ClientVersionHigherThanFramework = &WdfClientVersionHigherThanFramework,
    .FuncCountPtr = &WdfFunctionCount,
    .StructCountPtr = &WdfStructureCount,
    .StructTable = &WdfStructures,
};

/* The path given to an entry does not live until the driver is unloaded. */
static WCHAR PathBuffer[260];
static UNICODE_STRING Path = {0, sizeof(PathBuffer), PathBuffer};

static PDRIVER_UNLOAD DriversUnload;

static VOID NTAPI Unload(PDRIVER_OBJECT DriverObject)
{
    if (DriversUnload)
        DriversUnload(DriverObject);
    WdfVersionUnbind(&Path, &BindInfo, WdfDriverGlobals);
}

NTSTATUS NTAPI FxDriverEntry(PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath)
{
    NTSTATUS status;

    RtlCopyUnicodeString(&Path, RegistryPath);
    status = WdfVersionBind(DriverObject, &Path, &BindInfo, &WdfDriverGlobals);
    if (!NT_SUCCESS(status))
        return status;

    status = DriverEntry(DriverObject, RegistryPath);
    if (!NT_SUCCESS(status)) {
        WdfVersionUnbind(&Path, &BindInfo, WdfDriverGlobals);
        return status;
    }
    if (WdfDriverGlobals->DisplaceDriverUnload) {
        DriversUnload = DriverObject->DriverUnload;
        DriverObject->DriverUnload = Unload;
    }
    return status;
}
