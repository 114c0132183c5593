//! Do the bindings that the driver was compiled with agree with Windows and KMDF 1.33?
//!
//! The headers are Debian's public DDK and a few of our own, so each number is compared with what
//! Microsoft publishes: `data/kmdf-1.33-abi.json` was taken from
//! microsoft/Windows-Driver-Frameworks (MIT licence), `data/nt-functions.csv` from the functions'
//! pages below <https://learn.microsoft.com/windows-hardware/drivers/ddi/>.

use halprof_tests::bindings::{Bindings, Signature};
use halprof_tests::{driver, facts};
use serde_json::Value;
use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use windows_sys::Wdk::Foundation::{KDPC, KEVENT};
use windows_sys::Wdk::System::SystemServices::{
    _EXT_SET_PARAMETERS_V0 as SetParameters, EXT_DELETE_PARAMETERS as DeleteParameters,
    KE_PROCESSOR_CHANGE_NOTIFY_CONTEXT as Change,
};
use windows_sys::Win32::Foundation::UNICODE_STRING;
use windows_sys::Win32::System::Kernel::PROCESSOR_NUMBER;
use windows_sys::Win32::System::SystemInformation::GROUP_AFFINITY;

const KMDF: &str = include_str!("../data/kmdf-1.33-abi.json");
const NT_FUNCTIONS: &str = include_str!("../data/nt-functions.csv");

/// Names a folder with bindings to the real WDK, to compare these with the same facts.
const OTHERS: &str = "HALPROF_BINDINGS";

/// The bindings of the driver in `target/driver`, or those in the folder that [`OTHERS`] names.
fn bindings() -> Option<&'static Bindings> {
    static BINDINGS: OnceLock<Bindings> = OnceLock::new();
    let others = std::env::var_os(OTHERS).map(PathBuf::from);
    let folder = others.or_else(|| Some(driver::folder()?.join("bindings")))?;
    Some(BINDINGS.get_or_init(|| {
        let mut bindings = Bindings::default();
        for file in ["types.rs", "constants.rs", "ntddk.rs"] {
            let source = std::fs::read_to_string(folder.join(file)).expect(file);
            bindings.read(&source);
        }
        bindings
    }))
}

/// Whether the bindings come from our headers, which contain nothing without a known fact.
fn ours() -> bool {
    std::env::var_os(OTHERS).is_none()
}

fn kmdf() -> Value {
    serde_json::from_str(KMDF).expect("JSON")
}

/// The parts of the framework in the bindings that differ from the facts. If `all_known`, also
/// those for which there is no fact.
fn differences(ours: &Bindings, kmdf: &Value, all_known: bool) -> Vec<String> {
    let mut found = Vec::new();
    let mut check = |what: String, ours: Value, theirs: &Value| {
        let known = !theirs.is_null();
        if ours != *theirs && (known || all_known) {
            found.push(format!("{what}: {ours}, not {theirs}"));
        }
    };
    for (name, &size) in framework(&ours.sizes) {
        check(name.clone(), size.into(), &kmdf["sizeof"][name]);
    }
    for (name, members) in framework(&ours.offsets) {
        check(name.clone(), members_of(members), &kmdf["offsetof"][name]);
    }
    for (name, values) in framework(&ours.enumerations) {
        for (value, &number) in values {
            let theirs = match (name.as_str(), value.as_str()) {
                ("_WDFFUNCENUM", "WdfFunctionTableNumEntries") => &kmdf["function_table_entries"],
                ("_WDFFUNCENUM", _) => &kmdf["function_index"][value],
                _ => &kmdf["enum"][name][value],
            };
            check(value.clone(), number.into(), theirs);
        }
    }
    for (name, signature) in &ours.function_types {
        if is_table_entry(name) {
            let theirs = kmdf["signature"][name].as_str();
            let theirs = theirs.map_or(Value::Null, |text| signed(&parse(text)));
            check(name.clone(), signed(signature), &theirs);
        }
    }
    found
}

fn framework<T>(all: &BTreeMap<String, T>) -> impl Iterator<Item = (&String, &T)> {
    all.iter().filter(|(name, _)| name.starts_with("_WDF"))
}

/// True for `PFN_WDFDRIVERCREATE`, but not for a callback such as `PFN_WDF_TIMER`.
fn is_table_entry(name: &str) -> bool {
    name.starts_with("PFN_WDF") && !name.starts_with("PFN_WDF_")
}

fn members_of(members: &BTreeMap<String, u64>) -> Value {
    members.iter().map(|(name, &at)| (name.clone(), at)).collect()
}

fn signed(signature: &Signature) -> Value {
    format!("{signature:?}").into()
}

/// `(Driver: WDFDRIVER, Tag: ULONG, ) -> NTSTATUS`
fn parse(text: &str) -> Signature {
    let (parameters, returns) = text.rsplit_once(')').unwrap_or_default();
    let parameters = parameters.trim_start_matches('(').split(", ");
    let named = parameters.filter_map(|parameter| parameter.split_once(": "));
    Signature {
        parameters: named.map(|(name, ty)| (name.into(), ty.into())).collect(),
        returns: returns.trim_start_matches(" -> ").into(),
    }
}

#[test]
fn the_framework_is_as_microsoft_publishes_it() {
    let Some(bindings) = bindings() else { return };
    assert_eq!(differences(bindings, &kmdf(), ours()), [""; 0]);
}

#[test]
fn every_function_of_the_table_can_be_called() {
    let Some(bindings) = bindings().filter(|_| ours()) else {
        return;
    };
    let mut types: Vec<_> = bindings.function_types.keys().cloned().collect();
    types.retain(|name| is_table_entry(name));
    let indices = bindings.enumerations["_WDFFUNCENUM"].keys();
    let indices = indices.filter_map(|name| name.strip_suffix("TableIndex"));
    let mut called: Vec<_> = indices.map(|name| format!("PFN_{}", name.to_uppercase())).collect();
    called.sort();
    assert_eq!(types, called);
    assert!(called.len() >= 40, "{}", called.len());
}

/// A correct piece of bindings; the next test breaks it.
const RIGHT: &str = r#"
    const _: () = {
        ["Size of _WDF_DRIVER_CONFIG"][::core::mem::size_of::<_WDF_DRIVER_CONFIG>() - 32usize];
        ["Offset of field: _WDF_DRIVER_CONFIG::Size"]
            [::core::mem::offset_of!(_WDF_DRIVER_CONFIG, Size) - 0usize];
        ["Offset of field: _WDF_DRIVER_CONFIG::EvtDriverDeviceAdd"]
            [::core::mem::offset_of!(_WDF_DRIVER_CONFIG, EvtDriverDeviceAdd) - 8usize];
        ["Offset of field: _WDF_DRIVER_CONFIG::EvtDriverUnload"]
            [::core::mem::offset_of!(_WDF_DRIVER_CONFIG, EvtDriverUnload) - 16usize];
        ["Offset of field: _WDF_DRIVER_CONFIG::DriverInitFlags"]
            [::core::mem::offset_of!(_WDF_DRIVER_CONFIG, DriverInitFlags) - 24usize];
        ["Offset of field: _WDF_DRIVER_CONFIG::DriverPoolTag"]
            [::core::mem::offset_of!(_WDF_DRIVER_CONFIG, DriverPoolTag) - 28usize];
    };
    pub mod _WDFFUNCENUM {
        pub const WdfDriverCreateTableIndex: Type = 116;
        pub const WdfFunctionTableNumEntries: Type = 458;
    }
    pub mod _WDF_FILEOBJECT_CLASS {
        pub const WdfFileObjectCanBeOptional: Type = -2147483648;
    }
    pub type PFN_WDFWAITLOCKCREATE = ::core::option::Option<
        unsafe extern "C" fn(
            DriverGlobals: PWDF_DRIVER_GLOBALS,
            LockAttributes: PWDF_OBJECT_ATTRIBUTES,
            Lock: *mut WDFWAITLOCK,
        ) -> NTSTATUS,
    >;
"#;

#[test]
fn each_kind_of_difference_is_found() {
    let kmdf = kmdf();
    let found = |source: &str| {
        let mut bindings = Bindings::default();
        bindings.read(source);
        differences(&bindings, &kmdf, true)
    };
    assert_eq!(found(RIGHT), [""; 0]);
    for (right, wrong) in [
        ("32usize", "40usize"),
        ("24usize", "20usize"),
        ("DriverPoolTag\"", "DriverTag\""),
        ("Index: Type = 116", "Index: Type = 117"),
        ("458", "457"),
        ("WdfDriverCreateTableIndex", "WdfDriverMadeTableIndex"),
        ("-2147483648", "2147483647"),
        ("Lock: *mut WDFWAITLOCK", "Lock: WDFWAITLOCK"),
        ("LockAttributes:", "Attributes:"),
        (") -> NTSTATUS", ")"),
        ("PFN_WDFWAITLOCKCREATE", "PFN_WDFWAITLOCKMAKE"),
        ("_WDF_FILEOBJECT_CLASS", "_WDF_FILEOBJECT_KIND"),
    ] {
        assert!(RIGHT.contains(right), "{right}");
        let found = found(&RIGHT.replacen(right, wrong, 1));
        assert_eq!(found.len(), 1, "{wrong}: {found:?}");
    }
}

/// Name, size, and members with their offsets.
type Structure = (&'static str, u64, &'static [(&'static str, u64)]);

/// Sizes and offsets of the kernel's structures, x64.
///
/// Sources: the structures' pages; `dt nt!_KTRAP_FRAME` of the public symbols.
const STRUCTURES: &[Structure] = &[
    ("_DRIVER_OBJECT", 0x150, &[("DriverUnload", 0x68), ("MajorFunction", 0x70)]),
    ("_EXT_SET_PARAMETERS_V0", 0x10, &[("NoWakeTolerance", 0x08)]),
    ("_EXT_DELETE_PARAMETERS", 0x18, &[("DeleteCallback", 0x08), ("DeleteContext", 0x10)]),
    ("_GROUP_AFFINITY", 0x10, &[("Mask", 0), ("Group", 8)]),
    (
        "_KDPC",
        0x40,
        &[("DeferredRoutine", 0x18), ("DeferredContext", 0x20), ("SystemArgument1", 0x28)],
    ),
    ("_KEVENT", 0x18, &[("Header", 0)]),
    (
        "_KE_PROCESSOR_CHANGE_NOTIFY_CONTEXT",
        0x10,
        &[("State", 0), ("NtNumber", 4), ("Status", 8), ("ProcNumber", 0x0C)],
    ),
    (
        "_KTRAP_FRAME",
        0x190,
        &[
            ("PreviousMode", 0x28),
            ("MxCsr", 0x2C),
            ("Rax", 0x30),
            ("Xmm0", 0x70),
            ("SegDs", 0x130),
            ("Rbp", 0x158),
            ("Rip", 0x168),
            ("SegCs", 0x170),
            ("EFlags", 0x178),
            ("Rsp", 0x180),
            ("SegSs", 0x188),
        ],
    ),
    ("_PROCESSOR_NUMBER", 4, &[("Group", 0), ("Number", 2)]),
    ("_UNICODE_STRING", 0x10, &[("Length", 0), ("MaximumLength", 2), ("Buffer", 8)]),
];

/// The structures of the profile classes: in the public DDK, but in no header of Microsoft's.
const PROFILE_STRUCTURES: &[Structure] = &[
    ("_HAL_PROFILE_SOURCE_INFORMATION", 0x0C, &[("Source", 0), ("Supported", 4), ("Interval", 8)]),
    // The maximum comes before the minimum.
    (
        "_HAL_PROFILE_SOURCE_INFORMATION_EX",
        0x28,
        &[
            ("Source", 0),
            ("Supported", 4),
            ("Interval", 8),
            ("DefInterval", 0x10),
            ("MaxInterval", 0x18),
            ("MinInterval", 0x20),
        ],
    ),
    ("_HAL_PROFILE_SOURCE_INTERVAL", 0x10, &[("Source", 0), ("Interval", 8)]),
    ("_HAL_PROFILE_SOURCE_LIST", 0x10, &[("Source", 0), ("Description", 8)]),
];

/// Only the first members: later ones have moved.
const HAL_DISPATCH: &[(&str, u64)] =
    &[("Version", 0), ("HalQuerySystemInformation", 0x08), ("HalSetSystemInformation", 0x10)];

#[test]
fn the_kernels_structures_are_as_microsoft_publishes_them() {
    let Some(bindings) = bindings() else { return };
    let profile = PROFILE_STRUCTURES.iter().filter(|_| ours());
    for &(name, size, members) in STRUCTURES.iter().chain(profile) {
        assert_eq!(bindings.sizes.get(name), Some(&size), "{name}");
        for &(member, at) in members {
            let ours = bindings.offsets[name].get(member);
            assert_eq!(ours, Some(&at), "{name}.{member}");
        }
    }
    // bindgen uses the other name if the structure has none.
    let dispatch = ["HAL_DISPATCH", "_HAL_DISPATCH"].map(|name| bindings.offsets.get(name));
    let dispatch = dispatch.into_iter().flatten().next().expect("HAL_DISPATCH");
    for &(member, at) in HAL_DISPATCH {
        assert_eq!(dispatch[member], at, "{member}");
    }
}

#[test]
fn the_table_of_structures_agrees_with_microsofts_metadata() {
    let expected = |name: &str| STRUCTURES.iter().find(|row| row.0 == name).expect(name);
    let size = |name| expected(name).1;
    let at = |name, member: &str| {
        let members = expected(name).2;
        members.iter().find(|row| row.0 == member).expect(member).1
    };
    let bytes = |bytes: usize| u64::try_from(bytes).expect("a size");

    assert_eq!(size("_KDPC"), bytes(size_of::<KDPC>()));
    let routine = bytes(offset_of!(KDPC, DeferredRoutine));
    assert_eq!(at("_KDPC", "DeferredRoutine"), routine);
    assert_eq!(size("_KEVENT"), bytes(size_of::<KEVENT>()));
    assert_eq!(size("_GROUP_AFFINITY"), bytes(size_of::<GROUP_AFFINITY>()));
    assert_eq!(size("_PROCESSOR_NUMBER"), bytes(size_of::<PROCESSOR_NUMBER>()));
    assert_eq!(size("_UNICODE_STRING"), bytes(size_of::<UNICODE_STRING>()));
    let change = "_KE_PROCESSOR_CHANGE_NOTIFY_CONTEXT";
    assert_eq!(size(change), bytes(size_of::<Change>()));
    assert_eq!(at(change, "ProcNumber"), bytes(offset_of!(Change, ProcNumber)));
    let delete = "_EXT_DELETE_PARAMETERS";
    assert_eq!(size(delete), bytes(size_of::<DeleteParameters>()));
    let set = "_EXT_SET_PARAMETERS_V0";
    assert_eq!(size(set), bytes(size_of::<SetParameters>()));
}

/// Values that the driver passes to the kernel. Sources: the pages of the enumerations.
const VALUES: &[(&str, &[(&str, i64)])] = &[
    (
        "_HAL_QUERY_INFORMATION_CLASS",
        &[("HalProfileSourceInformation", 1), ("HalQueryProfileSourceList", 20)],
    ),
    (
        "_HAL_SET_INFORMATION_CLASS",
        &[("HalProfileSourceInterval", 0), ("HalProfileSourceInterruptHandler", 1)],
    ),
    (
        "_KDPC_IMPORTANCE",
        &[
            ("LowImportance", 0),
            ("MediumImportance", 1),
            ("HighImportance", 2),
            ("MediumHighImportance", 3),
        ],
    ),
    ("_EVENT_TYPE", &[("NotificationEvent", 0), ("SynchronizationEvent", 1)]),
    ("_KWAIT_REASON", &[("Executive", 0)]),
    ("_MODE", &[("KernelMode", 0), ("UserMode", 1)]),
    (
        "_KE_PROCESSOR_CHANGE_NOTIFY_STATE",
        &[
            ("KeProcessorAddStartNotify", 0),
            ("KeProcessorAddCompleteNotify", 1),
            ("KeProcessorAddFailureNotify", 2),
        ],
    ),
];

/// The kernel's macros. On x64 PROFILE_LEVEL is 15 and IPI_LEVEL 14; x86 and the metadata of
/// windows-sys have other numbers.
const MACROS: &[(&str, i64)] = &[
    ("PASSIVE_LEVEL", 0),
    ("APC_LEVEL", 1),
    ("DISPATCH_LEVEL", 2),
    ("IPI_LEVEL", 14),
    ("PROFILE_LEVEL", 15),
    ("HIGH_LEVEL", 15),
    ("EX_TIMER_HIGH_RESOLUTION", 4),
    ("EX_TIMER_NO_WAKE", 8),
    ("KE_PROCESSOR_CHANGE_ADD_EXISTING", 1),
    ("ALL_PROCESSOR_GROUPS", 0xFFFF),
    ("FILE_DEVICE_UNKNOWN", 0x22),
    ("FILE_DEVICE_SECURE_OPEN", 0x100),
    ("METHOD_BUFFERED", 0),
    ("PAGE_READWRITE", 4),
    ("PAGE_NOCACHE", 0x200),
];

#[test]
fn the_kernels_values_are_as_microsoft_publishes_them() {
    let Some(bindings) = bindings() else { return };
    for &(name, values) in VALUES {
        let ours = bindings.enumerations.get(name).expect(name);
        for &(value, number) in values {
            assert_eq!(ours[value], number, "{name}.{value}");
        }
    }
    for &(name, number) in MACROS {
        assert_eq!(bindings.constants.get(name), Some(&number), "{name}");
    }
}

#[test]
fn the_kernels_functions_are_as_microsoft_publishes_them() {
    let Some(bindings) = bindings() else { return };
    let resolve = |ty: &str| bindings.resolve(ty);
    for record in facts::records(NT_FUNCTIONS) {
        let name = &record["function"];
        let ours = bindings.functions.get(name).expect(name);
        let parameters: Vec<_> = ours.parameters.iter().map(|(_, ty)| resolve(ty)).collect();
        let theirs = record["parameters"].split("; ").filter(|ty| !ty.is_empty());
        assert_eq!(parameters, theirs.map(resolve).collect::<Vec<_>>(), "{name}");
        assert_eq!(resolve(&ours.returns), resolve(&record["returns"]), "{name}");
    }
    assert_eq!(resolve("POOL_FLAGS"), "::core::ffi::c_ulonglong");
}

/// What the compiler itself needs, and the data that no page describes as a function.
const NO_FUNCTIONS: [&str; 6] =
    ["HalDispatchTable", "__chkstk", "memcmp", "memcpy", "memmove", "memset"];

#[test]
fn the_import_lists_name_each_functions_dll() {
    let lists = Path::new(env!("CARGO_MANIFEST_DIR")).join("../xtask/wdk/lib");
    for (list, dll) in [("ntoskrnl.def", "ntoskrnl.exe"), ("hal.def", "hal.dll")] {
        let text = std::fs::read_to_string(lists.join(list)).expect(list);
        let (head, exports) = text.split_once("EXPORTS").expect("a list");
        assert!(head.to_lowercase().contains(&format!("library {dll}")), "{list}");
        let mut ours: Vec<_> = exports.split_whitespace().collect();
        ours.retain(|name| *name != "DATA" && !NO_FUNCTIONS.contains(name));
        let records = facts::records(NT_FUNCTIONS);
        let theirs = records.iter().filter(|record| record["dll"] == dll);
        let mut theirs: Vec<_> = theirs.map(|record| record["function"].as_str()).collect();
        ours.sort_unstable();
        theirs.sort_unstable();
        assert_eq!(ours, theirs, "{list}");
    }
}
