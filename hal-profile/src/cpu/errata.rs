//! The errata that decide how counters are used: those rows of data/errata.csv whose effect is more
//! than a note. Clients read the others, and all texts, from the same table.

use crate::cpu::capabilities::Errata;
use crate::cpu::counter::Counter;
use crate::cpu::machine::Machine;
use crate::cpu::registers::cpuid::{LEAF7_EDX_RTM_ALWAYS_ABORT, LEAF7_EDX_TSX_FORCE_ABORT};
use crate::cpu::selection::Identity;

struct Row {
    vendor: [u8; 12],
    family: u16,
    /// Ranges of models, ends included.
    models: &'static [(u16, u16)],
    /// Only with TSX_FORCE_ABORT.
    tsx_force_abort: bool,
    effect: Effect,
}

/// What the core does about an erratum.
enum Effect {
    /// These general counters, a mask, are taken only if no other is free.
    CounterLast(u32),
    /// Where this event is sampled, its counter starts from a multiple of [`RELOAD_MULTIPLE`].
    ReloadRounded(Event),
    /// Counters are reset before they are used.
    ResetAtStart,
}

/// Event select and unit mask, as in bits 15:0 of a select.
type Event = u16;

const ROWS: &[Row] = &include!(concat!(env!("OUT_DIR"), "/errata.rs"));

/// The six low bits of a start value are 0 (BDM11, BDM55).
const RELOAD_MULTIPLE: u64 = 64;
/// From here on the low bits no longer matter: the erratum concerns short periods.
const LONG_RELOAD: u64 = 4096;

/// The errata of a processor without those of `historic`, and whether it has TSX_FORCE_ABORT.
pub(super) fn discover(machine: &impl Machine, identity: &Identity) -> (Errata, bool) {
    let leaf_7 = if identity.max_leaf >= 7 { machine.cpuid(7, 0).edx } else { 0 };
    let intel = identity.vendor == *b"GenuineIntel";
    // CPUID decides and not the model, as in Linux (arch/x86/events/intel/core.c): Comet Lake has
    // it too, so a list of models would miss some.
    let tsx_force_abort = intel
        && leaf_7 & LEAF7_EDX_TSX_FORCE_ABORT != 0
        && leaf_7 & LEAF7_EDX_RTM_ALWAYS_ABORT == 0;
    let mut errata = Errata::default();
    for row in ROWS {
        let model = identity.model;
        let is_model = row.models.iter().any(|&(first, last)| (first..=last).contains(&model));
        let is_processor = row.vendor == identity.vendor && row.family == identity.family;
        if !is_processor || !is_model || row.tsx_force_abort && !tsx_force_abort {
            continue;
        }
        match row.effect {
            Effect::CounterLast(counters) => errata.last_counters |= counters,
            Effect::ReloadRounded(event) => errata.rounded_event = event,
            Effect::ResetAtStart => errata.reset_at_start = true,
        }
    }
    (errata, tsx_force_abort)
}

impl Errata {
    /// Whether the reloads of a select are rounded on this counter.
    pub(crate) fn rounds(&self, counter: Counter, select: u64) -> bool {
        self.rounded_event != 0 && !counter.is_fixed() && select as u16 == self.rounded_event
    }
}

/// A reload of `events`, lengthened to a start value that BDM11 and BDM55 allow. The sample is
/// taken up to 63 events late; they are carried into the next period, so sums stay exact.
#[inline]
pub(crate) fn rounded_reload(events: u64) -> u64 {
    if events < LONG_RELOAD { events.next_multiple_of(RELOAD_MULTIPLE) } else { events }
}
