//! Counts of threads while they run, from a session whose context switches arrive in real time.
//!
//! Each switch carries the values of its processor's counters, so what a thread counts is known from
//! switch to switch. A thread that wants to know it at a moment of its own makes a switch: it waits
//! a millisecond for an event that nobody sets.
//!
//! ```text
//!  wait | body               | wait
//!  out in                    out in       switches of the thread; between them are its slices
//! ```
//!
//! The counts of the body are those of the thread's slices from the last switch-in before it to the
//! first switch-out after it. Interrupts and the kernel's work in those slices are included.

mod collector;
mod session;

pub use crate::live_tracing::{Consumer, Countable, Live, LiveTracing, Record, Scheduler};
pub use collector::{Void, Wait};
pub use session::LiveSession;
