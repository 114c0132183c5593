//! AMD's generations, by family and model.

use shared_types::SourceTable;
use zerocopy::FromZeros;

/// AMD's processors, grouped by event list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, FromZeros)]
#[repr(u8)]
pub enum AmdGeneration {
    /// None of those below: what its events mean is not known.
    #[default]
    Unknown = 0,
    /// Family 0Fh.
    K8,
    /// Family 10h.
    Family10h,
    /// Family 11h.
    Family11h,
    /// Family 12h.
    Family12h,
    /// Family 14h.
    Family14h,
    /// Family 15h: Bulldozer to Excavator.
    Family15h,
    /// Family 16h.
    Family16h,
    /// Family 17h models 00h to 2Fh and 50h to 5Fh: Zen and Zen+.
    Zen1,
    /// Family 17h models 30h to 4Fh, 60h to 7Fh, 90h, 91h and A0h to AFh.
    Zen2,
    /// Family 19h models 00h to 0Fh and 20h to 5Fh.
    Zen3,
    /// Family 19h models 10h to 1Fh and 60h to AFh.
    Zen4,
    /// Family 1Ah models 00h to 2Fh, 40h to 4Fh and 60h to 7Fh.
    Zen5,
}

impl AmdGeneration {
    /// The table that names the sources of this generation.
    pub const fn source_table(self) -> SourceTable {
        match self {
            Self::Unknown => SourceTable::AmdUnknown,
            Self::K8 => SourceTable::AmdK8,
            Self::Family10h => SourceTable::AmdFamily10h,
            Self::Family11h => SourceTable::AmdFamily11h,
            Self::Family12h => SourceTable::AmdFamily12h,
            Self::Family14h => SourceTable::AmdFamily14h,
            Self::Family15h => SourceTable::AmdFamily15h,
            Self::Family16h => SourceTable::AmdFamily16h,
            Self::Zen1 => SourceTable::AmdZen1,
            Self::Zen2 => SourceTable::AmdZen2,
            Self::Zen3 => SourceTable::AmdZen3,
            Self::Zen4 => SourceTable::AmdZen4,
            Self::Zen5 => SourceTable::AmdZen5,
        }
    }

    /// The generation of a family and model as given by CPUID.1:EAX, extended fields included. A
    /// model outside the known ranges is [`AmdGeneration::Unknown`], not the newest of its family:
    /// Zen 6 shares family 1Ah with Zen 5 (models 50h to 5Fh, 80h to AFh, C0h on).
    ///
    /// Source: Linux, arch/x86/kernel/cpu/amd.c.
    pub const fn from(family: u32, model: u32) -> Self {
        match (family, model) {
            (0x0F, _) => Self::K8,
            (0x10, _) => Self::Family10h,
            (0x11, _) => Self::Family11h,
            (0x12, _) => Self::Family12h,
            (0x14, _) => Self::Family14h,
            (0x15, _) => Self::Family15h,
            (0x16, _) => Self::Family16h,
            (0x17, 0x00..=0x2F | 0x50..=0x5F) => Self::Zen1,
            (0x17, 0x30..=0x4F | 0x60..=0x7F | 0x90..=0x91 | 0xA0..=0xAF) => Self::Zen2,
            (0x19, 0x00..=0x0F | 0x20..=0x5F) => Self::Zen3,
            (0x19, 0x10..=0x1F | 0x60..=0xAF) => Self::Zen4,
            (0x1A, 0x00..=0x2F | 0x40..=0x4F | 0x60..=0x7F) => Self::Zen5,
            _ => Self::Unknown,
        }
    }
}
