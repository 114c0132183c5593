//! KPROFILE_SOURCE: the number of a profile source.

/// A `KPROFILE_SOURCE`, as an open set: the WDK names 0x00 to 0x17, each HAL adds numbers of its
/// own from 0x19, and halprof's own begin at [`ProfileSource::FIRST_OWN`].
///
/// Source: wdm.h, `enum _KPROFILE_SOURCE`; G. Chappell, "KPROFILE_SOURCE".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProfileSource(pub u32);

macro_rules! wdk_names {
    ($($constant:ident = $number:literal $symbol:literal)*) => {
        /// The names that wdm.h gives.
        impl ProfileSource {
            $(#[doc = concat!("`", $symbol, "`")] pub const $constant: Self = Self($number);)*

            /// The name wdm.h gives this number, or `None` where it gives none.
            #[must_use]
            pub const fn wdk_name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some($symbol),)*
                    _ => None,
                }
            }
        }
    };
}

wdk_names! {
    TIME = 0x00 "ProfileTime"
    ALIGNMENT_FIXUP = 0x01 "ProfileAlignmentFixup"
    TOTAL_ISSUES = 0x02 "ProfileTotalIssues"
    PIPELINE_DRY = 0x03 "ProfilePipelineDry"
    LOAD_INSTRUCTIONS = 0x04 "ProfileLoadInstructions"
    PIPELINE_FROZEN = 0x05 "ProfilePipelineFrozen"
    BRANCH_INSTRUCTIONS = 0x06 "ProfileBranchInstructions"
    TOTAL_NONISSUES = 0x07 "ProfileTotalNonissues"
    DCACHE_MISSES = 0x08 "ProfileDcacheMisses"
    ICACHE_MISSES = 0x09 "ProfileIcacheMisses"
    CACHE_MISSES = 0x0A "ProfileCacheMisses"
    BRANCH_MISPREDICTIONS = 0x0B "ProfileBranchMispredictions"
    STORE_INSTRUCTIONS = 0x0C "ProfileStoreInstructions"
    FP_INSTRUCTIONS = 0x0D "ProfileFpInstructions"
    INTEGER_INSTRUCTIONS = 0x0E "ProfileIntegerInstructions"
    TWO_ISSUE = 0x0F "Profile2Issue"
    THREE_ISSUE = 0x10 "Profile3Issue"
    FOUR_ISSUE = 0x11 "Profile4Issue"
    SPECIAL_INSTRUCTIONS = 0x12 "ProfileSpecialInstructions"
    TOTAL_CYCLES = 0x13 "ProfileTotalCycles"
    ICACHE_ISSUES = 0x14 "ProfileIcacheIssues"
    DCACHE_ACCESSES = 0x15 "ProfileDcacheAccesses"
    MEMORY_BARRIER_CYCLES = 0x16 "ProfileMemoryBarrierCycles"
    LOAD_LINKED_ISSUES = 0x17 "ProfileLoadLinkedIssues"
}

impl ProfileSource {
    /// `ProfileMaximum`: the first number that wdm.h does not name.
    pub const MAXIMUM: Self = Self(0x18);
    /// The first of halprof's own numbers; every HAL's stay below.
    pub const FIRST_OWN: Self = Self(0x8000_0000);
    /// A raw select: what is counted stands in the request beside the number.
    pub const RAW: Self = Self(0x8000_0000);

    /// Whether halprof, and no HAL, gave this number its meaning.
    #[must_use]
    pub const fn is_own(self) -> bool {
        self.0 >= Self::FIRST_OWN.0
    }
}
