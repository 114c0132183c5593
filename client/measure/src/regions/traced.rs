//! What a thread counts by its context switches, without the driver.

use super::counters::{Counters, Discard, Reading};
use crate::error::Result;
use crate::tracing::live::{LiveSession, Void};
use std::sync::Arc;

/// How often empty regions are measured: each takes two waits, of a millisecond at least.
const CALIBRATIONS: usize = 16;

/// A thread of a real-time session.
pub(super) struct Traced {
    session: Arc<LiveSession>,
    thread: u32,
}

impl Traced {
    /// Watches the calling thread.
    pub(super) fn new(session: &Arc<LiveSession>) -> Self {
        let thread = session.scheduler().thread();
        session.watch(thread);
        Self { session: Arc::clone(session), thread }
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        self.session.unwatch(self.thread);
    }
}

impl Counters for Traced {
    fn begin(&mut self) -> Result<Reading> {
        self.session.wake()?;
        let (wait, lost) = self.session.begin(self.thread);
        Ok(Reading {
            ticks: wait.until.cast_unsigned(),
            waits: [wait; 2],
            lost,
            slept_ms: self.session.scheduler().slept_ms(),
            ..Reading::default()
        })
    }

    fn end(&mut self) -> Result<Reading> {
        let wait = self.session.end(self.thread);
        Ok(Reading {
            ticks: wait.from.cast_unsigned(),
            waits: [wait; 2],
            slept_ms: self.session.scheduler().slept_ms(),
            ..Reading::default()
        })
    }

    /// Waits twice: what is done for the delivery in between belongs to neither stretch.
    fn now(&mut self) -> Result<Reading> {
        let Reading { waits: [end, _], .. } = self.end()?;
        self.settle()?;
        let begin = self.begin()?;
        Ok(Reading { waits: [end, begin.waits[1]], ..begin })
    }

    fn settle(&mut self) -> Result<()> {
        self.session.settle()
    }

    fn is_delivered_later(&self) -> bool {
        true
    }

    fn calibrations(&self) -> usize {
        CALIBRATIONS
    }

    fn between(&self, begin: &Reading, end: &Reading) -> std::result::Result<Reading, Discard> {
        // Asked even of a passage that turns out to be void, because this also closes what `begin`
        // opened.
        let counts = self.session.between(self.thread, (begin.waits[1], begin.lost), end.waits[0]);
        begin.awake_until(end)?;
        let counts = counts.map_err(|void| match void {
            Void::Lost => Discard::Lost,
            Void::Unseen => Discard::Unseen,
            Void::Uncounted => Discard::Uncounted,
        })?;
        let mut between = Reading { ticks: end.ticks.wrapping_sub(begin.ticks), ..*end };
        between.values.iter_mut().zip(counts).for_each(|(value, count)| *value = count);
        Ok(between)
    }
}
