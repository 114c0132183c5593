//! What is on the wire between halprof.sys and its users, and the HAL's own profiling structures.
//!
//! `no_std`, no `unsafe`, and every size and offset asserted at compile time.
#![no_std]
#![forbid(unsafe_code)]

mod source;

pub use source::ProfileSource;
