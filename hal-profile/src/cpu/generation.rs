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
    Family10h,
    Family11h,
    Family12h,
    Family14h,
    /// Family 15h: Bulldozer to Excavator.
    Family15h,
    Family16h,
    /// Zen and Zen+, of family 17h.
    Zen1,
    /// Zen 2, of family 17h.
    Zen2,
    /// Zen 3 and Zen 3+, of family 19h.
    Zen3,
    /// Zen 4, of family 19h.
    Zen4,
    /// Zen 5, of family 1Ah.
    Zen5,
    /// Zen 6, of family 1Ah.
    Zen6,
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
            Self::Zen6 => SourceTable::AmdZen6,
        }
    }

    /// The generation of a family and model as given by CPUID.1:EAX, extended fields included. A
    /// model outside the known ranges is [`AmdGeneration::Unknown`], not the newest of its family:
    /// AMD gives the free ranges of a family to later cores with other events.
    pub fn from(family: u32, model: u32) -> Self {
        let mut rows = MODELS.iter();
        let row =
            rows.find(|(of, first, last, _)| *of == family && (*first..=*last).contains(&model));
        row.map_or(Self::Unknown, |(.., generation)| *generation)
    }
}

/// Family, first and last model, generation: amd-generations.csv, with its sources.
static MODELS: &[(u32, u32, u32, AmdGeneration)] =
    &include!(concat!(env!("OUT_DIR"), "/amd_generations.rs"));
