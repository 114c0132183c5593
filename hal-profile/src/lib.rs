//! What the Windows HAL does to profile, without Windows.
//!
//! In outline: [`selection`] identifies a processor and chooses a profile interface, with the
//! reason; [`capabilities`] discovers once what the processor can do. Profile sources are rows of
//! tables ([`mod@source`], judged by [`catalog`]). A session names sources; [`assign`] decides
//! which counter counts each, in rotations if they do not all fit; [`encode`] computes the register
//! values. A configuration combines both into a [`program`], which a processor only executes. Only
//! [`pmu`] and [`branches`] write registers. Each processor keeps its totals in [`state`];
//! `rotation` runs the counters; [`overflow`] handles their interrupts and records samples into a
//! [`ring`], with the [`branches`] that led there; `proof` checks beforehand that counters and
//! interrupts work. Every request enters through [`service`].
//!
//! Principles: no_std, no allocation, no `unsafe`, no panic. Every hardware access goes through
//! [`machine`], so all of it also runs on modelled processors. All memory is lent by the [`host`],
//! and all zeros is its empty state. Policy stays above [`pmu`], addresses and bits below. A
//! register that is not proved to exist is never touched.
#![no_std]
#![forbid(unsafe_code)]
// No panics: nothing here indexes, unwraps or formats.
#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, clippy::expect_used)
)]

#[cfg(loom)]
extern crate std;

pub mod assign;
pub mod branches;
pub mod capabilities;
pub mod catalog;
pub mod counter;
pub mod encode;
pub mod events;
mod guard;
pub mod host;
pub mod machine;
pub mod overflow;
mod pce;
pub mod pmu;
pub mod processor_set;
pub mod program;
mod proof;
pub mod registers;
pub mod ring;
mod rotation;
pub mod selection;
pub mod service;
pub mod session;
pub mod slot;
pub mod source;
pub mod state;
pub mod statistics;
