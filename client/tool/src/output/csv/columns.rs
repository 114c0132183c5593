//! Tables with rows of several kinds: a column says which fields of theirs it has.

use super::{MODELLED, cell, tree, value, written};
use crate::output::error::Result;
use serde::Serialize;

/// The name of a column, and the fields that it has: the first that is not empty in a row. A point
/// stands between a field and those below it.
pub(crate) type Column = (&'static str, &'static [&'static str]);

/// The names of the columns.
pub(crate) fn head(columns: &[Column]) -> Result<String> {
    let names = columns.iter().map(|(name, _)| *name);
    written(|writer| writer.write_record(names.chain([MODELLED])))
}

/// The lines of rows.
pub(crate) fn lines<R: Serialize>(
    columns: &[Column],
    rows: &[R],
    modelled: bool,
) -> Result<String> {
    let fields: Vec<Vec<Vec<String>>> = columns.iter().map(|(_, paths)| fields(paths)).collect();
    let mut lines = String::new();
    for row in rows {
        let row = tree(row)?;
        let cells = fields.iter().map(|paths| {
            let values = paths.iter().map(|fields| value(&row, fields));
            values.map(|value| cell(&value)).find(|cell| !cell.is_empty()).unwrap_or_default()
        });
        let modelled = [modelled.to_string()];
        lines += &written(|writer| writer.write_record(cells.chain(modelled)))?;
    }
    Ok(lines)
}

fn fields(paths: &[&str]) -> Vec<Vec<String>> {
    paths.iter().map(|path| path.split('.').map(str::to_owned).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[derive(Serialize)]
    struct Row {
        sum: Option<u128>,
        below: Value,
    }

    #[test]
    fn a_column_has_the_first_of_its_fields_that_a_row_has() {
        let columns: [Column; 3] =
            [("sum", &["sum"]), ("n", &["below.n", "below.m"]), ("ids", &["below.list.id"])];
        assert_eq!(head(&columns).expect("a header"), "sum,n,ids,modelled\n");
        let rows = [
            Row { sum: Some(u128::MAX), below: json!({"n": 1.5, "m": 2}) },
            Row { sum: None, below: json!({"m": 2, "list": [{"id": "a"}, {"id": "b"}]}) },
        ];
        let expected = format!("{},1.5,,true\n,2,a b,true\n", u128::MAX);
        assert_eq!(lines(&columns, &rows, true).expect("lines"), expected);
    }
}
