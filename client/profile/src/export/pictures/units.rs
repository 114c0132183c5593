//! Numbers and names in readable form.

use crate::aggregate::source_totals::SourceTotals;
use crate::number::{seconds, short, thousands};

/// So many events of a source: `1,000 events`, or the processor time that they are.
pub(super) fn amount(source: &SourceTotals, events: u64) -> String {
    match source.time {
        Some(time) => seconds(time.nanoseconds(events)),
        None => format!("{} events", thousands(events)),
    }
}

/// With an SI prefix: `1.5 G`.
pub(super) fn si(value: f64) -> String {
    const PREFIXES: [(f64, &str); 6] =
        [(1e18, " E"), (1e15, " P"), (1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")];
    let prefix = PREFIXES.iter().find(|&&(unit, _)| value >= unit);
    let &(unit, name) = prefix.unwrap_or(&(1.0, ""));
    format!("{}{name}", short(value / unit))
}

/// A step of 1, 2 or 5 times a power of ten that divides `length` into at most `most` parts.
pub(super) fn step(length: f64, most: f64) -> f64 {
    let rough = length / most;
    if !rough.is_normal() {
        return 1.0;
    }
    let power = 10f64.powf(rough.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let factor = factors.into_iter().find(|f| f * power >= rough * 0.999_999);
    factor.unwrap_or(10.0) * power
}

/// A part as a percentage of a whole: `12.3 %`.
pub(super) fn share(part: u64, whole: u64) -> String {
    format!("{:.1} %", fraction(part, whole) * 100.0)
}

/// A part as a fraction of a whole, from 0 to 1.
pub(super) fn fraction(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Shortens a name to at most `most` characters.
pub(super) fn fitting(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    let kept: String = name.chars().take(most - 1).collect();
    kept + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (999.0, "999"),
            (1500.0, "1.5 k"),
            (2e9, "2 G"),
            (123_456_789.0, "123 M"),
            (0.25, "0.25"),
        ] {
            assert_eq!(si(value), text);
        }
    }

    #[test]
    fn steps_are_round() {
        for (length, most, expected) in [(150.0, 10.0, 20.0), (1.0, 5.0, 0.2), (7e9, 4.0, 2e9)] {
            let step = step(length, most);
            assert!((step / expected - 1.0).abs() < 1e-9, "{length}: {step}");
        }
        for odd in [0.0, f64::NAN, f64::INFINITY] {
            assert!((step(odd, 4.0) - 1.0).abs() < f64::EPSILON, "{odd}");
        }
    }
}
