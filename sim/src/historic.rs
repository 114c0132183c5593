//! Units that no current Windows runs on: hal-profile's feature `historic` serves them.

pub mod netburst;
pub(crate) mod p6;
pub(crate) mod pentium;
