//! Folded stacks: for each place or stack a line with its levels separated by `;`, and the number of
//! events.

use super::{Export, Level};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Writes one line for each distinct place, by name and in the order of names.
pub(super) fn write(export: &Export<'_>, out: &mut dyn Write) -> io::Result<()> {
    let samples = export.samples;
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for (location, totals) in samples.level_totals_of(&export.source()) {
        let levels: Vec<String> = samples.levels(location).iter().map(level).collect();
        let events = lines.entry(levels.join(";")).or_default();
        *events = events.saturating_add(totals.events);
    }
    for (levels, events) in lines {
        writeln!(out, "{levels} {events}")?;
    }
    Ok(())
}

/// `flamegraph.pl` recognizes inlined functions by this suffix (FlameGraph, `stackcollapse-perf.pl`).
const INLINED: &str = "_[i]";

fn level(level: &Level<'_>) -> String {
    let mark = if level.is_inlined { INLINED } else { "" };
    plain(&level.name) + mark
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
