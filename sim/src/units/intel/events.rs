//! What the architectural events count: only the rows of a table.

use crate::cpu::event::Event;

/// One architectural event (SDM vol. 3, "Pre-defined Architectural Performance Events").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The bit of CPUID.0Ah:EBX that says that the processor lacks the event.
    pub bit: u32,
    pub event: u8,
    pub unit_mask: u8,
    pub counts: Event,
}

const fn row(bit: u32, event: u8, unit_mask: u8, counts: Event) -> Row {
    Row { bit, event, unit_mask, counts }
}

/// The events for which every workload has an amount. LBR inserts are not among them, nor the
/// events of [`TOP_DOWN`].
pub const ROWS: [Row; 7] = [
    row(0, 0x3C, 0x00, Event::Cycles),
    row(1, 0xC0, 0x00, Event::Instructions),
    row(2, 0x3C, 0x01, Event::RefCycles),
    row(3, 0x2E, 0x4F, Event::LlcReferences),
    row(4, 0x2E, 0x41, Event::LlcMisses),
    row(5, 0xC4, 0x00, Event::Branches),
    row(6, 0xC5, 0x00, Event::BranchMisses),
];

/// The bits, selects and unit masks of the architectural top-down events: all slots, then those
/// that wait for the back end, are lost to bad speculation, wait for the front end, or retire. Only
/// a workload that names them has amounts.
pub const TOP_DOWN: [(u32, u8, u8); 5] =
    [(SLOTS, 0xA4, 0x01), (8, 0xA4, 0x02), (9, 0x73, 0x00), (10, 0x9C, 0x01), (11, 0xC2, 0x02)];

/// The bit of Topdown Slots.
const SLOTS: u32 = 7;

/// The fixed counter that counts an architectural event which only a workload names, and that
/// event's bit.
pub const FIXED_TOP_DOWN: (usize, u32) = (3, SLOTS);

/// Select and unit mask of UnHalted Reference Cycles.
pub const REFERENCE_CYCLES: (u8, u8) = (0x3C, 0x01);

/// Family 6 models whose [`REFERENCE_CYCLES`] tick with the time-stamp counter: those where Intel's
/// event lists call the event CPU_CLK_UNHALTED.REF_TSC_P.
const AT_TSC_RATE: [u32; 26] = [
    0x86, 0x96, 0x9C, // Tremont.
    0x97, 0x9A, 0xB7, 0xBA, 0xBE, 0xBF, 0xD7, // Alder Lake, Raptor Lake, Bartlett Lake.
    0x8F, 0xCF, 0xAD, 0xAE, // Sapphire, Emerald and Granite Rapids.
    0xAF, 0xB6, 0xDD, // Sierra Forest, Grand Ridge, Clearwater Forest.
    0xAA, 0xAC, 0xB5, 0xBD, 0xC5, 0xC6, // Meteor Lake, Lunar Lake, Arrow Lake.
    0xCC, 0xD5, 0xE5, // Panther Lake, Wildcat Lake.
];

/// Cycles of fixed counter 2 per event of [`REFERENCE_CYCLES`].
///
/// The fixed counter runs with the time-stamp counter. The event runs with it too, or with the bus
/// clock or the core crystal clock (SDM vol. 3, "Pre-defined Architectural Performance Events");
/// the model's clock then has 100 MHz, a tenth of its time stamps.
pub fn reference_ratio(family: u32, model: u32) -> u64 {
    match family {
        6 if !AT_TSC_RATE.contains(&model) => 10,
        _ => 1,
    }
}

/// What the fixed counters count, by index (SDM vol. 3, "Fixed-Function Counters"); the later ones
/// count nothing that a workload contains.
pub const FIXED: [Event; 3] = [Event::Instructions, Event::Cycles, Event::RefCycles];
