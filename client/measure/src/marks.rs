//! Marks: time-stamped values that a program emits on named channels.
//!
//! ```
//! use halprof_measure::marks::Channel;
//!
//! let requests = Channel::named("requests"); // once, and kept
//! let done = Channel::named("done");
//! for id in 0..100 {
//!     requests.mark(id); // RDTSC and a few stores, where a recorder listens
//!     done.mark(id);
//! }
//! ```
//!
//! `halprof timeline -- PROGRAM` and `halprof record -- PROGRAM` record them. The recorder shares a
//! buffer with the program and with every process that the program starts, through a handle that
//! they inherit. A mark makes no system call, takes no lock and allocates nothing; without a
//! recorder it is a test and a branch. Marks that find the buffer full are dropped and counted.
//! [`Buffer`] is the recorder's side.
//!
//! Each thread fills chunks of its own, one after the other, and the recorder empties them:
//!
//! ```text
//! thread -> chunk -> chunk ...  free -> taken -> closed -> free
//! ```

mod buffer;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[path = "marks/linux.rs"]
mod memory;
#[cfg(all(target_arch = "x86_64", windows))]
#[path = "marks/windows.rs"]
mod memory;
#[cfg(not(all(target_arch = "x86_64", any(target_os = "linux", windows))))]
#[path = "marks/elsewhere.rs"]
mod memory;
mod rate;
mod shared;
#[cfg(test)]
mod tests;
mod thread_buffer;

pub use buffer::{Buffer, Cost, Mark};
pub use rate::Rate;
pub use shared::Cause;

use shared::{CALIBRATION, NONE, Shared};
use std::sync::{Once, OnceLock};
use thread_buffer::ThreadBuffer;

/// The environment variable that tells a program which buffer to use.
const VARIABLE: &str = "HALPROF_MARKS";

/// The number of marks that a process makes when it finds a recorder. The time between them gives
/// the cost of a mark.
const CALIBRATIONS: usize = 256;

/// The recorder's buffer; `None` where there is no recorder.
static SHARED: OnceLock<Option<&'static Shared>> = OnceLock::new();

/// Threads that ask for their first channels at the same time calibrate only once.
static CALIBRATED: Once = Once::new();

thread_local! {
    static THREAD_BUFFER: ThreadBuffer<'static> = const { ThreadBuffer::new() };
}

/// A channel for marks. It has a name, and belongs to the process that asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel(u32);

impl Channel {
    /// The largest number of channels of a process.
    pub const MAX: usize = shared::CHANNELS_MAX;
    /// The longest name, in bytes.
    pub const NAME_MAX: usize = shared::NAME_MAX;

    /// The channel of this name, of at most [`Self::NAME_MAX`] bytes; a longer name is cut. The same
    /// name means the same channel in every process. Marks on more than [`Self::MAX`] channels are
    /// dropped and counted.
    pub fn named(name: &str) -> Self {
        let Some(shared) = SHARED.get_or_init(attached) else {
            return Self(NONE);
        };
        CALIBRATED.call_once(|| (0..CALIBRATIONS).for_each(|_| Self(CALIBRATION).mark(0)));
        Self(shared.channel(name))
    }

    /// Marks that something happens now, with a value that identifies it.
    ///
    /// The time is read without a fence: instructions near the mark may be executed before it or
    /// after it.
    #[inline]
    pub fn mark(self, value: u64) {
        if self.is_recorded() {
            put(self.0, value);
        }
    }

    /// Whether a recorder is attached: ask first where the value is expensive to compute.
    #[inline]
    pub const fn is_recorded(self) -> bool {
        self.0 != NONE
    }

    /// The same channel as a number, for another language.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The channel of a number. Marks on a number that was never given out are dropped and counted.
    pub const fn from_number(number: u32) -> Self {
        Self(number)
    }
}

fn put(channel: u32, value: u64) {
    let Some(Some(shared)) = SHARED.get() else {
        return;
    };
    if channel > CALIBRATION {
        return shared.drop_mark(Cause::Channels);
    }
    // A thread that is ending has already returned its chunk.
    if THREAD_BUFFER.try_with(|buffer| buffer.mark(shared, channel, value)).is_err() {
        shared.drop_mark(Cause::ThreadEnded);
    }
}

/// The buffer that the environment names, if it is one.
fn attached() -> Option<&'static Shared> {
    let text = std::env::var(VARIABLE).ok()?;
    let (handle, token) = text.split_once(':')?;
    let shared = memory::attach(handle.parse().ok()?)?;
    if !shared.is_of(u64::from_str_radix(token, 16).ok()?) {
        // The handle of that number is something else.
        return None;
    }
    shared.attach();
    memory::watch_forks();
    Some(shared)
}

/// In the child of a fork: the chunk belongs to the parent.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn forked() {
    let _ = THREAD_BUFFER.try_with(ThreadBuffer::forget);
}
