//! Samples and branches, filtered and summed by keys.

pub(crate) mod aggregator;
pub mod branches;
pub mod filter;
pub mod key;
pub(crate) mod locations;
pub(crate) mod samples;
