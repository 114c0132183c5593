//! The figures of docs/performance.md, which tests compare with what they count: a figure has one
//! home, and a page that is out of date fails a test.

const PAGE: &str = include_str!("../../docs/performance.md");

/// The cells of the row with this name in the first table below this heading, without the name.
///
/// # Panics
///
/// If the page has no such heading or row.
#[must_use]
pub fn row(heading: &str, name: &str) -> Vec<&'static str> {
    let (_, section) = PAGE.split_once(heading).unwrap_or_else(|| panic!("no {heading}"));
    let start = format!("| {name} |");
    let row = section.lines().find_map(|line| line.strip_prefix(&start));
    let row = row.unwrap_or_else(|| panic!("no row {name} below {heading}"));
    row.trim_end_matches('|').split('|').map(|cell| cell.trim().trim_matches('*')).collect()
}

/// A number with commas between its thousands.
///
/// # Panics
///
/// If it is none.
#[must_use]
pub fn number(text: &str) -> u64 {
    text.replace(',', "").parse().unwrap_or_else(|_| panic!("{text}"))
}

/// MSR accesses and RDPMC, as in `33 + 1`.
///
/// # Panics
///
/// If it is something else.
#[must_use]
pub fn accesses(text: &str) -> [u64; 2] {
    let (msr, rdpmc) = text.split_once(" + ").unwrap_or_else(|| panic!("{text}"));
    [number(msr), number(rdpmc)]
}
