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

/// Ticks of a clock with this frequency in nanoseconds; `None` if the frequency is not known.
pub(crate) fn nanoseconds(ticks: u64, frequency: u64) -> Option<u64> {
    let nanoseconds = (u128::from(ticks) * 1_000_000_000).checked_div(frequency.into())?;
    Some(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}
