//! Does a process that ends end its session?

#[expect(dead_code, reason = "the other tests use the rest")]
mod windows;

use halprof_measure::tracing::session::{
    SampledSource, TraceRequest, Tracer, Tracing, end_running,
};
use windows::{FakeWindows, INTEL};

#[test]
fn a_process_that_ends_ends_its_session() {
    let folder = tempfile::tempdir().expect("a folder");
    let fake = FakeWindows::new(INTEL, folder.path());
    let request = TraceRequest {
        sampled: vec![SampledSource { id: 19, interval: 1_000_000 }],
        ..TraceRequest::default()
    };
    let mut tracer = Tracer::new(fake.clone());
    tracer.start(&request).expect("it starts");
    end_running();
    let machine = fake.machine();
    assert!(machine.session.is_none() && machine.locked.is_empty());
    assert_eq!(machine.interval(19), 65_536);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
    drop(machine);
    assert!(tracer.stop().is_err(), "it has ended");
}
