//! What is measured: events, processors, periods; and which samples are shown.

pub(crate) mod branches;
pub(crate) mod event_set;
pub(crate) mod filters;
pub(crate) mod periods;
pub(crate) mod sample_size;
pub(crate) mod sampling_rate;
pub(crate) mod source;
pub(crate) mod time;
pub(crate) mod trace_plan;
pub(crate) mod typical_rates;
pub(crate) mod warnings;
