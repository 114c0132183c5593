//! What the Windows HAL does to profile, without Windows.
//!
//! The story in one page. A processor is asked what it is ([`selection`]), which gives a profile
//! interface and the reason; what it can do is discovered once ([`capabilities`]). Profile sources
//! are rows of tables ([`mod@source`], judged by [`catalog`]). A session names sources; a [`plan`]
//! says which counter counts which, in turns where they do not all fit. Values for the registers
//! are built without touching a machine ([`control`]), then written ([`interface`]). Each processor
//! keeps totals from register reads ([`processor`]); an overflow is answered by one loop
//! ([`overflow`]) that records into a [`ring`]. All requests come through one door ([`service`]).
//!
//! Principles: no_std, no allocation, no `unsafe`, no panic; whatever touches hardware goes
//! through [`machine`], so that all of it runs on modelled processors; policy above [`interface`],
//! addresses and bits below; what is not proved to be there is not touched.
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

pub mod capabilities;
pub mod catalog;
pub mod control;
pub mod counter;
mod guard;
pub mod interface;
pub mod machine;
pub mod overflow;
pub mod plan;
pub mod processor;
pub mod registers;
pub mod ring;
pub mod selection;
pub mod service;
pub mod session;
pub mod source;
pub mod statistics;
