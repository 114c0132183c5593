//! The library's errors: what was refused or failed, and why.

use schemars::JsonSchema;
use serde::Serialize;
use shared_types::request::samples::Statistics;
use shared_types::{BranchReason, ErrorCode, NtStatus, ProfileSource, WIRE_VERSION};
use std::io;
use std::path::PathBuf;
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
    #[must_use]
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
        hint: String,
    },
    /// The driver could not be opened.
    #[error("{message}")]
    NoDriver {
        /// What was tried, and the result.
        message: String,
        /// What to do.
        hint: String,
    },
    /// Windows' own tracing cannot be used.
    #[error("{message}")]
    NoTracing {
        /// What was refused.
        message: String,
        /// What to do.
        hint: String,
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
    /// Nothing on this machine has this name.
    #[error("this machine has no source or event called `{name}`")]
    UnknownName {
        /// The name.
        name: String,
        /// What may have been meant, as a sentence; `None` if no name is similar.
        hint: Option<String>,
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
        hint: String,
    },
    /// The request itself failed before any answer.
    #[error("the driver did not answer: {}", status(*.0))]
    Status(NtStatus),
    /// The device has gone, or Windows failed the request.
    #[error("the request to the driver failed: {0}")]
    Device(io::Error),
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
        hint: String,
    },
    /// The modelled machine did something that would have stopped real silicon.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Error {
    /// A usage error.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
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

    /// The stable name that programs may compare.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Usage { .. } => "usage",
            Self::NoDriver { .. } => "no-driver",
            Self::NoTracing { .. } => "no-tracing",
            Self::NoFreeCounters { .. } => ErrorCode::CountersReserved.code(),
            Self::NoMachine(_) => "no-machine",
            Self::UnknownName { .. } => ErrorCode::SourceUnknown.code(),
            Self::Refused(refusal) => refusal.code.code(),
            Self::Unavailable { .. } => "unavailable",
            Self::Status(NtStatus::ACCESS_DENIED) => "access-denied",
            Self::Status(_) => "request-failed",
            Self::Device(_) => "device-failed",
            Self::Protocol { .. } => "protocol",
            Self::File { .. } => "file",
            Self::BadFile { .. } => "bad-file",
            Self::Internal(_) => "internal",
        }
    }

    /// What to do, if the error itself says it.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Usage { hint, .. }
            | Self::NoDriver { hint, .. }
            | Self::NoTracing { hint, .. }
            | Self::Unavailable { hint, .. }
            | Self::BadFile { hint, .. } => Some(hint),
            Self::UnknownName { hint, .. } => hint.as_deref(),
            _ => None,
        }
    }

    /// Something that is not available here, and what to do instead.
    pub fn unavailable(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Unavailable { message: message.into(), hint: hint.into() }
    }

    /// The same error, with the name of the source it concerns.
    #[must_use]
    pub fn about(self, name_of: impl Fn(u32) -> Option<String>) -> Self {
        match self {
            Self::Refused(refusal) if concerns_source(refusal.code) => Self::Refused(Refusal {
                source: name_of(refusal.subject).or(refusal.source),
                ..refusal
            }),
            other => other,
        }
    }
}

/// Whether the subject of this refusal is a source's number.
const fn concerns_source(code: ErrorCode) -> bool {
    use ErrorCode as E;
    matches!(
        code,
        E::SourceUnknown
            | E::SourceNotSupported
            | E::SourceApproximate
            | E::SourceDuplicate
            | E::DoesNotFit
            | E::BadFilter
            | E::SamplingUnavailable
            | E::NoReferenceCycles
            | E::KernelNotGranted
            | E::SourceNotInSession
    )
}

fn status(status: NtStatus) -> String {
    match status {
        NtStatus::ACCESS_DENIED => "access denied".to_owned(),
        NtStatus::INVALID_DEVICE_REQUEST => "it does not know this request".to_owned(),
        NtStatus(other) => format!("NTSTATUS {other:#010X}"),
    }
}

/// What was refused, and why.
#[expect(clippy::too_many_lines, reason = "a table: one row for each code")]
fn refused(refusal: &Refusal) -> String {
    use ErrorCode as E;
    let Refusal { code, subject, detail, .. } = *refusal;
    let source = source_in_words(refusal);
    match code {
        E::VersionMismatch => {
            format!(
                "this halprof uses protocol version {subject}; the driver uses version {detail}"
            )
        }
        E::WrongSize => {
            format!("the driver expected a request of {detail} bytes and received {subject}")
        }
        E::ReplyTooSmall => format!("the reply needs {detail} bytes; the buffer has {subject}"),
        E::UnknownFlags => {
            format!(
                "the driver does not know the flags {subject:#x} (protocol version {WIRE_VERSION})"
            )
        }
        E::ReservedNotZero => {
            format!("a reserved field at offset {subject} of the request is not 0")
        }
        E::UnknownSession => format!("this handle has no session {subject}"),
        E::TooManySessions => format!("all {detail} sessions are in use"),
        E::NoSources => "no source was named".to_owned(),
        E::TooManySources => {
            format!("{subject} sources were named; one session can have {detail}")
        }
        E::SourceUnknown => format!("this machine has no {source}"),
        E::SourceNotSupported => format!("{source} cannot be counted on this machine"),
        E::SourceApproximate => {
            format!("the event of {source} is not what its name says on this processor")
        }
        E::SourceDuplicate => format!("{source} is listed twice with the same filter"),
        E::DoesNotFit => {
            format!(
                "{source} does not fit on processor {detail} together with the rest of its group"
            )
        }
        E::RawRefused => {
            format!("the raw event select sets bits that are not allowed: {detail:#x}")
        }
        E::BadFilter => format!("{source} has a filter that is neither user, kernel nor both"),
        E::ProcessorUnknown => {
            format!("no processor {subject}: this machine has 0-{}", detail.saturating_sub(1))
        }
        E::SamplingUnavailable => {
            format!(
                "{source} cannot be sampled: counter overflows raise no interrupt on this processor"
            )
        }
        E::NoReferenceCycles => {
            format!(
                "{source} cannot be sampled: this processor has no cycle counter to sample time with"
            )
        }
        E::KernelNotGranted => {
            format!("{source} needs kernel mode, and the session was opened without it")
        }
        E::Busy => format!("process {subject} holds the counters in another session"),
        E::Running => "the session is running".to_owned(),
        E::NotRunning => "the session is not running".to_owned(),
        E::NotConfigured => "the session has no sources yet".to_owned(),
        E::SourceNotInSession => format!("{source} is not in this session"),
        E::NoMemory if subject != 0 => {
            format!("could not allocate {detail} bytes for processor {subject} when it was added")
        }
        E::NoMemory => format!("could not allocate {detail} bytes for samples or system events"),
        E::NotSampling => "the session does not sample".to_owned(),
        E::BadValue => {
            format!("the value {detail} at offset {subject} of the request is invalid")
        }
        E::CountersReserved => {
            format!("another driver has reserved the counters (NTSTATUS {detail:#010x})")
        }
        E::InterruptTaken => {
            format!("the overflow interrupt is in use by another driver (NTSTATUS {detail:#010x})")
        }
        E::HandlerStuck => format!(
            "halprof's own overflow handler is left of an earlier session, because Windows did not remove it (NTSTATUS {detail:#010x})"
        ),
        E::CountersDead => format!(
            "the counters of processor {subject} were allocated but do not count: the PMU is advertised, not emulated"
        ),
        E::InterruptsDead => format!(
            "the counters of processor {subject} count, but their overflow interrupt never arrives (LVTPC {detail:#x})"
        ),
        E::InterruptStorm => format!(
            "processor {subject} was interrupted repeatedly although no counter had overflowed, so sampling was stopped (LVTPC {detail:#x})"
        ),
        E::KernelAddressesNotGranted => format!(
            "sampling {source} in kernel mode reveals kernel addresses, which requires SeDebugPrivilege"
        ),
        E::FixedCounterTaken => {
            format!("{source} needs a fixed counter that is already in use on processor {detail}")
        }
        E::Suspended => "the machine is going to sleep".to_owned(),
        E::Hypervisor => format!(
            "processor {subject} runs under a hypervisor, where CR4 is not changed: a write that the hypervisor refuses would crash Windows"
        ),
        E::RdpmcRefused => {
            format!("CR4.PCE was set on processor {subject} and reads back as 0 (CR4 {detail:#x})")
        }
        E::ThreadsOwned => {
            format!("Windows' thread profiling is already in use (NTSTATUS {detail:#010x})")
        }
        E::ThreadsUnavailable => {
            format!("Windows refused the counters for thread profiling (NTSTATUS {detail:#010x})")
        }
        E::ThreadsKept => format!(
            "a thread, which may belong to another user's program, still profiles itself with the counters of an earlier session, so Windows has not given them back (NTSTATUS {detail:#010x})"
        ),
        E::NotByThread => format!(
            "{source} cannot be counted by thread: processor {detail} has no general counter for it, or not the one that the others use"
        ),
        E::NoEvents => "the session does not record system events".to_owned(),
        E::BranchesUnavailable => format!(
            "processor {subject} cannot record branches: {}",
            no_branches(BranchReason::from_wire(detail as u32))
        ),
        E::BranchDepth => {
            format!("processor {subject} records {detail} branches for a sample at most")
        }
        E::BranchesNeedSamples => {
            "branches are recorded only for samples that have an address".to_owned()
        }
        E::BranchesTaken => format!(
            "another program is recording branches on processor {subject} (control register {detail:#x})"
        ),
        E::BranchesChanged => format!(
            "another program changed how branches are recorded on processor {subject}, so sampling was stopped (control register {detail:#x})"
        ),
        E::BranchesKernelNotGranted => {
            "branches of kernel mode have kernel addresses, which require SeDebugPrivilege"
                .to_owned()
        }
    }
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
