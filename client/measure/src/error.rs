//! The library's errors: what was refused or failed, and why.

mod hint;

pub use hint::{Hint, Remedy};

use schemars::JsonSchema;
use serde::Serialize;
use shared_types::request::samples::Statistics;
use shared_types::{BranchReason, Concern, ErrorCode, NtStatus, ProfileSource, WIRE_VERSION};
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// A refusal by the answering side, and what it concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The cause.
    pub code: ErrorCode,
    /// The reply's `subject`: see [`ErrorCode`].
    pub subject: u32,
    /// The reply's `detail`: see [`ErrorCode`].
    pub detail: u64,
    /// The name of the source concerned, if there is one and it is known.
    pub source: Option<String>,
}

impl Refusal {
    /// Why the other side has ended sampling by itself, as the statistics say.
    pub fn from_statistics(statistics: &Statistics) -> Option<Self> {
        let processor = statistics.ended_processor;
        ErrorCode::from_wire(statistics.ended).map(|code| {
            match code {
                // Statistics do not say which source.
                ErrorCode::FixedCounterTaken | ErrorCode::NotByThread => Self {
                    code,
                    subject: 0,
                    detail: processor.into(),
                    source: Some("a source of this session".to_owned()),
                },
                _ => Self { code, subject: processor, detail: 0, source: None },
            }
        })
    }
}

/// An error as a result shows it.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Failure {
    /// The stable name that programs may compare.
    pub code: &'static str,
    /// What went wrong.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

/// Why a command could not do its work.
#[derive(Debug, Error)]
pub enum Error {
    /// The request makes no sense: a list that cannot be parsed, or a name that does not exist.
    #[error("{message}")]
    Usage {
        /// What is wrong.
        message: String,
        /// What would be correct.
        hint: Hint,
    },
    /// The driver could not be opened.
    #[error("{message}")]
    NoDriver {
        /// What was tried, and the result.
        message: String,
        /// What to do.
        hint: Hint,
    },
    /// Windows' own tracing cannot be used.
    #[error("{message}")]
    NoTracing {
        /// What was refused.
        message: String,
        /// What to do.
        hint: Hint,
    },
    /// Fewer counters are free than there are sources to count.
    #[error("fewer counters are free than the {sources} that were asked for")]
    NoFreeCounters {
        /// How many sources were to be counted.
        sources: usize,
    },
    /// There is no such machine model.
    #[error("{0}")]
    NoMachine(String),
    /// A modelled machine was named, but the library is built without them.
    #[error("there is no machine to measure: this library is built without modelled ones")]
    NoModels,
    /// Nothing on this machine has this name.
    #[error("this machine has no source or event called `{name}`")]
    UnknownName {
        /// The name.
        name: String,
        /// What may have been meant, as a sentence; `None` if no name is similar.
        hint: Option<Hint>,
    },
    /// A vendor's event on a model whose events are not known.
    #[error("{what}: halprof does not know the events of {model}")]
    UnknownModel {
        /// What cannot be done.
        what: String,
        /// The processor, by vendor, family and model.
        model: String,
    },
    /// The answering side refused.
    #[error("{}", refused(.0))]
    Refused(Refusal),
    /// What was asked for is not available here to anyone.
    #[error("{message}")]
    Unavailable {
        /// What, and why not.
        message: String,
        /// What to do instead.
        hint: Hint,
    },
    /// The driver completed the request with a failure, without a reply.
    #[error("the driver did not answer: {}", status(*.0))]
    Status(NtStatus),
    /// Windows failed the request.
    #[error("the request to the driver failed: {0}")]
    Device(io::Error),
    /// There was no answer within this time, after which the client cancelled the request.
    #[error("the driver did not answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The driver has answered before, and its device is gone.
    #[error("the driver was stopped or removed in the meantime: {why}")]
    DriverGone {
        /// The error that showed it.
        why: String,
    },
    /// The reply does not follow this version of the protocol.
    #[error("the reply to `{request}` is malformed: {why}")]
    Protocol {
        /// The request's name.
        request: &'static str,
        /// What is wrong with the reply.
        why: String,
    },
    /// A file could not be read or written.
    #[error("{} could not be {doing}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// `read` or `written`.
        doing: &'static str,
        /// Why.
        error: io::Error,
    },
    /// A file's content is invalid.
    #[error("{} {why}", path.display())]
    BadFile {
        /// The file.
        path: PathBuf,
        /// What is wrong, as the rest of a sentence that begins with the file's name.
        why: String,
        /// What to do.
        hint: Hint,
    },
    /// An event that takes a value from an MSR that halprof does not program.
    #[error("{name} cannot be counted: {why}")]
    NeedsMsr {
        /// The event, as it was named.
        name: String,
        /// Which MSR.
        why: String,
    },
    /// The modelled machine did something that would have stopped real silicon.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Error {
    /// A usage error.
    pub fn usage(message: impl Into<String>, hint: impl Into<Hint>) -> Self {
        Self::Usage { message: message.into(), hint: hint.into() }
    }

    /// A file that could not be read.
    pub fn reading(path: impl Into<PathBuf>, error: io::Error) -> Self {
        Self::File { path: path.into(), doing: "read", error }
    }

    /// A file that could not be written.
    pub fn writing(path: impl Into<PathBuf>, error: io::Error) -> Self {
        Self::File { path: path.into(), doing: "written", error }
    }

    /// A file whose content is invalid; `why` goes on after its name.
    pub fn bad_file(
        path: impl Into<PathBuf>,
        why: impl Into<String>,
        hint: impl Into<Hint>,
    ) -> Self {
        Self::BadFile { path: path.into(), why: why.into(), hint: hint.into() }
    }

    /// The stable name that programs may compare.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Usage { .. } => "usage",
            Self::NoDriver { .. } => "no-driver",
            Self::NoTracing { .. } => "no-tracing",
            Self::NoFreeCounters { .. } => ErrorCode::CountersReserved.code(),
            Self::NoMachine(_) => "no-machine",
            Self::NoModels => "no-models",
            Self::UnknownName { .. } => ErrorCode::SourceUnknown.code(),
            Self::UnknownModel { .. } => "unknown-model",
            Self::Refused(refusal) => refusal.code.code(),
            Self::Unavailable { .. } => "unavailable",
            Self::NeedsMsr { .. } => "needs-msr",
            Self::Status(NtStatus::ACCESS_DENIED) => "access-denied",
            Self::Status(NtStatus::DEVICE_NOT_READY) => "driver-not-ready",
            Self::Status(_) => "request-failed",
            Self::Device(_) => "device-failed",
            Self::TimedOut(_) => "timed-out",
            Self::DriverGone { .. } => "driver-gone",
            Self::Protocol { .. } => "protocol",
            Self::File { .. } => "file",
            Self::BadFile { .. } => "bad-file",
            Self::Internal(_) => "internal",
        }
    }

    /// Whether it is the other side's answer to a request, or that there was none.
    pub const fn is_of_request(&self) -> bool {
        matches!(
            self,
            Self::Refused(_)
                | Self::Status(_)
                | Self::Device(_)
                | Self::TimedOut(_)
                | Self::DriverGone { .. }
                | Self::Protocol { .. }
        )
    }

    /// What to do, if the error itself says it.
    pub fn hint(&self) -> Option<&Hint> {
        const BUILD_WITH_MODELS: &Hint = &Hint::Remedy(Remedy::BuildWithModels);
        match self {
            Self::Usage { hint, .. }
            | Self::NoDriver { hint, .. }
            | Self::NoTracing { hint, .. }
            | Self::Unavailable { hint, .. }
            | Self::BadFile { hint, .. } => Some(hint),
            Self::NoModels => Some(BUILD_WITH_MODELS),
            Self::UnknownName { hint, .. } => hint.as_ref(),
            _ => None,
        }
    }

    /// Something that is not available here, and what to do instead.
    pub fn unavailable(message: impl Into<String>, hint: impl Into<Hint>) -> Self {
        Self::Unavailable { message: message.into(), hint: hint.into() }
    }

    /// A workload for a machine that is no model.
    pub(crate) fn no_workload(workload: &str) -> Self {
        Self::usage(
            format!("a real machine takes no workload, and was given `{workload}`"),
            "Run code of your own, or open a model.",
        )
    }

    /// The same error, with the name of the source it concerns.
    pub fn about(self, name_of: impl Fn(u32) -> Option<String>) -> Self {
        match self {
            Self::Refused(refusal)
                if matches!(refusal.code.concerns(), Concern::Source | Concern::Placement) =>
            {
                Self::Refused(Refusal {
                    source: name_of(refusal.subject).or(refusal.source),
                    ..refusal
                })
            }
            other => other,
        }
    }
}

/// What a status says, as the rest of a sentence.
fn status(status: NtStatus) -> String {
    match status {
        NtStatus::ACCESS_DENIED => "access denied".to_owned(),
        NtStatus::INVALID_DEVICE_REQUEST => "it does not know this request".to_owned(),
        NtStatus::DEVICE_NOT_READY => "it is starting or being removed".to_owned(),
        NtStatus::BUFFER_TOO_SMALL => "the buffer has no room for a reply".to_owned(),
        NtStatus::INFO_LENGTH_MISMATCH => "the request is too short".to_owned(),
        NtStatus(other) => format!("NTSTATUS {other:#010X}"),
    }
}

/// What was refused, and why, by the code's number less 1: with `{subject}`, `{detail}` and `{source}`
/// for the refusal's.
const MESSAGES: &[&str] = &include!(concat!(env!("OUT_DIR"), "/messages.rs"));

fn refused(refusal: &Refusal) -> String {
    let Refusal { code, subject, detail, .. } = *refusal;
    if code == ErrorCode::NoMemory && subject != 0 {
        return format!(
            "could not allocate {detail} bytes for processor {subject} when it was added"
        );
    }
    if code == ErrorCode::CountersDead && detail != 0 {
        return format!(
            "register {detail:#x} of processor {subject} is not there or refuses its value, though \
             CPUID promises it: the PMU is advertised, not emulated"
        );
    }
    let reason = no_branches(BranchReason::from_wire(detail as u32));
    let values = [
        ("{version}", WIRE_VERSION.to_string()),
        ("{reason}", reason.to_owned()),
        ("{subject}", subject.to_string()),
        ("{subject:#x}", format!("{subject:#x}")),
        ("{detail}", detail.to_string()),
        ("{detail-1}", detail.saturating_sub(1).to_string()),
        ("{detail:#x}", format!("{detail:#x}")),
        ("{detail:#010x}", format!("{detail:#010x}")),
        ("{counters}", counters_in_words(detail)),
        // The name comes last, because it may contain braces.
        ("{source}", source_in_words(refusal)),
    ];
    let message = MESSAGES.get(code as usize - 1).copied().unwrap_or_default();
    values.iter().fold(message.to_owned(), |text, (name, value)| text.replace(name, value))
}

/// Counters in the layout of IA32_PERF_GLOBAL_CTRL: general ones from bit 0 on, fixed ones from bit 32.
fn counters_in_words(counters: u64) -> String {
    let name = |bit: u32| match bit.checked_sub(32) {
        Some(index) => format!("fixed counter {index}"),
        None => format!("general counter {bit}"),
    };
    let names: Vec<String> = (0..64).filter(|bit| counters >> bit & 1 == 1).map(name).collect();
    names.join(", ")
}

/// Why a processor cannot record branches, as the rest of a sentence.
const fn no_branches(reason: Option<BranchReason>) -> &'static str {
    match reason {
        Some(BranchReason::NoRecords) => "it has no branch records that the driver can read",
        Some(BranchReason::NoInterrupt) => "counter overflows raise no interrupt there",
        Some(BranchReason::Hypervisor) => "its hypervisor does not offer branch records",
        Some(BranchReason::Format) => {
            "its branch records have a format that the driver does not read"
        }
        Some(BranchReason::NoFreeze) => {
            "its branch records cannot be frozen when a counter overflows"
        }
        Some(BranchReason::Available) | None => "the driver does not say why",
    }
}

fn source_in_words(refusal: &Refusal) -> String {
    match &refusal.source {
        Some(name) => name.clone(),
        None if refusal.subject == ProfileSource::RAW.0 => "the raw event select".to_owned(),
        None => format!("source {:#x}", refusal.subject),
    }
}

/// The result of every fallible function of the library.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_a_message_and_a_value_for_each_place_in_it() {
        for &code in ErrorCode::ALL {
            let refusal = Refusal { code, subject: 7, detail: 9, source: Some("S".to_owned()) };
            let message = refused(&refusal);
            assert!(message.len() > 10 && !message.contains('{'), "{code:?}: {message}");
        }
        let refusal = |code, subject| Refusal { code, subject, detail: 0x10, source: None };
        for (code, subject, message) in [
            (ErrorCode::SourceUnknown, 0x2A, "this machine has no source 0x2a"),
            (ErrorCode::UnknownSession, 3, "this handle has no session 3"),
            (ErrorCode::ProcessorUnknown, 16, "no processor 16: this machine has 0-15"),
            (
                ErrorCode::NoMemory,
                2,
                "could not allocate 16 bytes for processor 2 when it was added",
            ),
            (
                ErrorCode::RdpmcRefused,
                1,
                "CR4.PCE was set on processor 1 and reads back as 0 (CR4 0x10)",
            ),
        ] {
            assert_eq!(refused(&refusal(code, subject)), message);
        }
    }
}
