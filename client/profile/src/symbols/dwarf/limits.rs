//! What the debug information of one file may still cost.

use crate::budget;
use std::cell::Cell;

/// Counts down from what a file of some length is worth.
pub(super) struct Limits {
    entries: Cell<u64>,
    steps: Cell<u64>,
    is_too_deep: Cell<bool>,
}

impl Limits {
    /// For sections that have `length` bytes together.
    pub(super) const fn of(length: u64) -> Self {
        Self {
            entries: Cell::new(budget::entries(length)),
            steps: Cell::new(budget::steps(length)),
            is_too_deep: Cell::new(false),
        }
    }

    /// Whether so many more entries may be kept.
    pub(super) fn entries(&self, count: u64) -> bool {
        take(&self.entries, count)
    }

    /// Whether so many more steps may be made.
    pub(super) fn steps(&self, count: u64) -> bool {
        take(&self.steps, count)
    }

    /// Functions were inlined into each other more deeply than is followed.
    pub(super) fn too_deep(&self) {
        self.is_too_deep.set(true);
    }

    /// What was left out, if anything was.
    pub(super) fn note(&self) -> Option<String> {
        if self.entries.get() == 0 || self.steps.get() == 0 {
            let why = "they have more entries than the file is worth";
            return Some(format!(
                "some of its functions, lines or inlined calls are left out: {why}"
            ));
        }
        let deep = format!("inlined calls beyond a depth of {} are cut", budget::DEPTH);
        self.is_too_deep.get().then_some(deep)
    }
}

/// Takes so many, or else all that is left.
fn take(left: &Cell<u64>, count: u64) -> bool {
    let rest = left.get().checked_sub(count);
    left.set(rest.unwrap_or(0));
    rest.is_some()
}
