//! A ring of samples in memory of the host: one producer in the interrupt handler, one consumer, no
//! lock.
//!
//! The memory is a slice of 64-bit atomics: the producer's count and whether it has ended, the
//! consumer's count, then the slots, then the branches of each slot. Both counts only grow; the
//! index of a slot is `count` modulo the capacity. The producer publishes a filled slot with a
//! release store of its count, the consumer frees slots with a release store of its own, and each
//! reads the other's count with acquire.

use shared_types::{Branch, Sample};

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU64, Ordering};

/// The unit of ring memory.
pub type Word = AtomicU64;

const WORDS_A_SAMPLE: usize = size_of::<Sample>() / size_of::<u64>();
const WORDS_A_BRANCH: usize = size_of::<Branch>() / size_of::<u64>();
/// Each count has a cache line of its own; the end flag shares the producer's.
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
    /// Everything after the counts: slots, then branches.
    memory: &'a [Word],
    slots: &'a [[Word; WORDS_A_SAMPLE]],
    /// Capacity minus 1; the capacity is a power of two.
    mask: u64,
    /// Branches per slot.
    depth: usize,
}

/// Words of memory for a ring of at least `samples` samples with `branches` branches each.
pub const fn words_for(samples: u32, branches: u8) -> usize {
    SLOTS + samples.next_power_of_two() as usize * words_of(branches as usize)
}

/// Bytes of one sample with `branches` branches.
pub const fn entry_bytes(branches: u8) -> usize {
    words_of(branches as usize) * size_of::<u64>()
}

const fn words_of(branches: usize) -> usize {
    WORDS_A_SAMPLE + branches * WORDS_A_BRANCH
}

impl<'a> Ring<'a> {
    /// A ring of samples without branches, in memory that was initially zero; `None` if it
    /// cannot hold one sample.
    #[inline]
    pub fn new(words: &'a [Word]) -> Option<Self> {
        Self::with_branches(words, 0)
    }

    /// The same for samples with `branches` branches each.
    pub fn with_branches(words: &'a [Word], branches: u8) -> Option<Self> {
        let memory = words.get(SLOTS..)?;
        let depth = usize::from(branches);
        let (slots, _) = memory.as_chunks();
        let samples = memory.len() / words_of(depth);
        // A power of two: the index of a slot is a mask, and stays right where the counts wrap.
        let capacity = 1u64.checked_shl(samples.checked_ilog2()?)?;
        Some(Self {
            produced: words.get(PRODUCED)?,
            ended: words.get(ENDED)?,
            consumed: words.get(CONSUMED)?,
            memory,
            slots,
            mask: capacity - 1,
            depth,
        })
    }

    /// Marks the end: the producer has ended its session and adds nothing more. Producer only.
    pub fn end(&self) {
        // Release: who sees the flag sees every sample before it.
        self.ended.store(1, Ordering::Release);
    }

    /// Whether the producer has ended its session.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire) != 0
    }

    /// How many samples it can hold.
    pub fn capacity(&self) -> u64 {
        self.mask + 1
    }

    /// How many samples are waiting.
    pub fn len(&self) -> u64 {
        let consumed = self.consumed.load(Ordering::Acquire);
        self.produced.load(Ordering::Acquire).wrapping_sub(consumed)
    }

    /// Whether no sample is waiting.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a sample; `false` if the ring is full. Producer only, at PROFILE_LEVEL.
    #[inline]
    #[must_use]
    pub fn push(&self, sample: &Sample) -> bool {
        self.push_with(sample, &[])
    }

    /// The same with the sample's branches, newest first; branches beyond the number that the ring
    /// stores per sample are dropped.
    #[inline]
    #[must_use]
    pub fn push_with(&self, sample: &Sample, branches: &[Branch]) -> bool {
        // Relaxed: only this side writes it.
        let produced = self.produced.load(Ordering::Relaxed);
        // Acquire: the consumer has finished reading a slot that it has freed.
        if produced.wrapping_sub(self.consumed.load(Ordering::Acquire)) > self.mask {
            return false;
        }
        let words: [u64; WORDS_A_SAMPLE] = zerocopy::transmute!(*sample);
        let Some(slot) = self.slot(produced) else {
            return false;
        };
        store(slot, words);
        if self.depth != 0 {
            for (place, branch) in self.branches(produced).iter().zip(branches) {
                store(place, zerocopy::transmute!(*branch));
            }
        }
        // Release, and last: the consumer sees the count only with the slot behind it.
        self.produced.store(produced.wrapping_add(1), Ordering::Release);
        true
    }

    /// Moves as many samples as fit into `out`, oldest first, each followed by its branches, padded
    /// with zeros to the number per sample; returns the bytes written. Consumer only.
    #[must_use]
    pub fn drain(&self, out: &mut [u8]) -> usize {
        let consumed = self.consumed.load(Ordering::Relaxed);
        // Acquire: the slots up to this count are filled.
        let waiting = self.produced.load(Ordering::Acquire).wrapping_sub(consumed);
        let mut drained = 0;
        let entry = words_of(self.depth) * size_of::<u64>();
        for entry in out.chunks_exact_mut(entry).take(waiting as usize) {
            let count = consumed.wrapping_add(drained);
            let (Some((place, rest)), Some(slot)) =
                (entry.split_first_chunk_mut(), self.slot(count))
            else {
                break;
            };
            let sample: Sample = zerocopy::transmute!(load(slot));
            let place: &mut [u8; size_of::<Sample>()] = place;
            *place = zerocopy::transmute!(sample);
            if self.depth != 0 {
                self.copy_branches(count, sample.branches.into(), rest);
            }
            drained += 1;
        }
        // All slots are freed at once: one that is freed early may be overwritten while it is
        // copied.
        self.consumed.store(consumed.wrapping_add(drained), Ordering::Release);
        drained as usize * words_of(self.depth) * size_of::<u64>()
    }

    /// Copies `branches` branches of a slot, followed by zeros.
    fn copy_branches(&self, count: u64, branches: usize, out: &mut [u8]) {
        let (places, _) = out.as_chunks_mut::<{ size_of::<Branch>() }>();
        let (valid, others) = places.split_at_mut(branches.min(places.len()));
        for (place, branch) in valid.iter_mut().zip(self.branches(count)) {
            *place = zerocopy::transmute!(load(branch));
        }
        others.as_flattened_mut().fill(0);
    }

    /// The branches of a slot.
    fn branches(&self, count: u64) -> &'a [[Word; WORDS_A_BRANCH]] {
        let slots = (self.mask as usize + 1) * WORDS_A_SAMPLE;
        let (branches, _) = self.memory.get(slots..).unwrap_or_default().as_chunks();
        let first = (count & self.mask) as usize * self.depth;
        branches.get(first..first + self.depth).unwrap_or_default()
    }

    #[inline]
    fn slot(&self, count: u64) -> Option<&'a [Word; WORDS_A_SAMPLE]> {
        self.slots.get((count & self.mask) as usize)
    }
}

/// Relaxed: the counts order what is read and written.
fn store<const N: usize>(words: &[Word; N], values: [u64; N]) {
    for (word, value) in words.iter().zip(&values) {
        word.store(*value, Ordering::Relaxed);
    }
}

fn load<const N: usize>(words: &[Word; N]) -> [u64; N] {
    let mut values = [0; N];
    for (value, word) in values.iter_mut().zip(words) {
        *value = word.load(Ordering::Relaxed);
    }
    values
}

const _: () = assert!(size_of::<Sample>() == 5 * size_of::<u64>());
const _: () = assert!(size_of::<Branch>() == 3 * size_of::<u64>());

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use std::vec::Vec;
    use zerocopy::FromBytes;

    fn sample(n: u64) -> Sample {
        Sample { timestamp: n, ip: !n, period: n * 3, ..Sample::default() }
    }

    fn take(ring: &Ring<'_>, seen: &mut Vec<u64>) {
        let mut bytes = [0; 2 * size_of::<Sample>()];
        let length = ring.drain(&mut bytes);
        for bytes in bytes[..length].chunks_exact(size_of::<Sample>()) {
            let got = Sample::read_from_bytes(bytes).unwrap();
            assert_eq!(got, sample(got.timestamp));
            seen.push(got.timestamp);
        }
    }

    /// Every interleaving of a producer of three samples and a consumer, on a two-slot ring. loom
    /// executes in program order, so that the consumer's release of its count has no witness here.
    #[test]
    fn no_sample_is_torn_lost_or_seen_twice() {
        loom::model(|| {
            let words: Arc<Vec<Word>> =
                Arc::new((0..words_for(2, 0)).map(|_| Word::new(0)).collect());
            // The consumer is the second thread: loom forgets what another thread has read once the
            // writer has read it too, and would never let the consumer come first.
            let consumer = {
                let words = Arc::clone(&words);
                loom::thread::spawn(move || {
                    let mut seen = Vec::new();
                    take(&Ring::new(&words).unwrap(), &mut seen);
                    seen
                })
            };
            let ring = Ring::new(&words).unwrap();
            let stored: Vec<u64> = (1..=3).filter(|&n| ring.push(&sample(n))).collect();
            let mut seen = consumer.join().unwrap();
            take(&ring, &mut seen);
            assert_eq!(seen, stored);
        });
    }
}
