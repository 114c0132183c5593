//! Recordings of samples and their evaluation: reports, annotated code, exports.
//!
//! ```text
//! samples -> inventory -> recording -> report, annotate
//!                                   -> export, pictures
//! ```
//!
//! A recording is untrusted data. Nothing here calls Windows or writes to a terminal.
#![forbid(unsafe_code)]

pub mod annotate;
pub mod branches;
#[expect(clippy::cast_precision_loss, reason = "rates, and places in a picture, are never exact")]
pub mod export;
mod format;
mod gathered;
mod instruction;
pub mod inventory;
pub mod marks;
mod number;
#[expect(clippy::cast_precision_loss, reason = "rates, and places in a picture, are never exact")]
pub mod pictures;
pub mod recording;
pub mod report;
pub mod script;
pub mod simulation;
pub mod symbols;
mod view;

pub use number::thousands;
