//! All tests of the built tool, in one program; `programs` is one of its own, because it is the tool too.

mod cli;
#[cfg(unix)]
mod wine;
