//! What a processor did for whom: whether a sample is of the thread's own work, or of an interrupt or a
//! deferred call that took its time. Windows says it of the timer's samples.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared_types::{Mode, Sample};

/// The bits of a sample's mode in a recording that are its [`Mode`]; the two above them are its
/// [`Context`].
const MODE: u8 = 0x0F;
const CONTEXT_SHIFT: u8 = 4;
const CONTEXT: u8 = 3;

/// What ran when a sample was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Context {
    /// Nothing says it.
    #[default]
    Unknown = 0,
    /// The thread, in user or kernel mode.
    Thread = 1,
    /// A deferred procedure call, on the thread's time.
    Dpc = 2,
    /// An interrupt's handler, on the thread's time, perhaps of a deferred call's.
    Interrupt = 3,
}

impl Context {
    /// From the mode of a sample.
    pub(crate) const fn of(mode: u8) -> Self {
        match mode >> CONTEXT_SHIFT & CONTEXT {
            1 => Self::Thread,
            2 => Self::Dpc,
            3 => Self::Interrupt,
            _ => Self::Unknown,
        }
    }

    /// From a sample of the timer (its field `reserved`).
    pub(super) const fn of_timer(reserved: u16) -> Self {
        match reserved & 3 {
            0 => Self::Thread,
            1 => Self::Dpc,
            _ => Self::Interrupt,
        }
    }

    /// With a mode, as a sample has both.
    pub(super) const fn with(self, mode: Mode) -> u8 {
        mode as u8 | (self as u8) << CONTEXT_SHIFT
    }

    /// Its name; `None` if it is unknown.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Unknown => None,
            Self::Thread => Some("thread"),
            Self::Dpc => Some("DPC"),
            Self::Interrupt => Some("interrupt"),
        }
    }
}

/// The mode of a sample or a frame in a file; unknown if no mode has the number.
pub fn mode_of(number: u8) -> Mode {
    Mode::from_wire((number & MODE).into()).unwrap_or(Mode::Unknown)
}

/// How many samples are of whose work, among those of which Windows says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct ContextCounts {
    /// Of threads.
    pub thread: u64,
    /// Of deferred procedure calls.
    pub dpc: u64,
    /// Of interrupts.
    pub interrupt: u64,
}

impl ContextCounts {
    /// The samples of which it is known; `None` if there are none.
    pub(super) fn of<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Option<Self> {
        let mut counts = Self::default();
        for sample in samples {
            match Context::of(sample.mode) {
                Context::Unknown => {}
                Context::Thread => counts.thread += 1,
                Context::Dpc => counts.dpc += 1,
                Context::Interrupt => counts.interrupt += 1,
            }
        }
        Some(counts).filter(|counts| *counts != Self::default())
    }

    /// The samples of two recordings, added up.
    pub(super) const fn sum(self, other: Self) -> Self {
        Self {
            thread: self.thread.saturating_add(other.thread),
            dpc: self.dpc.saturating_add(other.dpc),
            interrupt: self.interrupt.saturating_add(other.interrupt),
        }
    }
}
