//! The threads of a trace with their processes. Windows reuses the identifiers of both.

use super::program_name;
use halprof_etw::join::threads::{Instance, InstanceNumber, Threads};
use halprof_etw::payload::{Change, image, process};
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
    /// The name that its program gave it, the last of several.
    pub name: Option<String>,
    /// When it started, in nanoseconds since the trace began; `None` if it did not start in it.
    pub started_ns: Option<u64>,
}

/// One life of a process: of all that have its identifier one after the other, one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessLife {
    /// The identifier.
    pub id: u32,
    /// The name of its program; empty if the event that names it has none.
    pub name: String,
    /// When it started, in ticks; `None` if it did not start in the trace.
    pub started: Option<i64>,
    /// When it ended, in ticks; `None` if it did not end in the trace.
    pub ended: Option<i64>,
    is_named_by_image: bool,
}

/// The threads and processes of a trace, as far as it has been read: for counts, waits and samples
/// alike, because each answer to what a rundown says of a process that is known would be another one.
#[derive(Debug, Default)]
pub struct Lives {
    /// The instances of threads. What a thread did is kept by the number of its instance.
    pub threads: Threads,
    /// The names of threads, by the numbers of their instances.
    thread_names: HashMap<usize, String>,
    /// In the order in which the trace names them.
    processes: Vec<ProcessLife>,
    /// The lives of each identifier, in their order, as indexes of `processes`.
    by_id: HashMap<u32, Vec<usize>>,
}

impl Lives {
    /// Reads an event. Whoever asks for the threads of a context switch does so before this call,
    /// because the switch may end its old thread.
    pub fn event(&mut self, event: &Event<'_>) {
        self.threads.event(event);
        match &event.kind {
            EventKind::Process(process) => self.process(event.time, process),
            EventKind::Image(image) => self.image(image),
            // After its end, the identifier is that of the next thread.
            EventKind::Thread(thread) if thread.change != Change::End => {
                self.name_thread(thread.thread, thread.name.as_deref());
            }
            EventKind::ThreadName(named) => self.name_thread(named.thread, Some(&named.name)),
            _ => {}
        }
    }

    /// Names a process by the path of its image, where the event of the process could not: the first
    /// image that its name may stand for.
    fn image(&mut self, event: &image::Image) {
        let lives = event.process.and_then(|process| self.by_id.get(&process));
        let Some(&last) = lives.and_then(|lives| lives.last()) else { return };
        let ProcessLife { name, is_named_by_image, .. } = &mut self.processes[last];
        if *is_named_by_image || !program_name::is_doubtful(name) {
            return;
        }
        if let Some(file) = program_name::of_path(name, &event.name) {
            (*name, *is_named_by_image) = (file, true);
        }
    }

    fn name_thread(&mut self, thread: u32, name: Option<&str>) {
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            let InstanceNumber(number) = self.threads.current(thread);
            self.thread_names.insert(number, name.to_owned());
        }
    }

    fn process(&mut self, time: i64, event: &process::Process) {
        let lives = self.by_id.entry(event.process).or_default();
        let last = lives.last().copied();
        let alive = last.filter(|&last| self.processes[last].ended.is_none());
        match (event.change, alive) {
            (Change::End, Some(index)) => self.processes[index].ended = Some(time),
            // The rundown names each process again when the session ends.
            (Change::Defunct, _) | (Change::RundownStart | Change::RundownEnd, Some(_)) => {}
            (change, _) => {
                let is_idle = event.process == 0 && event.image.is_empty();
                lives.push(self.processes.len());
                self.processes.push(ProcessLife {
                    id: event.process,
                    name: if is_idle { IDLE.to_owned() } else { program_name::of_event(event) },
                    started: (change == Change::Start).then_some(time),
                    ended: (change == Change::End).then_some(time),
                    is_named_by_image: false,
                });
            }
        }
    }

    /// All processes, in the order in which the trace names them.
    pub fn processes(&self) -> &[ProcessLife] {
        &self.processes
    }

    /// The processes that have threads, and all threads, by the numbers of their instances.
    pub fn named(&self, clock: Clock) -> (Vec<Process>, Vec<Thread>) {
        let mut numbers: HashMap<(Option<u32>, Option<usize>), usize> = HashMap::new();
        let (mut processes, mut threads) = (Vec::new(), Vec::new());
        for (number, instance) in self.threads.instances().iter().enumerate() {
            let life = self.life_of(instance);
            let process = *numbers.entry((instance.process, life)).or_insert_with(|| {
                let life = life.map(|index| self.processes[index].name.clone());
                let name = match instance.process {
                    Some(0) => Some(IDLE.to_owned()),
                    _ => life.filter(|name| !name.is_empty()),
                };
                processes.push(Process { id: instance.process, name });
                processes.len() - 1
            });
            let started = instance.started.filter(|_| instance.thread != 0);
            threads.push(Thread {
                id: instance.thread,
                process,
                name: self.thread_names.get(&number).cloned(),
                started_ns: started.map(|time| between(clock, clock.origin(), time)),
            });
        }
        (processes, threads)
    }

    /// The index of a thread's process among those that had its identifier: the last that started
    /// before the thread did, or ended.
    fn life_of(&self, instance: &Instance) -> Option<usize> {
        let lives = self.by_id.get(&instance.process?)?;
        let time = instance.started.or(instance.ended).unwrap_or(i64::MIN);
        let is_before =
            |&&index: &&usize| self.processes[index].started.is_none_or(|started| started <= time);
        lives.iter().rfind(is_before).or_else(|| lives.first()).copied()
    }
}

/// The nanoseconds between two times. Both are first converted to nanoseconds since the trace
/// began, so that the parts of a span add up to the span at any frequency of the clock.
pub fn between(clock: Clock, begin: i64, end: i64) -> u64 {
    u64::try_from(clock.ns(end).saturating_sub(clock.ns(begin))).unwrap_or(0)
}
