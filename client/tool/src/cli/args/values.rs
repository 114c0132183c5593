//! The values of options: numbers and times.

use crate::output::number::thousands;
use std::ops::RangeInclusive;

/// Any whole number.
pub(super) fn whole(text: &str) -> Result<usize, String> {
    number(text, 0..=u64::MAX)
}

/// A whole number within bounds.
pub(super) fn number<N: TryFrom<u64>>(text: &str, range: RangeInclusive<u64>) -> Result<N, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    let number = number.and_then(|number| N::try_from(number).ok());
    number.ok_or_else(|| {
        let least = thousands(*range.start());
        match *range.end() {
            u64::MAX => format!("it must be a whole number, at least {least}"),
            most => format!("it must be a whole number from {least} to {}", thousands(most)),
        }
    })
}

/// A length of time in seconds, or with a unit.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    time_in(1.0, "0.5 or 500ms", text)
}

/// A length of time in milliseconds, or with a unit.
pub(super) fn milliseconds(text: &str) -> Result<f64, String> {
    time_in(1e3, "500 or 0.5s", text)
}

/// A number of units, of which a second has `per_second`, or a time with a unit of its own.
fn time_in(per_second: f64, example: &str, text: &str) -> Result<f64, String> {
    let number = fraction(text).ok().or_else(|| Some(with_unit(text)? * per_second));
    number.ok_or_else(|| format!("it must be a time, e.g. {example}"))
}

/// The seconds of a number with a unit. humantime reads the unit alone: it also takes `1h30m`, of which
/// the number would be the hours, and panics where seconds beyond 64 bits are followed by a second more.
pub(super) fn with_unit(text: &str) -> Option<f64> {
    let (number, unit) = text.split_at(text.find(|one: char| one.is_ascii_alphabetic())?);
    let is_one_unit = unit.bytes().all(|one| one.is_ascii_alphabetic());
    let one = humantime::parse_duration(&format!("1{unit}")).ok().filter(|_| is_one_unit)?;
    Some(fraction(number).ok()? * one.as_secs_f64())
}

/// A number that may have a fraction. Which ones make sense is for the command to say.
pub(super) fn fraction(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "it must be a number, e.g. 0.5".to_owned())
}

pub(super) fn percent(text: &str) -> Result<f64, String> {
    let percent = fraction(text)?;
    if percent >= 0.0 && percent.is_finite() {
        return Ok(percent);
    }
    Err("it must be a number of percent, 0 or more".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_one_unit() {
        for (text, expected) in [
            ("0.5", Some(0.5)),
            ("500ms", Some(0.5)),
            ("2m", Some(120.0)),
            ("2h30m", None),
            ("2m3", None),
            ("m", None),
        ] {
            assert_eq!(seconds(text).ok(), expected, "{text}");
        }
    }
}
