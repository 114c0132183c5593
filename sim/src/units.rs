//! Performance-monitoring units: one file for each vendor.

pub mod amd;
pub mod intel;
