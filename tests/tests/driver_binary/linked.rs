//! Which headers, protections, sections, imports, exports and texts does the linker give the image?

use super::driver::{Driver, text};
use super::entries::{ENTRIES, is_closure};
use super::unwind::HANDLER;
use super::{Change, Policy, Refusals};
use object::LittleEndian as LE;
use object::Object as _;
use object::pe::{self, ImageLoadConfigDirectory64, ImageNtHeaders64, ImageOptionalHeader64};
use std::mem::offset_of;

pub(crate) const POLICIES: &[Policy] = &[
    Policy {
        holds: "it is a native driver for x64, entered by the framework",
        refuses: kind,
        notices: |driver| {
            let machine = offset_of!(ImageNtHeaders64, file_header);
            let subsystem = in_optional(offset_of!(ImageOptionalHeader64, subsystem));
            let entry = in_optional(offset_of!(ImageOptionalHeader64, address_of_entry_point));
            named([
                ("not a native image", driver.in_headers(subsystem, |_| 3)),
                ("not for x64", driver.in_headers(machine, |byte| byte ^ 1)),
                ("entry", driver.in_headers(entry, |byte| byte ^ 0x10)),
                ("more than", (LARGEST, vec![1])),
            ])
        },
    },
    Policy {
        holds: "every protection is on",
        refuses: protections,
        notices: |driver| {
            let at = in_optional(offset_of!(ImageOptionalHeader64, dll_characteristics));
            let off = |(bit, what): (u16, &str)| {
                let [low, high] = bit.to_le_bytes();
                let (at, bit) = if low == 0 { (at + 1, high) } else { (at, low) };
                (what.to_owned(), driver.in_headers(at, |byte| byte & !bit))
            };
            let extended = driver.over(extended_at(driver).expect("an entry"), &[0]);
            let extended = ("CETCOMPAT".to_owned(), extended);
            PROTECTIONS.into_iter().map(off).chain([extended]).collect()
        },
    },
    Policy {
        holds: "no section is writable and executable",
        refuses: sections,
        notices: |driver| {
            let alignment = in_optional(offset_of!(ImageOptionalHeader64, section_alignment)) + 1;
            named([
                (".data is writable and executable", driver.in_section_header(".data", 0x20)),
                (".text is writable and executable", driver.in_section_header(".text", 0x80)),
                ("do not begin with pages", driver.in_headers(alignment, |_| 8)),
            ])
        },
    },
    Policy {
        holds: "indirect calls may go to callbacks and closures alone",
        refuses: guarded_functions,
        notices: |driver| {
            let (at, _) = driver.directory(pe::IMAGE_DIRECTORY_ENTRY_LOAD_CONFIG);
            let flags = at + offset_of!(ImageLoadConfigDirectory64, guard_flags) as u32;
            let count = at + offset_of!(ImageLoadConfigDirectory64, guard_cf_function_count) as u32;
            named([
                ("guard flags", driver.over(flags + 1, &[0])),
                ("is not guarded", driver.over(count, &[1])),
                ("nobody knows why", driver.over(driver.guard.table, &[1])),
            ])
        },
    },
    Policy {
        holds: "no path of the build machine is in the image",
        refuses: paths,
        notices: |driver| {
            let at = driver.section(".rdata").virtual_address.get(LE);
            let wide: Vec<u8> = ".cargo".bytes().flat_map(|byte| [byte, 0]).collect();
            named([
                ("/home", driver.over(at, b"/home/somebody")),
                (".cargo", driver.over(at + 1, &wide)),
            ])
        },
    },
    Policy {
        holds: "checksum, security cookie and the symbols' name are there",
        refuses: stamped,
        notices: |driver| {
            let at = in_optional(offset_of!(ImageOptionalHeader64, check_sum));
            named([
                ("checksum", driver.in_headers(at, |byte| byte ^ 1)),
                ("another name", (position(driver, b"halprof.pdb\0"), b"H".to_vec())),
            ])
        },
    },
    Policy {
        holds: "every import is on the list",
        refuses: imports,
        notices: |driver| {
            let renamed = |(from, to): (&str, &str)| {
                let import = driver.imports.iter().find(|one| one.name == from).expect(from);
                assert!(to.len() <= from.len(), "the new name fits");
                driver.over(import.name_at, &[to.as_bytes(), b"\0"].concat())
            };
            let forbidden = [
                ("KeRegisterProcessorChangeCallback", "MmGetPhysicalMemoryRanges"),
                ("KeRegisterProcessorChangeCallback", "_CxxThrowException"),
                ("KeRegisterProcessorChangeCallback", "__C_specific_handler"),
                ("KeDelayExecutionThread", "rust_eh_personality"),
            ];
            let unlisted =
                forbidden.map(|names| (format!("{} is not on the list", names.1), names));
            let unused =
                ("KeSetEvent is not imported any more".to_owned(), ("KeSetEvent", "KePulse"));
            let all = unlisted.into_iter().chain([unused]);
            all.map(|(words, names)| (words, renamed(names))).collect()
        },
    },
    Policy {
        holds: "nothing is exported by accident",
        refuses: exports,
        notices: |driver| {
            let at = position(driver, b"DriverEntry\0") + 10;
            named([("DriverEntrY is exported", (at, b"Y".to_vec()))])
        },
    },
];

fn named<const N: usize>(changes: [(&str, Change); N]) -> Vec<(String, Change)> {
    changes.map(|(words, change)| (words.to_owned(), change)).into()
}

/// The offset of a member of the optional header in the NT headers.
const fn in_optional(member: usize) -> usize {
    offset_of!(ImageNtHeaders64, optional_header) + member
}

/// Where bytes are in the file.
fn position(driver: &Driver, bytes: &[u8]) -> usize {
    let found = driver.bytes.windows(bytes.len()).position(|window| window == bytes);
    found.expect("these bytes")
}

/// Each flag of DllCharacteristics, with what it provides.
const PROTECTIONS: [(u16, &str); 5] = [
    (pe::IMAGE_DLLCHARACTERISTICS_DYNAMIC_BASE, "DYNAMIC_BASE: loaded anywhere"),
    (pe::IMAGE_DLLCHARACTERISTICS_HIGH_ENTROPY_VA, "HIGH_ENTROPY_VA: anywhere in 64 bits"),
    (pe::IMAGE_DLLCHARACTERISTICS_NX_COMPAT, "NX_COMPAT: data is not executed"),
    (pe::IMAGE_DLLCHARACTERISTICS_FORCE_INTEGRITY, "FORCE_INTEGRITY: the signature is checked"),
    (pe::IMAGE_DLLCHARACTERISTICS_GUARD_CF, "GUARD_CF: indirect calls are checked"),
];
/// IMAGE_GUARD_CF_INSTRUMENTED and IMAGE_GUARD_CF_FUNCTION_TABLE_PRESENT (winnt.h).
const GUARDED: u32 = 0x100 | 0x400;
const PAGE: u32 = 0x1000;
/// The size limit of the file in bytes.
const LARGEST: usize = 160 << 10;
/// IMAGE_DEBUG_TYPE_EX_DLLCHARACTERISTICS and IMAGE_DLLCHARACTERISTICS_EX_CET_COMPAT (winnt.h).
const DEBUG_EXTENDED: u32 = 20;
const CET_COMPATIBLE: u32 = 1;
/// How a path or a user's name on a build machine begins.
const PATHS: [&str; 9] =
    ["/root", "/home", "/usr", "/work", "/tmp", ".cargo", ".rustup", "C:\\", "\\Users\\"];

fn kind(driver: &Driver) -> Refusals {
    let mut refusals = Refusals::new();
    let headers = driver.file.nt_headers();
    if headers.file_header.machine.get(LE) != pe::IMAGE_FILE_MACHINE_AMD64 {
        refusals.push("not for x64".to_owned());
    }
    if headers.optional_header.subsystem.get(LE) != pe::IMAGE_SUBSYSTEM_NATIVE {
        refusals.push("not a native image".to_owned());
    }
    let entry = headers.optional_header.address_of_entry_point.get(LE);
    if entry != driver.function("FxDriverEntry") {
        refusals.push("the framework's entry is not the entry".to_owned());
    }
    if driver.bytes.len() > LARGEST {
        refusals.push(format!("{} bytes, more than {LARGEST}", driver.bytes.len()));
    }
    refusals
}

fn protections(driver: &Driver) -> Refusals {
    let set = driver.file.nt_headers().optional_header.dll_characteristics.get(LE);
    let missing = PROTECTIONS.iter().filter(|(bit, _)| set & bit == 0);
    let mut refusals: Refusals = missing.map(|(_, what)| format!("without {what}")).collect();
    let extended = extended_at(driver).map_or(0, |at| driver.u32_at(at));
    if extended & CET_COMPATIBLE == 0 {
        refusals.push("without CETCOMPAT: returns are not checked".to_owned());
    }
    refusals
}

/// Where the extended DllCharacteristics are.
fn extended_at(driver: &Driver) -> Option<u32> {
    let (table, size) = driver.directory(pe::IMAGE_DIRECTORY_ENTRY_DEBUG);
    let mut entries = (table..table + size).step_by(size_of::<pe::ImageDebugDirectory>());
    let entry = entries.find(|entry| driver.u32_at(entry + 12) == DEBUG_EXTENDED)?;
    Some(driver.u32_at(entry + 20))
}

fn sections(driver: &Driver) -> Refusals {
    let mut refusals = Refusals::new();
    if driver.file.nt_headers().optional_header.section_alignment.get(LE) != PAGE {
        refusals.push("sections do not begin with pages".to_owned());
    }
    for section in driver.file.section_table().iter() {
        let name = text(section.raw_name());
        let has = |bit: u32| section.characteristics.get(LE) & bit != 0;
        if has(pe::IMAGE_SCN_MEM_WRITE) && has(pe::IMAGE_SCN_MEM_EXECUTE) {
            refusals.push(format!("{name} is writable and executable"));
        }
        if has(pe::IMAGE_SCN_MEM_EXECUTE) != (name == ".text") {
            refusals.push(format!("{name}: code is in .text alone"));
        }
        if section.virtual_address.get(LE) % PAGE != 0 {
            refusals.push(format!("{name} does not begin with a page"));
        }
    }
    refusals
}

/// Every entry is a permitted target of indirect calls, and apart from entries only closures are.
fn guarded_functions(driver: &Driver) -> Refusals {
    let mut refusals = Refusals::new();
    if driver.guard.flags & GUARDED != GUARDED {
        refusals.push(format!("guard flags {:#x}", driver.guard.flags));
    }
    for entry in ENTRIES {
        if !driver.guard.functions.contains(&driver.function(entry.name)) {
            refusals.push(format!("{} is not guarded", entry.name));
        }
    }
    for at in &driver.guard.functions {
        let known = driver.functions.get(at).is_some_and(|function| {
            let entry = ENTRIES.iter().any(|entry| function.is(entry.name));
            entry || is_closure(function) || LINKED.iter().any(|name| function.begins(name))
        });
        if !known {
            refusals.push(format!("indirect calls may go to {at:#x}, and nobody knows why"));
        }
    }
    refusals
}

/// Guarded functions that nothing calls: names that wdk-sys gives the linker, and functions that
/// the load configuration points to.
const LINKED: [&str; 6] = [
    // Windows calls it for an exception of RDMSR or WRMSR.
    HANDLER,
    "__CxxFrameHandler3",
    "__CxxFrameHandler4",
    "__GSHandlerCheck_EH4",
    "the guard's check",
    "the guard's dispatch",
];

fn paths(driver: &Driver) -> Refusals {
    let narrow = String::from_utf8_lossy(driver.bytes);
    // Text in 16-bit characters, at either alignment.
    let wide = [0, 1].map(|skip| {
        let pairs = driver.bytes[skip..].chunks_exact(2);
        pairs.map(|pair| if pair[1] == 0 { char::from(pair[0]) } else { '\0' }).collect::<String>()
    });
    let has =
        |path: &&&str| narrow.contains(**path) || wide.iter().any(|text| text.contains(**path));
    let found = PATHS.iter().filter(has);
    found.map(|path| format!("`{path}` is in the image")).collect()
}

fn stamped(driver: &Driver) -> Refusals {
    let mut refusals = Refusals::new();
    if driver.file.nt_headers().optional_header.check_sum.get(LE) != checksum(driver) {
        refusals.push("the checksum is wrong".to_owned());
    }
    if driver.load_configuration().security_cookie.get(LE) == 0 {
        refusals.push("there is no security cookie".to_owned());
    }
    let symbols = driver.file.pdb_info().expect("a debug directory");
    if symbols.is_none_or(|symbols| symbols.path() != b"halprof.pdb") {
        refusals.push("the symbols have another name".to_owned());
    }
    refusals
}

/// All 16-bit words except the checksum's own, added with their carries, plus the length.
fn checksum(driver: &Driver) -> u32 {
    let headers = driver.file.dos_header().nt_headers_offset() as usize;
    let at = headers + in_optional(offset_of!(ImageOptionalHeader64, check_sum));
    let words = driver.bytes.chunks(2).zip((0..).step_by(2));
    let words = words.filter(|(_, offset)| !(at..at + 4).contains(offset));
    let sum = words.fold(0_u32, |sum, (word, _)| {
        let word = [word[0], word.get(1).copied().unwrap_or(0)];
        let sum = sum + u32::from(u16::from_le_bytes(word));
        (sum & 0xFFFF) + (sum >> 16)
    });
    sum + u32::try_from(driver.bytes.len()).expect("below 4 GiB")
}

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

fn imports(driver: &Driver) -> Refusals {
    let listed = |dll: &str, name: &str| IMPORTS.iter().any(|row| (row.0, row.1) == (dll, name));
    let unknown = driver.imports.iter().filter(|one| !listed(&one.dll, &one.name));
    let unknown = unknown.map(|one| format!("{}!{} is not on the list", one.dll, one.name));
    let imported = |row: &&(&str, &str, &str)| {
        driver.imports.iter().any(|one| (&*one.dll, &*one.name) == (row.0, row.1))
    };
    let unused = IMPORTS.iter().filter(|row| !imported(row));
    let unused = unused.map(|row| format!("{}!{} is not imported any more", row.0, row.1));
    unknown.chain(unused).collect()
}

fn exports(driver: &Driver) -> Refusals {
    let table = driver.file.export_table().expect("exports").expect("exports");
    let names =
        table.exports().expect("exports").into_iter().filter_map(|one| Some(text(one.name?)));
    let unknown = names.filter(|name| !EXPORTS.contains(&name.as_str()));
    unknown.map(|name| format!("{name} is exported")).collect()
}
