//! What runs while it is measured, and who reads the counters and samples meanwhile.

pub(crate) mod calibration;
pub(crate) mod default_workload;
pub(crate) mod image;
pub(crate) mod marking;
pub(crate) mod program;
pub(crate) mod recorder;
pub(crate) mod runner;
pub(crate) mod system;
pub(crate) mod watch;
