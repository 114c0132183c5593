//! What keeps the driver from being installed or from running, in words.
//!
//! All numbers are Windows' own: winerror.h and setupapi.h for errors, cfg.h for problems,
//! ntstatus.h for statuses.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::sync::LazyLock;

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
#[derive(Deserialize)]
struct Explanation {
    kind: NumberKind,
    name: String,
    /// 0 for every number without a row of its own.
    #[serde(deserialize_with = "number_of")]
    number: u32,
    code: String,
    why: String,
    #[serde(deserialize_with = "hint")]
    hint: String,
}

/// Where a number comes from.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum NumberKind {
    /// GetLastError's.
    Error,
    /// CONFIGRET, of the configuration manager.
    Configret,
    /// NTSTATUS: behind a problem it is more specific than the problem.
    Status,
    /// CM_PROB_*, the "Code" in Device Manager.
    Problem,
}

static EXPLANATIONS: LazyLock<Vec<Explanation>> = LazyLock::new(|| {
    let text = include_str!("install_error/explanations.csv");
    csv::Reader::from_reader(text.as_bytes()).into_deserialize().flatten().collect()
});

fn number_of<'de, D: Deserializer<'de>>(text: D) -> Result<u32, D::Error> {
    let text = String::deserialize(text)?;
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(D::Error::custom)
}

/// What several of them advise, by the word that stands for it in the table.
const HINTS: [(&str, &str); 8] = [
    ("ELEVATE", "Run it from an elevated prompt (Run as administrator)."),
    (
        "TRUST",
        "From an elevated prompt, put the package's certificate (the .cer file) where Windows looks: `certutil -addstore Root FILE.cer` and `certutil -addstore TrustedPublisher FILE.cer`; then install again.",
    ),
    (
        "REPACK",
        "Take the files halprof.inf, halprof.cat and halprof.sys from one package, unchanged.",
    ),
    (
        "TEST_SIGNING",
        "For a test-signed driver: turn Secure Boot off in the firmware's setup, run `bcdedit /set testsigning on` from an elevated prompt and restart.",
    ),
    (
        "POLICY",
        "Ask who administers this machine: a policy decides which devices and drivers may be installed.",
    ),
    (
        "INTEGRITY",
        "Event Viewer, Applications and Services Logs, Microsoft, Windows, CodeIntegrity, Operational shows which rule it was: a policy, the vulnerable-driver block list, or Memory integrity (Windows Security, Device security, Core isolation).",
    ),
    (
        "RESTART",
        "Restart Windows. If that does not help, run `halprof uninstall`, restart, and install again.",
    ),
    (
        "AGAIN",
        "`halprof uninstall` removes what is there; install again. %SystemRoot%\\INF\\setupapi.dev.log has what Windows tried.",
    ),
];

fn hint<'de, D: Deserializer<'de>>(text: D) -> Result<String, D::Error> {
    let text = String::deserialize(text)?;
    let shared = HINTS.iter().find(|(word, _)| *word == text);
    Ok(shared.map_or(text, |(_, hint)| (*hint).to_owned()))
}

fn find(kind: NumberKind, number: u32) -> Option<&'static Explanation> {
    EXPLANATIONS.iter().find(|row| row.kind == kind && row.number == number)
}

/// What one of Windows' numbers means where the driver is installed or runs.
#[derive(Clone, Copy, Debug)]
pub struct NumberMeaning {
    /// What the number is: an error, a status, or a code of Device Manager.
    pub of: &'static str,
    /// Windows' name for it; empty if it has none.
    pub name: &'static str,
    /// What it means for halprof.
    pub why: &'static str,
    /// What to do about it.
    pub hint: &'static str,
}

/// All that a number means.
pub fn meanings(number: u32) -> impl Iterator<Item = NumberMeaning> {
    let rows = EXPLANATIONS.iter().filter(move |row| row.number == number && number != 0);
    rows.map(|row| NumberMeaning {
        of: match row.kind {
            NumberKind::Error => "As an error",
            NumberKind::Configret => "As a CONFIGRET",
            NumberKind::Status => "As an NTSTATUS",
            NumberKind::Problem => "As a code of Device Manager",
        },
        name: &row.name,
        why: &row.why,
        hint: &row.hint,
    })
}

/// The code of every error.
pub fn codes() -> impl Iterator<Item = &'static str> {
    EXPLANATIONS.iter().map(|row| row.code.as_str())
}

impl InstallError {
    /// Never `None`: the rows of 0 take every number without a row of its own.
    fn explanation(self) -> Option<&'static Explanation> {
        use NumberKind as K;
        let (row, others) = match self {
            Self::NotElevated => (find(K::Error, 5), K::Error),
            Self::Failed { error, .. } => (find(K::Error, error), K::Error),
            Self::Refused { result, .. } => (find(K::Configret, result), K::Error),
            Self::NotRunning { problem, status } => {
                (find(K::Status, status).or_else(|| find(K::Problem, problem)), K::Problem)
            }
        };
        row.or_else(|| find(others, 0))
    }

    /// The stable name that programs may compare.
    pub fn code(self) -> &'static str {
        self.explanation().map_or("install-failed", |row| &row.code)
    }

    /// What to do about it, as a sentence.
    pub fn hint(self) -> &'static str {
        self.explanation().map_or("", |row| &row.hint)
    }
}

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = self.explanation().map_or_else(String::new, |row| match row.kind {
            NumberKind::Error | NumberKind::Status if !row.name.is_empty() => {
                format!("{} ({})", row.why, row.name)
            }
            _ => row.why.clone(),
        });
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
