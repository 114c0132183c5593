//! Folded stacks: for each place a line with its levels separated by `;`, and the number of events.

use super::View;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Writes one line for each distinct place, by name and in the order of names.
pub(super) fn write(view: &View<'_>, out: &mut impl Write) -> io::Result<()> {
    let gathered = view.gathered;
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for (place, weight) in gathered.spots_of(&view.source()) {
        let levels: Vec<String> = gathered.levels(place).iter().map(|l| plain(l)).collect();
        let events = lines.entry(levels.join(";")).or_default();
        *events = events.saturating_add(weight.events);
    }
    for (levels, events) in lines {
        writeln!(out, "{levels} {events}")?;
    }
    Ok(())
}

/// A name without the characters that separate names and lines.
fn plain(name: &str) -> String {
    let plain = |c: char| match c {
        ';' => ':',
        c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => ' ',
        c => c,
    };
    name.chars().map(plain).collect()
}
