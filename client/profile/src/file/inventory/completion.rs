//! Adds what a source of events reports at the end: processes and images that no scan has seen, and
//! the exact times of those that scans saw.

use super::{AddressSpace, Changes, Inventory, Owner, TrackedModule};
use crate::file::{Module, Process};
use halprof_measure::processes::{ProcessChange, ProcessEvent};
use std::collections::BTreeMap;

/// The rows to write, each once.
#[derive(Default)]
struct Completed {
    processes: BTreeMap<(u32, Option<u64>), Process>,
    modules: BTreeMap<(Owner, u64, Option<u64>), Module>,
}

impl Completed {
    fn process(&mut self, process: &Process) {
        self.processes.insert((process.id, process.started), process.clone());
    }

    fn module(&mut self, module: &Module) {
        self.modules.insert((module.process, module.start, module.loaded), module.clone());
    }
}

impl Inventory {
    /// Takes in what happened, in order of time, after the last scan.
    pub fn complete(&mut self, events: Vec<ProcessEvent>) -> Changes {
        let mut completed = Completed::default();
        for ProcessEvent { timestamp, process, change } in events {
            match change {
                ProcessChange::Started(name) => {
                    self.started(process, name, timestamp, &mut completed);
                }
                ProcessChange::Ended => self.ended(process, timestamp, &mut completed),
                ProcessChange::Loaded { path, start, end } => {
                    let image = self.image(&path, start, end);
                    self.loaded(owner(process, start), image, timestamp, &mut completed);
                }
                ProcessChange::Unloaded(start) => {
                    self.unloaded(owner(process, start), start, timestamp, &mut completed);
                }
            }
        }
        Changes {
            processes: completed.processes.into_values().collect(),
            threads: Vec::new(),
            modules: completed.modules.into_values().collect(),
        }
    }

    fn started(&mut self, id: u32, name: String, time: u64, completed: &mut Completed) {
        self.seen.insert(id);
        let first_scanned = self.first_scanned;
        // A name that is not ASCII cannot be compared: the event has it in an unknown code page.
        let candidates = self.lives(id).filter(|life| {
            (!name.is_ascii() || life.name.eq_ignore_ascii_case(&name))
                && is_later(life.started, time, first_scanned)
        });
        match candidates.min_by_key(|life| life.started) {
            None => {
                let process = Process { id, name, started: Some(time), ..Process::default() };
                completed.process(&process);
                self.ended.entry(id).or_default().push(process);
            }
            Some(life) if life.started.is_some() => {
                life.found = life.started.replace(time);
                completed.process(life);
            }
            Some(_) => {}
        }
    }

    fn ended(&mut self, id: u32, time: u64, completed: &mut Completed) {
        let lives = self.lives(id).filter(|life| life.started.is_none_or(|start| start <= time));
        if let Some(life) = lives.max_by_key(|life| life.started) {
            life.ended = Some(time);
            completed.process(life);
        }
    }

    fn loaded(&mut self, owner: Owner, image: Module, time: u64, completed: &mut Completed) {
        let first_scanned = self.first_scanned;
        let candidates = self.modules(owner).filter(|module| {
            (module.start, module.end) == (image.start, image.end)
                && module.name.eq_ignore_ascii_case(&image.name)
                && is_later(module.loaded, time, first_scanned)
        });
        match candidates.min_by_key(|module| module.loaded) {
            None => {
                let sampled = self.spaces(owner).any(|space| space.is_sampled(&image));
                let tracked =
                    TrackedModule { sampled, ..TrackedModule::of(owner, image, Some(time)) };
                completed.module(&tracked.module);
                self.address_spaces.entry(owner).or_default().unloaded.push(tracked);
            }
            Some(module) if module.loaded.is_some() => {
                module.found = module.loaded.replace(time);
                completed.module(module);
            }
            Some(_) => {}
        }
    }

    fn unloaded(&mut self, owner: Owner, start: u64, time: u64, completed: &mut Completed) {
        let modules = self.modules(owner).filter(|module| {
            module.start == start && module.loaded.is_none_or(|loaded| loaded <= time)
        });
        if let Some(module) = modules.max_by_key(|module| module.loaded) {
            module.unloaded = Some(time);
            completed.module(module);
        }
    }

    /// The processes that have or had an identifier.
    fn lives(&mut self, id: u32) -> impl Iterator<Item = &mut Process> {
        let ended = self.ended.get_mut(&id).into_iter().flatten();
        self.running.get_mut(&id).into_iter().chain(ended)
    }

    fn spaces(&mut self, owner: Owner) -> impl Iterator<Item = &mut AddressSpace> {
        let ended = self.ended_spaces.get_mut(&owner).into_iter().flatten();
        self.address_spaces.get_mut(&owner).into_iter().chain(ended)
    }

    fn modules(&mut self, owner: Owner) -> impl Iterator<Item = &mut Module> {
        let tracked = self
            .spaces(owner)
            .flat_map(|space| space.modules.values_mut().chain(&mut space.unloaded));
        tracked.map(|tracked| &mut tracked.module)
    }

    /// An image with a path that programs can open.
    fn image(&mut self, native: &str, start: u64, end: u64) -> Module {
        Module {
            name: native.rsplit('\\').next().unwrap_or_default().to_owned(),
            path: (!native.is_empty()).then(|| self.system.on_disk(native)),
            start,
            end,
            ..Module::default()
        }
    }
}

/// Whether what began at a time may have been found by a scan then; `None` is what the first scan
/// found.
fn is_later(found: Option<u64>, began: u64, first_scanned: u64) -> bool {
    found.unwrap_or(first_scanned) >= began
}

/// An image in the upper half of the address space is the kernel's, whoever loads it.
fn owner(process: u32, start: u64) -> Owner {
    (process != 0 && start >> 63 == 0).then_some(process)
}
