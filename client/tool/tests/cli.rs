//! Does the built tool, run as a user runs it, do what its contract says?

mod advice;
mod annotate;
pub(crate) mod binaries;
mod branches;
mod by_process;
mod cases;
mod cmd;
mod compilers;
mod describe;
#[cfg(unix)]
mod documents;
#[cfg(not(windows))]
mod download;
mod dumps;
mod examples;
mod export;
mod foreign;
mod gates;
mod habits;
mod hal_sources;
mod hostile;
mod inputs;
mod limits;
mod live_trace;
mod manuals;
mod measure;
mod modelled;
mod names;
mod openmetrics;
mod pictures;
mod prove;
mod recorder;
mod reports;
mod row_metrics;
mod schemas;
mod screens;
#[cfg(not(windows))]
pub(crate) mod server;
mod shares;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) mod simulate;
mod streams;
pub(crate) mod support;
mod symbols;
mod tables;
mod terminal;
mod timeline;
mod top;
mod trace_cases;
mod traces;
mod windows_script;
mod witness;
