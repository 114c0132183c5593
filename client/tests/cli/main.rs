//! Is the built tool, run as a user runs it, what its contract says?

mod bad_input;
mod binaries;
mod describe;
mod dumps;
mod errors;
mod examples;
mod explain;
mod lists;
mod manuals;
mod measure;
mod readme;
mod recordings;
mod schemas;
mod serve;
mod support;
mod symbols;
mod top;
mod windows_script;
