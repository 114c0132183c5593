//! Helpers of the tests.

pub mod facts;
