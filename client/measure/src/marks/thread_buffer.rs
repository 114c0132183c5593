//! A thread's access to the buffer.

use super::memory;
use super::shared::{Cause, Chunk, MARKS, Shared, State};
use crate::rdpmc::timestamp;
use std::cell::Cell;
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

/// The chunk that a thread fills.
pub(super) struct ThreadBuffer<'a> {
    held: Cell<Option<Held<'a>>>,
    /// The number of marks in the chunk; [`MARKS`] without one.
    count: Cell<usize>,
    /// The value of [`Shared::freed`] when no chunk was free.
    refused: Cell<Option<u64>>,
}

#[derive(Clone, Copy)]
struct Held<'a> {
    chunk: &'a Chunk,
    state: &'a AtomicU32,
}

impl<'a> ThreadBuffer<'a> {
    pub(super) const fn new() -> Self {
        Self { held: Cell::new(None), count: Cell::new(MARKS), refused: Cell::new(None) }
    }

    #[inline]
    pub(super) fn mark(&self, shared: &'a Shared, channel: u32, value: u64) {
        let now = timestamp();
        if self.count.get() == MARKS && !self.next(shared) {
            return shared.drop_mark(Cause::Full);
        }
        let count = self.count.get();
        let Some(held) = self.held.get() else {
            return;
        };
        if let Some([time, what, on]) = held.chunk.marks.get(count) {
            time.store(now, Relaxed);
            what.store(value, Relaxed);
            on.store(channel.into(), Relaxed);
            // Every mark that the recorder sees counted is complete.
            held.chunk.count.store(count as u64 + 1, Release);
            self.count.set(count + 1);
        }
    }

    /// Takes the first free chunk, so that few are in use.
    #[cold]
    fn next(&self, shared: &'a Shared) -> bool {
        self.close();
        // Read before the search: what is freed while it goes on makes the next mark search again.
        // Without this number, each mark on a full buffer would look at all chunks.
        let freed = shared.freed.load(Acquire);
        if self.refused.get() == Some(freed) {
            return false;
        }
        for (state, chunk) in shared.states.iter().zip(&shared.chunks) {
            // A plain load goes first, because a failed exchange also takes the line of 16 states
            // from the processors that use them.
            let free = state.load(Relaxed) == State::FREE;
            let take = || state.compare_exchange(State::FREE, State::TAKEN, Acquire, Relaxed);
            if free && take().is_ok() {
                chunk.owner.store(memory::owner(), Relaxed);
                self.held.set(Some(Held { chunk, state }));
                self.count.set(0);
                return true;
            }
        }
        self.refused.set(Some(freed));
        false
    }

    fn close(&self) {
        if let Some(held) = self.held.get() {
            held.state.store(State::CLOSED, Release);
        }
        self.forget();
    }

    /// Forgets the chunk, which belongs to somebody else.
    pub(super) fn forget(&self) {
        self.held.set(None);
        self.count.set(MARKS);
    }
}

impl Drop for ThreadBuffer<'_> {
    fn drop(&mut self) {
        self.close();
    }
}
