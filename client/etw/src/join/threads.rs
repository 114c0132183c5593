//! Thread instances: ids are given to new threads at once.

use crate::payload::stack::{Stack, StackKey};
use crate::payload::thread::Thread;
use crate::payload::{Change, EventKind};
use crate::trace::Event;
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
    /// Whether an event of the thread says so, not only a stack.
    pub is_named: bool,
    /// When it started, where it started in the trace, in ticks.
    pub started: Option<i64>,
    /// When it began to end, where that is in the trace, in ticks. It runs on for a while.
    pub ended: Option<i64>,
}

/// The number of an instance in [`Threads`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceNumber(pub usize);

/// All thread instances of a trace.
#[derive(Debug, Default)]
pub struct Threads {
    instances: Vec<Instance>,
    by_thread: HashMap<u32, Id>,
}

/// The use of a thread's id.
#[derive(Debug, Default)]
struct Id {
    live: Option<InstanceNumber>,
    /// How many instances there were.
    count: u32,
    /// Whether the last switch that names it took it off its processor.
    is_off: bool,
}

impl Threads {
    /// The instances so far, by their numbers.
    pub fn instances(&self) -> &[Instance] {
        &self.instances
    }

    /// The instance that has this id now. Where none is known to live it is the one whose start is
    /// still to come: a switch to a new thread can precede it.
    pub fn current(&mut self, thread: u32) -> InstanceNumber {
        let id = self.by_thread.entry(thread).or_default();
        *id.live.get_or_insert_with(|| {
            let number = InstanceNumber(self.instances.len());
            self.instances.push(Instance {
                thread,
                instance: id.count,
                process: (thread == 0).then_some(0),
                is_named: thread == 0,
                started: None,
                ended: None,
            });
            id.count += 1;
            number
        })
    }

    /// Takes what an event says of threads: their starts and ends, the switch at which one ends, and
    /// the process of a stack. A context switch is to be read by others first, for its old thread may
    /// have no instance afterwards.
    pub fn event(&mut self, event: &Event<'_>) {
        match &event.kind {
            EventKind::Thread(thread) => _ = self.change(event.time, thread),
            EventKind::Switch(switch) => {
                self.switch((switch.old_thread, switch.new_thread));
                if switch.ends_thread() {
                    self.forget(switch.old_thread);
                }
            }
            EventKind::Stack(Stack { process, thread, .. })
            | EventKind::StackKey(StackKey { process, thread, .. }) => {
                self.stack(*process, *thread);
            }
            _ => {}
        }
    }

    /// A processor went from one thread to another.
    pub fn switch(&mut self, (old, new): (u32, u32)) {
        for (thread, is_off) in [(old, true), (new, false)] {
            if let Some(id) = self.by_thread.get_mut(&thread) {
                id.is_off = is_off;
            }
        }
    }

    fn change(&mut self, time: i64, event: &Thread) -> InstanceNumber {
        let (process, thread) = (event.process, event.thread);
        match event.change {
            Change::Start => self.start(time, process, thread),
            Change::End => self.end(time, process, thread),
            _ => self.rundown(process, thread),
        }
    }

    /// A thread started.
    pub fn start(&mut self, time: i64, process: u32, thread: u32) -> InstanceNumber {
        let InstanceNumber(known) = self.current(thread);
        if thread != 0 && self.instances[known].is_named {
            // The one before has ended. Its last switch is not in the trace, or its end is not.
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
        let instance = &mut self.instances[number.0];
        instance.process.get_or_insert(process);
        instance.is_named = true;
        number
    }

    /// A thread ends. Windows writes this while the thread still runs in the kernel, up to
    /// milliseconds before its last switch: until then, or until another gets its id, it is the same.
    pub fn end(&mut self, time: i64, process: u32, thread: u32) -> InstanceNumber {
        let number = self.rundown(process, thread);
        if thread != 0 {
            self.instances[number.0].ended = Some(time);
            if self.by_thread.get(&thread).is_some_and(|id| id.is_off) {
                self.forget(thread);
            }
        }
        number
    }

    /// The process that a stack names is that of its thread, where no event of the thread names one.
    fn stack(&mut self, process: u32, thread: u32) {
        let live = self.by_thread.get(&thread).and_then(|id| id.live);
        if let Some(InstanceNumber(number)) = live {
            self.instances[number].process.get_or_insert(process);
        }
    }

    /// The next one with this id is another thread.
    fn forget(&mut self, thread: u32) {
        if let Some(id) = self.by_thread.get_mut(&thread).filter(|_| thread != 0) {
            (id.live, id.is_off) = (None, false);
        }
    }
}
