//! Which general counters count an event, and what else it needs, as Intel's lists of events say.

use crate::cpu::cpuid::Leaves;
use crate::cpu::event::{Code, Compare, Event, Feed};
use crate::cpu::signature::Signature;
use halprof_events::{Cpu, Microarchitecture};

/// What the rows of one code and unit mask say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Constraint {
    code: u8,
    unit_mask: u8,
    /// The counters that count it, as a mask.
    counters: u32,
    /// Whether it needs an extra MSR. It then counts 0, because the MSR is 0 and nobody writes it
    /// here.
    needs_msr: bool,
}

/// The processor as the lists know it.
pub(super) fn cpu(leaves: &Leaves) -> Cpu {
    let Signature { vendor, family, model } = Signature::of(leaves);
    let core = leaves.get(0x1A, 0).eax;
    Cpu {
        vendor,
        family: family as u16,
        model: model as u16,
        stepping: (leaves.get(1, 0).eax & 0xF) as u8,
        core_type: (core >> 24) as u8,
        native_model: core & 0xFF_FFFF,
    }
}

/// The constraints of the events that a workload names.
pub(super) fn of_codes(cpu: &Cpu, codes: &[Code]) -> Vec<Constraint> {
    let Some(microarchitecture) = Microarchitecture::of(cpu) else {
        return Vec::new();
    };
    let selects = codes.iter().filter_map(|code| code.select);
    selects.filter_map(|select| of_select(microarchitecture, select)).collect()
}

/// If rows with one select have different sets of counters, the smallest set counts, because a
/// select does not say which name was meant.
fn of_select(microarchitecture: &Microarchitecture, select: u64) -> Option<Constraint> {
    let [code, unit_mask, ..] = select.to_le_bytes();
    let rows = || {
        microarchitecture.events().iter().filter(move |event| {
            event.fixed.is_none()
                && event.code == code.into()
                && event.unit_mask == unit_mask.into()
        })
    };
    let masks = rows().filter_map(|event| event.counters);
    Some(Constraint {
        code,
        unit_mask,
        counters: masks.min_by_key(|mask| mask.count_ones())?,
        needs_msr: rows().all(|event| event.msr.is_some()),
    })
}

impl Constraint {
    /// Whether it is of this select.
    pub(super) fn is_of(self, code: u8, unit_mask: u8) -> bool {
        (self.code, self.unit_mask) == (code, unit_mask)
    }

    /// What a counter adds up in place of an event's `feed`. On a counter that cannot count the
    /// event, silicon counts something else or nothing, and no document says what. The model counts
    /// every seventh cycle there, so that a test notices it in any count.
    pub(super) fn apply(self, counter: usize, feed: Feed) -> Option<Feed> {
        if self.needs_msr {
            return None;
        }
        let counts = self.counters.checked_shr(counter as u32).is_some_and(|mask| mask & 1 == 1);
        let elsewhere = Feed { event: Event::Cycles, compare: Compare::Every(7), ..feed };
        Some(if counts { feed } else { elsewhere })
    }
}
