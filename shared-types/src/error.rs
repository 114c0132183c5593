//! Every reason for refusing a request, each with its own number and name.

use crate::interface::wire_enum;

/// An NTSTATUS with which a DeviceIoControl completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NtStatus(pub u32);

impl NtStatus {
    /// STATUS_SUCCESS: there is a reply; its header may still refuse the request.
    pub const SUCCESS: Self = Self(0x0000_0000);
    /// STATUS_INVALID_DEVICE_REQUEST: there is no such request code, or the request has no file
    /// object.
    pub const INVALID_DEVICE_REQUEST: Self = Self(0xC000_0010);
    /// STATUS_DEVICE_NOT_READY: the device is starting or being removed.
    pub const DEVICE_NOT_READY: Self = Self(0xC000_00A3);
    /// STATUS_ACCESS_DENIED: the handle was opened without the right that the code requires.
    pub const ACCESS_DENIED: Self = Self(0xC000_0022);
    /// STATUS_BUFFER_TOO_SMALL: the output cannot hold a reply header.
    pub const BUFFER_TOO_SMALL: Self = Self(0xC000_0023);
    /// STATUS_INFO_LENGTH_MISMATCH: the input cannot hold a request header.
    pub const INFO_LENGTH_MISMATCH: Self = Self(0xC000_0004);
}

wire_enum! {
    /// Why a request was refused. `subject` and `detail` are the fields of the reply's header.
    ErrorCode {
        /// The two sides use different wire versions: `subject` is the request's, `detail` the
        /// answering side's.
        VersionMismatch = 1 "version-mismatch"
        /// The request's length is wrong: `subject` is its length, `detail` the correct one.
        WrongSize = 2 "wrong-size"
        /// The output buffer is too small: `subject` is its length, `detail` the length needed.
        ReplyTooSmall = 3 "reply-too-small"
        /// Flags that this version does not know, or that cannot be combined: `subject` contains
        /// them.
        UnknownFlags = 4 "unknown-flags"
        /// A field that must be 0 is not: `subject` is its offset, if known.
        ReservedNotZero = 5 "reserved-not-zero"
        /// No session with this number belongs to this handle: `subject` is the number.
        UnknownSession = 6 "unknown-session"
        /// Every session is in use: `detail` is how many there are.
        TooManySessions = 7 "too-many-sessions"
        /// The request names no source.
        NoSources = 8 "no-sources"
        /// The request names too many sources: `subject` is how many, `detail` the maximum.
        TooManySources = 9 "too-many-sources"
        /// No interface of this machine has the source: `subject` is the source's number.
        SourceUnknown = 10 "source-unknown"
        /// The source is listed but cannot be counted here: `subject` is its number.
        SourceNotSupported = 11 "source-not-supported"
        /// The source only approximates its name, and the session does not accept such sources:
        /// `subject` is its number.
        SourceApproximate = 12 "source-approximate"
        /// The source is listed twice with the same filter: `subject` is its number.
        SourceDuplicate = 13 "source-duplicate"
        /// Sources that must run together cannot: `subject` is the number of the first source
        /// without a counter, `detail` the index of a processor on which it has none.
        DoesNotFit = 14 "does-not-fit"
        /// A raw select has bits that a user may not set: `detail` contains them.
        RawRefused = 15 "raw-refused"
        /// A filter is not user, kernel or both, or a raw select contains another filter than its
        /// source: `subject` is the source's number, `detail` the raw select.
        BadFilter = 16 "bad-filter"
        /// There is no such processor: `subject` is its index, `detail` the number of processors.
        ProcessorUnknown = 17 "processor-unknown"
        /// Sampling needs an interrupt that this processor does not provide: `subject` is the
        /// source.
        SamplingUnavailable = 18 "sampling-unavailable"
        /// Sampling by time needs a counter of reference cycles at the rate of the time-stamp
        /// counter or of core cycles, and this processor has neither: `subject` is the source.
        NoReferenceCycles = 19 "no-reference-cycles"
        /// A session that was opened without kernel mode asks for it: `subject` is the source.
        KernelNotGranted = 20 "kernel-not-granted"
        /// Another session holds the counters, or still has samples or events: `subject` is its
        /// client's process, `detail` how long it has held the counters, in ticks of the time-stamp
        /// counter; 0 if it no longer does.
        Busy = 21 "busy"
        /// The session is running; stop it first.
        Running = 22 "running"
        /// The session is not running or, where results are requested, has none.
        NotRunning = 23 "not-running"
        /// The session has no configuration yet or, where its thread counters are requested, none
        /// that counts by thread.
        NotConfigured = 24 "not-configured"
        /// The session does not have this source: `subject` is its number.
        SourceNotInSession = 25 "source-not-in-session"
        /// Memory could not be allocated for rings, or for counts that need several replies; or the
        /// rings would exceed their limit: `detail` is the number of bytes requested, `subject` the
        /// added processor that they were for, or 0.
        NoMemory = 26 "no-memory"
        /// The session does not sample.
        NotSampling = 27 "not-sampling"
        /// A field has an invalid value: `subject` is its offset, `detail` the value.
        BadValue = 28 "bad-value"
        /// The counters could not be reserved, because their owner refused them: `detail` is the
        /// NTSTATUS.
        CountersReserved = 29 "counters-reserved"
        /// The device is suspended for sleep; the request can be repeated when the machine is
        /// awake.
        Suspended = 30 "suspended"
        /// The overflow interrupt is not available: `detail` is the NTSTATUS.
        InterruptTaken = 31 "interrupt-taken"
        /// The counters were reserved but do not count, or a register that they need is not there:
        /// `subject` is the index of a processor, `detail` the register's number, or 0.
        CountersDead = 32 "counters-dead"
        /// The counters count, but no overflow interrupt came: `subject` is the index of a
        /// processor, `detail` the value of its LVTPC.
        InterruptsDead = 33 "interrupts-dead"
        /// Interrupts without an overflow of the session's counters came one after another, and the
        /// session was ended: `subject` is the index of the processor, `detail` the value of its
        /// LVTPC, which is left masked.
        InterruptStorm = 34 "interrupt-storm"
        /// Samples of kernel mode contain kernel addresses, and the client lacks SeDebugPrivilege:
        /// `subject` is the source.
        KernelAddressesNotGranted = 35 "kernel-addresses-not-granted"
        /// Only a fixed-function counter can count the source, and another owner has enabled that
        /// counter: `subject` is the source, `detail` the index of a processor.
        FixedCounterTaken = 36 "fixed-counter-taken"
        /// CR4 is not written under a hypervisor, because a write that the hypervisor refuses
        /// cannot be caught: `subject` is the index of a processor that reports one.
        Hypervisor = 37 "hypervisor"
        /// CR4.PCE was set but read back as 0: `subject` is the index of a processor, `detail` its
        /// CR4.
        RdpmcRefused = 38 "rdpmc-refused"
        /// Thread profiling is in use, by another driver or by a thread: `detail` is the NTSTATUS.
        ThreadsOwned = 39 "threads-owned"
        /// Windows does not accept the counters for thread profiling: `detail` is the NTSTATUS.
        ThreadsUnavailable = 40 "threads-unavailable"
        /// Windows has not yet released the counters of a session that counted by thread, because a
        /// thread, of any process and user, is still profiling itself: `detail` is the NTSTATUS.
        ThreadsKept = 41 "threads-kept"
        /// The source cannot be counted by thread, because it does not take a general counter, or
        /// takes two, or not the same one on every processor: `subject` is its number, `detail` the index of a
        /// processor.
        NotByThread = 42 "not-by-thread"
        /// A processor of the session cannot record branches: `subject` is its index, `detail` the
        /// [`crate::BranchReason`].
        BranchesUnavailable = 43 "branches-unavailable"
        /// More branches are requested than a processor of the session records: `subject` is its
        /// index, `detail` the most that it records.
        BranchDepth = 44 "branch-depth"
        /// Branches are recorded only for samples, and the session does not sample: `subject` is
        /// the number of branches requested.
        BranchesNeedSamples = 45 "branches-need-samples"
        /// Another owner is recording branches: `subject` is the index of a processor, `detail` the
        /// value of the register that shows it.
        BranchesTaken = 46 "branches-taken"
        /// Another owner changed how branches are recorded while the session was running, and the
        /// session was ended: `subject` is the index of the processor, `detail` the value of the
        /// register that shows it.
        BranchesChanged = 47 "branches-changed"
        /// A client that may not see kernel addresses asks for branches to kernel mode: `subject`
        /// is the filter.
        BranchesKernelNotGranted = 48 "branches-kernel-not-granted"
        /// The session does not record system events.
        NoEvents = 49 "no-events"
        /// Windows did not remove the driver's own overflow handler after an earlier session, so
        /// nothing can be sampled: `detail` is the NTSTATUS.
        HandlerStuck = 50 "handler-stuck"
        /// The source takes a counter of even number and the next one, and no such pair is to be
        /// had: `subject` is its number, `detail` the index of a processor.
        NeedsPair = 51 "needs-pair"
    }
}

impl ErrorCode {
    /// The stable name, which programs may compare, e.g. `source-not-supported`.
    pub const fn code(self) -> &'static str {
        self.name()
    }
}
