//! What runs while it is measured, and who reads the counters and samples meanwhile.

pub(crate) mod browser;
pub(crate) mod calibration;
pub(crate) mod clock;
pub(crate) mod interrupt;
pub(crate) mod marking;
pub(crate) mod metric_periods;
pub(crate) mod program;
pub(crate) mod recorder;
pub(crate) mod runner;
pub(crate) mod scope;
pub(crate) mod system;
pub(crate) mod tracing;
