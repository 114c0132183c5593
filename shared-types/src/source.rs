//! KPROFILE_SOURCE: the number of a profile source.

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
    #[must_use]
    pub const fn is_own(self) -> bool {
        self.0 >= Self::FIRST_OWN.0
    }
}
