//! Is every import on the list, and every export?

use super::image::Image;
use super::{Refusals, accepted, refused};

/// What the image imports: DLL, name, why it is needed.
///
/// No C run-time library, no exceptions, no registry, no files, no memory of other processes: what
/// is not listed here is not called.
const IMPORTS: [(&str, &str, &str); 47] = [
    ("WDFLDR.SYS", "WdfVersionBind", "binds the driver to the framework"),
    ("WDFLDR.SYS", "WdfVersionUnbind", "unbinds it"),
    ("HAL.dll", "HalAllocateHardwareCounters", "reserves counters before the first write"),
    ("HAL.dll", "HalFreeHardwareCounters", "gives them back"),
    ("ntoskrnl.exe", "HalDispatchTable", "HalSetSystemInformation: the overflow interrupt"),
    ("ntoskrnl.exe", "ExAllocatePool2", "memory, non-paged and not executable"),
    ("ntoskrnl.exe", "ExFreePoolWithTag", "memory given back"),
    (
        "ntoskrnl.exe",
        "ExAllocateTimer",
        "the timers that rotate sources, and read counters before they wrap",
    ),
    ("ntoskrnl.exe", "ExSetTimer", "the timers"),
    ("ntoskrnl.exe", "ExCancelTimer", "the timers"),
    ("ntoskrnl.exe", "ExDeleteTimer", "the timers"),
    ("ntoskrnl.exe", "ExQueryTimerResolution", "which interval ProfileTime achieves"),
    ("ntoskrnl.exe", "KeQueryActiveProcessorCountEx", "how many processors there are"),
    ("ntoskrnl.exe", "KeQueryMaximumProcessorCountEx", "how many there may come to be"),
    ("ntoskrnl.exe", "KeGetProcessorNumberFromIndex", "a processor's group and number"),
    ("ntoskrnl.exe", "KeGetCurrentProcessorNumberEx", "which processor a DPC or an overflow is on"),
    ("ntoskrnl.exe", "KeRegisterProcessorChangeCallback", "added processors join"),
    ("ntoskrnl.exe", "KeDeregisterProcessorChangeCallback", "no more when the device goes"),
    ("ntoskrnl.exe", "KeInitializeDpc", "work on each processor"),
    ("ntoskrnl.exe", "KeSetTargetProcessorDpcEx", "work on each processor"),
    ("ntoskrnl.exe", "KeSetImportanceDpc", "work on each processor"),
    ("ntoskrnl.exe", "KeInsertQueueDpc", "work on each processor"),
    ("ntoskrnl.exe", "KeFlushQueuedDpcs", "nothing is freed before it has run"),
    ("ntoskrnl.exe", "KeInitializeEvent", "waits until all processors have done their work"),
    ("ntoskrnl.exe", "KeClearEvent", "as above"),
    ("ntoskrnl.exe", "KeSetEvent", "as above"),
    ("ntoskrnl.exe", "KeWaitForSingleObject", "as above"),
    ("ntoskrnl.exe", "KeDelayExecutionThread", "a stretch in which the TSC's rate is measured"),
    ("HAL.dll", "KeQueryPerformanceCounter", "the TSC's rate"),
    ("ntoskrnl.exe", "MmMapIoSpaceEx", "the local APIC's page, where it is a page"),
    ("ntoskrnl.exe", "MmUnmapIoSpace", "that page"),
    ("ntoskrnl.exe", "PsGetCurrentProcessId", "a sample's process"),
    ("ntoskrnl.exe", "PsGetCurrentThreadId", "a sample's thread"),
    ("ntoskrnl.exe", "IoGetRequestorProcessId", "who holds the counters, for who is refused"),
    ("ntoskrnl.exe", "SeSinglePrivilegeCheck", "whether a client may have the kernel's addresses"),
    (
        "ntoskrnl.exe",
        "KeSetHardwareCounterConfiguration",
        "Windows adds the counters up for each thread",
    ),
    ("ntoskrnl.exe", "KeAcquireSpinLockRaiseToDpc", "the lock of the events' ring"),
    ("ntoskrnl.exe", "KeReleaseSpinLock", "that lock"),
    (
        "ntoskrnl.exe",
        "ObfDereferenceObject",
        "the image may go again once Windows has removed the handler",
    ),
    (
        "ntoskrnl.exe",
        "ObfReferenceObject",
        "the image stays while Windows does not remove the overflow handler",
    ),
    ("ntoskrnl.exe", "RtlCopyUnicodeString", "the entry keeps the registry path"),
    ("ntoskrnl.exe", "DbgPrintEx", "tells refusals to a debugger, few in a second"),
    ("ntoskrnl.exe", "KeBugCheckEx", "wdk-panic: what is left of panics stops the machine"),
    ("ntoskrnl.exe", "__chkstk", "the compiler's, for frames above a page"),
    ("ntoskrnl.exe", "memcpy", "the compiler's"),
    ("ntoskrnl.exe", "memset", "the compiler's"),
    ("ntoskrnl.exe", "memcmp", "the compiler's"),
];

/// What the image exports although nobody imports it: names that the linker must see.
const EXPORTS: [&str; 5] =
    ["DriverEntry", "__CxxFrameHandler3", "__CxxFrameHandler4", "__GSHandlerCheck_EH4", "_fltused"];

fn imports(image: &Image) -> Refusals {
    let listed = |dll: &str, name: &str| IMPORTS.iter().any(|row| (row.0, row.1) == (dll, name));
    let unknown = image.imports.iter().filter(|one| !listed(&one.dll, &one.name));
    let unknown = unknown.map(|one| format!("{}!{} is not on the list", one.dll, one.name));
    let imported = |row: &&(&str, &str, &str)| {
        image.imports.iter().any(|one| (&*one.dll, &*one.name) == (row.0, row.1))
    };
    let unused = IMPORTS.iter().filter(|row| !imported(row));
    let unused = unused.map(|row| format!("{}!{} is not imported any more", row.0, row.1));
    unknown.chain(unused).collect()
}

fn exports(image: &Image) -> Refusals {
    let unknown = image.exports.iter().filter(|name| !EXPORTS.contains(&name.as_str()));
    unknown.map(|name| format!("{name} is exported")).collect()
}

fn rename(image: &Image, file: &mut [u8], from: &str, to: &str) {
    let import = image.imports.iter().find(|one| one.name == from).expect("an import");
    assert!(to.len() <= from.len(), "the new name fits");
    super::overwrite(image, file, import.name_at, &[to.as_bytes(), b"\0"].concat());
}

#[test]
fn every_import_is_on_the_list() {
    accepted(imports);
    let forbidden = [
        ("KeRegisterProcessorChangeCallback", "MmGetPhysicalMemoryRanges"),
        ("KeRegisterProcessorChangeCallback", "_CxxThrowException"),
        ("KeRegisterProcessorChangeCallback", "__C_specific_handler"),
        ("KeDelayExecutionThread", "rust_eh_personality"),
    ];
    for (from, to) in forbidden {
        refused(imports, &format!("{to} is not on the list"), |image, file| {
            rename(image, file, from, to);
        });
    }
    refused(imports, "KeSetEvent is not imported any more", |image, file| {
        rename(image, file, "KeSetEvent", "KePulse");
    });
}

#[test]
fn nothing_is_exported_by_accident() {
    accepted(exports);
    refused(exports, "DriverEntrY is exported", |_, file| {
        let at = file.windows(12).position(|bytes| bytes == b"DriverEntry\0");
        file[at.expect("an export's name") + 10] = b'Y';
    });
}
