//! Joins stacks and branch records to their events, and counter values to threads.
//!
//! Windows writes a stack as separate events after the event that it belongs to, often in two halves,
//! and branch records as one such event. It writes counter values at context switches; the counts of
//! threads follow from them. All are joined in one pass over the events.

pub mod branches;
pub mod slices;
pub mod stacks;
pub mod threads;
