//! Does what stands for Windows' tracing write what the reader and the sessions make of it?

mod adapters;
mod counts;
mod generated;
mod live;
mod modelled;
mod plan;
mod processes;
mod tracer;
#[path = "../windows.rs"]
mod windows;
mod written;
