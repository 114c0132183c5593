//! Estimates how many events happened, from the events that were counted while sources took turns
//! on the counters.
//!
//! Each slice `i` counted `x[i]` events in `t[i]` ticks. The rate is the ratio estimator
//! `R = sum(x) / sum(t)`, and the estimate is `R E`, with `E` the time enabled and `T = sum(t)` the
//! time on a counter. The count of a slice varies about `R t` with a variance proportional to `t`:
//! slices may be cut short, and the last one usually is. Then `sum((x - R t)^2)` is `T (1 - 1/n)`
//! times the variance per tick, where `n = T^2 / sum(t^2)` is the number of slices if all are of
//! equal length. The estimate, which covers `E - T` from what was seen in `T`, has `E (E - T) / T`
//! times that variance. For slices of equal length this is the textbook formula, finite population
//! correction included. The bound is the standard deviation times Student's t for `n - 1` degrees
//! of freedom at 98 %: few slices are only roughly normal, and the promised 95 % is to hold for
//! each workload, not only on average over workloads.
//!
//! Counters run a little longer than a slice claims: see `OUTSIDE_TICKS`. All slices of a source
//! are too short by about the same time, so this error does not show in how they differ, and it
//! adds up instead of averaging out. It is therefore added to the bound unchanged. Where the rate
//! is the same in all slices it is the whole bound, and it also covers events too rare to be in any
//! slice that was seen.
//!
//! The promise rests on an assumption: what happens does not depend on which slice it is. A
//! workload whose own period is in step with the slices shows a source the same part of that period
//! again and again. The slices then agree with each other, and the bound, which is computed from
//! how they differ, is far too small. Nothing in the counts reveals this; slices of another length
//! do.
//!
//! If a source had no slice on a processor, this does not mean that nothing happened there. A sum
//! assumes that this processor did what the others did in the same time, and has no bound: one
//! processor may be busy among idle ones, and the differences between the others' slices say
//! nothing about it. Source: W. G. Cochran, Sampling Techniques, 3rd edition, 6.3, 6.7 (optimum of
//! the ratio estimator) and 6.13.

use crate::float::float;
use crate::statistics::student_t;
use shared_types::request::counts::Count;

/// How long a counter may run in a slice outside the time that the slice claims, in ticks of the
/// time-stamp counter: the driver reads the time after the counters' start and before their stop. It
/// writes one register or one for each counter, which takes 100 to 300 cycles, and a thousand or more
/// where a hypervisor intercepts it; so do interrupts in between, whose entry and return the handler
/// does not see. An assumption: 2 µs at 1 GHz, 0.7 µs at 3 GHz.
const OUTSIDE_TICKS: f64 = 2_048.0;

/// What one source has counted, and the estimate of all that happened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Events read from the counters; the sum over processors may exceed 64 bits.
    pub counted: u128,
    /// What happened: `counted`, or its estimate if it was scaled. `None` if it was on no counter;
    /// for a sum also if some processors had no slice and the others counted nothing.
    pub value: Option<u128>,
    /// How long the session ran, in ticks of the time-stamp counter.
    pub enabled: u128,
    /// How long the source was on a counter, in the same ticks.
    pub running: u128,
    /// Whether `value` is an estimate.
    pub scaled: bool,
    /// The 95 % bound of an estimate, for a workload that is not in step with the slices; `None` if
    /// nothing was scaled, if there were too few slices to know, or if a processor had none.
    pub error: Option<f64>,
    /// The number of processors on which the source had no slice.
    pub never_scheduled_cpus: u32,
    /// Variance of the estimate, its degrees of freedom, and the error of the times. They are kept
    /// because the bound of a sum follows from them, not from the bounds of its parts.
    spread: Option<Spread>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Spread {
    variance: f64,
    /// The most by which the times may have scaled it wrongly.
    by_time: f64,
    /// Sum of each part's squared variance over its degrees of freedom (Satterthwaite).
    by_freedom: f64,
}

impl Estimate {
    /// An exact count: `events` in `time`, in any unit.
    pub fn exact(events: u128, time: u128) -> Self {
        Self {
            counted: events,
            value: Some(events),
            enabled: time,
            running: time,
            ..Self::default()
        }
    }

    /// The estimate from one processor's count.
    pub fn new(count: &Count) -> Self {
        let exact = Self {
            running: count.running.into(),
            ..Self::exact(count.counted.into(), count.enabled.into())
        };
        if count.running >= count.enabled {
            return exact;
        }
        if count.running == 0 {
            return Self { value: None, scaled: true, never_scheduled_cpus: 1, ..exact };
        }
        let spread = spread(count);
        Self {
            value: scale(count.counted.into(), count.enabled.into(), count.running.into()),
            scaled: true,
            error: spread.map(Spread::bound),
            spread,
            ..exact
        }
    }

    /// The sum over several processors; variances of independent estimates add up.
    pub fn sum(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut spread = Some(Spread::default());
        let mut sum = Self::default();
        let (mut known, mut known_enabled) = (0u128, 0u128);
        for part in parts {
            if let Some(value) = part.value {
                known = known.saturating_add(value);
                known_enabled = known_enabled.saturating_add(part.enabled);
            }
            sum.never_scheduled_cpus =
                sum.never_scheduled_cpus.saturating_add(part.never_scheduled_cpus);
            sum.counted = sum.counted.saturating_add(part.counted);
            sum.enabled = sum.enabled.saturating_add(part.enabled);
            sum.running = sum.running.saturating_add(part.running);
            if part.scaled {
                sum.scaled = true;
                spread = spread.zip(part.spread).map(|(all, one)| all.and(one));
            }
        }
        sum.value = match sum.never_scheduled_cpus {
            0 => Some(known),
            // Zero on the other processors would be scaled to zero, a claim about one that nobody
            // has seen.
            _ if known == 0 => None,
            _ => scale(known, sum.enabled, known_enabled),
        };
        if sum.scaled {
            sum.spread = spread;
            sum.error = spread.map(Spread::bound);
        }
        sum
    }

    /// The 95 % bound of the mean of several estimates, as [`Self::error`] is of one: at worst all of
    /// them are off in the same direction, which their spread does not show.
    pub fn error_of_mean(estimates: &[Self]) -> Option<f64> {
        if !estimates.iter().any(|one| one.scaled) {
            return None;
        }
        let errors = estimates.iter().map(|one| if one.scaled { one.error } else { Some(0.0) });
        Some(errors.sum::<Option<f64>>()? / float(estimates.len() as u128))
    }
}

impl Spread {
    const fn and(self, other: Self) -> Self {
        Self {
            variance: self.variance + other.variance,
            by_time: self.by_time + other.by_time,
            by_freedom: self.by_freedom + other.by_freedom,
        }
    }

    fn bound(self) -> f64 {
        let freedom = if self.by_freedom > 0.0 {
            self.variance * self.variance / self.by_freedom
        } else {
            1.0
        };
        // The quantile is one-sided: 99 % below it are 98 % between both bounds.
        student_t(0.99, freedom) * self.variance.sqrt() + self.by_time
    }
}

/// Scales events to a longer time, rounded to the nearest; `None` for no time at all.
fn scale(events: u128, longer: u128, time: u128) -> Option<u128> {
    let product = events.checked_mul(longer);
    let product = product.and_then(|product| product.checked_add(time / 2));
    match product {
        Some(product) => product.checked_div(time),
        None => Some(events.checked_div(time)?.saturating_mul(longer)),
    }
}

/// The variance between the slices; `None` for fewer than two.
fn spread(count: &Count) -> Option<Spread> {
    if count.slices < 2 || count.running == 0 {
        return None;
    }
    let (enabled, running) = (float(count.enabled), float(count.running));
    let rate = float(count.counted) / running;
    // In the midst of a slice, its events and time are in the count and its squares are not:
    // without the limit by the number of slices, `n` comes out too large and the bound too small.
    let slices = (running * running / wide(count.time_squared)).min(float(count.slices));
    let residuals = wide(count.count_squared) - 2.0 * rate * wide(count.count_by_time)
        + rate * rate * wide(count.time_squared);
    // Both ends of a slice are known to one event and one tick. The uniform rounding of each end
    // has a variance of 1/12, which the residuals of a very even workload do not show.
    let rounding = float(count.slices) / 6.0 * (1.0 + rate * rate);
    let squares = residuals.max(rounding) / (1.0 - 1.0 / slices);
    let variance = squares * enabled * (enabled - running) / (running * running);
    let by_time = rate * enabled * float(count.slices) * OUTSIDE_TICKS / running;
    let by_freedom = variance * variance / (slices - 1.0);
    variance.is_finite().then_some(Spread { variance, by_time, by_freedom })
}

/// What was counted between two snapshots of one session.
pub(crate) fn since(now: &Count, before: &Count) -> Count {
    Count {
        counted: now.counted.saturating_sub(before.counted),
        enabled: now.enabled.saturating_sub(before.enabled),
        running: now.running.saturating_sub(before.running),
        slices: now.slices.saturating_sub(before.slices),
        count_squared: difference(now.count_squared, before.count_squared),
        count_by_time: difference(now.count_by_time, before.count_by_time),
        time_squared: difference(now.time_squared, before.time_squared),
    }
}

fn difference(now: [u64; 2], before: [u64; 2]) -> [u64; 2] {
    let difference = joined(now).saturating_sub(joined(before));
    [difference as u64, (difference >> 64) as u64]
}

const fn joined([low, high]: [u64; 2]) -> u128 {
    (high as u128) << 64 | low as u128
}

fn wide(halves: [u64; 2]) -> f64 {
    float(joined(halves))
}

#[cfg(test)]
mod tests;
