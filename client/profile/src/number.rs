//! Numbers in readable form.

/// A number with commas between thousands: `1,234,567`.
#[must_use]
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
