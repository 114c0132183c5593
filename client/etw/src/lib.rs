//! Event Tracing for Windows: the bytes of a trace as typed events.
//!
//! ```text
//! file -> buffers (by processor) -> headers, payloads -> one sequence by time -> join
//! ```
//!
//! A trace is untrusted data: nothing here panics at its bytes or takes memory that its length does
//! not justify, and what is damaged is reported beside what could be read. Nothing calls Windows, so
//! a trace is read on any system.
//!
//! The layouts come from Microsoft's documentation (evntrace.h, evntcons.h, \[MS-XCA\]) where it has
//! them, else from what public readers and real files agree on; each module names its source.
#![forbid(unsafe_code)]
// People outside this project read the crate, so each public item is documented.
#![warn(missing_docs)]

pub mod buffer;
pub mod bytes;
pub mod clock;
pub mod compress;
pub mod damage;
#[expect(missing_docs, reason = "fields have the names of the documented structures")]
pub mod header;
pub mod id;
pub mod join;
mod merge;
pub mod names;
#[expect(missing_docs, reason = "fields have the names of the documented classes")]
pub mod payload;
mod trace;

pub use bytes::PointerSize;
pub use clock::Clock;
pub use damage::{Cause, Damage, Losses};
pub use id::{EventId, Guid};
pub use payload::EventKind;
pub use trace::{Error, Event, Trace};
