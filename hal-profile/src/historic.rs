//! Processors that no 64-bit Windows boots on: Pentium, P6 and NetBurst.
//!
//! Their interfaces are those of the HAL design document. They serve modelled machines, in
//! halprof-historic.sys, which is in no package; halprof.sys has `absent.rs` in this place and none
//! of their registers. Sources' rows are in [`netburst`], [`p6`] and [`pentium`]; what differs from
//! later processors in discovering, encoding and running is in the other files, one for each room.

pub(crate) mod assign;
pub(crate) mod catalog;
pub(crate) mod discover;
pub mod encode;
pub mod netburst;
pub mod p6;
pub mod pentium;
pub(crate) mod pmu;
pub mod raw;
pub mod registers;
pub mod select;
