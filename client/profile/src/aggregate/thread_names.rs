//! The names that programs gave their threads.

use crate::file::{ProcessIds, Recording};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The names of a recording's threads, each by the first number of its process and its identifier. Of
/// several names of one thread it is the last.
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
