//! A backend that measures by a trace: Windows' own tracing (ETW), or a model of it.
//!
//! Windows counts and samples without a driver, and writes what it saw to a file (.etl). A backend
//! lists its sources, runs one session at a time, and hands over the file when the session ends:
//! counts and samples come from the file's events, so nothing is known before.
//!
//! ```text
//! sources -> plan -> start -> state ... -> stop -> file
//! ```
//!
//! A program that measures regions of its own needs their counts while it runs: [`live`].

pub mod analysis;
pub mod etl;
pub mod live;
pub mod session;
