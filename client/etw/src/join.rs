//! What belongs together: stacks and branch records to the events that they are of,
//! counter values to threads.
//!
//! Windows writes a stack as events of its own, after the event that it is of, often in two halves;
//! branch records likewise, as one event; and counter values at context switches, from which the counts
//! of threads follow. All are joined in one pass over the events.

pub mod branches;
pub mod slices;
pub mod stacks;
pub mod threads;
