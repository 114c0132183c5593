//! Timers of ExAllocateTimer.

use super::{broken, done, touch};
use crate::machine::{APC, Machine, Outcome, QueuedDpc, Wait};
use crate::rules::{Rule, Violation};
use fastrand::Rng;

/// A timer of ExAllocateTimer.
#[derive(Clone, Copy)]
pub(super) struct Timer {
    callback: u64,
    context: u64,
    /// Whether it is of high resolution.
    pub(super) precise: bool,
    /// The period in units of 100 ns, if it is set.
    pub(super) period: Option<u64>,
    /// How late it may expire, in the same units: as long as its processor sleeps.
    tolerance: u64,
    /// When it expires next if it is set, in nanoseconds of the machine's time.
    due: u64,
}

impl Timer {
    /// It is set to expire at this moment, or as much later as the seed says.
    fn expires(&mut self, rng: &mut Rng, moment: u64) {
        let late = rng.u64(0..=self.tolerance).saturating_mul(UNIT_NS);
        self.due = moment.saturating_add(late);
    }
}

/// Units of 100 ns, in which Windows takes times.
const UNIT_NS: u64 = 100;

/// The timers that are set expire once, whenever they are due, each on a processor that the seed
/// chooses; one that is still handling its last expiry is left alone.
pub fn expire_timers(machine: &mut Machine) {
    expire(machine, u64::MAX);
}

/// [`expire_timers`], of those that are due.
pub fn expire_due_timers(machine: &mut Machine) {
    let now = machine.now();
    expire(machine, now);
}

/// Expires those that are due at `moment`.
fn expire(machine: &mut Machine, moment: u64) {
    let due = |timer: &Timer| timer.period.is_some() && timer.due <= moment;
    let timers = machine.kernel.timers.iter().filter(|(_, timer)| due(timer));
    let timers: Vec<u64> = timers.map(|(at, _)| *at).collect();
    let now = machine.now();
    for object in timers {
        if machine.is_under_way(object) {
            continue;
        }
        let Some(timer) = machine.kernel.timers.get_mut(&object) else { continue };
        timer.expires(&mut machine.rng, now + timer.period.unwrap_or(0) * UNIT_NS);
        let timer = *timer;
        let processor = machine.rng.usize(0..machine.processors());
        machine.queue_dpc(
            processor,
            QueuedDpc {
                object,
                routine: timer.callback,
                arguments: [timer.context, 0, 0],
                request: None,
                first: false,
                patience: 1,
            },
        );
    }
}

/// Whether a timer of ExAllocateTimer is of high resolution; `None` if it is none.
pub(super) fn is_precise(m: &Machine, object: u64) -> Option<bool> {
    m.kernel.timers.get(&object).map(|timer| timer.precise)
}

pub(super) fn timer_resolution(m: &mut Machine) -> Result<Outcome, Violation> {
    // Maximum, minimum and current time, in units of 100 ns: Windows' tick is 15.625 ms.
    for (argument, value) in [156_250, 1, 156_250].into_iter().enumerate() {
        let out = m.engine.argument(argument);
        touch(m, out, 4)?;
        m.engine.write_u32(out, value);
    }
    done()
}

pub(super) fn allocate_timer(m: &mut Machine) -> Result<Outcome, Violation> {
    let (callback, context) = (m.engine.argument(0), m.engine.argument(1));
    let attributes = m.engine.argument(2) as u32;
    // ExAllocateTimer: "do not set both the EX_TIMER_HIGH_RESOLUTION and EX_TIMER_NO_WAKE flags".
    if attributes & !(EX_TIMER_HIGH_RESOLUTION | EX_TIMER_NO_WAKE) != 0
        || attributes == EX_TIMER_HIGH_RESOLUTION | EX_TIMER_NO_WAKE
    {
        let what = format!("ExAllocateTimer with attributes {attributes:#x}");
        return broken(Rule::BugCheck, what);
    }
    if m.kernel.fails() {
        return Ok(Outcome::Return(0));
    }
    let Ok(at) = m.engine.allocate(0x40, 0) else {
        return Ok(Outcome::Return(0));
    };
    let timer = Timer {
        callback,
        context,
        precise: attributes & EX_TIMER_HIGH_RESOLUTION != 0,
        period: None,
        tolerance: 0,
        due: 0,
    };
    m.kernel.timers.insert(at, timer);
    Ok(Outcome::Return(at))
}

/// EX_TIMER_HIGH_RESOLUTION and EX_TIMER_NO_WAKE (wdm.h).
const EX_TIMER_HIGH_RESOLUTION: u32 = 4;
const EX_TIMER_NO_WAKE: u32 = 8;

fn timer(m: &mut Machine) -> Result<&mut Timer, Violation> {
    let at = m.engine.argument(0);
    let found = m.kernel.timers.get_mut(&at);
    found.ok_or_else(|| Violation::new(Rule::Object, format!("{at:#x} is no timer")))
}

/// (Timer, DueTime, Period, Parameters).
pub(super) fn set_timer(m: &mut Machine) -> Result<Outcome, Violation> {
    let (due, period) = (m.engine.argument(1).cast_signed(), m.engine.argument(2));
    let parameters = m.engine.argument(3);
    if due > 0 {
        return broken(Rule::Unmodelled, "a timer that is due at an absolute time");
    }
    touch(m, parameters, 16)?;
    // EXT_SET_PARAMETERS: Version, which is 0, Reserved, NoWakeTolerance.
    if m.engine.read_u64(parameters) != 0 {
        return broken(Rule::Unmodelled, "parameters of another version");
    }
    let tolerance = m.engine.read_u64(parameters + 8);
    let due = m.now() + due.unsigned_abs() * UNIT_NS;
    let set = timer(m)?;
    // EXT_SET_PARAMETERS's page: how long after its due time a no-wake timer may expire, before which
    // a processor that sleeps is not woken.
    if !set.precise && tolerance == 0 {
        let what = "a no-wake timer that a processor's sleep may not delay";
        return broken(Rule::Wakes, what);
    }
    set.tolerance = if set.precise { 0 } else { tolerance };
    let was_set = set.period.replace(period).is_some();
    let mut set = *set;
    set.expires(&mut m.rng, due);
    timer(m)?.due = set.due;
    Ok(Outcome::Return(was_set.into()))
}

pub(super) fn cancel_timer(m: &mut Machine) -> Result<Outcome, Violation> {
    let was_set = timer(m)?.period.take().is_some();
    Ok(Outcome::Return(was_set.into()))
}

pub(super) fn delete_timer(m: &mut Machine) -> Result<Outcome, Violation> {
    let (at, cancel, wait) = (m.engine.argument(0), m.engine.argument(1), m.engine.argument(2));
    if wait as u8 != 0 && m.irql() > APC {
        return broken(Rule::Wait, "ExDeleteTimer waits above APC_LEVEL");
    }
    let was_set = timer(m)?.period.is_some();
    if was_set && cancel as u8 == 0 {
        return broken(Rule::Alive, "a timer is deleted while it is set");
    }
    if m.is_under_way(at) {
        if wait as u8 == 0 {
            return broken(Rule::Alive, "a timer is deleted while its callback runs");
        }
        // Cancelled, so that it does not expire again while its callback is waited for.
        timer(m)?.period = None;
        return Ok(Outcome::Again(Wait::Dpc));
    }
    m.kernel.timers.remove(&at);
    m.engine.bus().arena.free(at, 0)?;
    Ok(Outcome::Return(was_set.into()))
}
