//! What keeps the driver from being installed or from running, in words.
//!
//! All numbers are Windows' own: winerror.h and setupapi.h for errors, cfg.h for problems,
//! ntstatus.h for statuses.

use std::fmt;

/// What keeps the driver from being installed or from running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstallError {
    /// The process does not have the rights of an administrator.
    NotElevated,
    /// A step failed.
    Failed {
        /// What was tried, completing "the driver package could not be ...".
        step: &'static str,
        /// The number from GetLastError.
        error: u32,
    },
    /// The configuration manager refused a step.
    Refused {
        /// What was tried, completing "the device could not be ...".
        step: &'static str,
        /// The CONFIGRET number, from cfgmgr32.h.
        result: u32,
    },
    /// The device is present, but its driver does not run.
    NotRunning {
        /// CM_PROB_*: the "Code" in Device Manager.
        problem: u32,
        /// The underlying NTSTATUS, or 0 if Windows has none.
        status: u32,
    },
}

/// What one of Windows' numbers means for halprof.
struct Explanation {
    number: u32,
    code: &'static str,
    why: &'static str,
    hint: &'static str,
}

const fn row(
    number: u32,
    code: &'static str,
    why: &'static str,
    hint: &'static str,
) -> Explanation {
    Explanation { number, code, why, hint }
}

const ELEVATE: &str = "Run it from an elevated prompt (Run as administrator).";
const TRUST: &str = "From an elevated prompt, put the package's certificate (the .cer file) where Windows looks: `certutil -addstore Root FILE.cer` and `certutil -addstore TrustedPublisher FILE.cer`; then install again.";
const REPACK: &str =
    "Take the files halprof.inf, halprof.cat and halprof.sys from one package, unchanged.";
const TEST_SIGNING: &str = "For a test-signed driver: turn Secure Boot off in the firmware's setup, run `bcdedit /set testsigning on` from an elevated prompt and restart.";
const POLICY: &str = "Ask who administers this machine: a policy decides which devices and drivers may be installed.";
const INTEGRITY: &str = "Event Viewer, Applications and Services Logs, Microsoft, Windows, CodeIntegrity, Operational shows which rule it was: a policy, the vulnerable-driver block list, or Memory integrity (Windows Security, Device security, Core isolation).";
const RESTART: &str =
    "Restart Windows; if it is still so, `halprof uninstall`, restart and install again.";
const AGAIN: &str = "`halprof uninstall` removes what is there; install again. %SystemRoot%\\INF\\setupapi.dev.log has what Windows tried.";

/// GetLastError's numbers.
const ERRORS: &[Explanation] = &[
    row(2, "install-failed", "a file of the package is missing (ERROR_FILE_NOT_FOUND)", REPACK),
    row(5, "access-denied", "access is denied", ELEVATE),
    row(
        577,
        "not-signed",
        "the signature of a file is not one that Windows accepts now (ERROR_INVALID_IMAGE_HASH)",
        TEST_SIGNING,
    ),
    row(1275, "driver-blocked", "Windows blocks this driver (ERROR_DRIVER_BLOCKED)", INTEGRITY),
    row(
        1459,
        "install-failed",
        "Windows must ask whether to trust the publisher, and this session has no desktop (ERROR_REQUIRES_INTERACTIVE_WINDOWSTATION)",
        TRUST,
    ),
    row(
        4551,
        "driver-blocked",
        "a code-integrity policy blocks a file (ERROR_SYSTEM_INTEGRITY_POLICY_VIOLATION)",
        INTEGRITY,
    ),
    row(
        0x8009_6010,
        "not-signed",
        "a file is not the one that was signed (TRUST_E_BAD_DIGEST)",
        REPACK,
    ),
    row(
        0x800B_0004,
        "not-signed",
        "the catalog's signer is not trusted (TRUST_E_SUBJECT_NOT_TRUSTED)",
        TRUST,
    ),
    row(0x800B_0100, "not-signed", "the package is not signed (TRUST_E_NOSIGNATURE)", REPACK),
    row(
        0x800B_0101,
        "not-signed",
        "the certificate has expired, or the clock is wrong (CERT_E_EXPIRED)",
        "Set the clock right, or build and sign the package anew.",
    ),
    row(
        0x800B_0109,
        "not-signed",
        "the certificate ends in a root that is not trusted (CERT_E_UNTRUSTEDROOT)",
        TRUST,
    ),
    row(
        0x800B_010A,
        "not-signed",
        "the certificate's chain cannot be built (CERT_E_CHAINING)",
        TRUST,
    ),
    row(
        0x800B_0110,
        "not-signed",
        "the certificate is not one for signing code (CERT_E_WRONG_USAGE)",
        "Sign with a certificate for code signing (1.3.6.1.5.5.7.3.3).",
    ),
    row(
        0xE000_0203,
        "install-failed",
        "Windows finds no driver for the device in the package (ERROR_NO_DRIVER_SELECTED)",
        REPACK,
    ),
    row(
        0xE000_020B,
        "install-failed",
        "the device is not there any more (ERROR_NO_SUCH_DEVINST)",
        AGAIN,
    ),
    row(
        0xE000_022F,
        "not-signed",
        "the package names no catalog, so nothing of it is signed (ERROR_NO_CATALOG_FOR_OEM_INF)",
        REPACK,
    ),
    row(
        0xE000_0235,
        "install-failed",
        "a 32-bit program cannot install a 64-bit driver (ERROR_IN_WOW64)",
        "Use the 64-bit halprof.exe of the package.",
    ),
    row(
        0xE000_023D,
        "install-failed",
        "a device still uses the package (ERROR_INF_IN_USE_BY_DEVICES)",
        "Restart Windows and run `halprof uninstall` again.",
    ),
    row(
        0xE000_023F,
        "not-signed",
        "the catalog is missing or not signed (ERROR_NO_AUTHENTICODE_CATALOG)",
        REPACK,
    ),
    row(
        0xE000_0240,
        "driver-blocked",
        "Windows takes no Authenticode-signed packages (ERROR_AUTHENTICODE_DISALLOWED)",
        POLICY,
    ),
    row(
        0xE000_0242,
        "not-signed",
        "the publisher is not trusted yet (ERROR_AUTHENTICODE_TRUST_NOT_ESTABLISHED)",
        TRUST,
    ),
    row(
        0xE000_0243,
        "not-signed",
        "the publisher is not trusted (ERROR_AUTHENTICODE_PUBLISHER_NOT_TRUSTED)",
        TRUST,
    ),
    row(
        0xE000_0244,
        "not-signed",
        "the catalog is signed for another version of Windows (ERROR_SIGNATURE_OSATTRIBUTE_MISMATCH)",
        "Use a package for this version of Windows.",
    ),
    row(
        0xE000_0247,
        "install-failed",
        "the package could not be added to the driver store (ERROR_DRIVER_STORE_ADD_FAILED)",
        AGAIN,
    ),
    row(
        0xE000_0248,
        "driver-blocked",
        "a policy forbids installing this device (ERROR_DEVICE_INSTALL_BLOCKED)",
        POLICY,
    ),
    row(
        0xE000_0249,
        "driver-blocked",
        "a policy forbids installing this driver (ERROR_DRIVER_INSTALL_BLOCKED)",
        POLICY,
    ),
    row(
        0xE000_024B,
        "not-signed",
        "a file of the package is not in its catalog (ERROR_FILE_HASH_NOT_IN_CATALOG)",
        REPACK,
    ),
];

/// CONFIGRET numbers of the configuration manager.
const CONFIG_RESULTS: &[Explanation] = &[
    row(5, "install-failed", "the device is not there any more", AGAIN),
    row(13, "install-failed", "the device is not there any more", AGAIN),
    row(
        23,
        "busy",
        "a program has the device open",
        "End the running measurement; `halprof info` shows which process it is.",
    ),
    row(40, "driver-failed", "Windows does not let this device be disabled", RESTART),
    row(51, "access-denied", "access is denied", ELEVATE),
];

/// NTSTATUS values behind a problem; they are more specific than the problem.
const STATUSES: &[Explanation] = &[
    row(
        0xC000_0059,
        "driver-failed",
        "the driver requires a newer KMDF (STATUS_REVISION_MISMATCH)",
        "Windows 10 version 2004 is the oldest that has it: update Windows.",
    ),
    row(
        0xC000_009A,
        "driver-failed",
        "there was not enough memory (STATUS_INSUFFICIENT_RESOURCES)",
        RESTART,
    ),
    row(
        0xC000_026C,
        "driver-failed",
        "Windows could not load the driver (STATUS_DRIVER_UNABLE_TO_LOAD)",
        INTEGRITY,
    ),
    row(
        0xC000_036B,
        "driver-blocked",
        "Windows blocks this driver (STATUS_DRIVER_BLOCKED_CRITICAL)",
        INTEGRITY,
    ),
    row(
        0xC000_036C,
        "driver-blocked",
        "Windows blocks this driver (STATUS_DRIVER_BLOCKED)",
        INTEGRITY,
    ),
    row(
        0xC000_0428,
        "not-signed",
        "the driver's signature is not one that Windows accepts now (STATUS_INVALID_IMAGE_HASH)",
        TEST_SIGNING,
    ),
    row(
        0xC000_0603,
        "not-signed",
        "the driver's certificate has been revoked (STATUS_IMAGE_CERT_REVOKED)",
        "Build and sign the package anew.",
    ),
];

/// CM_PROB_*.
const PROBLEMS: &[Explanation] = &[
    row(
        10,
        "driver-failed",
        "the device could not start",
        "`halprof uninstall`, install again; if it stays, please report it with the output of `halprof --json doctor`.",
    ),
    row(14, "restart-needed", "the device waits for a restart", "Restart Windows."),
    row(18, "driver-failed", "the driver has to be installed again", AGAIN),
    row(19, "driver-failed", "the device's registry entries are damaged", AGAIN),
    row(21, "restart-needed", "Windows is removing the device", "Restart Windows."),
    row(
        22,
        "driver-disabled",
        "the device is disabled",
        "Run `halprof start`, or enable it in Device Manager.",
    ),
    row(
        28,
        "driver-failed",
        "no driver is installed on the device",
        "Run `halprof install` from the package's folder.",
    ),
    row(31, "driver-failed", "the driver refused the device", AGAIN),
    row(
        32,
        "driver-disabled",
        "the driver's service is disabled",
        "`sc config halprof start= demand`, then `halprof install`.",
    ),
    row(
        37,
        "driver-failed",
        "the driver's entry failed",
        "Check that Windows is version 2004 or later; please report it with the output of `halprof --json doctor`.",
    ),
    row(
        38,
        "restart-needed",
        "an earlier copy of the driver is still in memory",
        "Restart Windows.",
    ),
    row(39, "driver-failed", "Windows could not load the driver", INTEGRITY),
    row(45, "driver-failed", "the device node is a leftover", AGAIN),
    row(48, "driver-blocked", "Windows blocks this driver", INTEGRITY),
    row(52, "not-signed", "Windows cannot verify the driver's signature", TEST_SIGNING),
    row(
        54,
        "restart-needed",
        "the device is being reset",
        "Wait some seconds, or restart Windows.",
    ),
];

const UNKNOWN_ERROR: Explanation =
    row(0, "install-failed", "Windows gives no reason that halprof knows", AGAIN);
const UNKNOWN_PROBLEM: Explanation =
    row(0, "driver-failed", "Windows gives no reason that halprof knows", AGAIN);

fn find(table: &'static [Explanation], number: u32) -> Option<&'static Explanation> {
    table.iter().find(|row| row.number == number)
}

/// The code of every error.
pub fn codes() -> impl Iterator<Item = &'static str> {
    [ERRORS, CONFIG_RESULTS, STATUSES, PROBLEMS]
        .into_iter()
        .flatten()
        .chain([&UNKNOWN_ERROR, &UNKNOWN_PROBLEM])
        .map(|row| row.code)
}

impl InstallError {
    fn explanation(self) -> &'static Explanation {
        match self {
            Self::NotElevated => find(ERRORS, 5).unwrap_or(&UNKNOWN_ERROR),
            Self::Failed { error, .. } => find(ERRORS, error).unwrap_or(&UNKNOWN_ERROR),
            Self::Refused { result, .. } => find(CONFIG_RESULTS, result).unwrap_or(&UNKNOWN_ERROR),
            Self::NotRunning { problem, status } => find(STATUSES, status)
                .or_else(|| find(PROBLEMS, problem))
                .unwrap_or(&UNKNOWN_PROBLEM),
        }
    }

    /// The stable name that programs may compare.
    #[must_use]
    pub fn code(self) -> &'static str {
        self.explanation().code
    }

    /// What to do about it, as a sentence.
    #[must_use]
    pub fn hint(self) -> &'static str {
        self.explanation().hint
    }
}

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = self.explanation().why;
        match *self {
            Self::NotElevated => {
                f.write_str("installing, starting, stopping and removing a driver need the rights of an administrator")
            }
            Self::Failed { step, error } => write!(f, "{step}: {why}: error {}", number(error)),
            Self::Refused { step, result } => {
                write!(f, "{step}: {why}: CONFIGRET {result:#04x}")
            }
            Self::NotRunning { problem, status: 0 } => {
                write!(f, "the driver does not run: {why}: code {problem}")
            }
            Self::NotRunning { problem, status } => write!(
                f,
                "the driver does not run: {why}: code {problem}, NTSTATUS {status:#010X}"
            ),
        }
    }
}

/// Errors without a facility are known by their decimal number, others by their hexadecimal one.
fn number(error: u32) -> String {
    if error < 0x1_0000 { error.to_string() } else { format!("{error:#010X}") }
}

#[cfg(test)]
mod tests;
