//! Composes the sentence of an event from `data/meanings.csv`: the words of its base, the part of
//! its name before the first point, and those of its qualifier, the rest.

use std::collections::BTreeMap;

/// The words of bases and qualifiers.
pub(crate) struct Meanings {
    /// By base.
    rows: BTreeMap<&'static str, Vec<Row>>,
    /// What stands for the `*` of a qualifier, and its words.
    parts: BTreeMap<&'static str, &'static str>,
}

/// Base and qualifier may be several, separated by spaces; so may the tables, none being all.
#[derive(Clone, Copy)]
struct Row {
    qualifier: &'static str,
    tables: &'static str,
    basis: &'static str,
    words: &'static str,
}

impl Meanings {
    /// `rows` and `parts`: the texts of `meanings.csv` and `meaning-parts.csv`.
    pub(crate) fn of(rows: &'static str, parts: &'static str) -> Self {
        let mut by_base: BTreeMap<_, Vec<Row>> = BTreeMap::new();
        for line in rows.lines().skip(1) {
            // Only the last field may contain commas.
            let cells: Vec<&'static str> = line.splitn(5, ',').collect();
            let [names, qualifier, tables, basis, words] = cells[..] else {
                panic!("meanings.csv: {line}");
            };
            for base in names.split(' ') {
                by_base.entry(base).or_default().push(Row { qualifier, tables, basis, words });
            }
        }
        let parts = parts.lines().skip(1).filter_map(|line| line.split_once(','));
        let parts = parts.flat_map(|(parts, words)| parts.split(' ').map(move |one| (one, words)));
        Self { rows: by_base, parts: parts.collect() }
    }

    /// The document that says what an event of a table counts, empty if its name alone does, and the
    /// sentence. Where no row has the qualifier, the base's stands alone.
    pub(crate) fn meaning(&self, name: &str, table: &str) -> Option<(&'static str, String)> {
        let (base, qualifier) = name.split_once('.').unwrap_or((name, ""));
        let rows = self.rows.get(base)?.iter();
        let rows: Vec<&Row> = rows.filter(|row| row.is_for(table)).collect();
        let base = rows.iter().find(|row| row.qualifier.is_empty())?;
        let exact = rows.iter().find(|row| row.qualifiers().any(|one| one == qualifier));
        let by_pattern = || rows.iter().find_map(|row| Some((*row, self.matched(row, qualifier)?)));
        let (row, words) = match exact {
            Some(row) => (*row, row.words.to_owned()),
            None => by_pattern().unwrap_or_else(|| (*base, base.words.to_owned())),
        };
        let document = row.basis.strip_prefix("text: ").unwrap_or_default();
        let sentence = match words.chars().next() {
            Some(first) if first.is_uppercase() || first.is_ascii_digit() => words,
            Some(',' | ':') => format!("{}{words}", base.words),
            _ => format!("{} {words}", base.words),
        };
        Some((document, sentence + "."))
    }

    /// The words of a row with a pattern of the qualifier; a number stands for itself.
    fn matched(&self, row: &Row, qualifier: &str) -> Option<String> {
        row.qualifiers().find_map(|pattern| {
            let (before, after) = pattern.split_once('*')?;
            let part = qualifier.strip_prefix(before)?.strip_suffix(after)?;
            let is_number = || part.bytes().all(|byte| byte.is_ascii_digit());
            let words = self.parts.get(part).copied();
            let words = words.or_else(|| (!part.is_empty() && is_number()).then_some(part))?;
            Some(row.words.replace('*', words))
        })
    }
}

impl Row {
    fn qualifiers(&self) -> impl Iterator<Item = &'static str> {
        self.qualifier.split(' ')
    }

    fn is_for(&self, table: &str) -> bool {
        self.tables.is_empty() || self.tables.split(' ').any(|one| one == table)
    }
}
