//! A whole measurement: machine, session, 100 million instructions on each of 16 processors.

use criterion::{Criterion, criterion_group, criterion_main};
use halprof_tests::machines::{count, machine, specs, workload};

fn stat(criterion: &mut Criterion) {
    let workload = workload("instructions=100000000,cycles=150000000,processors=all");
    criterion.bench_function("stat", |bencher| {
        bencher.iter(|| {
            let mut connection = machine("sapphire-rapids", 16);
            let specs = specs(&mut connection, "TotalIssues,TotalCycles");
            let counts = count(&mut connection, specs, &workload);
            assert!(counts.iter().all(|counts| counts[0].counted == 100_000_000));
        });
    });
}

criterion_group!(benches, stat);
criterion_main!(benches);
