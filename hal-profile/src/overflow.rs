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
use crate::plan::{MAX_COUNTERS, MAX_SOURCES};
use crate::processor::{Active, ProcessorState, Total, preset};
use crate::ring::{Ring, Word};
use crate::session::Configuration;
use crate::statistics::SampleStatistics;
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

/// What the HAL's callback knows of it.
const NOWHERE: Interrupted = Interrupted {
    ip: 0,
    mode: Mode::Unknown,
    process: 0,
    thread: 0,
};

/// What an overflow touches of its processor, but for the registers.
struct Handling<'a> {
    capabilities: &'a Capabilities,
    active: &'a mut Active,
    totals: &'a mut [Total; MAX_SOURCES],
    statistics: &'a mut SampleStatistics,
    session: &'a Configuration,
    ring: &'a [Word],
    processor: u32,
    /// The time stamp of the handler's entry.
    entry: u64,
    interrupted: &'a Interrupted,
}

/// Parts what handling needs from the registers; `None` where nothing is known of the processor.
fn parted<'a, M: Machine>(
    local: &'a mut Local<'_, M>,
    entry: u64,
    interrupted: &'a Interrupted,
) -> Option<(&'a mut M, Handling<'a>)> {
    let state = &mut *local.state;
    let handling = Handling {
        capabilities: state.capabilities.as_ref()?,
        active: &mut state.active,
        totals: &mut state.totals,
        statistics: &mut state.statistics,
        session: &local.program.configuration,
        ring: local.ring,
        processor: local.index as u32,
        entry,
        interrupted,
    };
    Some((local.machine, handling))
}

/// Answers an overflow interrupt in own-handler mode.
pub fn interrupt<M: Machine>(local: &mut Local<'_, M>, interrupted: &Interrupted) {
    let entry = local.machine.timestamp();
    let Some((machine, mut handling)) = parted(local, entry, interrupted) else {
        return;
    };
    let capabilities = handling.capabilities;
    let seated = handling.active.seated();
    let mut values = [0; MAX_COUNTERS];
    let hold = interface::hold(machine, capabilities, seated);
    let overflowed =
        interface::check_overflow_status(machine, capabilities, seated, &hold, &mut values);
    let mut reloaded = 0;
    for (place, value) in places(overflowed, &values) {
        if let Some(one) = handling.passed(place, value) {
            interface::reload(machine, capabilities, &hold, one);
            reloaded |= one.counter.global_bit();
        }
    }
    if overflowed == 0 {
        handling.statistics.spurious = handling.statistics.spurious.wrapping_add(1);
    }
    interface::resume(
        machine,
        capabilities,
        handling.active.seated(),
        &hold,
        reloaded,
    );
    guard(local, entry);
}

/// Answers the HAL's overflow callback: the HAL has stopped the counters, says which overflowed
/// (bits of the global registers' layout), and clears and restarts them itself.
pub fn callback<M: Machine>(local: &mut Local<'_, M>, overflowed: u64) {
    let entry = local.machine.timestamp();
    let Some((machine, mut handling)) = parted(local, entry, &NOWHERE) else {
        return;
    };
    let capabilities = handling.capabilities;
    for place in 0..handling.active.count {
        let Some(one) = handling.active.seated().get(place) else {
            continue;
        };
        if overflowed & one.counter.global_bit() == 0 {
            continue;
        }
        // A counter that does not interrupt starts from 0 and is never below.
        let value = interface::read(machine, capabilities, one.counter);
        if value < one.preset
            && let Some(one) = handling.passed(place, value)
        {
            interface::preset(machine, capabilities, one);
        }
    }
    guard(local, entry);
}

/// The places of a mask, each with its value.
fn places(mut mask: u32, values: &Values) -> impl Iterator<Item = (usize, u64)> {
    core::iter::from_fn(move || {
        // Of an empty mask this is 32, behind the last place.
        let place = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        Some((place, *values.get(place)?))
    })
}

const _: () = assert!(MAX_COUNTERS == u32::BITS as usize);

impl Handling<'_> {
    /// A counter has overflowed and stands at `value`: adds it up, records the periods that passed,
    /// and answers the counter with its next preset.
    #[expect(clippy::inline_always, reason = "a tenth of what a sample costs")]
    #[inline(always)]
    fn passed(&mut self, place: usize, value: u64) -> Option<&Seated> {
        let one = self.active.seated().get(place)?;
        let width = self.capabilities.width_of(one.counter);
        let came = width.distance(one.preset, value);
        self.active.add_up(self.totals, width, place, value);
        let source = self.active.source(place);
        let total = self.totals.get_mut(source)?;
        let period = total.period.max(1);
        let since = total.carried.saturating_add(came);
        let (periods, residue) = (since / period, since % period);
        total.carried = residue;
        let next = preset(self.capabilities, width, period - residue);
        self.active.preset(place, next);
        if periods > 0 {
            self.record(source, periods, period);
        }
        self.active.seated().get(place)
    }

    /// Puts one sample into the ring for `periods` that passed at once; the others are told as
    /// lost.
    #[expect(clippy::inline_always, reason = "a tenth of what a sample costs")]
    #[inline(always)]
    fn record(&mut self, source: usize, periods: u64, period: u64) {
        let (statistics, interrupted) = (&mut *self.statistics, self.interrupted);
        statistics.generated = statistics.generated.wrapping_add(periods);
        statistics.lose(LossCause::Coalesced, periods - 1);
        if interrupted.mode == Mode::Kernel && !self.session.may_see_kernel() {
            statistics.lose(LossCause::KernelHidden, 1);
            return;
        }
        let sample = Sample {
            timestamp: self.entry,
            ip: interrupted.ip,
            period,
            process: interrupted.process,
            thread: interrupted.thread,
            processor: self.processor,
            source: source as u16,
            mode: interrupted.mode as u8,
            reserved: 0,
        };
        if Ring::new(self.ring).is_some_and(|ring| ring.push(&sample)) {
            statistics.stored = statistics.stored.wrapping_add(1);
        } else {
            statistics.lose(LossCause::RingFull, 1);
        }
    }
}

/// Holds the handler against its budget of time; above it, every sampled source's period doubles
/// from its next sample on.
fn guard<M: Machine>(local: &mut Local<'_, M>, entry: u64) {
    let session = &local.program.configuration;
    let exit = local.machine.timestamp();
    let state: &mut ProcessorState = local.state;
    state.statistics.handler_ticks = state
        .statistics
        .handler_ticks
        .wrapping_add(exit.wrapping_sub(entry));
    let verdict = state.guard.account(entry, exit, session.interrupt_time);
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
