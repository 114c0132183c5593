/*
 * wdf.h: the part of KMDF 1.33 that halprof.sys and the crate wdk use.
 *
 * Source: microsoft/Windows-Driver-Frameworks (MIT licence),
 * src/publicinc/wdf/kmdf/1.33: names, table indices, layouts and values, which
 * tests/tests/driver_abi.rs holds against tests/data/kmdf-1.33-abi.json; the
 * callbacks' prototypes by
 * https://learn.microsoft.com/windows-hardware/drivers/ddi/_wdf/
 *
 * To use one more function: its line in _WDFFUNCENUM, its PFN_ type, and what
 * its parameters need.
 */
#pragma once

/* ---- Handles ---------------------------------------------------------- */

typedef HANDLE WDFOBJECT, *PWDFOBJECT;

#define WDF_HANDLE(name) typedef struct name##__ *name
WDF_HANDLE(WDFDRIVER);
WDF_HANDLE(WDFDEVICE);
WDF_HANDLE(WDFQUEUE);
WDF_HANDLE(WDFREQUEST);
WDF_HANDLE(WDFFILEOBJECT);
WDF_HANDLE(WDFWAITLOCK);
WDF_HANDLE(WDFSPINLOCK);
WDF_HANDLE(WDFTIMER);
WDF_HANDLE(WDFCMRESLIST);

typedef struct WDFDEVICE_INIT *PWDFDEVICE_INIT;

/* ---- Enumerations ----------------------------------------------------- */

typedef enum _WDF_TRI_STATE {
    WdfFalse = 0,
    WdfTrue = 1,
    WdfUseDefault = 2,
} WDF_TRI_STATE, *PWDF_TRI_STATE;

typedef enum _WDF_EXECUTION_LEVEL {
    WdfExecutionLevelInvalid = 0,
    WdfExecutionLevelInheritFromParent = 1,
    WdfExecutionLevelPassive = 2,
    WdfExecutionLevelDispatch = 3,
} WDF_EXECUTION_LEVEL, *PWDF_EXECUTION_LEVEL;

typedef enum _WDF_SYNCHRONIZATION_SCOPE {
    WdfSynchronizationScopeInvalid = 0,
    WdfSynchronizationScopeInheritFromParent = 1,
    WdfSynchronizationScopeDevice = 2,
    WdfSynchronizationScopeQueue = 3,
    WdfSynchronizationScopeNone = 4,
} WDF_SYNCHRONIZATION_SCOPE, *PWDF_SYNCHRONIZATION_SCOPE;

typedef enum _WDF_DRIVER_INIT_FLAGS {
    WdfDriverInitNonPnpDriver = 1,
    WdfDriverInitNoDispatchOverride = 2,
    WdfVerifyOn = 4,
    WdfVerifierOn = 8,
    WdfDriverInitCompanion = 16,
} WDF_DRIVER_INIT_FLAGS, *PWDF_DRIVER_INIT_FLAGS;

typedef enum _WDF_DEVICE_IO_TYPE {
    WdfDeviceIoUndefined = 0,
    WdfDeviceIoNeither = 1,
    WdfDeviceIoBuffered = 2,
    WdfDeviceIoDirect = 3,
    WdfDeviceIoBufferedOrDirect = 4,
    WdfDeviceIoMaximum = 5,
} WDF_DEVICE_IO_TYPE, *PWDF_DEVICE_IO_TYPE;

typedef enum _WDF_DEVICE_FAILED_ACTION {
    WdfDeviceFailedUndefined = 0,
    WdfDeviceFailedAttemptRestart = 1,
    WdfDeviceFailedNoRestart = 2,
} WDF_DEVICE_FAILED_ACTION, *PWDF_DEVICE_FAILED_ACTION;

typedef enum _WDF_POWER_DEVICE_STATE {
    WdfPowerDeviceInvalid = 0,
    WdfPowerDeviceD0 = 1,
    WdfPowerDeviceD1 = 2,
    WdfPowerDeviceD2 = 3,
    WdfPowerDeviceD3 = 4,
    WdfPowerDeviceD3Final = 5,
    WdfPowerDevicePrepareForHibernation = 6,
    WdfPowerDeviceMaximum = 7,
} WDF_POWER_DEVICE_STATE, *PWDF_POWER_DEVICE_STATE;

typedef enum _WDF_SPECIAL_FILE_TYPE {
    WdfSpecialFileUndefined = 0,
    WdfSpecialFilePaging = 1,
    WdfSpecialFileHibernation = 2,
    WdfSpecialFileDump = 3,
    WdfSpecialFileBoot = 4,
    WdfSpecialFilePostDisplay = 5,
    WdfSpecialFileGuestAssigned = 6,
    WdfSpecialFileMax = 7,
} WDF_SPECIAL_FILE_TYPE, *PWDF_SPECIAL_FILE_TYPE;

typedef enum _WDF_FILEOBJECT_CLASS {
    WdfFileObjectInvalid = 0,
    WdfFileObjectNotRequired = 1,
    WdfFileObjectWdfCanUseFsContext = 2,
    WdfFileObjectWdfCanUseFsContext2 = 3,
    WdfFileObjectWdfCannotUseFsContexts = 4,
    WdfFileObjectCanBeOptional = (int)0x80000000,
} WDF_FILEOBJECT_CLASS, *PWDF_FILEOBJECT_CLASS;

typedef enum _WDF_IO_QUEUE_DISPATCH_TYPE {
    WdfIoQueueDispatchInvalid = 0,
    WdfIoQueueDispatchSequential = 1,
    WdfIoQueueDispatchParallel = 2,
    WdfIoQueueDispatchManual = 3,
    WdfIoQueueDispatchMax = 4,
} WDF_IO_QUEUE_DISPATCH_TYPE, *PWDF_IO_QUEUE_DISPATCH_TYPE;

typedef enum _WDF_REQUEST_STOP_ACTION_FLAGS {
    WdfRequestStopActionInvalid = 0,
    WdfRequestStopActionSuspend = 1,
    WdfRequestStopActionPurge = 2,
    WdfRequestStopRequestCancelable = 0x10000000,
} WDF_REQUEST_STOP_ACTION_FLAGS, *PWDF_REQUEST_STOP_ACTION_FLAGS;

typedef enum _WDF_REQUEST_TYPE {
    WdfRequestTypeCreate = 0,
    WdfRequestTypeCreateNamedPipe = 1,
    WdfRequestTypeClose = 2,
    WdfRequestTypeRead = 3,
    WdfRequestTypeWrite = 4,
    WdfRequestTypeQueryInformation = 5,
    WdfRequestTypeSetInformation = 6,
    WdfRequestTypeQueryEA = 7,
    WdfRequestTypeSetEA = 8,
    WdfRequestTypeFlushBuffers = 9,
    WdfRequestTypeQueryVolumeInformation = 10,
    WdfRequestTypeSetVolumeInformation = 11,
    WdfRequestTypeDirectoryControl = 12,
    WdfRequestTypeFileSystemControl = 13,
    WdfRequestTypeDeviceControl = 14,
    WdfRequestTypeDeviceControlInternal = 15,
    WdfRequestTypeShutdown = 16,
    WdfRequestTypeLockControl = 17,
    WdfRequestTypeCleanup = 18,
    WdfRequestTypeCreateMailSlot = 19,
    WdfRequestTypeQuerySecurity = 20,
    WdfRequestTypeSetSecurity = 21,
    WdfRequestTypePower = 22,
    WdfRequestTypeSystemControl = 23,
    WdfRequestTypeDeviceChange = 24,
    WdfRequestTypeQueryQuota = 25,
    WdfRequestTypeSetQuota = 26,
    WdfRequestTypePnp = 27,
    WdfRequestTypeOther = 28,
    WdfRequestTypeUsb = 64,
    WdfRequestTypeNoFormat = 255,
    WdfRequestTypeMax = 256,
} WDF_REQUEST_TYPE, *PWDF_REQUEST_TYPE;

/* ---- Every object ----------------------------------------------------- */

typedef VOID NTAPI EVT_WDF_OBJECT_CONTEXT_CLEANUP(WDFOBJECT Object);
typedef EVT_WDF_OBJECT_CONTEXT_CLEANUP *PFN_WDF_OBJECT_CONTEXT_CLEANUP;

typedef VOID NTAPI EVT_WDF_OBJECT_CONTEXT_DESTROY(WDFOBJECT Object);
typedef EVT_WDF_OBJECT_CONTEXT_DESTROY *PFN_WDF_OBJECT_CONTEXT_DESTROY;

typedef struct _WDF_OBJECT_CONTEXT_TYPE_INFO WDF_OBJECT_CONTEXT_TYPE_INFO;
typedef WDF_OBJECT_CONTEXT_TYPE_INFO *PWDF_OBJECT_CONTEXT_TYPE_INFO;
typedef const WDF_OBJECT_CONTEXT_TYPE_INFO *PCWDF_OBJECT_CONTEXT_TYPE_INFO;

typedef PCWDF_OBJECT_CONTEXT_TYPE_INFO (NTAPI *PFN_GET_UNIQUE_CONTEXT_TYPE)(VOID);

struct _WDF_OBJECT_CONTEXT_TYPE_INFO {
    ULONG Size;
    PCHAR ContextName;
    size_t ContextSize;
    PCWDF_OBJECT_CONTEXT_TYPE_INFO UniqueType;
    PFN_GET_UNIQUE_CONTEXT_TYPE EvtDriverGetUniqueContextType;
};

typedef struct _WDF_OBJECT_ATTRIBUTES {
    ULONG Size;
    PFN_WDF_OBJECT_CONTEXT_CLEANUP EvtCleanupCallback;
    PFN_WDF_OBJECT_CONTEXT_DESTROY EvtDestroyCallback;
    WDF_EXECUTION_LEVEL ExecutionLevel;
    WDF_SYNCHRONIZATION_SCOPE SynchronizationScope;
    WDFOBJECT ParentObject;
    size_t ContextSizeOverride;
    PCWDF_OBJECT_CONTEXT_TYPE_INFO ContextTypeInfo;
} WDF_OBJECT_ATTRIBUTES, *PWDF_OBJECT_ATTRIBUTES;

/* ---- The driver ------------------------------------------------------- */

typedef struct _WDF_DRIVER_GLOBALS {
    WDFDRIVER Driver;
    ULONG DriverFlags;
    ULONG DriverTag;
    CHAR DriverName[32];
    BOOLEAN DisplaceDriverUnload;
} WDF_DRIVER_GLOBALS, *PWDF_DRIVER_GLOBALS;

typedef NTSTATUS NTAPI EVT_WDF_DRIVER_DEVICE_ADD(WDFDRIVER Driver, PWDFDEVICE_INIT DeviceInit);
typedef EVT_WDF_DRIVER_DEVICE_ADD *PFN_WDF_DRIVER_DEVICE_ADD;

typedef VOID NTAPI EVT_WDF_DRIVER_UNLOAD(WDFDRIVER Driver);
typedef EVT_WDF_DRIVER_UNLOAD *PFN_WDF_DRIVER_UNLOAD;

typedef struct _WDF_DRIVER_CONFIG {
    ULONG Size;
    PFN_WDF_DRIVER_DEVICE_ADD EvtDriverDeviceAdd;
    PFN_WDF_DRIVER_UNLOAD EvtDriverUnload;
    ULONG DriverInitFlags;
    ULONG DriverPoolTag;
} WDF_DRIVER_CONFIG, *PWDF_DRIVER_CONFIG;

/* ---- The device: Plug and Play, power --------------------------------- */

typedef NTSTATUS NTAPI EVT_WDF_DEVICE_D0_ENTRY(
    WDFDEVICE Device, WDF_POWER_DEVICE_STATE PreviousState);
typedef EVT_WDF_DEVICE_D0_ENTRY *PFN_WDF_DEVICE_D0_ENTRY;

typedef NTSTATUS NTAPI EVT_WDF_DEVICE_D0_ENTRY_POST_INTERRUPTS_ENABLED(
    WDFDEVICE Device, WDF_POWER_DEVICE_STATE PreviousState);
typedef EVT_WDF_DEVICE_D0_ENTRY_POST_INTERRUPTS_ENABLED
    *PFN_WDF_DEVICE_D0_ENTRY_POST_INTERRUPTS_ENABLED;

typedef NTSTATUS NTAPI EVT_WDF_DEVICE_D0_EXIT(
    WDFDEVICE Device, WDF_POWER_DEVICE_STATE TargetState);
typedef EVT_WDF_DEVICE_D0_EXIT *PFN_WDF_DEVICE_D0_EXIT;

typedef NTSTATUS NTAPI EVT_WDF_DEVICE_D0_EXIT_PRE_INTERRUPTS_DISABLED(
    WDFDEVICE Device, WDF_POWER_DEVICE_STATE TargetState);
typedef EVT_WDF_DEVICE_D0_EXIT_PRE_INTERRUPTS_DISABLED
    *PFN_WDF_DEVICE_D0_EXIT_PRE_INTERRUPTS_DISABLED;

typedef NTSTATUS NTAPI EVT_WDF_DEVICE_PREPARE_HARDWARE(
    WDFDEVICE Device, WDFCMRESLIST ResourcesRaw, WDFCMRESLIST ResourcesTranslated);
typedef EVT_WDF_DEVICE_PREPARE_HARDWARE *PFN_WDF_DEVICE_PREPARE_HARDWARE;

typedef NTSTATUS NTAPI EVT_WDF_DEVICE_RELEASE_HARDWARE(
    WDFDEVICE Device, WDFCMRESLIST ResourcesTranslated);
typedef EVT_WDF_DEVICE_RELEASE_HARDWARE *PFN_WDF_DEVICE_RELEASE_HARDWARE;

typedef VOID NTAPI EVT_WDF_DEVICE_SELF_MANAGED_IO_CLEANUP(WDFDEVICE Device);
typedef EVT_WDF_DEVICE_SELF_MANAGED_IO_CLEANUP *PFN_WDF_DEVICE_SELF_MANAGED_IO_CLEANUP;

typedef VOID NTAPI EVT_WDF_DEVICE_SELF_MANAGED_IO_FLUSH(WDFDEVICE Device);
typedef EVT_WDF_DEVICE_SELF_MANAGED_IO_FLUSH *PFN_WDF_DEVICE_SELF_MANAGED_IO_FLUSH;

typedef NTSTATUS NTAPI EVT_WDF_DEVICE_SELF_MANAGED_IO_INIT(WDFDEVICE Device);
typedef EVT_WDF_DEVICE_SELF_MANAGED_IO_INIT *PFN_WDF_DEVICE_SELF_MANAGED_IO_INIT;

typedef NTSTATUS NTAPI EVT_WDF_DEVICE_SELF_MANAGED_IO_SUSPEND(WDFDEVICE Device);
typedef EVT_WDF_DEVICE_SELF_MANAGED_IO_SUSPEND *PFN_WDF_DEVICE_SELF_MANAGED_IO_SUSPEND;

typedef NTSTATUS NTAPI EVT_WDF_DEVICE_SELF_MANAGED_IO_RESTART(WDFDEVICE Device);
typedef EVT_WDF_DEVICE_SELF_MANAGED_IO_RESTART *PFN_WDF_DEVICE_SELF_MANAGED_IO_RESTART;

typedef VOID NTAPI EVT_WDF_DEVICE_SURPRISE_REMOVAL(WDFDEVICE Device);
typedef EVT_WDF_DEVICE_SURPRISE_REMOVAL *PFN_WDF_DEVICE_SURPRISE_REMOVAL;

typedef NTSTATUS NTAPI EVT_WDF_DEVICE_QUERY_REMOVE(WDFDEVICE Device);
typedef EVT_WDF_DEVICE_QUERY_REMOVE *PFN_WDF_DEVICE_QUERY_REMOVE;

typedef NTSTATUS NTAPI EVT_WDF_DEVICE_QUERY_STOP(WDFDEVICE Device);
typedef EVT_WDF_DEVICE_QUERY_STOP *PFN_WDF_DEVICE_QUERY_STOP;

typedef VOID NTAPI EVT_WDF_DEVICE_USAGE_NOTIFICATION(
    WDFDEVICE Device, WDF_SPECIAL_FILE_TYPE NotificationType, BOOLEAN IsInNotificationPath);
typedef EVT_WDF_DEVICE_USAGE_NOTIFICATION *PFN_WDF_DEVICE_USAGE_NOTIFICATION;

typedef NTSTATUS NTAPI EVT_WDF_DEVICE_USAGE_NOTIFICATION_EX(
    WDFDEVICE Device, WDF_SPECIAL_FILE_TYPE NotificationType, BOOLEAN IsInNotificationPath);
typedef EVT_WDF_DEVICE_USAGE_NOTIFICATION_EX *PFN_WDF_DEVICE_USAGE_NOTIFICATION_EX;

typedef VOID NTAPI EVT_WDF_DEVICE_RELATIONS_QUERY(
    WDFDEVICE Device, DEVICE_RELATION_TYPE RelationType);
typedef EVT_WDF_DEVICE_RELATIONS_QUERY *PFN_WDF_DEVICE_RELATIONS_QUERY;

typedef struct _WDF_PNPPOWER_EVENT_CALLBACKS {
    ULONG Size;
    PFN_WDF_DEVICE_D0_ENTRY EvtDeviceD0Entry;
    PFN_WDF_DEVICE_D0_ENTRY_POST_INTERRUPTS_ENABLED EvtDeviceD0EntryPostInterruptsEnabled;
    PFN_WDF_DEVICE_D0_EXIT EvtDeviceD0Exit;
    PFN_WDF_DEVICE_D0_EXIT_PRE_INTERRUPTS_DISABLED EvtDeviceD0ExitPreInterruptsDisabled;
    PFN_WDF_DEVICE_PREPARE_HARDWARE EvtDevicePrepareHardware;
    PFN_WDF_DEVICE_RELEASE_HARDWARE EvtDeviceReleaseHardware;
    PFN_WDF_DEVICE_SELF_MANAGED_IO_CLEANUP EvtDeviceSelfManagedIoCleanup;
    PFN_WDF_DEVICE_SELF_MANAGED_IO_FLUSH EvtDeviceSelfManagedIoFlush;
    PFN_WDF_DEVICE_SELF_MANAGED_IO_INIT EvtDeviceSelfManagedIoInit;
    PFN_WDF_DEVICE_SELF_MANAGED_IO_SUSPEND EvtDeviceSelfManagedIoSuspend;
    PFN_WDF_DEVICE_SELF_MANAGED_IO_RESTART EvtDeviceSelfManagedIoRestart;
    PFN_WDF_DEVICE_SURPRISE_REMOVAL EvtDeviceSurpriseRemoval;
    PFN_WDF_DEVICE_QUERY_REMOVE EvtDeviceQueryRemove;
    PFN_WDF_DEVICE_QUERY_STOP EvtDeviceQueryStop;
    PFN_WDF_DEVICE_USAGE_NOTIFICATION EvtDeviceUsageNotification;
    PFN_WDF_DEVICE_RELATIONS_QUERY EvtDeviceRelationsQuery;
    PFN_WDF_DEVICE_USAGE_NOTIFICATION_EX EvtDeviceUsageNotificationEx;
} WDF_PNPPOWER_EVENT_CALLBACKS, *PWDF_PNPPOWER_EVENT_CALLBACKS;

/* ---- File objects ----------------------------------------------------- */

typedef VOID NTAPI EVT_WDF_DEVICE_FILE_CREATE(
    WDFDEVICE Device, WDFREQUEST Request, WDFFILEOBJECT FileObject);
typedef EVT_WDF_DEVICE_FILE_CREATE *PFN_WDF_DEVICE_FILE_CREATE;

typedef VOID NTAPI EVT_WDF_FILE_CLOSE(WDFFILEOBJECT FileObject);
typedef EVT_WDF_FILE_CLOSE *PFN_WDF_FILE_CLOSE;

typedef VOID NTAPI EVT_WDF_FILE_CLEANUP(WDFFILEOBJECT FileObject);
typedef EVT_WDF_FILE_CLEANUP *PFN_WDF_FILE_CLEANUP;

typedef struct _WDF_FILEOBJECT_CONFIG {
    ULONG Size;
    PFN_WDF_DEVICE_FILE_CREATE EvtDeviceFileCreate;
    PFN_WDF_FILE_CLOSE EvtFileClose;
    PFN_WDF_FILE_CLEANUP EvtFileCleanup;
    WDF_TRI_STATE AutoForwardCleanupClose;
    WDF_FILEOBJECT_CLASS FileObjectClass;
} WDF_FILEOBJECT_CONFIG, *PWDF_FILEOBJECT_CONFIG;

/* ---- Queues ----------------------------------------------------------- */

typedef VOID NTAPI EVT_WDF_IO_QUEUE_IO_DEFAULT(WDFQUEUE Queue, WDFREQUEST Request);
typedef EVT_WDF_IO_QUEUE_IO_DEFAULT *PFN_WDF_IO_QUEUE_IO_DEFAULT;

typedef VOID NTAPI EVT_WDF_IO_QUEUE_IO_READ(WDFQUEUE Queue, WDFREQUEST Request, size_t Length);
typedef EVT_WDF_IO_QUEUE_IO_READ *PFN_WDF_IO_QUEUE_IO_READ;

typedef VOID NTAPI EVT_WDF_IO_QUEUE_IO_WRITE(WDFQUEUE Queue, WDFREQUEST Request, size_t Length);
typedef EVT_WDF_IO_QUEUE_IO_WRITE *PFN_WDF_IO_QUEUE_IO_WRITE;

typedef VOID NTAPI EVT_WDF_IO_QUEUE_IO_DEVICE_CONTROL(
    WDFQUEUE Queue,
    WDFREQUEST Request,
    size_t OutputBufferLength,
    size_t InputBufferLength,
    ULONG IoControlCode);
typedef EVT_WDF_IO_QUEUE_IO_DEVICE_CONTROL *PFN_WDF_IO_QUEUE_IO_DEVICE_CONTROL;

typedef VOID NTAPI EVT_WDF_IO_QUEUE_IO_INTERNAL_DEVICE_CONTROL(
    WDFQUEUE Queue,
    WDFREQUEST Request,
    size_t OutputBufferLength,
    size_t InputBufferLength,
    ULONG IoControlCode);
typedef EVT_WDF_IO_QUEUE_IO_INTERNAL_DEVICE_CONTROL *PFN_WDF_IO_QUEUE_IO_INTERNAL_DEVICE_CONTROL;

typedef VOID NTAPI EVT_WDF_IO_QUEUE_IO_STOP(
    WDFQUEUE Queue, WDFREQUEST Request, ULONG ActionFlags);
typedef EVT_WDF_IO_QUEUE_IO_STOP *PFN_WDF_IO_QUEUE_IO_STOP;

typedef VOID NTAPI EVT_WDF_IO_QUEUE_IO_RESUME(WDFQUEUE Queue, WDFREQUEST Request);
typedef EVT_WDF_IO_QUEUE_IO_RESUME *PFN_WDF_IO_QUEUE_IO_RESUME;

typedef VOID NTAPI EVT_WDF_IO_QUEUE_IO_CANCELED_ON_QUEUE(WDFQUEUE Queue, WDFREQUEST Request);
typedef EVT_WDF_IO_QUEUE_IO_CANCELED_ON_QUEUE *PFN_WDF_IO_QUEUE_IO_CANCELED_ON_QUEUE;

typedef struct _WDF_IO_QUEUE_CONFIG {
    ULONG Size;
    WDF_IO_QUEUE_DISPATCH_TYPE DispatchType;
    WDF_TRI_STATE PowerManaged;
    BOOLEAN AllowZeroLengthRequests;
    BOOLEAN DefaultQueue;
    PFN_WDF_IO_QUEUE_IO_DEFAULT EvtIoDefault;
    PFN_WDF_IO_QUEUE_IO_READ EvtIoRead;
    PFN_WDF_IO_QUEUE_IO_WRITE EvtIoWrite;
    PFN_WDF_IO_QUEUE_IO_DEVICE_CONTROL EvtIoDeviceControl;
    PFN_WDF_IO_QUEUE_IO_INTERNAL_DEVICE_CONTROL EvtIoInternalDeviceControl;
    PFN_WDF_IO_QUEUE_IO_STOP EvtIoStop;
    PFN_WDF_IO_QUEUE_IO_RESUME EvtIoResume;
    PFN_WDF_IO_QUEUE_IO_CANCELED_ON_QUEUE EvtIoCanceledOnQueue;
    union {
        struct {
            ULONG NumberOfPresentedRequests;
        } Parallel;
    } Settings;
    WDFDRIVER Driver;
} WDF_IO_QUEUE_CONFIG, *PWDF_IO_QUEUE_CONFIG;

/* ---- Requests --------------------------------------------------------- */

typedef struct _WDF_REQUEST_PARAMETERS {
    USHORT Size;
    UCHAR MinorFunction;
    WDF_REQUEST_TYPE Type;
    union {
        struct {
            PIO_SECURITY_CONTEXT SecurityContext;
            ULONG Options;
            USHORT POINTER_ALIGNMENT FileAttributes;
            USHORT ShareAccess;
            ULONG POINTER_ALIGNMENT EaLength;
        } Create;
        struct {
            size_t Length;
            ULONG POINTER_ALIGNMENT Key;
            LONGLONG DeviceOffset;
        } Read;
        struct {
            size_t Length;
            ULONG POINTER_ALIGNMENT Key;
            LONGLONG DeviceOffset;
        } Write;
        struct {
            size_t OutputBufferLength;
            size_t POINTER_ALIGNMENT InputBufferLength;
            ULONG POINTER_ALIGNMENT IoControlCode;
            PVOID Type3InputBuffer;
        } DeviceIoControl;
        struct {
            PVOID Arg1;
            PVOID Arg2;
            ULONG POINTER_ALIGNMENT IoControlCode;
            PVOID Arg4;
        } Others;
    } Parameters;
} WDF_REQUEST_PARAMETERS, *PWDF_REQUEST_PARAMETERS;

/* ---- Timers, which the crate wdk wraps -------------------------------- */

typedef VOID NTAPI EVT_WDF_TIMER(WDFTIMER Timer);
typedef EVT_WDF_TIMER *PFN_WDF_TIMER;

typedef struct _WDF_TIMER_CONFIG {
    ULONG Size;
    PFN_WDF_TIMER EvtTimerFunc;
    ULONG Period;
    BOOLEAN AutomaticSerialization;
    ULONG TolerableDelay;
    DECLSPEC_ALIGN(8) WDF_TRI_STATE UseHighResolutionTimer;
} WDF_TIMER_CONFIG, *PWDF_TIMER_CONFIG;

/* ---- The function table ----------------------------------------------- */

typedef VOID (NTAPI *WDFFUNC)(VOID);

typedef enum _WDFFUNCENUM {
    WdfDeviceInitSetPnpPowerEventCallbacksTableIndex = 55,
    WdfDeviceInitSetIoTypeTableIndex = 61,
    WdfDeviceInitSetPowerNotPageableTableIndex = 63,
    WdfDeviceInitSetPowerPageableTableIndex = 64,
    WdfDeviceInitSetDeviceTypeTableIndex = 66,
    WdfDeviceInitAssignNameTableIndex = 67,
    WdfDeviceInitAssignSDDLStringTableIndex = 68,
    WdfDeviceInitSetCharacteristicsTableIndex = 70,
    WdfDeviceInitSetFileObjectConfigTableIndex = 71,
    WdfDeviceCreateTableIndex = 75,
    WdfDeviceSetStaticStopRemoveTableIndex = 76,
    WdfDeviceCreateDeviceInterfaceTableIndex = 77,
    WdfDeviceCreateSymbolicLinkTableIndex = 80,
    WdfDeviceSetFailedTableIndex = 87,
    WdfDriverCreateTableIndex = 116,
    WdfDriverWdmGetDriverObjectTableIndex = 118,
    WdfFileObjectGetDeviceTableIndex = 139,
    WdfIoQueueCreateTableIndex = 152,
    WdfIoQueueGetDeviceTableIndex = 157,
    WdfObjectGetTypedContextWorkerTableIndex = 202,
    WdfObjectAllocateContextTableIndex = 203,
    WdfObjectContextGetObjectTableIndex = 204,
    WdfObjectReferenceActualTableIndex = 205,
    WdfObjectDereferenceActualTableIndex = 206,
    WdfObjectDeleteTableIndex = 208,
    WdfRequestCompleteTableIndex = 263,
    WdfRequestCompleteWithInformationTableIndex = 265,
    WdfRequestGetParametersTableIndex = 266,
    WdfRequestRetrieveInputBufferTableIndex = 269,
    WdfRequestRetrieveOutputBufferTableIndex = 270,
    WdfRequestGetFileObjectTableIndex = 277,
    WdfRequestWdmGetIrpTableIndex = 285,
    WdfWaitLockCreateTableIndex = 312,
    WdfWaitLockAcquireTableIndex = 313,
    WdfWaitLockReleaseTableIndex = 314,
    WdfSpinLockCreateTableIndex = 315,
    WdfSpinLockAcquireTableIndex = 316,
    WdfSpinLockReleaseTableIndex = 317,
    WdfTimerCreateTableIndex = 318,
    WdfTimerStartTableIndex = 319,
    WdfTimerStopTableIndex = 320,
    WdfTimerGetParentObjectTableIndex = 321,
    WdfFunctionTableNumEntries = 458
} WDFFUNCENUM;

/* The entry, WdfDriverEntry.c, defines these. */
extern const WDFFUNC *WdfFunctions_01033;
extern PWDF_DRIVER_GLOBALS WdfDriverGlobals;
extern ULONG WdfFunctionCount;

typedef VOID (NTAPI *PFN_WDFDEVICEINITSETPNPPOWEREVENTCALLBACKS)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    PWDFDEVICE_INIT DeviceInit,
    PWDF_PNPPOWER_EVENT_CALLBACKS PnpPowerEventCallbacks);

typedef VOID (NTAPI *PFN_WDFDEVICEINITSETIOTYPE)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    PWDFDEVICE_INIT DeviceInit,
    WDF_DEVICE_IO_TYPE IoType);

typedef VOID (NTAPI *PFN_WDFDEVICEINITSETPOWERNOTPAGEABLE)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    PWDFDEVICE_INIT DeviceInit);

typedef VOID (NTAPI *PFN_WDFDEVICEINITSETPOWERPAGEABLE)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    PWDFDEVICE_INIT DeviceInit);

typedef VOID (NTAPI *PFN_WDFDEVICEINITSETDEVICETYPE)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    PWDFDEVICE_INIT DeviceInit,
    ULONG DeviceType);

typedef NTSTATUS (NTAPI *PFN_WDFDEVICEINITASSIGNNAME)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    PWDFDEVICE_INIT DeviceInit,
    PCUNICODE_STRING DeviceName);

typedef NTSTATUS (NTAPI *PFN_WDFDEVICEINITASSIGNSDDLSTRING)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    PWDFDEVICE_INIT DeviceInit,
    PCUNICODE_STRING SDDLString);

typedef VOID (NTAPI *PFN_WDFDEVICEINITSETCHARACTERISTICS)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    PWDFDEVICE_INIT DeviceInit,
    ULONG DeviceCharacteristics,
    BOOLEAN OrInValues);

typedef VOID (NTAPI *PFN_WDFDEVICEINITSETFILEOBJECTCONFIG)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    PWDFDEVICE_INIT DeviceInit,
    PWDF_FILEOBJECT_CONFIG FileObjectConfig,
    PWDF_OBJECT_ATTRIBUTES FileObjectAttributes);

typedef NTSTATUS (NTAPI *PFN_WDFDEVICECREATE)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    PWDFDEVICE_INIT *DeviceInit,
    PWDF_OBJECT_ATTRIBUTES DeviceAttributes,
    WDFDEVICE *Device);

typedef NTSTATUS (NTAPI *PFN_WDFDEVICECREATEDEVICEINTERFACE)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    WDFDEVICE Device,
    const GUID *InterfaceClassGUID,
    PCUNICODE_STRING ReferenceString);

typedef NTSTATUS (NTAPI *PFN_WDFDEVICECREATESYMBOLICLINK)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    WDFDEVICE Device,
    PCUNICODE_STRING SymbolicLinkName);

typedef VOID (NTAPI *PFN_WDFDEVICESETSTATICSTOPREMOVE)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    WDFDEVICE Device,
    BOOLEAN Stoppable);

typedef VOID (NTAPI *PFN_WDFDEVICESETFAILED)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    WDFDEVICE Device,
    WDF_DEVICE_FAILED_ACTION FailedAction);

typedef NTSTATUS (NTAPI *PFN_WDFDRIVERCREATE)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    PDRIVER_OBJECT DriverObject,
    PCUNICODE_STRING RegistryPath,
    PWDF_OBJECT_ATTRIBUTES DriverAttributes,
    PWDF_DRIVER_CONFIG DriverConfig,
    WDFDRIVER *Driver);

typedef PDRIVER_OBJECT (NTAPI *PFN_WDFDRIVERWDMGETDRIVEROBJECT)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    WDFDRIVER Driver);

typedef WDFDEVICE (NTAPI *PFN_WDFFILEOBJECTGETDEVICE)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    WDFFILEOBJECT FileObject);

typedef NTSTATUS (NTAPI *PFN_WDFIOQUEUECREATE)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    WDFDEVICE Device,
    PWDF_IO_QUEUE_CONFIG Config,
    PWDF_OBJECT_ATTRIBUTES QueueAttributes,
    WDFQUEUE *Queue);

typedef WDFDEVICE (NTAPI *PFN_WDFIOQUEUEGETDEVICE)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    WDFQUEUE Queue);

typedef PVOID (NTAPI *PFN_WDFOBJECTGETTYPEDCONTEXTWORKER)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    WDFOBJECT Handle,
    PCWDF_OBJECT_CONTEXT_TYPE_INFO TypeInfo);

typedef NTSTATUS (NTAPI *PFN_WDFOBJECTALLOCATECONTEXT)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    WDFOBJECT Handle,
    PWDF_OBJECT_ATTRIBUTES ContextAttributes,
    PVOID *Context);

typedef WDFOBJECT (NTAPI *PFN_WDFOBJECTCONTEXTGETOBJECT)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    PVOID ContextPointer);

typedef VOID (NTAPI *PFN_WDFOBJECTREFERENCEACTUAL)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    WDFOBJECT Handle,
    PVOID Tag,
    LONG Line,
    PCCH File);

typedef VOID (NTAPI *PFN_WDFOBJECTDEREFERENCEACTUAL)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    WDFOBJECT Handle,
    PVOID Tag,
    LONG Line,
    PCCH File);

typedef VOID (NTAPI *PFN_WDFOBJECTDELETE)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    WDFOBJECT Object);

typedef VOID (NTAPI *PFN_WDFREQUESTCOMPLETE)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    WDFREQUEST Request,
    NTSTATUS Status);

typedef VOID (NTAPI *PFN_WDFREQUESTCOMPLETEWITHINFORMATION)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    WDFREQUEST Request,
    NTSTATUS Status,
    ULONG_PTR Information);

typedef VOID (NTAPI *PFN_WDFREQUESTGETPARAMETERS)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    WDFREQUEST Request,
    PWDF_REQUEST_PARAMETERS Parameters);

typedef NTSTATUS (NTAPI *PFN_WDFREQUESTRETRIEVEINPUTBUFFER)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    WDFREQUEST Request,
    size_t MinimumRequiredLength,
    PVOID *Buffer,
    size_t *Length);

typedef NTSTATUS (NTAPI *PFN_WDFREQUESTRETRIEVEOUTPUTBUFFER)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    WDFREQUEST Request,
    size_t MinimumRequiredSize,
    PVOID *Buffer,
    size_t *Length);

typedef WDFFILEOBJECT (NTAPI *PFN_WDFREQUESTGETFILEOBJECT)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    WDFREQUEST Request);

typedef PIRP (NTAPI *PFN_WDFREQUESTWDMGETIRP)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    WDFREQUEST Request);

typedef NTSTATUS (NTAPI *PFN_WDFWAITLOCKCREATE)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    PWDF_OBJECT_ATTRIBUTES LockAttributes,
    WDFWAITLOCK *Lock);

typedef NTSTATUS (NTAPI *PFN_WDFWAITLOCKACQUIRE)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    WDFWAITLOCK Lock,
    PLONGLONG Timeout);

typedef VOID (NTAPI *PFN_WDFWAITLOCKRELEASE)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    WDFWAITLOCK Lock);

typedef NTSTATUS (NTAPI *PFN_WDFSPINLOCKCREATE)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    PWDF_OBJECT_ATTRIBUTES SpinLockAttributes,
    WDFSPINLOCK *SpinLock);

typedef VOID (NTAPI *PFN_WDFSPINLOCKACQUIRE)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    WDFSPINLOCK SpinLock);

typedef VOID (NTAPI *PFN_WDFSPINLOCKRELEASE)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    WDFSPINLOCK SpinLock);

typedef NTSTATUS (NTAPI *PFN_WDFTIMERCREATE)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    PWDF_TIMER_CONFIG Config,
    PWDF_OBJECT_ATTRIBUTES Attributes,
    WDFTIMER *Timer);

typedef BOOLEAN (NTAPI *PFN_WDFTIMERSTART)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    WDFTIMER Timer,
    LONGLONG DueTime);

typedef BOOLEAN (NTAPI *PFN_WDFTIMERSTOP)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    WDFTIMER Timer,
    BOOLEAN Wait);

typedef WDFOBJECT (NTAPI *PFN_WDFTIMERGETPARENTOBJECT)(
    PWDF_DRIVER_GLOBALS DriverGlobals,
    WDFTIMER Timer);
