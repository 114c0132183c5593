//! Numbers as people read them.

pub(crate) use halprof_profile::number::thousands;

/// Formats nanoseconds as seconds: `1.234567 s`.
pub(crate) fn seconds(nanoseconds: impl Into<u128>) -> String {
    let nanoseconds = nanoseconds.into();
    let (whole, rest) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    format!("{}.{:06} s", thousands(whole), rest / 1000)
}

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

/// A value, or nothing if there is none.
pub(crate) fn optional(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// A share as a percentage: `12.34 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
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
    fn thousands_are_parted() {
        for (value, text) in
            [(0u128, "0"), (999, "999"), (1000, "1,000"), (1 << 64, "18,446,744,073,709,551,616")]
        {
            assert_eq!(thousands(value), text);
        }
        assert_eq!(seconds(1_234_567_899u64), "1.234567 s");
    }
}
