//! Events of a session that arrive in real time: for a table that is refreshed ([`Delivery`]), and for
//! threads that count themselves ([`LiveSession`]).
//!
//! Of a thread that counts itself, each switch carries the values of its processor's counters, so what a thread counts is known from
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

mod adapters;
mod collector;
mod delivery;
mod session;

pub use crate::live_tracing::{Consumer, Countable, Live, LiveTracing, Record, Scheduler};
pub use adapters::{deliver_buffer, deliver_record};
pub use collector::{Void, Wait};
pub use delivery::{Delivery, Missing};
pub use session::LiveSession;
