//! Numbers as people read them.

pub(crate) use halprof_profile::number::{seconds, thousands};

/// Processor time in seconds, or nothing where events are no time.
pub(crate) fn processor_time(time: Option<f64>) -> String {
    time.map(|time| seconds(rounded(time * 1e9))).unwrap_or_default()
}

/// Events, or nothing where they are [processor time](processor_time).
pub(crate) fn events(events: u64, time: Option<f64>) -> String {
    if time.is_some() { String::new() } else { thousands(events) }
}

/// The nearest whole number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts saturate")]
pub(crate) fn rounded(value: f64) -> u128 {
    value.round() as u128
}

/// Half of the 95 % interval of a count: `±12`. As no count is below 0, the upper end of one that
/// would begin there: `≤ 12`.
pub(crate) fn bound(value: u128, half: f64) -> String {
    let half = rounded(half.ceil());
    if half > value {
        return format!("≤ {}", thousands(value.saturating_add(half)));
    }
    format!("±{}", thousands(half))
}

/// A value, or nothing if there is none.
pub(crate) fn optional(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// A share as a percentage: `12.34 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// A number of things: `1 sample`, `2 samples`.
pub(crate) fn counted(n: u64, one: &str, several: &str) -> String {
    format!("{} {}", thousands(n), if n == 1 { one } else { several })
}

/// How often: `once`, `2 times`.
pub(crate) fn times(n: u64) -> String {
    match n {
        1 => "once".to_owned(),
        n => format!("{} times", thousands(n)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bound_reaches_below_0() {
        for (value, half, shown) in [
            (1000, 12.0, "±12"),
            (1000, 12.1, "±13"),
            (1000, 1000.0, "±1,000"),
            (262_418, 363_912.0, "≤ 626,330"),
            (0, 7.0, "≤ 7"),
            (0, 0.0, "±0"),
            (u128::MAX, f64::INFINITY, "±340,282,366,920,938,463,463,374,607,431,768,211,455"),
        ] {
            assert_eq!(bound(value, half), shown);
        }
    }

    #[test]
    fn thousands_are_parted() {
        for (value, text) in
            [(0u128, "0"), (999, "999"), (1000, "1,000"), (1 << 64, "18,446,744,073,709,551,616")]
        {
            assert_eq!(thousands(value), text);
        }
        assert_eq!(seconds(1_234_567_899u64), "1.234567 s");
    }
}
