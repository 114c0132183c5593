//! The text of metrics.

use crate::metrics::MetricRow;
use crate::output::number::optional;
use crate::output::table::{Column, Field, Record};
use crate::results::count_row::UNKNOWN;

impl Record for MetricRow {
    const COLUMNS: &'static [Field<Self>] = &[
        Field::new(Column::number("value"), Self::figure),
        Field::new(Column::number("95 %"), Self::bound),
        Field::new(Column::number("processor"), |row| optional(row.processor)),
        Field::new(Column::word("cores"), |row| optional(row.core_type)),
        Field::new(Column::prose("metric"), Self::description),
    ];
}

impl MetricRow {
    pub(crate) fn figure(&self) -> String {
        match self.value {
            Some(value) if self.unit.is_empty() => format!("{value:.3}"),
            Some(value) => format!("{value:.3} {}", self.unit),
            None => "-".to_owned(),
        }
    }

    pub(crate) fn bound(&self) -> String {
        match self.error {
            // Rounded up, never down.
            Some(error) => format!("±{:.3}", (error * 1e3).ceil() / 1e3),
            None if self.scaled => UNKNOWN.to_owned(),
            None => String::new(),
        }
    }

    pub(crate) fn description(&self) -> String {
        let mode = match self.filter {
            "u" => ", user mode",
            "k" => ", kernel mode",
            _ => "",
        };
        let reason = self.reason.as_ref().map(|reason| format!(": {reason}"));
        format!("{}{mode}{}", self.name, reason.unwrap_or_default())
    }
}
