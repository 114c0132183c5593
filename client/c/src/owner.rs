//! The thread that something belongs to.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// A thread, by a number that no other has. Unlike `std::thread::current` it can be asked for by the
/// last destructors of a thread and of a program, where C++ closes what it has opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(u64);

impl Owner {
    /// The calling thread.
    pub(crate) fn here() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        thread_local! {
            static NUMBER: Cell<u64> = const { Cell::new(0) };
        }
        if NUMBER.get() == 0 {
            NUMBER.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        Self(NUMBER.get())
    }
}
