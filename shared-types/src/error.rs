//! Every way to be refused, each cause with a number and a name of its own.

/// An NTSTATUS with which a DeviceIoControl completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NtStatus(pub u32);

impl NtStatus {
    /// STATUS_SUCCESS: there is a reply; its header may still refuse.
    pub const SUCCESS: Self = Self(0x0000_0000);
    /// STATUS_INVALID_DEVICE_REQUEST: no such request code.
    pub const INVALID_DEVICE_REQUEST: Self = Self(0xC000_0010);
    /// STATUS_DEVICE_NOT_READY: the device is starting, or going.
    pub const DEVICE_NOT_READY: Self = Self(0xC000_00A3);
    /// STATUS_ACCESS_DENIED: the handle was opened without the right that the code names.
    pub const ACCESS_DENIED: Self = Self(0xC000_0022);
    /// STATUS_BUFFER_TOO_SMALL: the output cannot hold a reply header.
    pub const BUFFER_TOO_SMALL: Self = Self(0xC000_0023);
    /// STATUS_INFO_LENGTH_MISMATCH: the input cannot hold a request header.
    pub const INFO_LENGTH_MISMATCH: Self = Self(0xC000_0004);
}

macro_rules! error_codes {
    ($($(#[$doc:meta])* $variant:ident = $number:literal $code:literal)*) => {
        /// Why a request was refused. `subject` and `detail` are those of the reply's header.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum ErrorCode {
            $($(#[$doc])* $variant = $number,)*
        }

        impl ErrorCode {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The code of a number on the wire; `None` for 0 and for numbers of another version.
            #[must_use]
            pub const fn from_wire(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The stable name that programs may compare, e.g. `source-not-supported`.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self {
                    $(Self::$variant => $code,)*
                }
            }
        }
    };
}

error_codes! {
    /// The two sides speak different versions: `subject` is the request's, `detail` the answerer's.
    VersionMismatch = 1 "version-mismatch"
    /// The request's length is wrong: `subject` is the length it has, `detail` the right one.
    WrongSize = 2 "wrong-size"
    /// The output buffer is too small: `subject` is its length, `detail` the length needed.
    ReplyTooSmall = 3 "reply-too-small"
    /// Flags that this version does not know: `subject` has them.
    UnknownFlags = 4 "unknown-flags"
    /// A field that must be 0 is not: `subject` is its offset where that is known.
    ReservedNotZero = 5 "reserved-not-zero"
    /// No session of this number belongs to this handle: `subject` is the number.
    UnknownSession = 6 "unknown-session"
    /// Every session is in use: `detail` is how many there are.
    TooManySessions = 7 "too-many-sessions"
    /// The request names no source.
    NoSources = 8 "no-sources"
    /// The request names too many sources: `subject` is how many, `detail` the most.
    TooManySources = 9 "too-many-sources"
    /// No interface of this machine has the source: `subject` is its number.
    SourceUnknown = 10 "source-unknown"
    /// The source is listed and cannot be counted here: `subject` is its number.
    SourceNotSupported = 11 "source-not-supported"
    /// The source only approximates its name, and the session does not ask for such: `subject` is
    /// its number.
    SourceApproximate = 12 "source-approximate"
    /// The source stands twice with the same filter: `subject` is its number.
    SourceDuplicate = 13 "source-duplicate"
    /// Sources that must run together cannot: `subject` is the number of the first without a
    /// counter, `detail` the index of a processor where it has none.
    DoesNotFit = 14 "does-not-fit"
    /// A raw select has bits that a user may not set: `detail` has them.
    RawRefused = 15 "raw-refused"
    /// A filter that is neither user, kernel nor both: `subject` is the source's number.
    BadFilter = 16 "bad-filter"
    /// No such processor: `subject` is its index, `detail` how many there are.
    ProcessorUnknown = 17 "processor-unknown"
    /// Sampling needs an interrupt that this processor does not give: `subject` is the source.
    SamplingUnavailable = 18 "sampling-unavailable"
    /// Sampling by time needs reference cycles at the rate of the time-stamp counter, and this
    /// processor has no counter of them: `subject` is the source.
    NoReferenceCycles = 19 "no-reference-cycles"
    /// Kernel mode was asked for by a session that was opened without it: `subject` is the source.
    KernelNotGranted = 20 "kernel-not-granted"
    /// Another session holds the counters: `subject` is its client's process, `detail` for how
    /// long, in ticks of the time-stamp counter.
    Busy = 21 "busy"
    /// The session is running; stop it first.
    Running = 22 "running"
    /// The session is not running.
    NotRunning = 23 "not-running"
    /// The session has no configuration yet.
    NotConfigured = 24 "not-configured"
    /// The source is not one of the session's: `subject` is its number.
    SourceNotInSession = 25 "source-not-in-session"
    /// Memory for the samples could not be had: `detail` is how many bytes were asked for.
    NoMemory = 26 "no-memory"
    /// The session does not sample.
    NotSampling = 27 "not-sampling"
    /// A field has a value outside its meaning: `subject` is its offset, `detail` the value.
    BadValue = 28 "bad-value"
    /// The counters could not be reserved, because their owner does not give them: `detail` is the
    /// NTSTATUS.
    CountersReserved = 29 "counters-reserved"
    /// Suspended for sleep; the request can be made again when the machine is awake.
    Suspended = 30 "suspended"
    /// The overflow interrupt could not be had: `detail` is the NTSTATUS.
    InterruptTaken = 31 "interrupt-taken"
    /// The counters were given and do not count: `subject` is the index of a processor.
    CountersDead = 32 "counters-dead"
    /// The counters count, and no overflow interrupt came: `subject` is the index of a processor,
    /// `detail` the value of its LVTPC.
    InterruptsDead = 33 "interrupts-dead"
    /// Interrupts without an overflow of ours came one after the other, and the session was ended:
    /// `subject` is the index of the processor, `detail` the value of its LVTPC, which is left
    /// masked.
    InterruptStorm = 34 "interrupt-storm"
    /// Samples of kernel mode have kernel addresses, and the client lacks SeDebugPrivilege:
    /// `subject` is the source.
    KernelAddressesNotGranted = 35 "kernel-addresses-not-granted"
    /// Only a fixed-function counter counts the source, and somebody else has it enabled:
    /// `subject` is the source, `detail` the index of a processor.
    FixedCounterTaken = 36 "fixed-counter-taken"
    /// CR4 is not written under a hypervisor, as a write that it refuses cannot be caught:
    /// `subject` is the index of a processor that shows one.
    Hypervisor = 37 "hypervisor"
    /// CR4.PCE was set and read back as 0: `subject` is the index of a processor, `detail` its CR4.
    RdpmcRefused = 38 "rdpmc-refused"
    /// Thread profiling is in use, by another driver or by a thread: `detail` is the NTSTATUS.
    ThreadsOwned = 39 "threads-owned"
    /// Windows does not take the counters for thread profiling: `detail` is the NTSTATUS.
    ThreadsUnavailable = 40 "threads-unavailable"
    /// Windows has not given back the counters of a session that counted by thread, as a thread
    /// still profiles itself: `subject` is the process that had the session.
    ThreadsKept = 41 "threads-kept"
    /// The source cannot be counted by thread, as it takes no general counter, or not the same one
    /// on every processor: `subject` is its number, `detail` the index of a processor.
    NotByThread = 42 "not-by-thread"
    /// A processor of the session cannot record branches: `subject` is its index, `detail` the
    /// [`crate::BranchReason`].
    BranchesUnavailable = 43 "branches-unavailable"
    /// More branches than a processor of the session records: `subject` is its index, `detail` the
    /// most it records.
    BranchDepth = 44 "branch-depth"
    /// Branches are recorded for samples with an address, and the session has none: `subject` is
    /// the number of branches asked for.
    BranchesNeedSamples = 45 "branches-need-samples"
    /// Somebody else records branches: `subject` is the index of a processor, `detail` the register
    /// that says so.
    BranchesTaken = 46 "branches-taken"
    /// Somebody else has changed how branches are recorded while the session ran, which was ended:
    /// `subject` is the index of the processor, `detail` the register that says so.
    BranchesChanged = 47 "branches-changed"
    /// Branches to kernel mode were asked for by a client that may not see kernel addresses:
    /// `subject` is the filter.
    BranchesKernelNotGranted = 48 "branches-kernel-not-granted"
    /// Windows does not tell of processes and images: `detail` is the NTSTATUS.
    EventsUnavailable = 49 "events-unavailable"
    /// The session does not record system events.
    NoEvents = 50 "no-events"
}
