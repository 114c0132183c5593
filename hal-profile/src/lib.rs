//! What the HAL does to profile, without Windows: no_std, no allocation, no `unsafe`.
#![no_std]
#![forbid(unsafe_code)]

pub mod machine;
pub mod source;
