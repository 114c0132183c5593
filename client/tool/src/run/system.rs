//! What runs on the measured machine: as Windows reports it, or as a model runs it.

use crate::run::runner::Planned;
use halprof_measure::Code;
use halprof_profile::file::Module;
use halprof_profile::file::inventory::{Image, System};
use sim::run::PROCESS;
use sim::workload::KERNEL_CODE;
use std::collections::BTreeMap;

/// The name of a workload's program that is not real.
const PROGRAM: &str = "modelled.exe";

/// The system that is measured: Windows, or that of a modelled machine, with the model's own
/// `modules`.
pub(crate) fn system(planned: Option<&Planned>, modules: &[Code]) -> Box<dyn System> {
    let Some(Planned { workload, image }) = planned else {
        return windows();
    };
    let mut programs = modules.iter().filter(|one| one.process == Some(PROCESS));
    let program = programs.next().map(of_model);
    let program = program.or_else(|| image.as_ref().map(of_system));
    let kernel = modules.iter().filter(|one| one.process.is_none());
    let mut kernel: Vec<Image> = kernel.map(of_model).collect();
    kernel.push(made_up("modelled kernel", KERNEL_CODE));
    let program = program.unwrap_or_else(|| made_up(PROGRAM, workload.code()));
    let named = (1..).zip(sim::run::processes(workload)).map(|(number, process)| {
        let name = match number {
            1 => program.name.clone(),
            _ => format!("modelled-{number}.exe"),
        };
        let program = program.clone();
        (process, Image { name, ..program })
    });
    Box::new(Modelled { programs: named.collect(), kernel })
}

#[cfg(windows)]
fn windows() -> Box<dyn System> {
    Box::new(Windows(halprof_setup::windows::Running::begin()))
}

/// The processes and modules that Windows reports.
#[cfg(windows)]
struct Windows(halprof_setup::windows::Running);

#[cfg(windows)]
impl System for Windows {
    fn now(&mut self) -> u64 {
        self.0.now()
    }

    fn processes(&mut self) -> Vec<(u32, String)> {
        self.0.processes()
    }

    fn modules(&mut self, process: u32) -> Option<Vec<Image>> {
        let modules = self.0.modules(process)?;
        Some(modules.into_iter().map(loaded).collect())
    }

    fn kernel(&mut self) -> Vec<Image> {
        self.0.kernel().into_iter().map(loaded).collect()
    }

    fn on_disk(&mut self, native: &str) -> String {
        self.0.on_disk(native)
    }
}

#[cfg(windows)]
fn loaded(loaded: halprof_setup::windows::Loaded) -> Image {
    Image {
        name: loaded.name,
        path: loaded.path,
        start: loaded.start,
        end: loaded.end,
        identity: None,
    }
}

/// Other systems have models only.
#[cfg(not(windows))]
fn windows() -> Box<dyn System> {
    Box::new(Modelled { programs: BTreeMap::new(), kernel: Vec::new() })
}

/// A model runs programs with one module each, and a kernel.
struct Modelled {
    programs: BTreeMap<u32, Image>,
    kernel: Vec<Image>,
}

impl System for Modelled {
    fn now(&mut self) -> u64 {
        0
    }

    fn processes(&mut self) -> Vec<(u32, String)> {
        let programs = self.programs.iter();
        let named = programs.map(|(&process, program)| (process, program.name.clone()));
        named.collect()
    }

    fn modules(&mut self, process: u32) -> Option<Vec<Image>> {
        Some(self.programs.get(&process).cloned().into_iter().collect())
    }

    fn kernel(&mut self) -> Vec<Image> {
        self.kernel.clone()
    }
}

/// A module without a file.
fn made_up(name: &str, (start, end): (u64, u64)) -> Image {
    Image { name: name.to_owned(), path: None, start, end, identity: None }
}

fn of_model(code: &Code) -> Image {
    made_up(&code.name, (code.start, code.end))
}

fn of_system(module: &Module) -> Image {
    Image {
        name: module.name.clone(),
        path: module.path.clone(),
        start: module.start,
        end: module.end,
        identity: module.identity.clone(),
    }
}
