//! The waits of a trace that a thread or a DPC ended: which one, and where in its code.

use super::TraceSamples;
use crate::file::{Recording, Sample, StackId};
use halprof_etw::Clock;
use halprof_etw::join::threads::InstanceNumber;
use halprof_measure::Result;
use halprof_measure::tracing::analysis::lives::{self, Lives};
use halprof_measure::tracing::analysis::waits::{Wait, Waker, Waking};
use rustc_hash::FxHashMap;
use std::path::Path;

/// A wait that somebody ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedWait {
    /// Who waited.
    pub(crate) thread: InstanceNumber,
    pub(crate) waker: Waker,
    pub(crate) waited_ns: u64,
}

/// The waits that ended, by the numbers of what ended them.
#[derive(Debug, Default)]
pub(super) struct Ended(FxHashMap<u64, EndedWait>);

impl Ended {
    pub(super) fn add(&mut self, wait: &Wait, waited_ns: u64) {
        if let Some(Waking { waker, number }) = wait.waking {
            self.0.insert(number, EndedWait { thread: wait.thread, waker, waited_ns });
        }
    }

    /// Keeps the samples that ended a wait. Each sample of a thread made ready has its number as its
    /// period.
    pub(super) fn of<H>(mut self, samples: Vec<(Sample, H)>) -> (Vec<(Sample, H)>, Vec<EndedWait>) {
        let ended = samples.into_iter().filter_map(|(sample, halves)| {
            let wait = self.0.remove(&sample.period)?;
            Some(((Sample { period: wait.waited_ns, ..sample }, halves), wait))
        });
        ended.unzip()
    }
}

/// Who the threads are.
#[derive(Default)]
pub(super) struct Named {
    processes: Vec<lives::Process>,
    threads: Vec<lives::Thread>,
}

impl Named {
    pub(super) fn of(lives: &Lives, clock: Clock) -> Self {
        let (processes, threads) = lives.named(clock);
        Self { processes, threads }
    }
}

/// The waits that somebody ended, each with where that was.
pub(crate) struct EndedWaits {
    pub(crate) recording: Recording,
    pub(crate) waits: Vec<EndedWait>,
    /// For each wait, the innermost known code that ended it, and that code's callers.
    pub(crate) places: Vec<(Sample, StackId)>,
    pub(crate) processes: Vec<lives::Process>,
    /// The number of a thread's instance is its index here.
    pub(crate) threads: Vec<lives::Thread>,
}

impl EndedWaits {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let trace = TraceSamples::read_ended(path)?;
        let TraceSamples { recording, samples, stacks, ended, named, .. } = trace;
        Ok(Self {
            recording,
            waits: ended,
            places: samples.into_iter().zip(stacks).collect(),
            processes: named.processes,
            threads: named.threads,
        })
    }
}
