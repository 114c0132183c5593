//! Helpers of the tests.

pub mod dumps;

pub use dumps::machines_from_table;
