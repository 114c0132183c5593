//! A million samples to a file and back: how fast, compared with what the rings can deliver?

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use halprof_profile::file::{Background, Block, Metadata, Sink, Statistics, Writer};
use shared_types::Sample;
use std::path::Path;

const SAMPLES: usize = 1_000_000;
/// The number of samples in one reply to a drain.
const DRAINED: usize = 26_213;

fn samples() -> Vec<Sample> {
    let sample = |n: u64| Sample {
        timestamp: n * 1000,
        ip: 0x1_4000_0000 + n % 0x10_0000,
        ..Sample::default()
    };
    (0..SAMPLES as u64).map(sample).collect()
}

fn write(path: &Path, samples: &[Sample]) {
    let writer = Writer::create(path, &Metadata::default()).expect("a file");
    let mut writer = Background::new(writer);
    for part in samples.chunks(DRAINED) {
        let part = Block::Samples(part.to_vec());
        writer.put(part).expect("written");
    }
    let statistics = Statistics::default();
    writer.finish(&statistics, false).expect("finished");
}

fn recording(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.rec");
    let samples = samples();
    let mut group = criterion.benchmark_group("recording");
    group.throughput(Throughput::Elements(SAMPLES as u64));
    group.sample_size(20);
    group.bench_function("write", |bencher| bencher.iter(|| write(&path, &samples)));
    group.bench_function("read", |bencher| {
        bencher.iter(|| {
            let mut sum = 0u64;
            let read = halprof_profile::file::read(&path, |samples| {
                for sample in samples {
                    sum = sum.wrapping_add(sample.ip);
                }
            });
            assert_eq!(read.expect("whole").samples, SAMPLES as u64);
            sum
        });
    });
    group.finish();
}

criterion_group!(benches, recording);
criterion_main!(benches);
