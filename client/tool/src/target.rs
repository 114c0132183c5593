//! What a command measures on.

pub mod backend;
pub(crate) mod built_in;
pub(crate) mod context;
pub(crate) mod limits;
pub(crate) mod machine;
pub(crate) mod machine_id;
pub(crate) mod other_interface;
pub(crate) mod seal_key;
