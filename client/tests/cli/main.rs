//! Is the built tool, run as a user runs it, what its contract says?

mod bad_input;
mod binaries;
mod describe;
mod dumps;
mod errors;
mod lists;
mod measure;
mod readme;
mod recordings;
mod schemas;
mod support;
mod symbols;
mod windows_script;
