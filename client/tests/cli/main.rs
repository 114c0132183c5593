//! Is the built tool, run as a user runs it, what its contract says?

mod describe;
mod dumps;
mod errors;
mod measure;
mod support;
