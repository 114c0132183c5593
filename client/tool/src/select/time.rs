//! Lengths of time as options give them, and as clocks do.

use crate::output::error::{Error, Result};

/// The period of ProfileTime is in units of 100 ns.
pub(crate) const TIME_UNITS_A_SECOND: u64 = 10_000_000;

/// The longest time that an option accepts, in nanoseconds: 30 years.
pub(crate) const NANOSECONDS_MAX: f64 = 1e18;

/// The shortest interval between two readings, in nanoseconds.
pub(crate) const INTERVAL_MIN_NS: u64 = 1_000_000;

/// Converts ticks of a clock of `frequency` to nanoseconds.
pub(crate) fn nanoseconds(ticks: impl Into<u128>, frequency: u64) -> u128 {
    let product = ticks.into().saturating_mul(1_000_000_000);
    product.checked_div(frequency.into()).unwrap_or(0)
}

/// Converts an interval in milliseconds to nanoseconds.
pub(crate) fn interval(milliseconds: f64) -> Result<u64> {
    match positive("--interval", milliseconds, 1e6, NANOSECONDS_MAX) {
        Ok(nanoseconds) if nanoseconds >= INTERVAL_MIN_NS => Ok(nanoseconds),
        _ => Err(Error::usage(
            format!("`--interval {milliseconds}` is out of range"),
            "It is a number of milliseconds from 1; fractions such as 1.5 are allowed.",
        )),
    }
}

/// Converts a positive number of seconds or milliseconds to units of `1 / per`, rounded.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
pub(crate) fn positive(option: &str, value: f64, per: f64, most: f64) -> Result<u64> {
    // The smallest number itself, times `per`, may be a little less than 1.
    let least = 1.0 - f64::EPSILON;
    let units = value * per;
    if units >= least && units.round() <= most {
        return Ok(units.round() as u64);
    }
    Err(Error::usage(
        // Written out, a larger number would fill a line with digits.
        if value.abs() < 1e18 {
            format!("`{option} {value}` is out of range")
        } else {
            format!("`{option} {value:e}` is out of range")
        },
        format!("It is a number from {} to {}.", 1.0 / per, most / per),
    ))
}

/// The length of each slice of multiplexing in units of 100 ns; 0 for the default.
pub(crate) fn slice_length(milliseconds: Option<f64>) -> Result<u32> {
    let units = |value| positive("--rotate", value, 1e4, f64::from(u32::MAX));
    Ok(milliseconds.map(units).transpose()?.unwrap_or(0) as u32)
}
