//! What the Windows HAL does to profile, without Windows.
//!
//! The story in one page. A processor is asked what it is ([`selection`]), which gives a profile
//! interface and the reason; what it can do is discovered once ([`capabilities`]). Profile sources
//! are rows of tables ([`mod@source`], judged by [`catalog`]). A session names sources; [`assign`]
//! says which counter counts which, in rotations where they do not all fit; [`encode`] has the
//! register values, and the [`program`] that a configuration leaves has both, so that a processor
//! only executes it. Registers are written by [`pmu`] and
//! [`branches`] alone. Each processor keeps its totals in
//! [`state`]; `rotation` runs the counters, [`overflow`] answers their interrupts and records into
//! a [`ring`], with the [`branches`] that led there; `proof` shows first that both work. Every request enters through [`service`].
//!
//! Principles: no_std, no allocation, no `unsafe`, no panic; whatever touches hardware goes
//! through [`machine`], so that all of it runs on modelled processors; all memory is lent by the
//! [`host`], and all zeros is its empty state; policy above [`pmu`], addresses and bits below; what
//! is not proved to be there is not touched.
#![no_std]
#![forbid(unsafe_code)]
// No panic: nothing here indexes, unwraps or formats.
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used,
        clippy::expect_used
    )
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
pub mod source;
pub mod state;
pub mod statistics;
