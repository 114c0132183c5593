//! What the counts of sources mean.

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
