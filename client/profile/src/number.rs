//! Numbers in readable form and in other units.

/// A number with commas between thousands: `1,234,567`.
pub fn thousands(value: impl Into<u128>) -> String {
    let digits = value.into().to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .filter_map(|group| std::str::from_utf8(group).ok())
        .collect();
    groups.join(",")
}

/// Nanoseconds as seconds: `1.234567 s`.
pub fn seconds(nanoseconds: impl Into<u128>) -> String {
    let nanoseconds = nanoseconds.into();
    let (whole, rest) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    format!("{}.{:06} s", thousands(whole), rest / 1000)
}

/// Ticks of a clock with this frequency in nanoseconds; `None` if the frequency is not known.
pub(crate) fn nanoseconds(ticks: u64, frequency: u64) -> Option<u64> {
    let nanoseconds = (u128::from(ticks) * 1_000_000_000).checked_div(frequency.into())?;
    Some(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}

/// Three significant digits, without trailing zeros.
pub(crate) fn short(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        let text = text.trim_end_matches('0').trim_end_matches('.');
        return text.to_owned();
    }
    text
}

/// A suitable unit for a time of this many nanoseconds, and its length in nanoseconds.
pub(crate) fn time_unit(nanoseconds: f64) -> (&'static str, f64) {
    match nanoseconds {
        ns if ns >= 1e9 => ("s", 1e9),
        ns if ns >= 1e6 => ("ms", 1e6),
        ns if ns >= 1e3 => ("µs", 1e3),
        _ => ("ns", 1.0),
    }
}

/// Nanoseconds in a suitable unit.
pub fn duration(nanoseconds: f64) -> String {
    let (unit, size) = time_unit(nanoseconds);
    format!("{} {unit}", short(nanoseconds / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_suitable_unit() {
        for (nanoseconds, text) in
            [(1_048_576.0, "1.05 ms"), (150e6, "150 ms"), (122_100.0, "122 µs")]
        {
            assert_eq!(duration(nanoseconds), text);
        }
    }
}
