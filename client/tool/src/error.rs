//! What goes wrong, as the tool tells it: a code, an exit status, and what to do about it.

use halprof_measure::Error as Measure;
use halprof_measure::Refusal;
use halprof_setup::installation::Obstacle;
use shared_types::{ErrorCode, NtStatus};
use std::io;
use std::path::PathBuf;

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Measuring, or reading a recording, failed.
    #[error(transparent)]
    Measure(#[from] Measure),
    /// Windows would not install, remove or start the driver.
    #[error("{0}")]
    Installation(Obstacle),
    /// What was asked for cannot be written to standard output.
    #[error("standard output: {0}")]
    Output(io::Error),
}

/// What every command answers.
pub type Result<T> = std::result::Result<T, Error>;

impl From<halprof_setup::Error> for Error {
    fn from(error: halprof_setup::Error) -> Self {
        use halprof_setup::Error as Setup;
        match error {
            Setup::Obstacle(obstacle) => Self::Installation(obstacle),
            Setup::Measure(error) => Self::Measure(error),
            Setup::NotInstalled => Self::no_driver(
                "the driver is not installed",
                "Run `halprof install` from the package's folder, or measure on a model: `--machine NAME`.",
            ),
            Setup::WindowsOnly => Self::unavailable(
                "this is for Windows: the driver runs nowhere else",
                "Measure on a model here: `--machine NAME`, see `halprof machines`.",
            ),
        }
    }
}

impl Error {
    /// A command line that makes no sense.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Measure::usage(message, hint).into()
    }

    /// What cannot be had here, whoever asks.
    pub(crate) fn unavailable(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Measure(Measure::Unavailable {
            message: message.into(),
            hint: hint.into(),
        })
    }

    /// The driver could not be opened.
    pub(crate) fn no_driver(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Measure(Measure::NoDriver {
            message: message.into(),
            hint: hint.into(),
        })
    }

    /// A refusal that the tool foresees.
    pub(crate) const fn refused(refusal: Refusal) -> Self {
        Self::Measure(Measure::Refused(refusal))
    }

    /// A defect of halprof.
    #[expect(clippy::needless_pass_by_value, reason = "it stands in `map_err`")]
    pub(crate) fn internal(why: impl ToString) -> Self {
        Self::Measure(Measure::Internal(why.to_string()))
    }

    /// A file that could not be written.
    pub(crate) fn writing(path: impl Into<PathBuf>, error: io::Error) -> Self {
        Self::Measure(Measure::writing(path, error))
    }

    /// The stable name that programs may compare.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Measure(error) => error.code(),
            Self::Installation(obstacle) => obstacle.code(),
            Self::Output(_) => "output",
        }
    }

    /// The exit status of a process that ends with this.
    #[must_use]
    pub const fn exit_status(&self) -> u8 {
        match self {
            Self::Installation(_) => 4,
            Self::Output(_) => 5,
            Self::Measure(error) => measured_exit_status(error),
        }
    }

    /// What to do about it, as a sentence.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Measure(error) => hint_of(error),
            Self::Installation(obstacle) => obstacle.hint().to_owned(),
            Self::Output(_) => "Check where standard output goes.".to_owned(),
        }
    }

    /// The same error, with the name of the source it concerns.
    #[must_use]
    pub(crate) fn about(self, name_of: impl Fn(u32) -> Option<String>) -> Self {
        match self {
            Self::Measure(error) => Self::Measure(error.about(name_of)),
            other => other,
        }
    }
}

const fn measured_exit_status(error: &Measure) -> u8 {
    match error {
        Measure::Internal(_) => 1,
        Measure::Usage { .. } => 2,
        Measure::NoDriver { .. } | Measure::NoMachine(_) | Measure::Device(_) => 3,
        Measure::UnknownName(_)
        | Measure::Unavailable { .. }
        | Measure::Status(NtStatus::ACCESS_DENIED) => 4,
        Measure::File { .. } | Measure::BadFile { .. } => 5,
        Measure::Status(_) | Measure::Protocol { .. } => 6,
        Measure::Refused(refusal) => refused_exit_status(refusal.code),
    }
}

/// What to do about what went wrong while measuring.
pub(crate) fn hint_of(error: &Measure) -> String {
    let hint = match error {
        Measure::Usage { hint, .. }
        | Measure::NoDriver { hint, .. }
        | Measure::Unavailable { hint, .. }
        | Measure::BadFile { hint, .. } => hint,
        Measure::NoMachine(_) => {
            "`halprof machines` lists the built-in models; a CPUID dump of any machine will do as well."
        }
        Measure::UnknownName(_) => "`halprof list --all` shows every source.",
        Measure::Refused(refusal) => hint_for(refusal.code),
        Measure::Status(NtStatus::ACCESS_DENIED) => {
            "Run it from an elevated prompt: measuring needs the rights of an administrator."
        }
        Measure::Device(_) => "`halprof doctor` tells what state the driver is in.",
        Measure::Status(_) | Measure::Protocol { .. } => {
            "Install halprof.exe and halprof.sys of the same release."
        }
        Measure::File { .. } => "Check that the path exists and that you may use it.",
        Measure::Internal(_) => {
            "This is a defect of halprof; please report it with the command line and the dump."
        }
    };
    hint.to_owned()
}

/// Both sides disagree about the bytes (6), or the request cannot be served (4).
const fn refused_exit_status(code: ErrorCode) -> u8 {
    use ErrorCode as E;
    match code {
        E::VersionMismatch
        | E::WrongSize
        | E::ReplyTooSmall
        | E::UnknownFlags
        | E::ReservedNotZero => 6,
        _ => 4,
    }
}

const fn hint_for(code: ErrorCode) -> &'static str {
    use ErrorCode as E;
    match code {
        E::VersionMismatch
        | E::WrongSize
        | E::ReplyTooSmall
        | E::UnknownFlags
        | E::ReservedNotZero => "Install halprof.exe and halprof.sys of the same release.",
        E::UnknownSession | E::Running | E::NotRunning | E::NotConfigured | E::NotSampling => {
            "This is a defect of the client: please report the command line."
        }
        E::TooManySessions => "End another measurement first.",
        E::NoSources => "Name at least one, e.g. `-e TotalIssues`.",
        E::TooManySources => "Count fewer at a time.",
        E::SourceUnknown => "`halprof list --all` shows every source.",
        E::SourceNotSupported => {
            "`halprof list --all -v` says why; `halprof list` shows what can be counted."
        }
        E::SourceApproximate => {
            "Say `--approximate` to count it all the same; `halprof list -v --approximate` tells what it counts."
        }
        E::SourceDuplicate => "Name it once, or with different filters (`:u`, `:k`).",
        E::DoesNotFit => {
            "Take the group apart: sources outside a group take turns on the counters."
        }
        E::RawRefused => {
            "Event, unit mask, edge, invert and counter mask may be set; user and kernel bits are the filter."
        }
        E::BadFilter => "Use `:u`, `:k` or `:uk`.",
        E::ProcessorUnknown => "`halprof info` lists the processors, from 0.",
        E::SamplingUnavailable => "Count it instead, with `halprof stat`.",
        E::NoReferenceCycles => {
            "Sample another source, e.g. cycles; `halprof list` shows which can be sampled."
        }
        E::KernelNotGranted => "Add `:u` to count user mode only.",
        E::Busy => "Wait until it ends, or end it; `halprof info` shows who it is.",
        E::SourceNotInSession => "Name it with `-e`.",
        E::NoMemory => "Sample less often, or on fewer processors with `-C`.",
        E::BadValue => "`halprof list -v` shows the limits of each source.",
        E::CountersReserved => {
            "Stop other profilers and virtual machines that use the counters; `halprof doctor` lists candidates."
        }
        E::InterruptTaken => {
            "End the profiler that has it, or sample without addresses: `record --no-address`."
        }
        E::CountersDead => {
            "In a virtual machine, give it a virtual PMU (Hyper-V: Set-VMProcessor -Perfmon; VMware: virtualize CPU performance counters)."
        }
        E::InterruptsDead => {
            "Count instead, with `halprof stat`, or try `record --no-address`; `halprof doctor` looks for the cause."
        }
        E::InterruptStorm => {
            "Another profiler may have left an overflow pending: end it, then start again."
        }
        E::KernelAddressesNotGranted => {
            "Add `:u` to sample user mode only, or run from an account that has the privilege."
        }
        E::FixedCounterTaken => {
            "End the profiler that uses it, or count another event; `halprof info` shows the counter."
        }
        E::Suspended => "Try again when it is awake.",
    }
}
