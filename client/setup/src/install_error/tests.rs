//! Is every number the one in Windows' headers, and does each have a hint?

use super::*;
use std::collections::BTreeSet;
use windows_sys::Win32::Devices::DeviceAndDriverInstallation as setup;
use windows_sys::Win32::Foundation as winerror;

/// Pairs each name with its number in the headers. HRESULT and NTSTATUS are signed in windows-sys,
/// Win32 errors are not.
macro_rules! named {
    ($header:ident: $($name:ident)*) => {
        [$((stringify!($name), u32::from_le_bytes($header::$name.to_le_bytes()))),*]
    };
}

#[test]
fn every_number_is_that_of_the_name_beside_it() {
    let errors = named![winerror:
        ERROR_FILE_NOT_FOUND ERROR_ACCESS_DENIED
        ERROR_INVALID_IMAGE_HASH ERROR_DRIVER_BLOCKED ERROR_REQUIRES_INTERACTIVE_WINDOWSTATION
        ERROR_SYSTEM_INTEGRITY_POLICY_VIOLATION TRUST_E_BAD_DIGEST TRUST_E_SUBJECT_NOT_TRUSTED
        TRUST_E_NOSIGNATURE CERT_E_EXPIRED CERT_E_UNTRUSTEDROOT CERT_E_CHAINING CERT_E_WRONG_USAGE
        ERROR_NO_DRIVER_SELECTED ERROR_NO_SUCH_DEVINST ERROR_NO_CATALOG_FOR_OEM_INF ERROR_IN_WOW64
        ERROR_INF_IN_USE_BY_DEVICES ERROR_NO_AUTHENTICODE_CATALOG ERROR_AUTHENTICODE_DISALLOWED
        ERROR_AUTHENTICODE_TRUST_NOT_ESTABLISHED ERROR_AUTHENTICODE_PUBLISHER_NOT_TRUSTED
        ERROR_SIGNATURE_OSATTRIBUTE_MISMATCH ERROR_DRIVER_STORE_ADD_FAILED
        ERROR_DEVICE_INSTALL_BLOCKED ERROR_DRIVER_INSTALL_BLOCKED ERROR_FILE_HASH_NOT_IN_CATALOG
        STATUS_REVISION_MISMATCH STATUS_INSUFFICIENT_RESOURCES STATUS_DRIVER_UNABLE_TO_LOAD
        STATUS_DRIVER_BLOCKED_CRITICAL STATUS_DRIVER_BLOCKED STATUS_INVALID_IMAGE_HASH
        STATUS_IMAGE_CERT_REVOKED
    ];
    let devices = named![setup:
        CM_PROB_FAILED_START CM_PROB_NEED_RESTART CM_PROB_REINSTALL CM_PROB_REGISTRY
        CM_PROB_WILL_BE_REMOVED CM_PROB_DISABLED CM_PROB_FAILED_INSTALL CM_PROB_FAILED_ADD
        CM_PROB_DISABLED_SERVICE CM_PROB_FAILED_DRIVER_ENTRY CM_PROB_DRIVER_FAILED_PRIOR_UNLOAD
        CM_PROB_DRIVER_FAILED_LOAD CM_PROB_PHANTOM CM_PROB_DRIVER_BLOCKED CM_PROB_UNSIGNED_DRIVER
        CM_PROB_DEVICE_RESET CR_INVALID_DEVNODE CR_NO_SUCH_DEVINST CR_REMOVE_VETOED
        CR_NOT_DISABLEABLE CR_ACCESS_DENIED
    ];
    let headers: Vec<(&str, u32)> = errors.into_iter().chain(devices).collect();
    let rows = EXPLANATIONS.iter().filter(|row| row.number != 0);
    let rows: Vec<(&str, u32)> = rows.map(|row| (row.name.as_str(), row.number)).collect();
    assert_eq!(rows.len(), headers.len(), "a row for each name, and none that is not read");
    for row in rows {
        assert!(headers.contains(&row), "{row:?}");
    }
}

#[test]
fn no_number_stands_twice_and_each_has_a_hint() {
    let mut numbers = BTreeSet::new();
    for row in EXPLANATIONS.iter() {
        assert!(numbers.insert((row.kind as u8, row.number)), "{}", row.name);
        assert!(row.hint.ends_with(['.', ')']) && row.hint.len() > 10, "{}", row.why);
        assert!(!row.code.is_empty() && !row.why.ends_with('.'), "{}", row.why);
    }
}

#[test]
fn what_the_configuration_manager_refuses_has_its_number() {
    let refused =
        |result| InstallError::Refused { step: "the device could not be disabled", result };
    assert_eq!(refused(setup::CR_REMOVE_VETOED).code(), "busy");
    assert_eq!(refused(setup::CR_FAILURE).code(), "install-failed");
    assert!(refused(23).to_string().ends_with("CONFIGRET 0x17"));
}

#[test]
fn a_status_says_more_than_a_problem() {
    let unsigned = |problem, status| InstallError::NotRunning { problem, status }.code();
    assert_eq!(unsigned(39, 0), "driver-failed");
    assert_eq!(unsigned(39, 0xC000_0428), "not-signed");
    assert_eq!(unsigned(39, 0xC000_0001), "driver-failed");
    assert_eq!(unsigned(999, 0), "driver-failed");
}
