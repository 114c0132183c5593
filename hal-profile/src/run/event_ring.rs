//! System events: the machine's one ring of them, and the notes that interrupts leave for it.
//!
//! Requests and ticks add events one at a time under a lock of the host; one consumer removes them
//! without it. An event that finds the ring full is counted as lost. An interrupt, which takes no
//! lock, leaves a [note](DeferredEvents), from which the tick writes the event.
//!
//! Memory: one cache line for the producer's words, one for the consumer's, then the slots, as in
//! [`crate::run::ring`].

use crate::run::ring::Word;
use core::sync::atomic::Ordering;
use shared_types::{EventKind, SystemEvent};
use zerocopy::FromZeros;

const WORDS_AN_EVENT: usize = size_of::<SystemEvent>() / size_of::<u64>();
const PRODUCED: usize = 0;
const LOST: usize = 1;
const CONSUMED: usize = 8;
const SLOTS: usize = 16;
/// Capacity of the ring, in events; a power of two. One tick may note something on each of the most
/// processors.
pub(crate) const CAPACITY: u64 = if cfg!(loom) { 2 } else { 2048 };
/// Words of memory for the ring: a little more than 64 KiB.
pub(crate) const WORDS: usize = SLOTS + CAPACITY as usize * WORDS_AN_EVENT;

/// A view of the ring.
#[derive(Clone, Copy, Debug)]
pub struct EventRing<'a> {
    produced: &'a Word,
    lost: &'a Word,
    consumed: &'a Word,
    slots: &'a [[Word; WORDS_AN_EVENT]],
}

impl<'a> EventRing<'a> {
    /// A ring in memory that was initially zero; `None` if none is attached.
    pub fn new(words: &'a [Word]) -> Option<Self> {
        let (slots, _) = words.get(SLOTS..WORDS)?.as_chunks();
        Some(Self {
            produced: words.get(PRODUCED)?,
            lost: words.get(LOST)?,
            consumed: words.get(CONSUMED)?,
            slots,
        })
    }

    /// Adds an event. One producer at a time; any IRQL.
    pub fn push(&self, event: &SystemEvent) {
        let produced = self.produced.load(Ordering::Relaxed);
        let waiting = produced.wrapping_sub(self.consumed.load(Ordering::Acquire));
        let Some(slot) = self.slot(produced).filter(|_| waiting < CAPACITY) else {
            // The newest event is lost: to overwrite the oldest would need a lock with the
            // consumer.
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let words: [u64; WORDS_AN_EVENT] = zerocopy::transmute!(*event);
        for (place, word) in slot.iter().zip(&words) {
            place.store(*word, Ordering::Relaxed);
        }
        self.produced.store(produced.wrapping_add(1), Ordering::Release);
    }

    /// Moves as many events as fit into `out`, oldest first, and returns the bytes written.
    /// Consumer only.
    #[must_use]
    pub(crate) fn drain(&self, out: &mut [u8]) -> usize {
        let consumed = self.consumed.load(Ordering::Relaxed);
        let waiting = self.produced.load(Ordering::Acquire).wrapping_sub(consumed);
        let mut drained = 0;
        let (places, _) = out.as_chunks_mut::<{ size_of::<SystemEvent>() }>();
        for place in places.iter_mut().take(waiting as usize) {
            let Some(slot) = self.slot(consumed.wrapping_add(drained)) else {
                break;
            };
            let (words, _) = place.as_chunks_mut::<{ size_of::<u64>() }>();
            for (bytes, word) in words.iter_mut().zip(slot) {
                *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
            }
            drained += 1;
        }
        self.consumed.store(consumed.wrapping_add(drained), Ordering::Release);
        drained as usize * size_of::<SystemEvent>()
    }

    /// How many events are waiting. Consumer only.
    pub(crate) fn len(&self) -> u64 {
        let consumed = self.consumed.load(Ordering::Relaxed);
        self.produced.load(Ordering::Acquire).wrapping_sub(consumed)
    }

    /// How many events have found the ring full since the previous call. Consumer only.
    pub(crate) fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }

    fn slot(&self, count: u64) -> Option<&'a [Word; WORDS_AN_EVENT]> {
        self.slots.get((count % CAPACITY) as usize)
    }
}

/// An event with no further data.
pub(crate) fn event(kind: EventKind, timestamp: u64) -> SystemEvent {
    SystemEvent { timestamp, kind: kind as u32, ..SystemEvent::new_zeroed() }
}

/// What interrupts on one processor have noted since events were last written for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
pub struct DeferredEvents {
    /// The throttle has lengthened the periods.
    pub(crate) throttled: Note,
    /// The sample ring had no room for a sample.
    pub(crate) lost: Note,
    /// A storm has ended the session.
    pub(crate) storm: Note,
}

/// When something first happened, and how often it has happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
pub(crate) struct Note {
    since: u64,
    times: u64,
}

impl Note {
    #[cold]
    pub(crate) fn add(&mut self, now: u64) {
        if self.times == 0 {
            self.since = now;
        }
        self.times = self.times.wrapping_add(1);
    }
}

impl DeferredEvents {
    /// Whether there is nothing to write.
    pub const fn is_empty(&self) -> bool {
        self.throttled.times == 0 && self.lost.times == 0 && self.storm.times == 0
    }

    /// The events to write, for the processor on which the notes were left.
    pub fn events(&self, processor: usize) -> impl Iterator<Item = SystemEvent> {
        let rows = [
            (EventKind::Throttled, self.throttled),
            (EventKind::SamplesLost, self.lost),
            (EventKind::Storm, self.storm),
        ];
        let left = rows.into_iter().filter(|(_, note)| note.times != 0);
        left.map(move |(kind, note)| SystemEvent {
            subject: processor as u32,
            amount: if kind as u32 == EventKind::Storm as u32 { 0 } else { note.times },
            ..event(kind, note.since)
        })
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use std::vec::Vec;
    use zerocopy::FromBytes;

    fn numbered(n: u64) -> SystemEvent {
        SystemEvent { amount: !n, ..event(EventKind::Throttled, n) }
    }

    fn take(ring: &EventRing<'_>, seen: &mut Vec<u64>) {
        let mut bytes = [0; 2 * size_of::<SystemEvent>()];
        let length = ring.drain(&mut bytes);
        for bytes in bytes[..length].chunks_exact(size_of::<SystemEvent>()) {
            let got = SystemEvent::read_from_bytes(bytes).unwrap();
            assert_eq!(got, numbered(got.timestamp));
            seen.push(got.timestamp);
        }
    }

    /// Every interleaving of a producer of three events and a consumer, on a ring of two. loom
    /// executes in program order, so that the consumer's release of its count has no witness here.
    #[test]
    fn no_event_is_torn_lost_without_a_count_or_seen_twice() {
        loom::model(|| {
            let words: Arc<Vec<Word>> = Arc::new((0..WORDS).map(|_| Word::new(0)).collect());
            // The consumer is the second thread: see the ring of samples.
            let consumer = {
                let words = Arc::clone(&words);
                loom::thread::spawn(move || {
                    let mut seen = Vec::new();
                    take(&EventRing::new(&words).unwrap(), &mut seen);
                    seen
                })
            };
            let ring = EventRing::new(&words).unwrap();
            (1..=3).for_each(|n| ring.push(&numbered(n)));
            let mut seen = consumer.join().unwrap();
            take(&ring, &mut seen);
            assert!(seen.is_sorted_by(|one, next| one < next), "{seen:?}");
            assert_eq!(seen.len() as u64 + ring.take_lost(), 3, "{seen:?}");
        });
    }
}
