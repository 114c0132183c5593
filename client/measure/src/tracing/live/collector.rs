//! The slices of the threads that measure, from the context switches of all processors.

use crate::live_tracing::Record;
use halprof_etw::join::slices::{Slice, Slices};
use halprof_etw::join::threads::{InstanceNumber, Threads};
use halprof_etw::payload::processor::Switch;
use halprof_etw::payload::{EventKind, decode};
use halprof_etw::{Clock, PointerSize};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most slices of a thread that are kept. A thread that is switched a thousand times a second
/// makes as many in a quarter of an hour.
const SLICES_MAX: usize = 1 << 20;

/// The most losses whose times are kept apart.
const GAPS_MAX: usize = 1024;

/// A wait that a thread made so that it is switched off its processor and on again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wait {
    /// Before the wait, in ticks.
    pub from: i64,
    /// After it.
    pub until: i64,
}

/// Why the counts between two waits are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Void {
    /// Events of the session were lost.
    Lost,
    /// The switches of a wait were not seen.
    Unseen,
    /// A switch had no values, or values that cannot be.
    Uncounted,
}

/// What arrives, and what of it belongs to threads that measure.
#[derive(Debug)]
pub(super) struct Collector(Mutex<State>);

struct State {
    clock: Clock,
    threads: Threads,
    slices: Slices,
    watched: HashMap<u32, Watched>,
    /// The time of each processor's last switch.
    last: HashMap<u16, i64>,
    /// Times in which switches are missing.
    gaps: Vec<Wait>,
    /// The latest event.
    newest: i64,
    /// What this session and earlier ones have lost, as of the last flush.
    lost: u64,
    lost_before: u64,
    /// When a thread last needed the session.
    used: i64,
}

/// A thread that measures.
#[derive(Debug, Default)]
struct Watched {
    users: usize,
    /// When the last of them began to use it.
    since: i64,
    /// How much of what it measures has begun and not ended.
    inside: usize,
    /// The beginnings of what is to be told: how many begin at each time.
    open: BTreeMap<i64, usize>,
    /// In the order of time.
    slices: Vec<Slice>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("watched", &self.watched).finish_non_exhaustive()
    }
}

impl Collector {
    pub(super) fn new(clock: Clock) -> Self {
        Self(Mutex::new(State {
            clock,
            threads: Threads::default(),
            slices: Slices::new(clock),
            watched: HashMap::new(),
            last: HashMap::new(),
            gaps: Vec::new(),
            newest: i64::MIN,
            lost: 0,
            lost_before: 0,
            used: clock.origin(),
        }))
    }

    /// Nothing here is left half done by a panic.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another session begins. A passage that spans both sessions has a gap between them; the counts of a
    /// passage that ended before are known, even if nobody has asked for them.
    pub(super) fn begin_session(&self, now: i64) {
        let mut state = self.state();
        state.slices.finish();
        state.take_slices();
        state.slices = Slices::new(state.clock);
        state.last.clear();
        let gap = Wait { from: state.newest, until: now };
        state.add_gap(gap);
        (state.lost_before, state.used) = (state.lost, now);
    }

    /// Keeps the slices of a thread, from now on or longer.
    pub(super) fn watch(&self, thread: u32, now: i64) {
        let mut state = self.state();
        let watched = state.watched.entry(thread).or_default();
        watched.users += 1;
        watched.since = now;
    }

    pub(super) fn unwatch(&self, thread: u32) {
        let mut state = self.state();
        if let Some(watched) = state.watched.get_mut(&thread) {
            watched.users = watched.users.saturating_sub(1);
            if watched.users == 0 {
                state.watched.remove(&thread);
            }
        }
    }

    /// A thread begins to measure something; it does so before the wait, so that no switch is missed.
    /// Returns what the session is known to have lost.
    pub(super) fn open(&self, thread: u32, from: i64) -> u64 {
        let mut state = self.state();
        let watched = state.watched.entry(thread).or_default();
        watched.inside += 1;
        *watched.open.entry(from).or_default() += 1;
        state.lost
    }

    /// A passage of the thread has ended. Its counts are still to be told.
    pub(super) fn leave(&self, thread: u32, now: i64) {
        let mut state = self.state();
        state.used = state.used.max(now);
        if let Some(watched) = state.watched.get_mut(&thread) {
            watched.inside = watched.inside.saturating_sub(1);
        }
    }

    /// What began at that time has been told.
    pub(super) fn close(&self, thread: u32, from: i64) {
        let mut state = self.state();
        let Some(watched) = state.watched.get_mut(&thread) else { return };
        if let Some(count) = watched.open.get_mut(&from) {
            *count -= 1;
            if *count == 0 {
                watched.open.remove(&from);
                watched.forget();
                state.forget_gaps();
            }
        }
    }

    /// Whether nothing is measured, and was not for so many ticks.
    pub(super) fn is_idle(&self, now: i64, ticks: i64) -> bool {
        let state = self.state();
        let is_used = state.watched.values().any(|watched| watched.inside > 0);
        !is_used && now.saturating_sub(state.used) >= ticks
    }

    pub(super) fn newest(&self) -> i64 {
        self.state().newest
    }

    pub(super) fn set_lost(&self, lost: u64) {
        let mut state = self.state();
        state.lost = state.lost_before.saturating_add(lost);
    }

    pub(super) fn record(&self, record: &Record<'_>) {
        let kind = decode(record.id, PointerSize::Eight, record.payload);
        let mut state = self.state();
        state.newest = state.newest.max(record.time);
        match kind {
            Some(EventKind::Switch(switch)) => state.switch(record, &switch),
            // Such an event does not name the processor, and a damaged event may have been any.
            Some(EventKind::Lost) | None => state.lose_all(record.time),
            Some(_) => {}
        }
    }

    /// What a thread counted from the end of one wait to the beginning of another, for which all
    /// events have arrived.
    pub(super) fn between(
        &self,
        thread: u32,
        (begin, lost): (Wait, u64),
        end: Wait,
    ) -> Result<Vec<u64>, Void> {
        self.state().between(thread, (begin, lost), end)
    }
}

impl State {
    fn switch(&mut self, record: &Record<'_>, switch: &Switch) {
        let Record { time, processor, .. } = *record;
        let (old, new) = (switch.old_thread, switch.new_thread);
        let (values, _) = record.values.as_chunks();
        let values = values.iter().map(|&value| u64::from_le_bytes(value));
        let is_end = self.slices.switch(&mut self.threads, processor, time, (old, new), values);
        let before = self.last.insert(processor, time);
        if let Some(from) = before.filter(|_| !is_end) {
            self.add_gap(Wait { from, until: time });
        }
        self.take_slices();
        if switch.ends_thread() {
            self.end_thread(old, time);
        }
    }

    /// Forgets a thread that has ended. The event arrives late, so another thread with the same identifier
    /// may measure already.
    fn end_thread(&mut self, thread: u32, time: i64) {
        let Some(watched) = self.watched.get_mut(&thread) else { return };
        if watched.since < time {
            self.watched.remove(&thread);
            return;
        }
        watched.open.retain(|&from, _| from > time);
        watched.inside = watched.inside.min(watched.open.values().sum());
    }

    fn lose_all(&mut self, time: i64) {
        let from = self.last.values().copied().min().unwrap_or(i64::MIN);
        self.add_gap(Wait { from, until: time });
        for &processor in self.last.keys() {
            self.slices.lose(processor);
        }
        self.last.clear();
        self.take_slices();
    }

    fn add_gap(&mut self, gap: Wait) {
        let is_full = self.gaps.len() == GAPS_MAX;
        match self.gaps.last_mut().filter(|_| is_full) {
            // Further losses are merged into the last one.
            Some(last) => {
                last.from = last.from.min(gap.from);
                last.until = last.until.max(gap.until);
            }
            None => self.gaps.push(gap),
        }
    }

    fn take_slices(&mut self) {
        while let Some(slice) = self.slices.next_slice() {
            let InstanceNumber(number) = slice.instance;
            let thread = self.threads.instances()[number].thread;
            if let Some(watched) = self.watched.get_mut(&thread) {
                watched.add(slice);
            }
        }
    }

    fn between(
        &self,
        thread: u32,
        (begin, lost): (Wait, u64),
        end: Wait,
    ) -> Result<Vec<u64>, Void> {
        if self.lost != lost {
            return Err(Void::Lost);
        }
        let watched = self.watched.get(&thread).ok_or(Void::Unseen)?;
        let is_own = |slice: &&Slice| {
            let InstanceNumber(number) = slice.instance;
            self.threads.instances()[number].thread == thread
        };
        // A program may have many passages and slices around this one.
        let first = watched.slices.partition_point(|slice| slice.begin < begin.from);
        let last = watched.slices.partition_point(|slice| slice.begin <= end.until);
        let kept = watched.slices.get(first..last).unwrap_or_default();
        // The last slice of each processor waits for the next one, which would confirm it: an idle
        // processor has no next one for long.
        let own = || kept.iter().chain(self.slices.held().filter(is_own));
        let on = own().map(|slice| slice.begin).filter(|&on| on <= begin.until).max();
        let off = own().map(|slice| slice.end).filter(|&off| off >= end.from).min();
        let is_lost =
            |from, until| self.gaps.iter().any(|gap| gap.from < until && gap.until > from);
        let unseen = || if is_lost(begin.from, end.until) { Void::Lost } else { Void::Unseen };
        let on = on.filter(|&on| on >= begin.from).ok_or_else(unseen)?;
        let off = off.filter(|&off| off <= end.until).ok_or_else(unseen)?;
        if is_lost(on, off) {
            return Err(Void::Lost);
        }
        let mut sums: Vec<u64> = Vec::new();
        for slice in own().filter(|slice| slice.begin >= on && slice.end <= off) {
            let counts = slice.counts.as_ref().ok_or(Void::Uncounted)?;
            sums.resize(counts.len(), 0);
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum = sum.wrapping_add(*count);
            }
        }
        Ok(sums)
    }

    /// Forgets gaps before all that is measured.
    fn forget_gaps(&mut self) {
        let open = self.watched.values().filter_map(|watched| watched.open.keys().next());
        let first = open.copied().min().unwrap_or(i64::MAX);
        self.gaps.retain(|gap| gap.until > first);
    }
}

impl Watched {
    fn add(&mut self, slice: Slice) {
        if self.open.keys().next().is_none_or(|&first| slice.end < first) {
            return;
        }
        if self.slices.len() == SLICES_MAX {
            // What began before them is then unseen.
            self.slices.drain(..SLICES_MAX / 2);
        }
        // A slice waits for the next switch of its processor, so later ones of other processors may have
        // come before it, but few.
        let before = self.slices.iter().rposition(|known| known.begin <= slice.begin);
        self.slices.insert(before.map_or(0, |before| before + 1), slice);
    }

    fn forget(&mut self) {
        let first = self.open.keys().next().copied().unwrap_or(i64::MAX);
        let over = self.slices.partition_point(|slice| slice.end < first);
        self.slices.drain(..over);
    }
}
