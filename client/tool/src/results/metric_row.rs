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
        match (self.error, self.confidence) {
            (None, _) if self.scaled => UNKNOWN.to_owned(),
            (None, None) => String::new(),
            // Each run's estimate may be off in the same direction, whatever the spread of the runs.
            (error, confidence) => {
                let half = error.unwrap_or(0.0) + confidence.unwrap_or(0.0);
                // Rounded up, never down.
                format!("±{:.3}", (half * 1e3).ceil() / 1e3)
            }
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
