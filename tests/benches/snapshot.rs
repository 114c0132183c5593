//! One snapshot of four sources, at 1 to 2048 processors.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use halprof_tests::machines::{counting, machine, specs};

const SOURCES: &str = "TotalIssues,TotalCycles,LLCMisses,BranchInstructions";

fn snapshot(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("snapshot");
    for processors in [1, 16, 256, 2048] {
        let mut connection = machine("sapphire-rapids", processors);
        let specs = specs(&mut connection, SOURCES);
        let mut session = counting(&mut connection, specs);
        session.start().expect("a start");
        group.throughput(Throughput::Elements(processors as u64));
        group.bench_function(BenchmarkId::from_parameter(processors), |bencher| {
            bencher.iter(|| session.snapshot().expect("a snapshot"));
        });
    }
}

criterion_group!(benches, snapshot);
criterion_main!(benches);
