//! The commands, one file each.

pub(crate) mod annotate;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod info;
pub(crate) mod installation;
pub(crate) mod list;
pub(crate) mod machines;
pub(crate) mod rdpmc;
pub(crate) mod record;
pub(crate) mod registers;
pub(crate) mod report;
pub(crate) mod script;
pub(crate) mod simulate;
pub(crate) mod stat;
pub(crate) mod timeline;
pub(crate) mod top;
