//! Processes in time. An identifier may belong to one program after another, and within one process
//! a module may be loaded, or a runtime may put code, where another module was.

use super::{Method, Module, NO_PROCESS, Process, Recording, Sample};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Which identifiers stand for several processes, or for one with several modules or methods at one
/// address, and when. Samples of these get another number in place of the identifier, so that
/// everything above still has one name for one number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessIds {
    /// The numbers of an identifier, each with the time at which it begins; the first is the
    /// identifier itself.
    of: FxHashMap<u32, Vec<(u64, u32)>>,
    by_number: FxHashMap<u32, IdSpan>,
}

/// A part of the time of an identifier in which it means one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
struct IdSpan {
    id: u32,
    /// The first number of a process of this name with that identifier.
    process: u32,
    /// The time in which the process had the identifier.
    lived: Range<u64>,
    span: Range<u64>,
}

/// The first number: below 2^31, as some readers of exports need it. Identifiers of Windows' processes
/// are multiples of 4.
const FIRST: u32 = 0x7FFF_FFFF;
const STEP: u32 = 4;

impl ProcessIds {
    /// What the processes, modules and methods of a recording say.
    pub(super) fn of(recording: &Recording) -> Self {
        let mut processes: FxHashMap<u32, Vec<&Process>> = FxHashMap::default();
        for process in &recording.processes {
            processes.entry(process.id).or_default().push(process);
        }
        let mut modules: FxHashMap<u32, Vec<&Module>> = FxHashMap::default();
        for module in &recording.modules {
            if let Some(id) = module.process {
                modules.entry(id).or_default().push(module);
            }
        }
        let mut methods: FxHashMap<u32, Vec<u64>> = FxHashMap::default();
        for Method { process, loaded, unloaded, .. } in &recording.methods {
            methods.entry(*process).or_default().extend(loaded.iter().chain(unloaded));
        }
        let ids = processes.keys().chain(modules.keys()).chain(methods.keys());
        let mut ids: Vec<u32> = ids.copied().collect();
        ids.sort_unstable();
        ids.dedup();
        let mut process_ids = Self::default();
        let mut next = FIRST;
        for id in ids {
            let lives = lives(processes.remove(&id).unwrap_or_default());
            let mut changes = changes(modules.remove(&id).unwrap_or_default());
            changes.extend(methods.remove(&id).unwrap_or_default());
            process_ids.add(id, &lives, changes, &mut next);
        }
        process_ids
    }

    fn add(&mut self, id: u32, lives: &[(u64, &str)], changes: Vec<u64>, next: &mut u32) {
        let mut begins: Vec<u64> = lives.iter().map(|&(begin, _)| begin).collect();
        begins.extend(changes);
        begins.push(0);
        begins.sort_unstable();
        begins.dedup();
        if begins.len() < 2 {
            return;
        }
        let mut first_of: FxHashMap<&str, u32> = FxHashMap::default();
        let mut numbers = Vec::with_capacity(begins.len());
        for (at, &begin) in begins.iter().enumerate() {
            let number = if at == 0 { id } else { *next };
            if at != 0 {
                *next = next.saturating_sub(STEP);
            }
            let after = lives.partition_point(|&(since, _)| since <= begin);
            let end = |next: Option<u64>| next.unwrap_or(u64::MAX);
            let (since, name) =
                *after.checked_sub(1).and_then(|at| lives.get(at)).unwrap_or(&(0, ""));
            let id_span = IdSpan {
                id,
                process: *first_of.entry(name).or_insert(number),
                lived: since..end(lives.get(after).map(|&(since, _)| since)),
                span: begin..end(begins.get(at + 1).copied()),
            };
            self.by_number.insert(number, id_span);
            numbers.push((begin, number));
        }
        self.of.insert(id, numbers);
    }

    /// The number of an identifier at some time.
    pub(crate) fn number(&self, id: u32, time: u64) -> u32 {
        let Some(numbers) = self.of.get(&id) else {
            return id;
        };
        let after = numbers.partition_point(|&(begin, _)| begin <= time);
        let own = after.checked_sub(1).and_then(|at| numbers.get(at));
        own.map_or(id, |&(_, number)| number)
    }

    /// Gives samples the numbers of their processes.
    pub(super) fn renumber(&self, samples: &mut [Sample]) {
        if self.of.is_empty() {
            return;
        }
        for sample in samples {
            sample.process = self.number(sample.process, sample.timestamp);
        }
    }

    /// The number of a process when it began.
    pub(crate) fn of_process(&self, process: &Process) -> u32 {
        self.process(self.number(process.id, process.started.unwrap_or(0)))
    }

    /// The identifier that a number stands for, unless the process is unknown.
    pub fn known_id(&self, number: u32) -> Option<u32> {
        (number != NO_PROCESS).then(|| self.id(number))
    }

    /// The identifier that a number stands for.
    pub fn id(&self, number: u32) -> u32 {
        self.by_number.get(&number).map_or(number, |id_span| id_span.id)
    }

    /// When that for which a number stands began; 0 if it was there from the beginning.
    pub(crate) fn since(&self, number: u32) -> u64 {
        self.by_number.get(&number).map_or(0, |id_span| id_span.span.start)
    }

    /// The first number of a process, which is the same for all its time.
    pub(crate) fn process(&self, number: u32) -> u32 {
        let id_span = self.by_number.get(&number);
        id_span.map_or(number, |id_span| id_span.process)
    }

    /// The times of what a number stands for; `None` if that is one thing for all time.
    pub(crate) fn times(&self, number: u32) -> Option<Times> {
        let IdSpan { lived, span, .. } = self.by_number.get(&number)?;
        Some(Times { lived: lived.clone(), span: span.clone() })
    }
}

/// When what a number of a process stands for was there.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    /// From when to when the process had its identifier.
    pub(crate) lived: Range<u64>,
    /// A part of that, in which no module or method is loaded where another is or was.
    pub(crate) span: Range<u64>,
}

/// When a module was loaded; 0 if it was there before anything was seen.
pub(crate) fn loaded(module: &Module) -> u64 {
    module.loaded.unwrap_or(0)
}

/// When each process of one identifier began; the first had it from the beginning.
fn lives(mut processes: Vec<&Process>) -> Vec<(u64, &str)> {
    processes.sort_by_key(|process| process.started);
    let begins = processes.iter().enumerate().map(|(at, process)| {
        let started = process.started.filter(|_| at != 0);
        (started.unwrap_or(0), process.name.as_str())
    });
    begins.collect()
}

/// The times at which a module was loaded where another module of the process was, or came later.
fn changes(mut modules: Vec<&Module>) -> Vec<u64> {
    modules.sort_by_key(|module| module.start);
    let mut changes = Vec::new();
    let mut reach = 0;
    for (at, module) in modules.iter().enumerate() {
        let next = modules.get(at + 1);
        let meets = module.start < reach || next.is_some_and(|next| next.start < module.end);
        changes.extend(module.loaded.filter(|_| meets));
        reach = reach.max(module.end);
    }
    changes
}
