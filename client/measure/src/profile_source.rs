//! A source as Windows lists it for its own tracing, or as a model of it does.

/// The timer's number, which every list has (KPROFILE_SOURCE).
pub const TIMER: u32 = 0;

/// A source of samples and counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileSource {
    /// Its number, until the machine restarts; on another machine the number may mean something
    /// else.
    pub id: u32,
    /// Its name, which is the same everywhere.
    pub name: String,
    /// The shortest interval between samples: in units of 100 ns for the timer, in events for all
    /// other sources.
    pub min_interval: u32,
    /// The longest.
    pub max_interval: u32,
    /// The interval in force, which belongs to the machine; 0 if it is not known.
    pub interval: u32,
}

impl ProfileSource {
    /// Whether it is time, which takes no counter.
    pub const fn is_timer(&self) -> bool {
        self.id == TIMER
    }
}
