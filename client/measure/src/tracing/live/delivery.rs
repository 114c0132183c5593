//! The events of a session while it runs, in the order of time, for whoever adds them up.
//!
//! ```text
//! Windows' thread: record -> Inbox (bounded) | the caller's thread: flush, sort, decode -> Event
//! ```
//!
//! Windows delivers the buffers of each processor in order, but those of one later than those of
//! another. A flush has the buffers of all processors delivered; what was written before it is complete
//! then, and what is newer waits for the next flush.

use crate::error::Result;
use crate::live_tracing::{Consumer, Record, locked};
use crate::tracing::session::{DeliverEvents, SampledSource, Started, TraceRequest, TraceState};
use halprof_etw::header::{Counters, Items};
use halprof_etw::payload::{EventKind, decode};
use halprof_etw::{Cause, Clock, Damage, Event, EventId, PointerSize};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The most bytes that wait to be read, behind the last flush or since it: at 3 MB a second, which 8 processors with 5,000 switches a second
/// each write, those of 20 seconds. What comes beyond is dropped and counted, because Windows must not
/// wait.
const WAITING_BYTES: usize = 64 << 20;
/// What an event takes besides its payload and its values.
const ENTRY_BYTES: usize = size_of::<Entry>();

/// How long a flush may take to be delivered: with a flush each 100 ms, others measured 77 ms from an
/// event to its callback and at most 101 ms (Karib0u/rustinel, change 314).
const PATIENCE: Duration = Duration::from_millis(100);
/// Without a new event for so long, nothing more comes: an idle processor has no buffer to deliver.
const QUIET: Duration = Duration::from_millis(10);
const LOOK: Duration = Duration::from_millis(1);

/// How old events are that can be read before a flush, in nanoseconds: the flush timer delivers each
/// buffer within a second.
const SETTLED_NS: u64 = 3_000_000_000;

/// How long the last buffers may take to be delivered after a session has been ended.
const END_PATIENCE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug)]
struct Entry {
    time: i64,
    processor: u16,
    id: EventId,
    /// Where its payload begins in the bytes, and its values, and where these end.
    payload: usize,
    values: usize,
    end: usize,
    is_after_gap: bool,
}

/// Events, with their bytes one after the other.
#[derive(Debug, Default)]
struct Batch {
    entries: Vec<Entry>,
    bytes: Vec<u8>,
}

impl Batch {
    fn length(&self) -> usize {
        self.bytes.len() + self.entries.len() * ENTRY_BYTES
    }

    fn push(&mut self, entry: Entry, (payload, values): (&[u8], &[u8])) {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(payload);
        let values_at = self.bytes.len();
        self.bytes.extend_from_slice(values);
        let end = self.bytes.len();
        self.entries.push(Entry { payload: at, values: values_at, end, ..entry });
    }

    fn parts(&self, entry: &Entry) -> (&[u8], &[u8]) {
        (&self.bytes[entry.payload..entry.values], &self.bytes[entry.values..entry.end])
    }
}

/// What has been delivered and not read yet.
#[derive(Debug, Default)]
struct Inbox(Mutex<Delivered>);

#[derive(Debug, Default)]
struct Delivered {
    batch: Batch,
    /// The bytes that the reader keeps for the next flush.
    kept: usize,
    newest: Option<i64>,
    /// The events of each processor that were dropped since its last one.
    gaps: HashSet<u16>,
    dropped: u64,
    /// Nobody reads any more.
    is_closed: bool,
    has_ended: bool,
}

impl Consumer for Inbox {
    fn record(&self, record: &Record<'_>) {
        let mut delivered = locked(&self.0);
        let Delivered { batch, kept, newest, gaps, dropped, is_closed, .. } = &mut *delivered;
        let length = record.payload.len() + record.values.len() + ENTRY_BYTES;
        if *is_closed || *kept + batch.length() + length > WAITING_BYTES {
            gaps.insert(record.processor);
            *dropped += 1;
            return;
        }
        *newest = (*newest).max(Some(record.time));
        let is_after_gap = gaps.remove(&record.processor);
        let Record { time, processor, id, .. } = *record;
        let entry = Entry { time, processor, id, payload: 0, values: 0, end: 0, is_after_gap };
        batch.push(entry, (record.payload, record.values));
    }

    fn goes_on(&self) -> bool {
        !locked(&self.0).is_closed
    }

    fn ended(&self) {
        locked(&self.0).has_ended = true;
    }
}

/// What a session lost, and what of it could not be read.
#[derive(Clone, Debug, Default)]
pub struct Missing {
    /// Events and buffers that Windows lost.
    pub lost: u64,
    /// Events that were dropped because they came faster than they were read, and context switches that
    /// came after later ones had been read.
    pub dropped: u64,
    /// What could not be read.
    pub damage: Damage,
}

/// A session whose events are read while it runs.
#[derive(Debug)]
pub struct Delivery {
    inbox: Arc<Inbox>,
    clock: Clock,
    /// Events that are newer than the last flush.
    waiting: Batch,
    /// Until when events have been read.
    read_until: i64,
    /// The context switches that came too late, and the processors that lack one since their last event.
    late: u64,
    gaps: HashSet<u16>,
    /// The processors that have had events.
    processors: HashSet<u16>,
    missing: Missing,
    /// Events that say that the session lost something.
    notices: u64,
}

impl Delivery {
    /// Starts a session.
    pub fn start(
        tracing: &mut dyn DeliverEvents,
        request: &TraceRequest,
    ) -> Result<(Self, Vec<SampledSource>)> {
        let inbox = Arc::<Inbox>::default();
        let Started { sampled, clock } =
            tracing.start_delivery(request, Arc::clone(&inbox) as Arc<dyn Consumer>)?;
        let delivery = Self {
            inbox,
            clock,
            waiting: Batch::default(),
            read_until: i64::MIN,
            late: 0,
            gaps: HashSet::new(),
            processors: HashSet::new(),
            missing: Missing::default(),
            notices: 0,
        };
        Ok((delivery, sampled))
    }

    /// The clock of the events.
    pub const fn clock(&self) -> Clock {
        self.clock
    }

    /// What is missing so far.
    pub fn missing(&self) -> Missing {
        let Missing { lost, dropped, damage } = &self.missing;
        let dropped = dropped.saturating_add(self.late);
        Missing { lost: (*lost).max(self.notices), dropped, damage: damage.clone() }
    }

    /// Reads all that was written before now.
    pub fn flush(
        &mut self,
        tracing: &mut dyn DeliverEvents,
        visit: &mut dyn FnMut(&Event<'_>),
    ) -> Result<()> {
        let flushed = tracing.flush_delivery()?;
        self.missing.lost = flushed.lost;
        if !flushed.is_delivered {
            self.wait_until(flushed.time);
        }
        self.read(flushed.time, visit);
        Ok(())
    }

    /// Reads what is old enough to be complete without a flush, so that it does not wait.
    pub fn read_settled(&mut self, visit: &mut dyn FnMut(&Event<'_>)) {
        let newest = locked(&self.inbox.0).newest;
        if let Some(newest) = newest {
            let settled = self.clock.ticks(SETTLED_NS);
            self.read(newest.saturating_sub_unsigned(settled), visit);
        }
    }

    /// Ends the session, and reads all that is left of it.
    pub fn stop(
        &mut self,
        tracing: &mut dyn DeliverEvents,
        visit: &mut dyn FnMut(&Event<'_>),
    ) -> Result<TraceState> {
        let state = tracing.stop_delivery()?;
        let deadline = Instant::now() + END_PATIENCE;
        while !locked(&self.inbox.0).has_ended && Instant::now() < deadline {
            sleep(LOOK);
        }
        self.missing.lost = self.missing.lost.max(state.events_lost + state.buffers_lost);
        self.read(i64::MAX, visit);
        Ok(state)
    }

    /// Waits until an event has come that is newer than the flush, or none comes any more.
    fn wait_until(&self, time: i64) {
        let begun = Instant::now();
        let (mut known, mut since) = (0, begun);
        loop {
            let (newest, count) = {
                let delivered = locked(&self.inbox.0);
                (delivered.newest, delivered.batch.entries.len())
            };
            let now = Instant::now();
            if count != known {
                (known, since) = (count, now);
            }
            let is_over = newest.is_some_and(|newest| newest > time)
                || now.duration_since(since) >= QUIET && known != 0
                || now.duration_since(begun) >= PATIENCE;
            if is_over {
                return;
            }
            sleep(LOOK);
        }
    }

    /// Reads the events up to a time, in their order; those of one time in the order of delivery.
    fn read(&mut self, until: i64, visit: &mut dyn FnMut(&Event<'_>)) {
        let mut all = std::mem::take(&mut self.waiting);
        {
            let mut delivered = locked(&self.inbox.0);
            self.missing.dropped = delivered.dropped;
            let new = std::mem::take(&mut delivered.batch);
            delivered.kept = 0;
            drop(delivered);
            if all.entries.is_empty() {
                all = new;
            } else {
                for entry in &new.entries {
                    all.push(*entry, new.parts(entry));
                }
            }
        }
        all.entries.sort_by_key(|entry| entry.time);
        let end = all.entries.partition_point(|entry| entry.time <= until);
        for entry in &all.entries[..end] {
            let event = self.event(entry, all.parts(entry));
            // What it would have told apart has been counted together. Samples and names are of use all
            // the same.
            if entry.time <= self.read_until && matches!(event.kind, EventKind::Switch(_)) {
                self.late += 1;
                self.gaps.insert(entry.processor);
                continue;
            }
            let is_after_gap = self.gaps.remove(&entry.processor) || event.is_after_gap;
            match event.kind {
                // Such an event does not name the processor.
                EventKind::Lost => self.gaps.extend(&self.processors),
                // It may have been any.
                EventKind::Damaged => _ = self.gaps.insert(entry.processor),
                _ => _ = self.processors.insert(entry.processor),
            }
            visit(&Event { is_after_gap, ..event });
        }
        self.read_until = self.read_until.max(until);
        for entry in &all.entries[end..] {
            self.waiting.push(*entry, all.parts(entry));
        }
        locked(&self.inbox.0).kept = self.waiting.length();
    }

    fn event<'a>(&mut self, entry: &Entry, (payload, values): (&'a [u8], &'a [u8])) -> Event<'a> {
        // The kernel's events have the pointers of the kernel, which is one of 64 bits.
        let kind = decode(entry.id, PointerSize::Eight, payload);
        let kind = kind.unwrap_or_else(|| {
            self.missing.damage.found(Cause::Payload);
            EventKind::Damaged
        });
        self.notices += u64::from(kind == EventKind::Lost);
        Event {
            time: entry.time,
            ns: self.clock.ns(entry.time),
            processor: entry.processor,
            writer: None,
            is_after_gap: entry.is_after_gap,
            id: entry.id,
            counters: Counters::of_values(values),
            items: Items::default(),
            kind,
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        locked(&self.inbox.0).is_closed = true;
    }
}

#[cfg(test)]
mod tests;
