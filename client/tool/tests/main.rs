//! All tests of the built tool, in one program, except `programs`, which is also the tool itself.

mod cli;
#[cfg(unix)]
mod wine;
