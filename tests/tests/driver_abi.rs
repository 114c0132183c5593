//! Do the bindings that the driver was compiled with agree with Windows and KMDF 1.33?
//!
//! The headers are Debian's public DDK and a few of our own, so each number is compared with what
//! Microsoft publishes: `data/kmdf-1.33-abi.json` was taken from
//! microsoft/Windows-Driver-Frameworks (MIT licence), `data/nt-functions.csv` from the functions'
//! pages below <https://learn.microsoft.com/windows-hardware/drivers/ddi/>; the rows of
//! `data/nt-abi.csv` have each their source. Of HAL_DISPATCH it has only the first members: later
//! ones have moved.

mod bindings;

use bindings::Bindings;
use halprof_tests::facts::{self, number};
use halprof_tests::{data, driver};
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
            bindings.read(&std::fs::read_to_string(folder.join(file)).expect(file));
        }
        bindings
    }))
}

/// Whether the bindings come from our headers, which contain nothing without a known fact.
fn ours() -> bool {
    std::env::var_os(OTHERS).is_none()
}

/// The framework as Microsoft publishes it: numbers and signatures by the names of [`Bindings`].
fn kmdf() -> BTreeMap<String, String> {
    let published: Value =
        serde_json::from_str(include_str!("../data/kmdf-1.33-abi.json")).expect("JSON");
    let all = |what: &str| published[what].as_object().expect("an object").clone().into_iter();
    let mut facts = BTreeMap::new();
    let mut fact = |name: String, value: Value| {
        let text =
            value.as_str().map_or_else(|| value.to_string(), |text| text.replace(", )", ")"));
        facts.insert(name, text);
    };
    all("sizeof").for_each(|(name, size)| fact(format!("sizeof {name}"), size));
    for (name, members) in all("offsetof").chain(all("enum")) {
        for (member, value) in members.as_object().expect("an object") {
            fact(format!("{name}.{member}"), value.clone());
        }
    }
    all("function_index").for_each(|(name, index)| fact(format!("_WDFFUNCENUM.{name}"), index));
    let entries = "_WDFFUNCENUM.WdfFunctionTableNumEntries".to_owned();
    fact(entries, published["function_table_entries"].clone());
    all("signature").for_each(|(name, signature)| fact(name, signature));
    facts
}

/// The parts of the framework in the bindings that differ from the facts. If `all_known`, also
/// those for which there is no fact.
fn differences(ours: &Bindings, kmdf: &BTreeMap<String, String>, all_known: bool) -> Vec<String> {
    let framework = |name: &str| name.trim_start_matches("sizeof ").starts_with("_WDF");
    let numbers = ours.numbers.iter().filter(|(name, _)| framework(name));
    let numbers = numbers.map(|(name, value)| (name, value.to_string()));
    let functions = ours.functions.iter().filter(|(name, _)| is_table_entry(name));
    let all = numbers.chain(functions.map(|(name, signature)| (name, signature.to_string())));
    let wrong = all.filter(|(name, value)| kmdf.get(*name).map_or(all_known, |fact| fact != value));
    wrong.map(|(name, value)| format!("{name}: {value}, not {:?}", kmdf.get(name))).collect()
}

/// True for `PFN_WDFDRIVERCREATE`, but not for a callback such as `PFN_WDF_TIMER`.
fn is_table_entry(name: &str) -> bool {
    name.starts_with("PFN_WDF") && !name.starts_with("PFN_WDF_")
}

#[test]
fn the_framework_is_as_microsoft_publishes_it() {
    let Some(bindings) = bindings() else { return };
    assert_eq!(differences(bindings, &kmdf(), ours()), [""; 0]);
}

#[test]
fn every_function_of_the_table_can_be_called() {
    let Some(bindings) = bindings().filter(|_| ours()) else { return };
    let types: Vec<_> =
        bindings.functions.keys().filter(|name| is_table_entry(name)).cloned().collect();
    let indices = bindings.numbers.keys();
    let indices =
        indices.filter_map(|name| name.strip_prefix("_WDFFUNCENUM.")?.strip_suffix("TableIndex"));
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

/// On x64 PROFILE_LEVEL is 15 and IPI_LEVEL 14; x86 and the metadata of windows-sys have other
/// numbers.
#[test]
fn the_kernels_structures_and_values_are_as_microsoft_publishes_them() {
    let Some(bindings) = bindings() else { return };
    // The structures of the profile classes are in no header of Microsoft's.
    let published = |fact: &facts::Record| ours() || !fact["name"].contains("_HAL_PROFILE_SOURCE_");
    for fact in data!("nt-abi").into_iter().filter(published) {
        // bindgen begins the name with `_` if the structure has one.
        let name = &fact["name"];
        let found = bindings.numbers.get(name);
        let found = found.or_else(|| bindings.numbers.get(&format!("_{name}")));
        assert_eq!(found, Some(&number(&fact["value"]).cast_signed()), "{name}");
    }
}

#[test]
fn the_table_of_structures_agrees_with_microsofts_metadata() {
    let facts = data!("nt-abi");
    for (name, value) in [
        ("sizeof _KDPC", size_of::<KDPC>()),
        ("_KDPC.DeferredRoutine", offset_of!(KDPC, DeferredRoutine)),
        ("sizeof _KEVENT", size_of::<KEVENT>()),
        ("sizeof _GROUP_AFFINITY", size_of::<GROUP_AFFINITY>()),
        ("sizeof _PROCESSOR_NUMBER", size_of::<PROCESSOR_NUMBER>()),
        ("sizeof _UNICODE_STRING", size_of::<UNICODE_STRING>()),
        ("sizeof _KE_PROCESSOR_CHANGE_NOTIFY_CONTEXT", size_of::<Change>()),
        ("_KE_PROCESSOR_CHANGE_NOTIFY_CONTEXT.ProcNumber", offset_of!(Change, ProcNumber)),
        ("sizeof _EXT_DELETE_PARAMETERS", size_of::<DeleteParameters>()),
        ("sizeof _EXT_SET_PARAMETERS_V0", size_of::<SetParameters>()),
    ] {
        let fact = facts.iter().find(|fact| fact["name"] == name).expect(name);
        assert_eq!(number(&fact["value"]), value as u64, "{name}");
    }
}

#[test]
fn the_kernels_functions_are_as_microsoft_publishes_them() {
    let Some(bindings) = bindings() else { return };
    let resolve = |ty: &str| bindings.resolve(ty);
    for record in data!("nt-functions") {
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
        let records = data!("nt-functions");
        let theirs = records.iter().filter(|record| record["dll"] == dll);
        let mut theirs: Vec<_> = theirs.map(|record| record["function"].as_str()).collect();
        ours.sort_unstable();
        theirs.sort_unstable();
        assert_eq!(ours, theirs, "{list}");
    }
}
