//! The values and texts that the results of several commands share.

pub(crate) mod count_row;
pub(crate) mod counts;
pub(crate) mod head;
pub(crate) mod metric_row;
pub(crate) mod recording;
pub(crate) mod registers;
pub(crate) mod rows;
pub(crate) mod tables;
pub(crate) mod target;
pub(crate) mod view;
