//! Does halprof.exe under Wine behave as elsewhere, and do what Windows requires?
//!
//! `cargo xtask exe` builds it. Without it, or without Wine, the tests are skipped with a message;
//! with `HALPROF_REQUIRE_DRIVER=1` they fail.

mod commands;
mod download;
mod driver;
mod image;
mod installation;
mod marks;
mod prefix;
mod programs;
mod simulate;
