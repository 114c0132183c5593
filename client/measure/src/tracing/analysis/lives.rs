//! The threads of a trace with their processes. Windows reuses the identifiers of both.

use halprof_etw::join::threads::{Instance, Threads};
use halprof_etw::payload::{Change, process};
use halprof_etw::{Clock, Event, EventKind};
use std::collections::HashMap;

/// The name for the process of the idle threads; Windows leaves that name empty.
const IDLE: &str = "Idle";

/// A process. Two may have the same identifier, because Windows reuses them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// `None` for threads whose process no event names.
    pub id: Option<u32>,
    /// The name of its program, where an event names it.
    pub name: Option<String>,
}

/// One life of a thread. The idle threads of all processors are one, whose identifier is 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its identifier.
    pub id: u32,
    /// The index of its process.
    pub process: usize,
    /// When it started, in nanoseconds since the trace began; `None` if it did not start in it.
    pub started_ns: Option<u64>,
}

/// A process while its trace is read.
#[derive(Debug)]
struct ProcessLife {
    name: String,
    started: i64,
    has_ended: bool,
}

/// The threads and processes of a trace, as far as it has been read.
#[derive(Debug, Default)]
pub struct Lives {
    /// The instances of threads. What a thread did is kept by the number of its instance.
    pub threads: Threads,
    processes: HashMap<u32, Vec<ProcessLife>>,
}

impl Lives {
    /// Reads an event. Whoever asks for the threads of a context switch does so before this call,
    /// because the switch may end its old thread.
    pub fn event(&mut self, event: &Event<'_>) {
        self.threads.event(event);
        if let EventKind::Process(process) = &event.kind {
            self.process(event.time, process);
        }
    }

    fn process(&mut self, time: i64, event: &process::Process) {
        let lives = self.processes.entry(event.process).or_default();
        let alive = lives.last_mut().filter(|last| !last.has_ended);
        match (event.change, alive) {
            (Change::End, Some(life)) => life.has_ended = true,
            (Change::Defunct, _) | (Change::RundownStart | Change::RundownEnd, Some(_)) => {}
            (change, _) => lives.push(ProcessLife {
                name: event.image.clone(),
                started: if change == Change::Start { time } else { i64::MIN },
                has_ended: change == Change::End,
            }),
        }
    }

    /// The processes that have threads, and all threads, by the numbers of their instances.
    pub fn named(&self, clock: Clock) -> (Vec<Process>, Vec<Thread>) {
        let mut numbers: HashMap<(Option<u32>, usize), usize> = HashMap::new();
        let (mut processes, mut threads) = (Vec::new(), Vec::new());
        for instance in self.threads.instances() {
            let life = self.life_of(instance);
            let index = life.map_or(0, |(index, _)| index);
            let process = *numbers.entry((instance.process, index)).or_insert_with(|| {
                let name = match instance.process {
                    Some(0) => Some(IDLE.to_owned()),
                    _ => life.map(|(_, life)| life.name.clone()).filter(|name| !name.is_empty()),
                };
                processes.push(Process { id: instance.process, name });
                processes.len() - 1
            });
            let started = instance.started.filter(|_| instance.thread != 0);
            threads.push(Thread {
                id: instance.thread,
                process,
                started_ns: started.map(|time| between(clock, clock.origin(), time)),
            });
        }
        (processes, threads)
    }

    /// The process of a thread among those that had its identifier, and its index among them: the
    /// last that started before the thread did, or ended.
    fn life_of(&self, instance: &Instance) -> Option<(usize, &ProcessLife)> {
        let lives = self.processes.get(&instance.process?)?;
        let time = instance.started.or(instance.ended).unwrap_or(i64::MIN);
        let before = lives.iter().enumerate().rfind(|(_, life)| life.started <= time);
        before.or_else(|| lives.iter().enumerate().next())
    }
}

/// The nanoseconds between two times. Both are first converted to nanoseconds since the trace
/// began, so that the parts of a span add up to the span at any frequency of the clock.
pub fn between(clock: Clock, begin: i64, end: i64) -> u64 {
    u64::try_from(clock.ns(end).saturating_sub(clock.ns(begin))).unwrap_or(0)
}
