//! The paths of source files, each made once: a call that was inlined has one too, so an address may
//! have hundreds.

use super::name::shown;
use crate::budget;
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::hash::Hash;
use std::sync::Arc;

/// The paths of one file's source files, as long as they are worth it.
#[derive(Debug)]
pub(super) struct Paths<K> {
    known: RefCell<FxHashMap<K, Option<Arc<str>>>>,
    /// How many more bytes paths may have.
    left: Cell<u64>,
}

impl<K: Eq + Hash> Paths<K> {
    /// For a symbol file of this length.
    pub(super) fn of(length: u64) -> Self {
        Self { known: RefCell::default(), left: Cell::new(budget::steps(length)) }
    }

    /// The path of a source file; `None` if it has none, or no bytes are left for it.
    pub(super) fn get(&self, file: K, path: impl FnOnce() -> Option<String>) -> Option<Arc<str>> {
        let new = || {
            let path = Some(self.left.get()).filter(|&left| left != 0).and_then(|_| path())?;
            self.left.set(self.left.get().saturating_sub(1 + path.len() as u64));
            Some(shown(&path))
        };
        self.known.borrow_mut().entry(file).or_insert_with(new).clone()
    }

    /// What was left out, if anything was.
    pub(super) fn note(&self) -> Option<String> {
        let is_over = self.left.get() == 0;
        is_over.then(|| "some paths of source files are left out: they are too long".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_up_to_a_sum() {
        let paths = Paths::of(0);
        let long = "a".repeat(budget::NAME);
        let read = (0..10_000_u64).filter(|&file| paths.get(file, || Some(long.clone())).is_some());
        assert_eq!(read.count() as u64, budget::steps(0).div_ceil(1 + budget::NAME as u64));
        assert!(paths.note().is_some() && Paths::<u64>::of(0).note().is_none());
        // A path that was read before is still returned after the sum is used up.
        assert!(paths.get(0, || None).is_some());
    }
}
