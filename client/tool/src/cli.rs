//! The command line, and its help.

pub(crate) mod args;
pub(crate) mod habits;
pub(crate) mod help;
pub(crate) mod standard_input;
