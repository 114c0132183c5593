//! The vendor's events, as rows of the list of sources.

use super::{Differs, Interval, SourceRow, hex};
use halprof_measure::Source;
use halprof_measure::catalog::{Catalog, Encoding, EventMatch, format_counters};
use shared_types::request::machine::Processor;

/// USR and OS, which the selects of table sources include.
const MODES: u64 = 0b11 << 16;

/// Every event that any CPU type has.
pub(super) fn rows(catalog: &Catalog, processors: &[Processor]) -> Vec<SourceRow> {
    let names = catalog.events().into_iter();
    let matches = names.filter_map(|name| catalog.event(name));
    matches.map(|event_match| row(&event_match, catalog, processors)).collect()
}

fn row(event_match: &EventMatch<'_>, catalog: &Catalog, processors: &[Processor]) -> SourceRow {
    let mut encodings = event_match.encodings.iter();
    let counted = encodings.find_map(|(_, event, how)| Some((*event, how.as_ref().ok()?)));
    let supported = counted.is_some();
    let (event, fixed) = match counted {
        Some((event, Encoding::Fixed(index))) => (event, Some(*index)),
        Some((event, Encoding::Select { .. })) => (event, None),
        None => (event_match.event, event_match.event.fixed),
    };
    let source = fixed.and_then(|index| catalog.fixed(index));
    let why = event_match.encodings.iter().find_map(|(_, _, counted)| counted.as_ref().err());
    let notes = [
        why.map(ToString::to_string),
        event.deprecated.then(|| "deprecated: a newer name exists".to_owned()),
        event.alone.then(|| "nothing else can be counted at the same time".to_owned()),
        (!event.errata.is_empty()).then(|| format!("errata: {}", event.errata)),
        event
            .counters
            .filter(|_| fixed.is_none())
            .map(|mask| format!("counters {}", format_counters(mask))),
    ];
    let limits = catalog.sources.iter().find(|source| source.flags & Source::TIMER == 0);
    let limit = |of: fn(&Source) -> u32| limits.map_or(0, of);
    let select = fixed.is_none().then(|| event.select());
    SourceRow {
        id: source.map(|source| source.id),
        name: event.name.clone(),
        supported,
        sampling: supported && limits.is_some_and(|source| source.flags & Source::SAMPLING != 0),
        select: select.map(|select| hex(select | MODES)),
        event_select: select.map(hex),
        counters: event.counters,
        fixed,
        event: true,
        interval: Interval {
            default: limit(|source| source.default_interval),
            min: limit(|source| source.min_interval),
            max: limit(|source| source.max_interval),
        },
        counts: match fixed {
            Some(index) => format!("fixed counter {index}"),
            None => event.to_string(),
        },
        description: event_match.description().unwrap_or_default().to_owned(),
        note: notes.into_iter().flatten().collect::<Vec<_>>().join("; "),
        processors: Differs::from(supported, processors, |one| event_match.counts_on(one)),
        ..SourceRow::default()
    }
}
