//! A ring of samples over lent memory: one producer in the interrupt, one consumer, no lock.
//!
//! The memory is a slice of 64-bit atomics: the producer's count and whether it has ended, the
//! consumer's count, then the slots. Both counts only grow; a slot is `count` modulo the capacity.
//! The producer publishes a filled slot by a release store of its count, the consumer frees slots by
//! a release store of its own, and each reads the other's with acquire.

use shared_types::Sample;

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU64, Ordering};

/// What ring memory is made of.
pub type Word = AtomicU64;

const WORDS_A_SAMPLE: usize = size_of::<Sample>() / size_of::<u64>();
/// The two counts stand in cache lines of their own; the producer's has its end beside it.
const PRODUCED: usize = 0;
const ENDED: usize = 1;
const CONSUMED: usize = 8;
const SLOTS: usize = 16;

/// A view of one processor's ring.
#[derive(Clone, Copy, Debug)]
pub struct Ring<'a> {
    produced: &'a Word,
    ended: &'a Word,
    consumed: &'a Word,
    slots: &'a [[Word; WORDS_A_SAMPLE]],
    /// Capacity less 1; the capacity is a power of two.
    mask: u64,
}

/// Words of memory for a ring of at least `samples`.
#[must_use]
pub const fn words_for(samples: u32) -> usize {
    SLOTS + samples.next_power_of_two() as usize * WORDS_A_SAMPLE
}

impl<'a> Ring<'a> {
    /// A ring over lent memory that began as zeros; `None` where it cannot hold one sample.
    #[inline]
    #[must_use]
    pub fn new(words: &'a [Word]) -> Option<Self> {
        let (slots, _) = words.get(SLOTS..)?.as_chunks();
        let capacity = 1u64.checked_shl(slots.len().checked_ilog2()?)?;
        Some(Self {
            produced: words.get(PRODUCED)?,
            ended: words.get(ENDED)?,
            consumed: words.get(CONSUMED)?,
            slots,
            mask: capacity - 1,
        })
    }

    /// Nothing more will come: the producer has ended its session. Producer only.
    pub fn end(&self) {
        self.ended.store(1, Ordering::Release);
    }

    /// Whether the producer has ended its session.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire) != 0
    }

    /// How many samples it can hold.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.mask + 1
    }

    /// How many samples are waiting.
    #[must_use]
    pub fn len(&self) -> u64 {
        let consumed = self.consumed.load(Ordering::Acquire);
        self.produced.load(Ordering::Acquire).wrapping_sub(consumed)
    }

    /// Whether no sample is waiting.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts a sample in; `false` where the ring is full. Producer only, at PROFILE_LEVEL.
    #[inline]
    #[must_use]
    pub fn push(&self, sample: &Sample) -> bool {
        let produced = self.produced.load(Ordering::Relaxed);
        if produced.wrapping_sub(self.consumed.load(Ordering::Acquire)) > self.mask {
            return false;
        }
        let words: [u64; WORDS_A_SAMPLE] = zerocopy::transmute!(*sample);
        let Some(slot) = self.slot(produced) else {
            return false;
        };
        // One by one: a loop keeps the sample in memory, and takes four times the instructions.
        slot[0].store(words[0], Ordering::Relaxed);
        slot[1].store(words[1], Ordering::Relaxed);
        slot[2].store(words[2], Ordering::Relaxed);
        slot[3].store(words[3], Ordering::Relaxed);
        slot[4].store(words[4], Ordering::Relaxed);
        self.produced
            .store(produced.wrapping_add(1), Ordering::Release);
        true
    }

    /// Takes as many samples as fit into `out`, oldest first, and answers how many bytes they take.
    /// Consumer only.
    #[must_use]
    pub fn drain(&self, out: &mut [u8]) -> usize {
        let consumed = self.consumed.load(Ordering::Relaxed);
        let waiting = self.produced.load(Ordering::Acquire).wrapping_sub(consumed);
        let mut taken = 0;
        let (places, _) = out.as_chunks_mut::<{ size_of::<Sample>() }>();
        for place in places.iter_mut().take(waiting as usize) {
            let Some(slot) = self.slot(consumed.wrapping_add(taken)) else {
                break;
            };
            let words = [
                slot[0].load(Ordering::Relaxed),
                slot[1].load(Ordering::Relaxed),
                slot[2].load(Ordering::Relaxed),
                slot[3].load(Ordering::Relaxed),
                slot[4].load(Ordering::Relaxed),
            ];
            *place = zerocopy::transmute!(words);
            taken += 1;
        }
        self.consumed
            .store(consumed.wrapping_add(taken), Ordering::Release);
        taken as usize * size_of::<Sample>()
    }

    #[inline]
    fn slot(&self, count: u64) -> Option<&'a [Word; WORDS_A_SAMPLE]> {
        self.slots.get((count & self.mask) as usize)
    }
}

const _: () = assert!(size_of::<Sample>() == 5 * size_of::<u64>());

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use std::vec::Vec;
    use zerocopy::FromBytes;

    fn sample(n: u64) -> Sample {
        Sample {
            timestamp: n,
            ip: !n,
            period: n * 3,
            ..Sample::default()
        }
    }

    /// Every interleaving of a producer of three samples and a consumer of a two-slot ring.
    #[test]
    fn no_sample_is_torn_lost_or_seen_twice() {
        loom::model(|| {
            let words: Arc<Vec<Word>> = Arc::new((0..words_for(2)).map(|_| Word::new(0)).collect());
            let producer = {
                let words = Arc::clone(&words);
                loom::thread::spawn(move || {
                    let ring = Ring::new(&words).unwrap();
                    (1..=3)
                        .filter(|&n| ring.push(&sample(n)))
                        .collect::<Vec<_>>()
                })
            };
            let ring = Ring::new(&words).unwrap();
            let mut seen = Vec::new();
            let take = |seen: &mut Vec<u64>| {
                let mut bytes = [0; 2 * size_of::<Sample>()];
                let length = ring.drain(&mut bytes);
                for bytes in bytes[..length].chunks_exact(size_of::<Sample>()) {
                    let got = Sample::read_from_bytes(bytes).unwrap();
                    assert_eq!(got, sample(got.timestamp));
                    seen.push(got.timestamp);
                }
            };
            take(&mut seen);
            let stored = producer.join().unwrap();
            take(&mut seen);
            take(&mut seen);
            assert_eq!(seen, stored);
        });
    }
}
