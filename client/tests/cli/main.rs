//! Is the built tool, run as a user runs it, what its contract says?

mod annotate;
mod bad_input;
mod binaries;
mod describe;
mod dumps;
mod errors;
mod examples;
mod explain;
mod export;
mod foreign;
mod lists;
mod manuals;
mod measure;
mod pictures;
mod readme;
mod recordings;
mod reports;
mod schemas;
mod serve;
mod support;
mod symbols;
mod top;
mod windows_script;
