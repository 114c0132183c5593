//! Is a trace read as others read it?
//!
//! The vectors and files are not part of the repository: `HALPROF_ETW_VECTORS` names the file of
//! vectors, and the folder of traces is beside it.

mod branches;
mod files;
mod joining;
mod mutations;
mod shared;
mod vectors;
