//! The whole process of the tool: `halprof list`, as a user types it.
//!
//! It has to be built with the benchmarks: `cargo build --profile dist -p halprof`.

use criterion::{Criterion, criterion_group, criterion_main};
use std::path::PathBuf;
use std::process::Command;

/// Benchmarks are in `deps`, below the folder of the profile that they were built with.
fn tool() -> PathBuf {
    let own = std::env::current_exe().expect("this program");
    let folder = own.parent().and_then(|deps| deps.parent());
    folder.expect("a folder").join("halprof")
}

fn start(criterion: &mut Criterion) {
    let tool = tool();
    assert!(tool.is_file(), "cargo build --profile dist -p halprof");
    for arguments in [&["--version"][..], &["list"], &["--machine", "zen4", "list", "--all"]] {
        criterion.bench_function(&format!("halprof {}", arguments.join(" ")), |bencher| {
            bencher.iter(|| {
                let output = Command::new(&tool).args(arguments).output();
                assert!(output.expect("the tool runs").status.success());
            });
        });
    }
}

criterion_group!(benches, start);
criterion_main!(benches);
