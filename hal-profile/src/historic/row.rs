//! Rows that only the tables of historic processors have.

use crate::source::{Fit, NO_COUNTER, Row, Select};
use shared_types::ProfileSource;

impl Row {
    /// A source for which the family has no fitting event.
    pub(crate) const fn unsupported(id: u32) -> Self {
        Self {
            id: ProfileSource(id),
            select: Select::None,
            counters: NO_COUNTER,
            fixed: NO_COUNTER,
            fit: Fit::Unsupported,
        }
    }
}
