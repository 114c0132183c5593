//! What goes where: the sources of a session, assigned to counters and encoded once, so that a
//! processor only executes.

pub mod assign;
pub mod counter_config;
pub mod cpu_set;
pub mod index;
pub mod program;
pub mod slice;
