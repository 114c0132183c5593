//! One processor that counts and samples, mostly with interrupts masked. Only [`pmu`], `lbr` and
//! `rdpmc` write registers.

mod control;
pub mod event_ring;
pub mod host;
pub(crate) mod lbr;
mod look;
pub mod overflow;
pub(crate) mod period;
pub mod pmu;
pub(crate) mod probe;
pub(crate) mod rdpmc;
pub mod ring;
pub(crate) mod self_test;
pub mod sharing;
pub mod state;
pub mod statistics;
pub(crate) mod throttle;
pub(crate) mod touch;
