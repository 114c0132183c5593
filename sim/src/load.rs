//! What processors execute: a workload, and its run on them.

pub mod run;
pub mod workload;
