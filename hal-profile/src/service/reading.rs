//! One reading of all counts, kept while its client fetches it in several replies.

use super::io_buffer::{Refused, refused};
use core::ops::{DerefMut, Range};
use shared_types::ErrorCode;
use shared_types::request::counts::{Changes, Count, SNAPSHOT_BYTES_MAX, Snapshot};
use zerocopy::IntoBytes as _;

/// How the counts of a reading are divided into replies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pages {
    pub(super) processors: usize,
    pub(super) sources: usize,
}

impl Pages {
    /// Bytes of one processor's counts.
    const fn row(self) -> usize {
        self.sources * size_of::<Count>()
    }

    /// The most processors in one reply.
    fn most(self) -> usize {
        (SNAPSHOT_BYTES_MAX - size_of::<Snapshot>()) / self.row().max(1)
    }

    /// Whether one reply cannot hold all counts.
    pub(super) fn are_several(self) -> bool {
        self.processors > self.most()
    }

    /// The processors of the page that begins with processor `first`, if one does.
    pub(super) fn beginning_with(self, first: usize) -> Option<Range<usize>> {
        let begins = first == 0 || first < self.processors && first.is_multiple_of(self.most());
        begins.then(|| first..self.processors.min(first + self.most()))
    }

    /// Where the counts of these processors are among those of all.
    pub(super) const fn bytes(self, processors: &Range<usize>) -> Range<usize> {
        processors.start * self.row()..processors.end * self.row()
    }
}

/// The last reading, if it needs several replies.
pub(super) struct Reading<C> {
    counts: Option<C>,
    /// Of what is in `counts`; `None` before the first reading.
    pub(super) taken: Option<Taken>,
}

/// What a reading was of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) pages: Pages,
    /// In ticks of the time-stamp counter.
    pub(super) time: u64,
    /// What others had changed by then.
    pub(super) changes: Changes,
    /// A processor had ended its part of the run by then.
    pub(super) ended: bool,
}

impl<C: DerefMut<Target = [Count]>> Reading<C> {
    /// Room for none.
    pub(super) const NONE: Self = Self { counts: None, taken: None };

    /// Room for a reading, if it needs several replies, in memory that `zeroed` gives. START takes
    /// it, so that a poll neither takes memory nor fails without it.
    pub(super) fn room(
        pages: Pages,
        zeroed: impl FnOnce(usize) -> Option<C>,
    ) -> Result<Self, Refused> {
        let mut reading = Self::NONE;
        if pages.are_several() {
            reading.make_room(pages, zeroed)?;
        }
        Ok(reading)
    }

    /// Room for the counts of a new reading. It is zeroed, or has the counts of an earlier reading
    /// of the same session: a reading writes those of every processor that the session uses, the
    /// others stay 0. Takes memory only if a processor was added since the last reading.
    pub(super) fn make_room(
        &mut self,
        pages: Pages,
        zeroed: impl FnOnce(usize) -> Option<C>,
    ) -> Result<&mut [u8], Refused> {
        let count = pages.processors * pages.sources;
        self.taken = None;
        if self.counts.as_ref().is_none_or(|counts| counts.len() != count) {
            // The old memory first, so that there are never two.
            self.counts = None;
            self.counts = zeroed(count);
        }
        let bytes = (count * size_of::<Count>()) as u64;
        let counts = self.counts.as_deref_mut();
        counts.map(|counts| counts.as_mut_bytes()).ok_or(refused(ErrorCode::NoMemory, 0, bytes))
    }

    /// Some of the bytes of all counts.
    pub(super) fn bytes(&self, range: Range<usize>) -> &[u8] {
        let counts = self.counts.as_deref().unwrap_or_default();
        counts.as_bytes().get(range).unwrap_or_default()
    }
}
