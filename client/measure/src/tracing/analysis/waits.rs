//! Waits of threads, by the context switches of a trace.
//!
//! A thread is off the processors from the switch that takes it off until a switch puts it on
//! again, on any processor. The first switch says why: the thread waits for something, or others
//! run in its place.

use halprof_etw::join::threads::{InstanceNumber, Threads};
use halprof_etw::payload::processor::Switch;
use halprof_etw::payload::thread::Ready;
use halprof_etw::{Event, EventKind};
use std::collections::HashMap;

/// Why a thread is off the processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The thread does not wait, but is in this `KTHREAD_STATE`.
    State(i8),
    /// The thread waits, for this `KWAIT_REASON`.
    Wait(i8),
}

/// Who made a thread ready to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Waker {
    /// A thread.
    Thread(InstanceNumber),
    /// A deferred procedure call: a timer's, or a device's.
    Dpc,
}

/// A thread that is or was off the processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The thread's instance.
    pub thread: InstanceNumber,
    /// When it was taken off.
    pub since: i64,
    /// Why.
    pub reason: Reason,
    /// Who ended it, where an event says so.
    pub waking: Option<Waking>,
}

/// An event that made a thread ready to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waking {
    /// Who did it.
    pub waker: Waker,
    /// The number of this event among those that make threads ready, from 1.
    pub number: u64,
}

/// The waits of all threads except the idle threads, which only wait for work.
#[derive(Debug, Default)]
pub struct Waits {
    /// Threads that are off: since when, and why.
    off: HashMap<usize, (i64, Reason)>,
    /// The threads that are off a processor and were made ready, by the numbers of their instances.
    woken: HashMap<usize, Waking>,
    /// The thread on each processor.
    running: HashMap<u16, u32>,
    /// The context switches so far.
    pub switches: u64,
    /// The events so far that say who made a thread ready.
    pub wakings: u64,
    /// Lost switches, inferred from gaps.
    pub lost_switches: u64,
}

impl Waits {
    /// Reads an event and returns the wait that it ends. Other events than context switches only
    /// say whether some are missing.
    pub fn event(&mut self, threads: &mut Threads, event: &Event<'_>) -> Option<Wait> {
        if event.is_after_gap {
            self.lose(threads, event.processor);
        }
        match &event.kind {
            EventKind::Switch(switch) => self.switch(threads, event, switch),
            EventKind::Ready(ready) => {
                self.ready(threads, event.processor, *ready);
                None
            }
            _ => None,
        }
    }

    /// Forgets since when the last thread of a processor is off, because switches of that processor
    /// are missing.
    fn lose(&mut self, threads: &mut Threads, processor: u16) {
        if let Some(running) = self.running.remove(&processor) {
            self.lost_switches += 1;
            let InstanceNumber(lost) = threads.current(running);
            self.off.remove(&lost);
        }
    }

    /// The thread that runs on a processor, as far as switches say it.
    pub fn running(&self, processor: u16) -> Option<u32> {
        self.running.get(&processor).copied()
    }

    /// A thread is made ready by what runs on the processor of the event.
    fn ready(&mut self, threads: &mut Threads, processor: u16, ready: Ready) {
        self.wakings += 1;
        let waker = match self.running.get(&processor) {
            _ if ready.is_by_dpc() => Waker::Dpc,
            Some(&thread) if thread != 0 => Waker::Thread(threads.current(thread)),
            _ => return,
        };
        let InstanceNumber(thread) = threads.current(ready.thread);
        if self.off.contains_key(&thread) {
            self.woken.entry(thread).or_insert(Waking { waker, number: self.wakings });
        }
    }

    fn switch(
        &mut self,
        threads: &mut Threads,
        event: &Event<'_>,
        switch: &Switch,
    ) -> Option<Wait> {
        self.switches += 1;
        let processor = event.processor;
        // The thread that leaves is not the one that came last: switches between them were lost.
        if self.running.get(&processor).is_some_and(|&running| running != switch.old_thread) {
            self.lose(threads, processor);
        }
        self.running.insert(processor, switch.new_thread);
        // Thread 0 is each processor's idle thread, which waits for nothing.
        if switch.old_thread != 0 {
            let InstanceNumber(old) = threads.current(switch.old_thread);
            let reason = match switch.old_state {
                Switch::WAITING => Reason::Wait(switch.old_wait_reason),
                state => Reason::State(state),
            };
            self.off.insert(old, (event.time, reason));
            // A switch to this thread was lost: the event that ended its wait before did not end this one.
            self.woken.remove(&old);
        }
        if switch.new_thread == 0 {
            return None;
        }
        let thread = threads.current(switch.new_thread);
        let waking = self.woken.remove(&thread.0);
        let (since, reason) = self.off.remove(&thread.0)?;
        Some(Wait { thread, since, reason, waking })
    }

    /// The waits that have not ended. A thread that has ended does not wait.
    pub fn unfinished(&self, threads: &Threads) -> impl Iterator<Item = Wait> {
        let off = self.off.iter().filter(|&(&thread, &(_, reason))| {
            reason != Reason::State(Switch::TERMINATED)
                && threads.instances()[thread].ended.is_none()
        });
        off.map(|(&thread, &(since, reason))| Wait {
            thread: InstanceNumber(thread),
            since,
            reason,
            waking: None,
        })
    }
}
