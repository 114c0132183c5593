//! The names that programs gave their threads.

use crate::file::{ProcessIds, Recording};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The names of a recording's threads, by the first number of the process and the identifier of the
/// thread. A thread that had several names has its last one.
#[derive(Debug, Default)]
pub(crate) struct ThreadNames(FxHashMap<(u32, u32), Arc<str>>);

impl ThreadNames {
    pub(crate) fn of(recording: &Recording) -> Self {
        let process_ids = &recording.process_ids;
        let named = recording.threads.iter().map(|thread| {
            let number = process_ids.number(thread.process, thread.seen);
            ((process_ids.process(number), thread.thread), thread.name.as_str().into())
        });
        Self(named.collect())
    }

    /// The name of a thread of a process, if it has one.
    pub(crate) fn name(
        &self,
        process_ids: &ProcessIds,
        process: u32,
        thread: u32,
    ) -> Option<&Arc<str>> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&(process_ids.process(process), thread))
    }
}
