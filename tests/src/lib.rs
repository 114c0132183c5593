//! Helpers of the tests.

pub mod bare;
pub mod dumps;
pub mod facts;
pub mod machines;
pub mod requests;
pub mod wire;
pub mod silicon;

pub use dumps::machines_from_table;
