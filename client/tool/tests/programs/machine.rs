//! A modelled machine in real time.

use halprof::target::backend::Backend;
use halprof_measure::{Error, InProcess, ModelledMachine, Result, Transport, spec};
use shared_types::NtStatus;
use shared_types::request::RequestCode;
use sim::load::workload;
use std::time::Instant;

/// Goes on running between requests.
struct Running {
    model: InProcess,
    since: Instant,
    done_ns: u64,
    removed: Option<Removed>,
}

/// When the device is removed: with which request, counted by its name. First every session ends;
/// with the next request the device is gone.
#[derive(Clone, Debug)]
pub(crate) struct Removed {
    pub(crate) request: String,
    pub(crate) number: u32,
}

pub(crate) fn open(removed: Option<Removed>) -> Backend {
    let machine = spec("skylake,processors=2").expect("a model");
    let mut model = InProcess::new(&machine.leaves);
    let endless = "instructions=2000000000000000000,cycles=4000000000000000000,processors=all";
    model.begin(&workload::parse(endless).expect("a workload"));
    Backend::real_time(Box::new(Running { model, since: Instant::now(), done_ns: 0, removed }))
}

impl Transport for Running {
    fn request(&mut self, code: RequestCode, input: &[u8], output: &mut [u8]) -> Result<usize> {
        let now = self.since.elapsed().as_nanos() as u64;
        self.model.advance(now - self.done_ns)?;
        self.done_ns = now;
        if let Some(Removed { request, number }) = &mut self.removed {
            let is_it = RequestCode::ALL.iter().any(|(one, name)| *one == code && name == request);
            if *number == 0 {
                return Err(Error::Status(NtStatus::INVALID_DEVICE_REQUEST));
            }
            *number -= u32::from(is_it);
            if *number == 0 {
                self.model.model().end_sessions();
            }
        }
        self.model.request(code, input, output)
    }
}
