//! The names that a recording or a trace may have for a source that a user names.

use crate::events::all_aliases;
use crate::selection::{EventRef, Item, after_profile, parse_list, parse_number};
use crate::source::texts;
use crate::tracing::session::plan::NAMES;
use shared_types::request::session::Spec;
use std::collections::BTreeSet;

/// Whether a source of a recording is the one that a user names, by the same spellings as for counting:
/// any of its names, its number or its select, with or without a filter.
pub fn names_source(typed: &str, source: &str) -> bool {
    let mut items = Vec::new();
    let parsed = parse_list(typed, &mut items);
    let ([Item { event, text, filter, .. }], Ok(())) = (items.as_slice(), parsed) else {
        return false;
    };
    let (name, recorded) = match source.rsplit_once(':') {
        Some((name, filter)) if filter_of(filter).is_some() => (name, filter_of(filter)),
        _ => (source, None),
    };
    // A source without a filter counts both modes.
    let both = Some(Spec::USER | Spec::KERNEL);
    if filter.is_some() && *filter != recorded.or(both) {
        return false;
    }
    match event {
        EventRef::Named(typed) => spellings(typed).contains(&name.to_lowercase()),
        EventRef::Raw(select) => {
            matches!(parse_one(name), Some(EventRef::Raw(own)) if own == *select)
                || name.eq_ignore_ascii_case(text)
        }
        EventRef::Changed { .. } => name.eq_ignore_ascii_case(text),
    }
}

fn parse_one(name: &str) -> Option<EventRef> {
    let mut items = Vec::new();
    parse_list(name, &mut items).ok()?;
    Some(items.pop()?.event)
}

fn filter_of(text: &str) -> Option<u16> {
    match text {
        "u" => Some(Spec::USER),
        "k" => Some(Spec::KERNEL),
        "uk" => Some(Spec::USER | Spec::KERNEL),
        _ => None,
    }
}

/// All names of what a name or a number stands for, in small letters: which of them a recording has
/// depends on its processor and on what recorded it.
fn spellings(typed: &str) -> BTreeSet<String> {
    let typed = match after_profile(typed) {
        "" => typed.to_lowercase(),
        name => name.to_lowercase(),
    };
    let number = parse_number(&typed);
    let mut all = BTreeSet::from([typed]);
    for source in texts::all().filter(|source| number == Some(source.id.into())) {
        all.insert(source.name.to_lowercase());
    }
    // The target of an alias may be an alias itself, and Windows may have another name for it.
    for _ in 0..2 {
        let targets = all_aliases().filter(|alias| all.contains(&alias.name.to_lowercase()));
        let targets: Vec<String> = targets.map(|alias| alias.target.to_lowercase()).collect();
        all.extend(targets.into_iter().filter(|target| !target.is_empty()));
        for (windows, others) in NAMES {
            let row = || windows.iter().chain(others).map(|name| name.to_lowercase());
            if row().any(|name| all.contains(&name)) {
                all.extend(row());
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_found_by_what_counts_it() {
        for (typed, source, is_it) in [
            ("cycles", "TotalCycles", true),
            ("cycles", "FixedCycles", true),
            ("cpu-cycles", "TotalCycles", true),
            ("CYCLES", "Cycles", true),
            ("instructions", "TotalIssues", true),
            ("cycles", "TotalIssues", false),
            ("ProfileTotalCycles", "TotalCycles", true),
            ("0x13", "TotalCycles", true),
            ("0x02", "TotalCycles", false),
            ("cycles:u", "TotalCycles:u", true),
            ("TotalCycles:u", "TotalCycles:u", true),
            ("cycles:k", "TotalCycles:u", false),
            ("cycles", "TotalCycles:u", true),
            ("cycles:uk", "TotalCycles", true),
            ("branch-misses", "BranchMispredictions", true),
            ("cache-misses", "LLCMisses", true),
            ("r00C0", "r00C0", true),
            ("r0c0", "r00C0", true),
            ("cpu/event=0xc0/", "r00C0", true),
            ("Nothing", "TotalCycles", false),
            ("a,b", "a", false),
            ("", "", false),
        ] {
            assert_eq!(names_source(typed, source), is_it, "{typed} {source}");
        }
    }
}
