//! What a driver must not do.
//!
//! Each rule names its authority: a page of the Windows driver documentation
//! (learn.microsoft.com/windows-hardware/drivers), the bug check or the Driver Verifier check that
//! finds a violation there, or the processor's manual.

use std::fmt;

macro_rules! rules {
    ($($(#[doc = $doc:literal])+ $rule:ident $name:literal;)*) => {
        /// A rule, by the name under which it is printed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Rule {
            $($(#[doc = $doc])+ $rule,)*
        }

        impl Rule {
            pub const ALL: &[Self] = &[$(Self::$rule),*];

            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$rule => $name,)*
                }
            }
        }
    };
}

rules! {
    /// A function was called above its highest IRQL: the "IRQL" row of each function's page; Driver
    /// Verifier, "Force IRQL checking".
    Irql "irql";
    /// Memory was accessed that is not, or no longer, the driver's: Driver Verifier, "Special
    /// Pool"; bug checks 0xCD and 0xCC.
    Memory "memory";
    /// Bytes that the driver has not written were returned to the client: "Failure to Initialize
    /// Output Buffers".
    Uninitialised "uninitialised";
    /// Pool was freed twice, with another tag, or without having been allocated: bug check 0xC2,
    /// BAD_POOL_CALLER.
    PoolFree "pool-free";
    /// Pool is left after unload: Driver Verifier, "Pool Tracking"; bug check 0xC4 with 0x62.
    PoolLeak "pool-leak";
    /// A timer that was set so as not to wake processors wakes one that is idle: "No-Wake Timers";
    /// KeSetImportanceDpc's page.
    Wakes "wakes";
    /// Something waited where nothing may wait: page of KeWaitForSingleObject; bug check 0xB8,
    /// ATTEMPTED_SWITCH_FROM_DPC.
    Wait "wait";
    /// A request was completed twice, or not at all, or with more bytes than it has room for: KMDF
    /// rules DoubleCompletion and RequestCompleted.
    Request "request";
    /// A framework object was used after it was deleted, or was not one: bug check 0x10D,
    /// WDF_VIOLATION.
    Object "object";
    /// A lock was acquired twice by one thread, or released by another: page of WdfWaitLockAcquire.
    Lock "lock";
    /// A lock was held when a thread returned to the system: Driver Verifier, "Deadlock
    /// Detection".
    LockHeld "lock-held";
    /// A thread left a critical region that it was not in, or returned to the system in one that it
    /// had entered: page of KeEnterCriticalRegion; bug check 0x1, APC_INDEX_MISMATCH.
    CriticalRegion "critical-region";
    /// Something of the driver's is alive after unload, or is in pool that is being freed: bug
    /// checks 0xCE, DRIVER_UNLOADED_WITHOUT_CANCELLING_PENDING_OPERATIONS, and 0xC7,
    /// TIMER_OR_DPC_INVALID.
    Alive "alive";
    /// With every handle closed, a register, a reservation or a session is left as if one were
    /// still open.
    Left "left";
    /// Silicon refused an access to a register: #GP (SDM, "RDMSR - Read From Model Specific
    /// Register", "WRMSR - Write to Model Specific Register", "RDPMC - Read Performance-Monitoring
    /// Counters"; AMD64 APM, the same instructions).
    Register "register";
    /// A register was written that is not the driver's: see [`registers`](crate::registers).
    AllowList "allow-list";
    /// A register of the PMU was written for a counter that is not reserved: page of
    /// HalAllocateHardwareCounters.
    Unreserved "unreserved";
    /// A register of the driver's does not have its required value when its counters are released:
    /// page of HalFreeHardwareCounters, after which they belong to another. Or LVTPC is masked then
    /// although there was no storm.
    BitsLeft "bits-left";
    /// A bit that belongs to another owner was changed.
    ForeignBits "foreign-bits";
    /// Interrupts stayed masked, or an interrupt's handler ran, for too many instructions: bug
    /// check 0x101, CLOCK_WATCHDOG_TIMEOUT; [`crate::engine::MASKED_LIMIT`] says how many.
    Masked "masked";
    /// A request took more instructions than [`crate::cost::Budget`] allows, or another callback
    /// ran too many without calling the system: bug check 0x133, DPC_WATCHDOG_VIOLATION;
    /// "Guidelines for Writing DPC Routines" (100 microseconds).
    Spin "spin";
    /// A function returned to the system with a changed value in a register that it must preserve,
    /// or with the direction flag set: "x64 calling convention", "Register volatility".
    Convention "convention";
    /// More than half of a kernel stack was used: "Using the Kernel Stack"; bug check 0x7F with 8.
    Stack "stack";
    /// The machine does not come to rest.
    Endless "endless";
    /// Something that is not modelled was called.
    Unmodelled "unmodelled";
    /// The driver stopped the system: page of KeBugCheckEx. Or an overflow was an NMI: bug check 0x80,
    /// NMI_HARDWARE_FAILURE.
    BugCheck "bug-check";
}

#[derive(Clone, Debug)]
pub struct Violation {
    pub rule: Rule,
    pub what: String,
    /// Return addresses, innermost first, as offsets in the image.
    pub stack: Vec<u64>,
}

impl Violation {
    /// A violation without a stack yet.
    pub fn new(rule: Rule, what: impl Into<String>) -> Self {
        Self { rule, what: what.into(), stack: Vec::new() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {}: {}", self.rule.name(), self.what)?;
        for address in &self.stack {
            write!(f, "\n  at halprof.sys+{address:#x}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Violation {}
