//! Is halprof.exe, run by Wine, the tool that it is elsewhere, and what Windows wants of it?
//!
//! `cargo xtask exe` makes it. Without it, or without Wine, the tests are left out and say so; with
//! `HALPROF_REQUIRE_DRIVER=1` they fail.

mod commands;
mod download;
mod image;
mod installation;
mod marks;
mod prefix;
mod programs;
mod simulate;
