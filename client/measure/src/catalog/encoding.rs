//! How a CPU type counts an event: with a select on some of its general counters or on a fixed counter,
//! or why it does not.

use super::CpuType;
use super::constraints::{self, Constraint};
use crate::events::{Event, OFFCORE_RSP_0};
use shared_types::ProfileInterface;
use shared_types::request::session::Spec;

/// The select that counts for both threads what fixed counter 1 counts for one thread.
const CYCLES_OF_BOTH_THREADS: u64 = 0x3C | 1 << 21;
/// Bits of Intel's selects that not every processor has, and what to say where they are missing.
const GATES: [(u64, &str); 2] = [
    (
        1 << 21,
        "it needs the any-thread bit of the select, which this processor does not have (CPUID leaf 0x0A: version 3, EDX bit 15)",
    ),
    (
        0xFF << 40,
        "it needs the second unit mask, which this processor does not have (CPUID leaf 0x23, EBX bit 0)",
    ),
];
/// Extra MSRs that events take a value from, and what they hold (SDM vol. 4; Linux 4e955c08).
const MSRS: [(u32, &str); 8] = [
    (OFFCORE_RSP_0, "off-core response"),
    (0x1A7, "off-core response"),
    (0x3E0, "off-module response"),
    (0x3E1, "off-module response"),
    (0x3E2, "off-module response"),
    (0x3E3, "off-module response"),
    (0x3F6, "load latency"),
    (0x3F7, "front-end retired"),
];

/// Why a CPU type does not count an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotEncoded {
    /// The event takes a value from an MSR that halprof does not program.
    #[error("it needs MSR {0:#X}{contents}, which halprof does not program", contents = contents(*.0))]
    NeedsMsr(u32),
    /// Anything else, in words.
    #[error("{0}")]
    Other(String),
}

/// What an extra MSR holds, in brackets.
fn contents(msr: u32) -> String {
    let known = MSRS.iter().find(|(number, _)| *number == msr);
    known.map_or_else(String::new, |(_, contents)| format!(" ({contents})"))
}

/// How a CPU type counts an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// With a select, on any of the general counters of a mask.
    Select {
        /// The select, as [`Event::select`] gives it.
        select: u64,
        /// The counters, or [`Spec::ANY_COUNTER`].
        counters: u32,
    },
    /// The fixed counter of this index.
    Fixed(u8),
}

impl Encoding {
    /// This encoding with the bits `changed` of the select replaced by `fields`.
    pub(super) fn with(self, changed: u64, fields: u64) -> Result<Self, NotEncoded> {
        match self {
            Self::Select { select, counters } => {
                Ok(Self::Select { select: select & !changed | fields, counters })
            }
            Self::Fixed(index) => {
                let why = format!("fixed counter {index} counts it, which has no fields");
                Err(NotEncoded::Other(why))
            }
        }
    }
}

impl CpuType {
    /// How it counts an event, or why it does not.
    pub fn encode(&self, event: &Event) -> Result<Encoding, NotEncoded> {
        if let Some(msr) = event.msr {
            return Err(NotEncoded::NeedsMsr(msr));
        }
        let other = |why: String| Err(NotEncoded::Other(why));
        let any_counter = |select| {
            self.has_bits(select)?;
            Ok(Encoding::Select { select, counters: Spec::ANY_COUNTER })
        };
        match (event.fixed, event.any_thread) {
            (None, _) => {}
            (Some(1), true) => return any_counter(CYCLES_OF_BOTH_THREADS),
            (Some(_), true) => {
                return other("it counts for both threads on a fixed counter".to_owned());
            }
            (Some(index), false) if self.processor.fixed_mask >> index & 1 == 0 => {
                return other(format!(
                    "only fixed counter {index} counts it, which this processor does not have"
                ));
            }
            (Some(index), false) => return Ok(Encoding::Fixed(index)),
        }
        let select = event.select();
        self.has_bits(select)?;
        self.on_counters(select, event.counters.unwrap_or(u32::MAX))
    }

    /// A select on those of the general counters of a mask that the processor has.
    fn on_counters(&self, select: u64, mask: u32) -> Result<Encoding, NotEncoded> {
        let present = self.processor.counter_mask;
        match mask & present {
            0 => Err(NotEncoded::Other(format!(
                "only the general counters {} count it, which this processor does not have",
                format_counters(mask)
            ))),
            all if all == present => Ok(Encoding::Select { select, counters: Spec::ANY_COUNTER }),
            counters => Ok(Encoding::Select { select, counters }),
        }
    }

    /// An encoding with the constraints that rows of the same code and unit mask have here.
    pub(super) fn constrained(&self, encoding: Encoding) -> Result<Encoding, NotEncoded> {
        let Encoding::Select { select, .. } = encoding else {
            return Ok(encoding);
        };
        if self.takes_codes_of_fixed_counters() && select as u8 == 0 {
            return self.on_fixed_counter(select);
        }
        match constraints::of_select(self, select) {
            Some(Constraint { msr: Some(msr), .. }) => Err(NotEncoded::NeedsMsr(msr)),
            Some(Constraint { counters, .. }) => self.on_counters(select, counters),
            None => Ok(encoding),
        }
    }

    /// Whether event code 0 stands for the fixed counters, as in Intel's lists and in Linux perf.
    fn takes_codes_of_fixed_counters(&self) -> bool {
        self.processor.interface == ProfileInterface::Emon as u32
    }

    /// What code 0 stands for with this unit mask: the fixed counter of the vendor's event or, where no
    /// table has the processor, the one of the architecture. Their unit mask is the counter's index plus
    /// 1 (Linux, arch/x86/events/intel/core.c, FIXED_EVENT_CONSTRAINT). No general counter counts it.
    fn on_fixed_counter(&self, select: u64) -> Result<Encoding, NotEncoded> {
        let unit_mask = (select >> 8 & 0xFF) as u16;
        let is_it = |event: &&Event| {
            event.fixed.is_some() && (event.code, event.unit_mask) == (0, unit_mask)
        };
        let by_table = self.events().find(is_it).map(|event| self.encode(event));
        let index = unit_mask
            .checked_sub(1)
            .filter(|&index| index < 7 && self.processor.fixed_mask >> index & 1 == 1);
        let fixed = by_table.or_else(|| Some(Ok(Encoding::Fixed(index? as u8))));
        // A fixed counter has no edge, inverse or counter mask.
        match fixed.filter(|_| select >> 18 == 0) {
            Some(encoding) => encoding,
            None => Err(NotEncoded::Other(format!(
                "event code 0 stands for fixed counters, and none counts it with unit mask \
                 {unit_mask:#x}"
            ))),
        }
    }

    /// Whether a select takes a counter of even number and the next.
    pub fn takes_pair(&self, select: u64) -> bool {
        constraints::of_select(self, select).is_some_and(|constraint| constraint.pair)
    }

    /// Whether the client must know which counters can count an event. For AMD's before family 17h
    /// and the historic processors the driver knows these constraints.
    pub(super) fn limits_counters(&self) -> bool {
        match &self.processor.vendor {
            b"GenuineIntel" => self.processor.pmu_version != 0,
            b"AuthenticAMD" => self.processor.family >= 0x17,
            _ => false,
        }
    }

    /// The upper bits of a select that only some processors have.
    pub(super) fn select_bits(&self) -> u64 {
        u64::from(self.processor.select_bits) << 16
    }

    /// Whether its selects have all the bits of this one; the driver judges in the same way.
    fn has_bits(&self, select: u64) -> Result<(), NotEncoded> {
        let missing = select & !self.select_bits();
        let gate = GATES.iter().find(|(bits, _)| missing & bits != 0);
        match gate {
            Some((_, why)) if self.processor.vendor == *b"GenuineIntel" => {
                Err(NotEncoded::Other((*why).to_owned()))
            }
            _ => Ok(()),
        }
    }
}

/// The counters of a mask, e.g. `0-3`.
pub fn format_counters(mask: u32) -> String {
    crate::selection::format_processors((0..32).filter(|bit| mask >> bit & 1 == 1))
}
