//! Threads that Windows profiles: while one runs, what the counters of the driver's list count is
//! added to the thread's totals.
//!
//! The list is that of KeSetHardwareCounterConfiguration; counters are read when a thread is
//! switched onto a processor and off it, and the differences are added up ("Thread Profiling",
//! winbase.h). In between, the processor's events belong to the thread.

use crate::Device;
use hal_profile::cpu::machine::Machine as _;
use sim::cpu::event::Counts;

/// No counter in the models is narrower.
const WIDTH: u64 = (1 << 40) - 1;

#[derive(Debug, Default)]
pub struct Thread {
    /// The processor that it runs on.
    pub processor: Option<usize>,
    /// Its total for each counter of the list, once it profiles itself.
    pub counted: Option<Vec<u64>>,
    /// The counters' values when it was switched in.
    began: Vec<u64>,
}

impl Device {
    /// EnableThreadProfiling: by the thread itself, for all counters of the list.
    pub fn enable_profiling(&mut self, thread: &mut Thread) {
        let kernel = &mut self.machine.kernel;
        kernel.profiling += 1;
        thread.counted = Some(vec![0; kernel.by_thread.len()]);
        if let Some(processor) = thread.processor {
            thread.began = self.listed(processor);
        }
    }

    /// DisableThreadProfiling; returns what it has counted.
    pub fn disable_profiling(&mut self, thread: &mut Thread) -> Vec<u64> {
        self.read_profile(thread);
        let counted = thread.counted.take();
        self.machine.kernel.profiling -= usize::from(counted.is_some());
        counted.unwrap_or_default()
    }

    /// The thread is switched onto a processor where no other runs.
    pub fn switch_in(&mut self, thread: &mut Thread, processor: usize) {
        thread.processor = Some(processor);
        // What the counters counted while it was off this processor is another's.
        thread.began = self.listed(processor);
    }

    /// The thread is switched off its processor.
    pub fn switch_out(&mut self, thread: &mut Thread) {
        self.read_profile(thread);
        thread.processor = None;
    }

    /// Events of the thread happen on its processor.
    pub fn retire(&mut self, thread: &Thread, events: Counts) {
        if let Some(processor) = thread.processor {
            let cpus = &mut self.machine.engine.bus().cpus;
            cpus[processor].processor.exercise(events);
        }
    }

    /// Updates the thread's totals.
    fn read_profile(&mut self, thread: &mut Thread) {
        let Some(processor) = thread.processor else {
            return;
        };
        let now = self.listed(processor);
        let counted = thread.counted.iter_mut().flatten();
        for (total, (now, began)) in counted.zip(now.iter().zip(&thread.began)) {
            *total += now.wrapping_sub(*began) & WIDTH;
        }
        thread.began = now;
    }

    /// The counters of the list, as RDPMC reads them on a processor.
    fn listed(&mut self, processor: usize) -> Vec<u64> {
        let list = self.machine.kernel.by_thread.clone();
        let cpu = &mut self.machine.engine.bus().cpus[processor];
        list.iter().map(|&index| cpu.read_pmc(index as u32)).collect()
    }
}
