//! Recordings of samples and their evaluation: reports, annotated code, exports.
//!
//! ```text
//! samples -> inventory -> recording -> report, annotate
//!                                   -> export, pictures
//! ```
//!
//! A recording is untrusted data. Nothing here calls Windows or writes to a terminal.
#![forbid(unsafe_code)]

pub mod aggregate;
pub mod budget;
#[expect(clippy::cast_precision_loss, reason = "rates, and places in a picture, are never exact")]
pub mod export;
pub mod file;
pub mod number;
pub mod symbols;
pub mod views;
