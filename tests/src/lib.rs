//! Helpers of the tests.

pub mod backend;
pub mod branch_trace;
pub mod branches;
pub mod cases;
pub mod driver;
pub mod dumps;
pub mod facts;
pub mod live_delivery;
pub mod machines;
pub mod package;
pub mod performance_page;
pub mod requests;
pub mod scenarios;
pub mod silicon;
pub mod stepped;
pub mod symbol_files;
pub mod wire;

pub use dumps::machines_from_table;
