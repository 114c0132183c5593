//! Samples into a ring and out of it, on one core.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hal_profile::run::ring::{Ring, Word, words_for};
use shared_types::Sample;
use std::hint::black_box;

/// Samples pushed before the ring is drained.
const BATCH: u32 = 4096;

fn push_and_drain(criterion: &mut Criterion) {
    let words: Vec<Word> = (0..words_for(BATCH, 0)).map(|_| Word::new(0)).collect();
    let ring = Ring::new(&words).expect("room for a sample");
    let mut out = vec![0; BATCH as usize * size_of::<Sample>()];
    let sample = Sample { ip: 0x1_4000_1000, period: 65_536, ..Sample::default() };
    let mut group = criterion.benchmark_group("ring");
    group.throughput(Throughput::Elements(BATCH.into()));
    group.bench_function("push_and_drain", |bencher| {
        bencher.iter(|| {
            for _ in 0..BATCH {
                assert!(ring.push(black_box(&sample)));
            }
            assert_eq!(ring.drain(black_box(&mut out)), out.len());
        });
    });
}

criterion_group!(benches, push_and_drain);
criterion_main!(benches);
