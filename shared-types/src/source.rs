//! Profile sources: their numbers, the tables that name them, and notes on them.

use crate::interface::wire_enum;

/// A `KPROFILE_SOURCE`, which is an open set: the WDK names 0x00 to 0x17, each HAL adds its own
/// numbers from 0x19 on, and halprof's own begin at [`ProfileSource::FIRST_OWN`].
///
/// Source: wdm.h, `enum _KPROFILE_SOURCE`; G. Chappell, "KPROFILE_SOURCE".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProfileSource(pub u32);

impl ProfileSource {
    /// `ProfileTime`.
    pub const TIME: Self = Self(0x00);
    /// `ProfileTotalIssues`.
    pub const TOTAL_ISSUES: Self = Self(0x02);
    /// `ProfileTotalCycles`.
    pub const TOTAL_CYCLES: Self = Self(0x13);
    /// The first of halprof's own numbers; those of every HAL are lower.
    pub const FIRST_OWN: Self = Self(0x8000_0000);
    /// A raw select: the request gives the select besides this number.
    pub const RAW: Self = Self(0x8000_0000);

    /// Whether this number was defined by halprof and not by a HAL.
    pub const fn is_own(self) -> bool {
        self.0 >= Self::FIRST_OWN.0
    }
}

wire_enum! {
    /// The table that a source's number is looked up in for its name, its event's name and its note.
    /// Clients have the tables: the driver needs no names. AMD's have the sources of the Amd64
    /// interface, and halprof's own.
    SourceTable {
        /// The Default interface's.
        Default = 0 "default"
        /// The Emon interface's, and halprof's own sources for Intel.
        Emon = 1 "emon"
        /// The Amd64 interface's, where it is not the one in use.
        Amd64 = 2 "amd64"
        /// Pentium.
        Pentium = 3 "pentium"
        /// Pentium with MMX technology.
        PentiumMmx = 4 "pentium-mmx"
        /// Pentium Pro to Pentium III.
        P6 = 5 "p6"
        /// Pentium M.
        PentiumM = 6 "pentium-m"
        /// Pentium 4 and its Xeons.
        NetBurst = 7 "netburst"
        /// An AMD model whose events are not known.
        AmdUnknown = 8 "amd-unknown"
        /// AMD family 0Fh.
        AmdK8 = 9 "amd-k8"
        /// AMD family 10h.
        AmdFamily10h = 10 "amd-family-10h"
        /// AMD family 11h.
        AmdFamily11h = 11 "amd-family-11h"
        /// AMD family 12h.
        AmdFamily12h = 12 "amd-family-12h"
        /// AMD family 14h.
        AmdFamily14h = 13 "amd-family-14h"
        /// AMD family 15h.
        AmdFamily15h = 14 "amd-family-15h"
        /// AMD family 16h.
        AmdFamily16h = 15 "amd-family-16h"
        /// Zen and Zen+.
        AmdZen1 = 16 "amd-zen1"
        /// Zen 2.
        AmdZen2 = 17 "amd-zen2"
        /// Zen 3.
        AmdZen3 = 18 "amd-zen3"
        /// Zen 4.
        AmdZen4 = 19 "amd-zen4"
        /// Zen 5.
        AmdZen5 = 20 "amd-zen5"
        /// Zen 6.
        AmdZen6 = 21 "amd-zen6"
    }
}

wire_enum! {
    /// Why a source is not supported or cannot be sampled, or what else its table's note does not
    /// say of it on this processor.
    SourceNote {
        /// Its table's note applies; if the source is not supported, that says why.
        OfTable = 0 "of-table"
        /// The processor is used through the Default interface, which has a timer only.
        DefaultInterface = 1 "default-interface"
        /// One set of northbridge counters serves all cores of a node.
        Northbridge = 2 "northbridge"
        /// AMD: the family does not document the event of the HAL's row.
        NotDocumented = 3 "not-documented"
        /// AMD: the unit mask of the HAL's row selects nothing on this family.
        MaskSelectsNothing = 4 "mask-selects-nothing"
        /// AMD: what the model's events mean is not known.
        UnknownModel = 5 "unknown-model"
        /// CPUID leaf 0x0A says that the event is not available.
        NotInLeaf0A = 6 "not-in-leaf-0a"
        /// CPUID leaf 0x0A or 0x23 says that the event is not available.
        NotInLeaf0AOr23 = 7 "not-in-leaf-0a-or-23"
        /// The processor does not have the fixed counter.
        NoFixedCounter = 8 "no-fixed-counter"
        /// No counter of the processor can count the event.
        NoCounter = 9 "no-counter"
        /// NetBurst: the package's first logical processor has the only replay metric.
        NoReplayMetric = 10 "no-replay-metric"
        /// NetBurst: the counters of the event are the other logical processor's.
        OtherThreadsCounters = 11 "other-threads-counters"
        /// There was no memory for the counters.
        NoMemory = 12 "no-memory"
        /// No sampling: the callback of the Default interface's timer has no address.
        TimerHasNoAddress = 13 "timer-has-no-address"
        /// No sampling: the Pentium's counters raise no interrupt.
        NoInterrupt = 14 "no-interrupt"
        /// No sampling: no local APIC is enabled to carry the interrupt.
        NoLocalApic = 15 "no-local-apic"
        /// No sampling by time: no counter of cycles stands in for the timer.
        NoCycleCounter = 16 "no-cycle-counter"
    }
}
