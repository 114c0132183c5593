//! The one overflow loop: who overflowed, record, reload, go on.
//!
//! An interrupt is answered here on the processor it came to, at PROFILE_LEVEL: no lock, no
//! allocation, no panic, nothing that waits. A counter has overflowed when it has come as many
//! events as its period since its last sample; what it came beyond that is carried into the next
//! preset, so that N periods take N times the period of events however late interrupts come.

use crate::capabilities::Capabilities;
use crate::guard::Verdict;
use crate::interface::{self, Seated};
use crate::machine::{Local, Machine};
use crate::plan::{MAX_COUNTERS, MAX_SOURCES};
use crate::processor::{ProcessorState, Total, preset};
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

/// What an overflow touches of its processor, but for the registers and the counters.
struct Handling<'a> {
    capabilities: &'a Capabilities,
    totals: &'a mut [Total; MAX_SOURCES],
    statistics: &'a mut SampleStatistics,
    session: &'a Configuration,
    ring: &'a [Word],
    processor: u32,
    /// The time stamp of the handler's entry.
    entry: u64,
    interrupted: &'a Interrupted,
}

/// Parts the registers, the counters in use, and what handling needs besides; `None` where nothing is
/// known of the processor.
fn parted<'a, M: Machine>(
    local: &'a mut Local<'_, M>,
    entry: u64,
    interrupted: &'a Interrupted,
) -> Option<(&'a mut M, &'a mut [Seated], Handling<'a>)> {
    let state = &mut *local.state;
    let handling = Handling {
        capabilities: state.capabilities.as_ref()?,
        totals: &mut state.totals,
        statistics: &mut state.statistics,
        session: &local.program.configuration,
        ring: local.ring,
        processor: local.index as u32,
        entry,
        interrupted,
    };
    Some((local.machine, state.active.seated_mut(), handling))
}

/// Answers an overflow interrupt in own-handler mode.
pub fn interrupt<M: Machine>(local: &mut Local<'_, M>, interrupted: &Interrupted) {
    let entry = local.machine.timestamp();
    let Some((machine, seated, mut handling)) = parted(local, entry, interrupted) else {
        return;
    };
    let capabilities = handling.capabilities;
    let hold = interface::hold(machine, capabilities, seated);
    let overflowed = interface::check_overflow_status(machine, capabilities, seated, &hold);
    let mut reloaded = 0;
    for (place, one) in seated.iter_mut().enumerate() {
        if overflowed >> place & 1 != 0 {
            handling.passed(one);
            interface::reload(machine, capabilities, &hold, one);
            reloaded |= one.counter.global_bit();
        }
    }
    if overflowed == 0 {
        handling.statistics.spurious = handling.statistics.spurious.wrapping_add(1);
    }
    interface::resume(machine, capabilities, seated, &hold, reloaded);
    guard(local, entry);
}

/// Answers the HAL's overflow callback: the HAL has stopped the counters, says which overflowed
/// (bits of the global registers' layout), and clears and restarts them itself.
pub fn callback<M: Machine>(local: &mut Local<'_, M>, overflowed: u64) {
    let entry = local.machine.timestamp();
    let Some((machine, seated, mut handling)) = parted(local, entry, &NOWHERE) else {
        return;
    };
    let capabilities = handling.capabilities;
    for one in seated {
        if overflowed & one.counter.global_bit() == 0 {
            continue;
        }
        interface::read(machine, capabilities, one);
        // A counter that does not interrupt starts from 0 and is never below.
        if one.value < one.preset {
            handling.passed(one);
            interface::preset(machine, capabilities, one);
        }
    }
    guard(local, entry);
}

const _: () = assert!(MAX_COUNTERS == u32::BITS as usize);

impl Handling<'_> {
    /// A counter has overflowed: adds it up, records the periods that passed, and gives it its next
    /// preset.
    #[expect(clippy::inline_always, reason = "a tenth of what a sample costs")]
    #[inline(always)]
    fn passed(&mut self, one: &mut Seated) {
        let Some(total) = self.totals.get_mut(usize::from(one.source)) else {
            return;
        };
        total.add_up(one);
        let period = total.period.max(1);
        let came = one.width.distance(one.preset, one.value);
        let since = total.carried.saturating_add(came);
        let (periods, residue) = (since / period, since % period);
        total.carried = residue;
        one.start_from(preset(self.capabilities, one.width, period - residue));
        if periods > 0 {
            self.record(one.source, periods, period);
        }
    }

    /// Puts one sample into the ring for `periods` that passed at once; the others are told as
    /// lost.
    #[expect(clippy::inline_always, reason = "a tenth of what a sample costs")]
    #[inline(always)]
    fn record(&mut self, source: u16, periods: u64, period: u64) {
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
            source,
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
