//! Does a ring keep every sample, in order, and report when it is full?

use std::collections::VecDeque;

use hal_profile::run::ring::{Ring, Word, words_for};
use shared_types::Sample;
use zerocopy::FromBytes;

const SAMPLE: usize = size_of::<Sample>();

fn memory(words: usize) -> Vec<Word> {
    (0..words).map(|_| Word::new(0)).collect()
}

/// A sample that differs from all others in every field.
fn sample(n: u64) -> Sample {
    Sample {
        timestamp: n,
        ip: !n,
        period: n << 32 | 7,
        process: n as u32 ^ 0x5555,
        thread: n as u32 + 9,
        processor: n as u32 * 3,
        source: n as u16,
        mode: n as u8 % 3,
        branches: 0,
    }
}

/// The samples of a drain into this many bytes.
fn drain(ring: &Ring, bytes: usize) -> Vec<Sample> {
    let mut out = vec![0xAA; bytes];
    let length = ring.drain(&mut out);
    assert!(length.is_multiple_of(SAMPLE) && length <= bytes);
    assert!(
        out[length..].iter().all(|&byte| byte == 0xAA),
        "bytes beyond the answer are left alone"
    );
    out[..length]
        .chunks_exact(SAMPLE)
        .map(|bytes| Sample::read_from_bytes(bytes).expect("a sample"))
        .collect()
}

#[test]
fn memory_for_at_least_so_many() {
    for (samples, slots) in
        [(1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (1000, 1024), (1024, 1024), (1025, 2048)]
    {
        let words = memory(words_for(samples, 0));
        assert_eq!(words.len(), 16 + slots * 5, "two cache lines of counts, five words a sample");
        let ring = Ring::new(&words).expect("a ring");
        assert_eq!(ring.capacity(), slots as u64);
    }
}

#[test]
fn capacity_is_the_power_of_two_that_fits() {
    for words in 0..21 {
        assert!(Ring::new(&memory(words)).is_none(), "{words}");
    }
    for words in 21..200 {
        let fit = (words - 16) / 5;
        let memory = memory(words);
        let capacity = Ring::new(&memory).expect("a ring").capacity() as usize;
        assert!(capacity.is_power_of_two() && capacity <= fit && capacity * 2 > fit, "{words}");
    }
}

/// Compared with a queue, over many times the capacity; a drain takes as many whole samples as fit.
#[test]
fn it_is_a_queue_however_often_it_wraps() {
    let mut random = fastrand::Rng::with_seed(1);
    for samples in [1, 2, 4, 16] {
        let words = memory(words_for(samples, 0));
        let ring = Ring::new(&words).expect("a ring");
        let mut queue = VecDeque::new();
        for n in 0..5_000 {
            if random.bool() {
                let fits = queue.len() < samples as usize;
                assert_eq!(ring.push(&sample(n)), fits);
                queue.extend(fits.then_some(sample(n)));
            } else {
                let room = random.usize(..4 * SAMPLE);
                let fits = (room / SAMPLE).min(queue.len());
                let expected: Vec<_> = queue.drain(..fits).collect();
                assert_eq!(drain(&ring, room), expected);
            }
            assert_eq!((ring.len(), ring.is_empty()), (queue.len() as u64, queue.is_empty()));
        }
    }
}

/// Both counts only grow: their own wrap is no different from any other.
#[test]
fn counts_may_wrap() {
    use std::sync::atomic::Ordering::Relaxed;
    let words = memory(words_for(4, 0));
    words[0].store(u64::MAX - 1, Relaxed);
    words[8].store(u64::MAX - 1, Relaxed);
    let ring = Ring::new(&words).expect("a ring");
    assert!((1..=4).all(|n| ring.push(&sample(n))));
    assert!(!ring.push(&sample(5)));
    assert_eq!(ring.len(), 4);
    assert_eq!(drain(&ring, 9 * SAMPLE), [1, 2, 3, 4].map(sample));
}
