//! What a modelled machine runs: the workload of `--workload`, the default, or the code of a file.

pub(crate) mod built_in;
pub(crate) mod default_workload;
pub(crate) mod image;
pub(crate) mod work;
