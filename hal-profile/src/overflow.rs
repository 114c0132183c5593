//! The one overflow loop: who overflowed, record, reload, go on.
//!
//! An interrupt is answered here on the processor it came to, at PROFILE_LEVEL: no lock, no
//! allocation, no panic, nothing that waits. A counter has overflowed when it has come as many
//! events as its period since its last sample; what it came beyond that is carried into the next
//! preset, so that N periods take N times the period of events however late interrupts come.

use crate::capabilities::Capabilities;
use crate::guard::Verdict;
use crate::interface::{self, Seated, Values};
use crate::machine::{Local, Machine};
use crate::plan::MAX_COUNTERS;
use crate::processor::{ProcessorState, preset};
use crate::ring::Ring;
use crate::session::Configuration;
use shared_types::{LossCause, Mode, Sample};

/// The longest period of any source: what a 32-bit sign-extended counter write can take.
const LONGEST_PERIOD: u64 = i32::MAX as u64;

/// What was interrupted, from the trap frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted {
    /// Address of the instruction that would have come next.
    pub ip: u64,
    /// User, kernel, or not known (the HAL's callback gives no trap frame).
    pub mode: Mode,
    /// Process.
    pub process: u32,
    /// Thread.
    pub thread: u32,
}

/// What a session sees that asked for no addresses, as the HAL's callback has none.
const NOWHERE: Interrupted = Interrupted {
    ip: 0,
    mode: Mode::Unknown,
    process: 0,
    thread: 0,
};

/// Answers an overflow interrupt in own-handler mode.
pub fn interrupt<M: Machine>(local: &mut Local<'_, M>, interrupted: &Interrupted) {
    let entry = local.machine.timestamp();
    let session = &local.program.configuration;
    let Some(capabilities) = local.state.capabilities else {
        return;
    };
    let seated = local.state.active.seated();
    let mut values = [0; MAX_COUNTERS];
    let hold = interface::hold(local.machine, &capabilities, seated);
    let overflowed =
        interface::check_overflow_status(local.machine, &capabilities, seated, &mut values);
    let interrupted = if session.no_address {
        &NOWHERE
    } else {
        interrupted
    };
    let mut reloaded = 0;
    for (place, value) in places(overflowed, &values) {
        if let Some(one) = passed(
            local,
            &capabilities,
            session,
            place,
            value,
            entry,
            interrupted,
        ) {
            interface::reload(local.machine, &capabilities, &one);
            reloaded |= one.counter.global_bit();
        }
    }
    if overflowed == 0 {
        local.state.statistics.spurious = local.state.statistics.spurious.wrapping_add(1);
    }
    let seated = local.state.active.seated();
    interface::resume(local.machine, &capabilities, seated, hold, reloaded);
    guard(local, session, entry);
}

/// Answers the HAL's overflow callback: the HAL has stopped the counters, says which overflowed
/// (bits of the global registers' layout), and clears and restarts them itself.
pub fn callback<M: Machine>(local: &mut Local<'_, M>, overflowed: u64) {
    let entry = local.machine.timestamp();
    let session = &local.program.configuration;
    let Some(capabilities) = local.state.capabilities else {
        return;
    };
    for place in 0..local.state.active.count {
        let Some(one) = local.state.active.seated().get(place).copied() else {
            continue;
        };
        if overflowed & one.counter.global_bit() == 0 {
            continue;
        }
        // A counter that does not interrupt starts from 0 and is never below.
        let value = interface::read(local.machine, &capabilities, one.counter);
        if value < one.preset
            && let Some(one) = passed(local, &capabilities, session, place, value, entry, &NOWHERE)
        {
            interface::preset(local.machine, &capabilities, &one);
        }
    }
    guard(local, session, entry);
}

/// The places of a mask, each with its value.
fn places(mask: u32, values: &Values) -> impl Iterator<Item = (usize, u64)> {
    values
        .iter()
        .copied()
        .enumerate()
        .filter(move |(place, _)| mask >> place & 1 != 0)
}

/// A counter has overflowed and stands at `value`: adds it up, records the periods that passed,
/// and answers the counter with its next preset.
fn passed<M: Machine>(
    local: &mut Local<'_, M>,
    capabilities: &Capabilities,
    session: &Configuration,
    place: usize,
    value: u64,
    timestamp: u64,
    interrupted: &Interrupted,
) -> Option<Seated> {
    let one = *local.state.active.seated().get(place)?;
    local.state.add_up(capabilities, place, value);
    let source = local.state.active.source(place);
    let total = local.state.totals.get_mut(source)?;
    let period = total.period.max(1);
    let came = capabilities
        .width_of(one.counter)
        .distance(one.preset, value);
    let since = total.carried.saturating_add(came);
    let (periods, residue) = (since / period, since % period);
    total.carried = residue;
    let next = preset(capabilities, one.counter, period - residue);
    local.state.active.preset(place, next);
    if periods > 0 {
        record(
            local,
            session,
            source,
            periods,
            period,
            timestamp,
            interrupted,
        );
    }
    local.state.active.seated().get(place).copied()
}

/// Puts one sample into the ring for `periods` that passed at once; the others are told as lost.
fn record<M: Machine>(
    local: &mut Local<'_, M>,
    session: &Configuration,
    source: usize,
    periods: u64,
    period: u64,
    timestamp: u64,
    interrupted: &Interrupted,
) {
    let statistics = &mut local.state.statistics;
    statistics.generated = statistics.generated.wrapping_add(periods);
    statistics.lose(LossCause::Coalesced, periods - 1);
    if interrupted.mode == Mode::Kernel && !session.may_see_kernel() {
        statistics.lose(LossCause::KernelHidden, 1);
        return;
    }
    let sample = Sample {
        timestamp,
        ip: interrupted.ip,
        period,
        process: interrupted.process,
        thread: interrupted.thread,
        processor: local.index as u32,
        source: source as u16,
        mode: interrupted.mode as u8,
        reserved: 0,
    };
    if Ring::new(local.ring).is_some_and(|ring| ring.push(&sample)) {
        statistics.stored = statistics.stored.wrapping_add(1);
    } else {
        statistics.lose(LossCause::RingFull, 1);
    }
}

/// Holds the handler against its budget of time; above it, every sampled source's period doubles
/// from its next sample on.
fn guard<M: Machine>(local: &mut Local<'_, M>, session: &Configuration, entry: u64) {
    let exit = local.machine.timestamp();
    let state: &mut ProcessorState = local.state;
    state.statistics.handler_ticks = state
        .statistics
        .handler_ticks
        .wrapping_add(exit.wrapping_sub(entry));
    let verdict = state
        .guard
        .account(entry, exit, session.timestamp_frequency(), session.budget());
    if verdict == Verdict::Lengthen {
        state.statistics.throttled = state.statistics.throttled.wrapping_add(1);
        for total in state
            .totals
            .iter_mut()
            .take(session.count())
            .filter(|total| total.period != 0)
        {
            total.period = (total.period * 2).min(LONGEST_PERIOD);
        }
    }
}
