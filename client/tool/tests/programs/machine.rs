//! A modelled machine in real time.

use halprof::target::backend::Backend;
use halprof_measure::{InProcess, ModelledMachine, Result, Transport, spec};
use shared_types::request::RequestCode;
use sim::load::workload;
use std::time::Instant;

/// Goes on running between requests.
struct Running {
    model: InProcess,
    since: Instant,
    done_ns: u64,
}

pub(crate) fn open() -> Backend {
    let machine = spec("skylake,processors=2").expect("a model");
    let mut model = InProcess::new(&machine.leaves);
    let endless = "instructions=2000000000000000000,cycles=4000000000000000000,processors=all";
    model.begin(&workload::parse(endless).expect("a workload"));
    Backend::real_time(Box::new(Running { model, since: Instant::now(), done_ns: 0 }))
}

impl Transport for Running {
    fn request(&mut self, code: RequestCode, input: &[u8], output: &mut [u8]) -> Result<usize> {
        let now = self.since.elapsed().as_nanos() as u64;
        self.model.advance(now - self.done_ns)?;
        self.done_ns = now;
        self.model.request(code, input, output)
    }
}
