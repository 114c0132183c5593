//! Is the built tool, run as a user runs it, what its contract says?

mod bad_input;
mod binaries;
mod core_types;
mod describe;
mod dumps;
mod errors;
mod examples;
mod explain;
mod figures;
mod lists;
mod manuals;
mod measure;
mod outputs;
mod passes;
mod readme;
mod recordings;
mod schemas;
mod serve;
mod streams;
mod support;
mod symbols;
mod terminal;
mod top;
mod windows_script;
