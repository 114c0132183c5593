//! Helpers of the tests.

pub mod cases;
pub mod dumps;
pub mod facts;
pub mod requests;
pub mod wire;

pub use dumps::machines_from_table;
