//! Answers SNAPSHOT, DRAIN and STATISTICS.

use super::io_buffer::{Answer, IoBuffer, Refused, refused};
use super::reading::{Pages, Taken};
use super::session::find;
use super::{Host, Service};
use crate::plan::cpu_set::ProcessorSet;
use crate::run::host::Processors;
use crate::run::ring::{Ring, entry_bytes};
use crate::run::statistics::SampleStatistics;
use crate::service::session::{Client, Session};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use shared_types::ErrorCode;
use shared_types::request::counts::{Changes, Snapshot, SnapshotPage};
use shared_types::request::samples::{DRAIN_BYTES_MAX, Drained, Statistics};

/// The index that means no processor.
const NONE: u32 = u32::MAX;

impl<H: Host> Service<H> {
    pub(super) fn snapshot(&mut self, client: Client, io: &mut IoBuffer<'_>) -> Answer {
        let SnapshotPage { session, first, .. } = io.request(0)?;
        let slot = self.slot(client, session)?;
        self.must_have_results(session, slot)?;
        self.counts(client, session, slot, first as usize, io)
    }

    /// As [`Self::named`], if the results of the session's last run are still available.
    pub(super) fn named_with_results(
        &self,
        client: Client,
        io: &IoBuffer<'_>,
    ) -> Result<(u32, usize), Refused> {
        let (number, slot) = self.named(client, io)?;
        self.must_have_results(number, slot)?;
        Ok((number, slot))
    }

    fn must_have_results(&self, number: u32, slot: usize) -> Result<(), Refused> {
        if self.results_of != Some(slot) {
            return Err(refused(ErrorCode::NotRunning, number, 0));
        }
        Ok(())
    }

    /// The page of the counts that begins with processor `first`. The first page takes a reading; later
    /// ones are of the same, whatever has come between.
    pub(super) fn counts(
        &mut self,
        client: Client,
        number: u32,
        slot: usize,
        first: usize,
        io: &mut IoBuffer<'_>,
    ) -> Answer {
        let session = find(&mut self.sessions, client, number)?;
        let settings = session.program.settings;
        // mistake: page-read-again
        let kept = self.reading.taken.filter(|_| first != 0);
        let all = Pages { processors: self.processors.count(), sources: settings.count };
        let pages = kept.map_or(all, |kept| kept.pages);
        let unknown = refused(ErrorCode::ProcessorUnknown, first as u32, pages.processors as u64);
        let page = pages.beginning_with(first).ok_or(unknown)?;
        let head = size_of::<Snapshot>();
        let bytes = pages.bytes(&page);
        let length = head + bytes.len();
        io.need(length)?;
        let taken = match kept {
            Some(kept) => kept,
            None => self.take_reading(pages, &settings.processors, io.tail(head))?,
        };
        if taken.ended && self.runs(slot) {
            self.stop_counters();
            find(&mut self.sessions, client, number)?.refuse_ended()?;
        }
        if pages.are_several() {
            io.put(head, self.reading.bytes(bytes));
        }
        io.finish(length, |header| Snapshot {
            header,
            processors: page.len() as u32,
            sources: pages.sources as u32,
            total: pages.processors as u32,
            reserved: 0,
            time: taken.time,
            changes: taken.changes,
        })
    }

    /// Reads the counts in one pass over all processors, in which each writes its own part: of the reply
    /// or, where that cannot hold all, of the reading that is kept for the later pages.
    fn take_reading(
        &mut self,
        pages: Pages,
        processors: &ProcessorSet,
        reply: &mut [u8],
    ) -> Result<Taken, Refused> {
        let counts = if pages.are_several() {
            self.reading.make_room(pages, H::counts)?
        } else {
            let all = pages.bytes(&(0..pages.processors));
            let counts = reply.get_mut(all).unwrap_or_default();
            counts.fill(0);
            counts
        };
        let (time, ended) = (AtomicU64::new(0), AtomicBool::new(false));
        let (changed_first, changes) = (AtomicU32::new(NONE), AtomicU32::new(0));
        self.processors.run_on_each(processors, counts, |local, out| {
            time.fetch_max(local.snapshot(out), Ordering::Relaxed);
            ended.fetch_or(local.state.ended != 0, Ordering::Relaxed);
            if local.state.changes.number != 0 {
                changed_first.fetch_min(local.index as u32, Ordering::Relaxed);
                changes.fetch_add(local.state.changes.number, Ordering::Relaxed);
            }
        });
        // The first of them is asked again: what it has found takes five fields, which no atomic
        // holds.
        let (processor, number) = (changed_first.into_inner(), changes.into_inner());
        let first = self.processors.run_on(processor as usize, |local| local.state.changes);
        let taken = Taken {
            pages,
            time: time.into_inner(),
            changes: first.map_or(Changes::default(), |first| Changes {
                number,
                processor,
                ..first
            }),
            ended: ended.into_inner(),
        };
        if pages.are_several() {
            self.reading.taken = Some(taken);
        }
        Ok(taken)
    }

    pub(super) fn drain(&mut self, client: Client, io: &mut IoBuffer<'_>) -> Answer {
        let (number, slot) = self.named_with_results(client, io)?;
        find(&mut self.sessions, client, number)?.must_sample(number)?;
        self.end_if_a_ring_has(slot);
        let session = find(&mut self.sessions, client, number)?;
        let (branches, ended) = (session.program.settings.branches, session.ended);
        let head = size_of::<Drained>();
        let entry = entry_bytes(branches);
        io.need(head + entry)?;
        let room = io.output().min(DRAIN_BYTES_MAX) - head;
        let (mut drained, mut left, mut cut_off) = (0, 0, None);
        let (first, count) = (self.drains_from, self.processors.count());
        // Reading goes on where the last reply was cut off: otherwise one busy processor would fill
        // every reply, and the rings of those behind it would overflow.
        for index in (first..count).chain(0..first.min(count)) {
            let Some(ring) = Ring::with_branches(self.processors.ring(index), branches) else {
                continue;
            };
            let out = io.tail(head).get_mut(drained..room).unwrap_or_default();
            drained += ring.drain(out);
            left += ring.len();
            if cut_off.is_none() && room - drained < entry {
                cut_off = Some(index);
            }
        }
        self.drains_from = cut_off.map_or(first, |index| index + 1);
        io.finish(head + drained, |header| Drained {
            header,
            count: (drained / entry) as u32,
            ended: ended.error,
            left,
            branches: branches.into(),
            reserved: 0,
        })
    }

    pub(super) fn statistics(&mut self, client: Client, io: &mut IoBuffer<'_>) -> Answer {
        let (number, slot) = self.named_with_results(client, io)?;
        find(&mut self.sessions, client, number)?.must_sample(number)?;
        self.end_if_a_ring_has(slot);
        let Session { program, ended, .. } = find(&mut self.sessions, client, number)?;
        let mut all = Statistics {
            ended: ended.error,
            ended_processor: ended.processor(),
            ..Statistics::default()
        };
        let settings = &program.settings;
        for index in 0..self.processors.count() {
            if settings.processors.contains(index) {
                let one = self.processors.run_on(index, |local| {
                    let (changes, cleared) = (local.state.changes, local.state.branches.cleared);
                    (*local.state.statistics(), changes, cleared, local.longest_period())
                });
                if let Some((statistics, changes, cleared, period)) = one {
                    add(&mut all, &statistics);
                    all.branches_cleared += cleared;
                    add_changes(&mut all.changes, &changes, index);
                    all.longest_period = all.longest_period.max(period);
                }
            }
        }
        io.reply(|header| {
            all.header = header;
            all
        })
    }
}

/// Adds what was found on one processor.
fn add_changes(all: &mut Changes, one: &Changes, processor: usize) {
    if all.number == 0 && one.number != 0 {
        *all = Changes { processor: processor as u32, ..*one };
    } else {
        all.number = all.number.saturating_add(one.number);
    }
}

fn add(all: &mut Statistics, one: &SampleStatistics) {
    all.generated += one.generated;
    all.stored += one.stored;
    for (sum, lost) in all.lost.iter_mut().zip(one.lost) {
        *sum += lost;
    }
    for (sum, lost) in all.lost_events.iter_mut().zip(one.lost_events) {
        *sum += lost;
    }
    all.spurious += one.spurious;
    all.throttled += one.throttled;
    all.handler_ticks += one.handler_ticks;
}
