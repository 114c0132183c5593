//! Thread instances: ids are given to new threads at once.

use crate::payload::Change;
use crate::payload::thread::Thread;
use std::collections::HashMap;

/// One life of a thread. Thread 0 is the idle threads of all processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance {
    /// The thread's id.
    pub thread: u32,
    /// Which of the instances with this id it is, from 0.
    pub instance: u32,
    /// Its process, where an event says so.
    pub process: Option<u32>,
    /// When it started, where it started in the trace, in ticks.
    pub started: Option<i64>,
    /// When it ended, where it ended in the trace, in ticks.
    pub ended: Option<i64>,
}

/// The number of an instance in [`Threads`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceNumber(pub usize);

/// All thread instances of a trace.
#[derive(Debug, Default)]
pub struct Threads {
    instances: Vec<Instance>,
    /// The instance that lives of each thread id, and how many there were.
    by_thread: HashMap<u32, (Option<InstanceNumber>, u32)>,
}

impl Threads {
    /// The instances so far, by their numbers.
    pub fn instances(&self) -> &[Instance] {
        &self.instances
    }

    /// The instance that has this id now. Where none is known to live it is the one whose start is
    /// still to come: a switch to a new thread can precede it.
    pub fn current(&mut self, thread: u32) -> InstanceNumber {
        let (live, count) = self.by_thread.entry(thread).or_default();
        *live.get_or_insert_with(|| {
            let number = InstanceNumber(self.instances.len());
            self.instances.push(Instance {
                thread,
                instance: *count,
                process: (thread == 0).then_some(0),
                started: None,
                ended: None,
            });
            *count += 1;
            number
        })
    }

    /// Takes what an event of a thread says.
    pub fn event(&mut self, time: i64, event: &Thread) -> InstanceNumber {
        let (process, thread) = (event.process, event.thread);
        match event.change {
            Change::Start => self.start(time, process, thread),
            Change::End => self.end(time, process, thread),
            _ => self.rundown(process, thread),
        }
    }

    /// A thread started.
    pub fn start(&mut self, time: i64, process: u32, thread: u32) -> InstanceNumber {
        let known = self.current(thread);
        if thread != 0 && self.instances[known.0].process.is_some() {
            // The end of the one before was lost.
            self.forget(thread);
        }
        let number = self.rundown(process, thread);
        self.instances[number.0].started = Some(time);
        number
    }

    /// A thread was there when the session began or ended.
    fn rundown(&mut self, process: u32, thread: u32) -> InstanceNumber {
        let mut number = self.current(thread);
        let known = self.instances[number.0].process;
        if thread != 0 && known.is_some_and(|known| known != process) {
            self.forget(thread);
            number = self.current(thread);
        }
        self.instances[number.0].process.get_or_insert(process);
        number
    }

    /// A thread ended.
    pub fn end(&mut self, time: i64, process: u32, thread: u32) -> InstanceNumber {
        let number = self.rundown(process, thread);
        if thread != 0 {
            self.instances[number.0].ended = Some(time);
            self.forget(thread);
        }
        number
    }

    fn forget(&mut self, thread: u32) {
        if let Some((live, _)) = self.by_thread.get_mut(&thread) {
            *live = None;
        }
    }
}
