//! Intervals: what is used for a requested one, within the limits of its source and of the clocks.

use crate::plan::program::{Program, Settings, ticks};
use crate::run::period::LONGEST;
use crate::source::limits;
use shared_types::ProfileSource;
use shared_types::request::session::UsedInterval;

/// The clocks on which intervals are based.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    pub(super) frequency: u64,
    /// The timer's finest step, in units of 100 ns.
    pub(super) resolution: u32,
}

/// The interval used for a requested one: within the source's limits and, for ProfileTime, in whole
/// steps of the timer.
pub(super) fn used_interval(
    id: ProfileSource,
    requested: u64,
    timer: bool,
    clock: Clock,
) -> UsedInterval {
    let limits = limits(id);
    let mut used = UsedInterval {
        source: id.0,
        flags: 0,
        requested,
        used: limits.default.into(),
        events: limits.default.into(),
    };
    if requested != 0 {
        used.used = requested.clamp(limits.min.into(), limits.max.into());
        used.events = used.used;
        if used.used != requested {
            used.flags = UsedInterval::CLAMPED;
        }
    }
    if id == ProfileSource::TIME {
        if timer {
            let step = u64::from(clock.resolution.max(1));
            used.used = used.used.div_ceil(step) * step;
            used.events = used.used;
        } else {
            used.events = ticks(used.used, clock.frequency);
        }
    }
    used
}

/// The flag of a sampled source whose periods are drawn: no interval was requested, or its `mean`.
pub(super) fn drawn(settings: &Settings, requested: u64, mean: bool) -> u32 {
    if settings.samples && (mean || requested == 0) { UsedInterval::DRAWN } else { 0 }
}

/// The events between two samples; 32 bits have room for every source's largest interval. A mean is
/// at most [`LONGEST`], 6 % less.
pub(super) fn period(interval: &UsedInterval) -> u32 {
    let drawn = interval.flags & UsedInterval::DRAWN != 0;
    let most = if drawn { LONGEST } else { u32::MAX.into() };
    interval.events.min(most) as u32
}

impl Program {
    /// Sets the interval of a source, exactly unless it is 0; `None` if the session does not have
    /// the source.
    pub(super) fn set_interval(
        &mut self,
        id: u32,
        requested: u64,
        resolution: u32,
    ) -> Option<UsedInterval> {
        let clock = Clock { frequency: self.settings.frequency, resolution };
        let by = UsedInterval::BY_REFERENCE_CYCLES | UsedInterval::BY_CORE_CYCLES;
        let mut set = None;
        let sources = self.sources.each.iter_mut().enumerate().take(self.settings.count);
        for (index, source) in sources.filter(|(_, source)| source.id == id) {
            // CONFIGURE has decided by which cycles time is sampled, and with that the counters.
            let flags = source.interval.flags & by;
            source.interval = used_interval(ProfileSource(id), requested, source.timer, clock);
            source.interval.flags |= flags | drawn(&self.settings, requested, false);
            set = Some(source.interval);
            let configs = self
                .cpu_programs
                .iter_mut()
                .filter_map(|program| program.configs.each.get_mut(index));
            for config in configs.filter(|config| config.interrupts) {
                config.period = period(&source.interval);
                config.drawn = source.interval.flags & UsedInterval::DRAWN != 0;
            }
        }
        set
    }
}
