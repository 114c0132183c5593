//! What a processor is: its registers, its identity, what it can do, and its profile interface.

pub mod capabilities;
pub mod counter;
pub mod discover;
pub(crate) mod errata;
pub mod generation;
pub mod lbr;
pub mod machine;
pub mod registers;
pub mod selection;
