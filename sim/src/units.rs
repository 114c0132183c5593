//! Performance-monitoring units, one file a vendor.

pub mod amd;
pub mod intel;
