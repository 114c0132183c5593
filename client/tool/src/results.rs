//! The values and texts that the results of several commands share.

pub(crate) mod count_row;
pub(crate) mod counts;
pub(crate) mod diff;
pub(crate) mod errata;
pub(crate) mod exported;
pub(crate) mod head;
pub(crate) mod metric_row;
pub(crate) mod output_file;
pub(crate) mod recording;
pub(crate) mod recording_warnings;
pub(crate) mod registers;
pub(crate) mod report_text;
pub(crate) mod sample_rows;
pub(crate) mod simulated;
pub(crate) mod view;
pub(crate) mod with_metrics;
