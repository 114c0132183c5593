//! What the Windows HAL does to profile, without Windows.
//!
//! The rooms, from the bottom up; none uses one above it:
//!
//! - [`cpu`]: what a processor is and can do, and which profile interface serves it, with the reason.
//! - [`mod@source`]: what can be counted: tables of profile sources, raw events, register values.
//! - [`plan`]: which source is counted on which counter, and the values that its registers get.
//! - [`run`]: one processor, with interrupts masked: its counters, interrupts, samples and totals.
//! - [`service`]: one client's requests, at PASSIVE_LEVEL. Every request enters there.
//!
//! [`historic`] has what Pentium, P6 and NetBurst do otherwise; only the feature of that name builds it.
//!
//! The HAL's six operations (design note "Performance Monitoring", "Interface to MSRs") have their
//! names: `initialize`, `enable_monitoring` and `disable_monitoring` in [`pmu`](run::pmu),
//! `check_overflow_status` in [`run::overflow`], `set_interval` and `query_information` in [`service`].
//!
//! Principles: no_std, no allocation, no `unsafe`, no panic. Every hardware access goes through
//! [`cpu::machine`], so all of it also runs on modelled processors. All memory is provided by the
//! [`host`](run::host), and all zeros is its empty state. Policy stays above [`pmu`](run::pmu),
//! addresses and bits below. A register that is not proved to exist is never touched.
#![no_std]
#![forbid(unsafe_code)]
#![expect(
    clippy::redundant_closure_for_method_calls,
    reason = "a method of `Local` is not general enough over its lifetime"
)]
// No panics: nothing here indexes, unwraps or formats.
#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, clippy::expect_used)
)]

#[cfg(loom)]
extern crate std;

pub mod cpu;
#[cfg(feature = "historic")]
pub mod historic;
#[cfg(not(feature = "historic"))]
#[path = "historic/absent.rs"]
pub mod historic;
pub mod plan;
pub mod run;
pub mod service;
pub mod source;
