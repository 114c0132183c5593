//! What the counts of sources and events mean.

use halprof_measure::catalog::Catalog;

/// What a source or an event counts, by its name, with its filter if it has one. Empty if that is
/// not known.
pub(crate) fn of_label(catalog: &Catalog, label: &str) -> String {
    let name = label.split(':').next().unwrap_or_default();
    let known = match catalog.source(name) {
        Some(source) => of_source(source.name),
        None => catalog.event(name).and_then(|event| event.description().map(str::to_owned)),
    };
    known.unwrap_or_default()
}

/// What the count of a source says about the microarchitecture. `*` ends the names of a family of
/// sources, which differ in a condition that their names have.
pub(crate) fn of_source(source: &str) -> Option<String> {
    let rows = include_str!("meaning/sources.csv");
    let mut rows = csv::Reader::from_reader(rows.as_bytes());
    let row = rows.records().flatten().find(|row| match row.get(0) {
        Some(name) => match name.strip_suffix('*') {
            Some(family) => source.starts_with(family),
            None => name == source,
        },
        None => false,
    })?;
    row.get(1).map(str::to_owned)
}
