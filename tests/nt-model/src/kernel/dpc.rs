//! Deferred procedure calls.

use super::{INVALID_PARAMETER, broken, done, timer, touch};
use crate::machine::{Machine, Outcome, QueuedDpc, Wait};
use crate::rules::{Rule, Violation};

/// KDPC_IMPORTANCE (wdm.h). HighImportance puts a DPC at the front of its processor's queue, the
/// others at its end (KeSetImportanceDpc's page).
///
/// The current processor is interrupted for all but LowImportance, another one for the last two
/// ("Organization of DPC Queues"). Windows Internals, 7th edition, part 2, table 8-7, says that an
/// idle one is for MediumImportance, too; not modelled.
const LOW_IMPORTANCE: u64 = 0;
const MEDIUM_IMPORTANCE: u64 = 1;
const HIGH_IMPORTANCE: u64 = 2;
const MEDIUM_HIGH_IMPORTANCE: u64 = 3;
/// How late a DPC begins for which its processor is not interrupted, no page says: see
/// [`QueuedDpc::patience`].
const PATIENCE: [u16; 3] = [4, 64, 4096];

/// A KDPC that was initialized.
#[derive(Clone, Copy)]
pub(super) struct Dpc {
    routine: u64,
    context: u64,
    target: Option<usize>,
    importance: u64,
    pub(super) queued: bool,
}

/// A DPC leaves its queue: its object must still exist.
pub fn dpc_begins(machine: &mut Machine, queued: QueuedDpc) -> Result<(), Violation> {
    if !machine.engine.bus().arena.allows(queued.object, 0x40) {
        return Err(Violation::new(
            Rule::Memory,
            format!("the DPC {:#x} runs after its memory was freed", queued.object),
        ));
    }
    if let Some(dpc) = machine.kernel.dpcs.get_mut(&queued.object) {
        dpc.queued = false;
    }
    Ok(())
}

pub(super) fn initialize_dpc(m: &mut Machine) -> Result<Outcome, Violation> {
    let (at, routine, context) = (m.engine.argument(0), m.engine.argument(1), m.engine.argument(2));
    touch(m, at, 0x40)?;
    let dpc = Dpc { routine, context, target: None, importance: MEDIUM_IMPORTANCE, queued: false };
    m.kernel.dpcs.insert(at, dpc);
    done()
}

fn dpc(m: &mut Machine, at: u64) -> Result<&mut Dpc, Violation> {
    touch(m, at, 0x40)?;
    let what = format!("{at:#x} is no DPC");
    let found = m.kernel.dpcs.get_mut(&at);
    found.ok_or_else(|| Violation::new(Rule::Object, what))
}

pub(super) fn target_dpc(m: &mut Machine) -> Result<Outcome, Violation> {
    let (at, number) = (m.engine.argument(0), m.engine.argument(1));
    let number = m.engine.read_u32(number);
    // PROCESSOR_NUMBER: the group in 16 bits, the number within it in 8.
    let (group, within) = (number & 0xFFFF, number >> 16 & 0xFF);
    let index = (group * 64 + within) as usize;
    if index >= m.processors() || m.kernel.fails() {
        return Ok(Outcome::Return(INVALID_PARAMETER));
    }
    let dpc = dpc(m, at)?;
    // The call has no effect on a queued DPC (KeSetTargetProcessorDpcEx's page), so it is a
    // mistake.
    if dpc.queued {
        return broken(Rule::Object, "a queued DPC is given another target");
    }
    dpc.target = Some(index);
    done()
}

pub(super) fn importance_of_dpc(m: &mut Machine) -> Result<Outcome, Violation> {
    let (at, importance) = (m.engine.argument(0), m.engine.argument(1));
    dpc(m, at)?.importance = importance;
    done()
}

pub(super) fn insert_dpc(m: &mut Machine) -> Result<Outcome, Violation> {
    let (at, first, second) = (m.engine.argument(0), m.engine.argument(1), m.engine.argument(2));
    let (current, request) = (m.current(), m.request_of_caller());
    // A timer that lets processors sleep must not have them woken by a DPC.
    let polls = timer::is_precise(m, m.object_of_caller()) == Some(false);
    let one = dpc(m, at)?;
    if one.queued {
        return Ok(Outcome::Return(0));
    }
    let interrupts = matches!(one.importance, HIGH_IMPORTANCE | MEDIUM_HIGH_IMPORTANCE);
    if !polls && one.importance != HIGH_IMPORTANCE {
        let what = "a DPC whose delay nobody bounds: not of high importance";
        return broken(Rule::Object, what);
    }
    if polls && interrupts {
        let what = "a DPC of a timer that wakes nobody wakes an idle processor";
        return broken(Rule::Wakes, what);
    }
    one.queued = true;
    let one = *one;
    let target = one.target.unwrap_or(current);
    let begins = interrupts || target == current && one.importance != LOW_IMPORTANCE;
    let queued = QueuedDpc {
        object: at,
        routine: one.routine,
        arguments: [one.context, first, second],
        request,
        first: one.importance == HIGH_IMPORTANCE,
        patience: if begins { 1 } else { PATIENCE[m.rng.usize(0..PATIENCE.len())] },
    };
    m.queue_dpc(target, queued);
    Ok(Outcome::Return(1))
}

/// Waits until every queued DPC has run.
pub(super) fn flush_dpcs(m: &mut Machine) -> Result<Outcome, Violation> {
    if m.has_dpcs() {
        return Ok(Outcome::Again(Wait::Dpc));
    }
    done()
}
