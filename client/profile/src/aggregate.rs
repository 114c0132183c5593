//! Samples and branches, filtered and summed by keys.

pub mod branches;
pub mod filter;
pub(crate) mod gathered;
pub mod key;
pub(crate) mod places;
pub(crate) mod tally;
