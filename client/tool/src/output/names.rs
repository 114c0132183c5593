//! Names in sentences and in tables.

use crate::output::number::thousands;
use std::borrow::Borrow;

/// How many names a sentence has.
const NAMED: usize = 5;

/// `A, B and 2 more`.
pub(crate) fn abbreviated<S: Borrow<str>>(names: &[S]) -> String {
    match names.split_at_checked(NAMED) {
        Some((first, more)) if !more.is_empty() => {
            format!("{} and {} more", first.join(", "), thousands(more.len() as u64))
        }
        _ => names.join(", "),
    }
}

/// A process in a table.
pub(crate) fn process_name(name: Option<&str>) -> String {
    name.unwrap_or("unknown").to_owned()
}
