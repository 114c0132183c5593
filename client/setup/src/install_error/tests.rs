//! Is every number the one in Windows' headers, and does each have a hint?

use super::*;
use std::collections::BTreeSet;
use windows_sys::Win32::Devices::DeviceAndDriverInstallation as setup;
use windows_sys::Win32::Foundation as winerror;

/// Pairs each name with its number in the headers.
macro_rules! named {
    ($($name:ident)*) => { &[$((stringify!($name), winerror::$name.cast_unsigned_or_self())),*] };
}

/// HRESULT and NTSTATUS are signed in windows-sys, Win32 errors are not.
trait Number {
    fn cast_unsigned_or_self(self) -> u32;
}

impl Number for u32 {
    fn cast_unsigned_or_self(self) -> u32 {
        self
    }
}

impl Number for i32 {
    fn cast_unsigned_or_self(self) -> u32 {
        self.cast_unsigned()
    }
}

#[test]
fn every_number_is_that_of_the_name_beside_it() {
    let headers: &[(&str, u32)] = named![
        ERROR_FILE_NOT_FOUND
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
    for row in ERRORS.iter().chain(STATUSES) {
        let name = row.why.split_once('(').map(|(_, rest)| rest.trim_end_matches(')'));
        let Some(name) = name else {
            assert_eq!(row.number, winerror::ERROR_ACCESS_DENIED, "{}", row.why);
            continue;
        };
        let header = headers.iter().find(|(known, _)| *known == name);
        assert_eq!(header, Some(&(name, row.number)), "{}", row.why);
    }
}

#[test]
fn problems_are_numbered_as_in_cfg_h() {
    let headers = [
        (setup::CM_PROB_FAILED_START, "could not start"),
        (setup::CM_PROB_NEED_RESTART, "waits for a restart"),
        (setup::CM_PROB_REINSTALL, "installed again"),
        (setup::CM_PROB_REGISTRY, "registry"),
        (setup::CM_PROB_WILL_BE_REMOVED, "is removing"),
        (setup::CM_PROB_DISABLED, "device is disabled"),
        (setup::CM_PROB_FAILED_INSTALL, "no driver is installed"),
        (setup::CM_PROB_FAILED_ADD, "refused the device"),
        (setup::CM_PROB_DISABLED_SERVICE, "service is disabled"),
        (setup::CM_PROB_FAILED_DRIVER_ENTRY, "entry failed"),
        (setup::CM_PROB_DRIVER_FAILED_PRIOR_UNLOAD, "still in memory"),
        (setup::CM_PROB_DRIVER_FAILED_LOAD, "could not load"),
        (setup::CM_PROB_PHANTOM, "leftover"),
        (setup::CM_PROB_DRIVER_BLOCKED, "blocks"),
        (setup::CM_PROB_UNSIGNED_DRIVER, "signature"),
        (setup::CM_PROB_DEVICE_RESET, "reset"),
    ];
    assert_eq!(headers.len(), PROBLEMS.len());
    for ((number, words), row) in headers.iter().zip(PROBLEMS) {
        assert!(*number == row.number && row.why.contains(words), "{}", row.why);
    }
}

#[test]
fn results_are_numbered_as_in_cfgmgr32_h() {
    let headers = [
        (setup::CR_INVALID_DEVNODE, "not there"),
        (setup::CR_NO_SUCH_DEVINST, "not there"),
        (setup::CR_REMOVE_VETOED, "open"),
        (setup::CR_NOT_DISABLEABLE, "be disabled"),
        (setup::CR_ACCESS_DENIED, "denied"),
    ];
    assert_eq!(headers.len(), CONFIG_RESULTS.len());
    for ((number, words), row) in headers.iter().zip(CONFIG_RESULTS) {
        assert!(*number == row.number && row.why.contains(words), "{}", row.why);
    }
    let refused =
        |result| InstallError::Refused { step: "the device could not be disabled", result };
    assert_eq!(refused(setup::CR_REMOVE_VETOED).code(), "busy");
    assert_eq!(refused(setup::CR_FAILURE).code(), "install-failed");
    assert!(refused(23).to_string().ends_with("CONFIGRET 0x17"));
}

#[test]
fn no_number_stands_twice_and_each_has_a_hint() {
    for table in [ERRORS, CONFIG_RESULTS, STATUSES, PROBLEMS] {
        let numbers: BTreeSet<u32> = table.iter().map(|row| row.number).collect();
        assert_eq!(numbers.len(), table.len());
        for row in table {
            assert!(row.hint.ends_with(['.', ')']) && row.hint.len() > 10, "{}", row.why);
            assert!(!row.code.is_empty() && !row.why.ends_with('.'), "{}", row.why);
        }
    }
}

#[test]
fn a_status_says_more_than_a_problem() {
    let unsigned = |problem, status| InstallError::NotRunning { problem, status }.code();
    assert_eq!(unsigned(39, 0), "driver-failed");
    assert_eq!(unsigned(39, 0xC000_0428), "not-signed");
    assert_eq!(unsigned(39, 0xC000_0001), "driver-failed");
    assert_eq!(unsigned(999, 0), "driver-failed");
}

#[test]
fn the_message_has_the_number_that_people_search_for() {
    let failed = |error| {
        let step = "the driver package could not be installed";
        InstallError::Failed { step, error }.to_string()
    };
    assert!(failed(0xE000_0242).ends_with("error 0xE0000242"));
    assert!(failed(577).ends_with("error 577"));
    assert!(failed(87).contains("no reason that halprof knows"));
    let problem = InstallError::NotRunning { problem: 52, status: 0xC000_0428 };
    assert!(problem.to_string().ends_with("code 52, NTSTATUS 0xC0000428"));
    assert!(problem.hint().contains("testsigning"));
    assert_eq!(InstallError::NotElevated.code(), "access-denied");
}
