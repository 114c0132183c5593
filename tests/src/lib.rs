//! Helpers of the tests.

pub mod dumps;
pub mod facts;
pub mod requests;
pub mod silicon;

pub use dumps::machines_from_table;
