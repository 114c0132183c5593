//! Processes and images that come and go while something else is measured.

use crate::error::Result;

/// Something that happened to a process or to an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessEvent {
    /// When it happened, on the clock of samples.
    pub timestamp: u64,
    /// The process; of an image of the kernel any.
    pub process: u32,
    /// What happened.
    pub change: ProcessChange,
}

/// What happened to a process or to an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessChange {
    /// A process started: the name of its program.
    Started(String),
    /// A process ended, and its images with it.
    Ended,
    /// An image was mapped.
    Loaded {
        /// The path of its file, as the kernel has it.
        path: String,
        /// Its first address.
        start: u64,
        /// The first address after it.
        end: u64,
    },
    /// An image was unmapped: its first address.
    Unloaded(u64),
}

/// What a source reported between its start and its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessEvents {
    /// What happened, in order of time.
    pub events: Vec<ProcessEvent>,
    /// How many events were lost.
    pub lost: u64,
    /// Why the source ended before it was stopped, if it did: what happened after that is not there.
    pub ended: Option<String>,
}

/// A source of process and image events. It says nothing before its end.
pub trait ProcessSource {
    /// Begins.
    fn start(&mut self) -> Result<()>;

    /// Ends, and returns what happened since the start.
    fn stop(&mut self) -> Result<ProcessEvents>;
}
