//! What runs on the machine that is measured: what Windows tells, or what a model runs.

use super::runner::Runner;
use crate::inventory::{Image, System};
use crate::recording::Module;
use sim::run::PROCESS;
use sim::workload::KERNEL_CODE;

/// What a workload is called that is no real program.
const PROGRAM: &str = "modelled.exe";

/// The system behind what the runner runs; `modules` are what a model has of its own.
pub(super) fn system(runner: &Runner, modules: &[Module]) -> Box<dyn System> {
    let Some(code) = runner.user_code() else {
        return windows();
    };
    let mut programs = modules.iter().filter(|one| one.process == Some(PROCESS));
    let program = programs.next().or(runner.image());
    let kernel = modules.iter().filter(|one| one.process.is_none());
    let mut kernel: Vec<Image> = kernel.map(real).collect();
    kernel.push(made_up("modelled kernel", KERNEL_CODE));
    Box::new(Modelled {
        program: program.map_or_else(|| made_up(PROGRAM, code), real),
        kernel,
    })
}

#[cfg(windows)]
fn windows() -> Box<dyn System> {
    Box::new(crate::windows::Running::new())
}

/// Elsewhere there are models only.
#[cfg(not(windows))]
fn windows() -> Box<dyn System> {
    Box::new(Modelled {
        program: Image::default(),
        kernel: Vec::new(),
    })
}

/// A model runs one process with one module, and a kernel.
struct Modelled {
    program: Image,
    kernel: Vec<Image>,
}

impl System for Modelled {
    fn now(&mut self) -> u64 {
        0
    }

    fn processes(&mut self) -> Vec<(u32, String)> {
        vec![(PROCESS, self.program.name.clone())]
    }

    fn modules(&mut self, _: u32) -> Option<Vec<Image>> {
        Some(vec![self.program.clone()])
    }

    fn kernel(&mut self) -> Vec<Image> {
        self.kernel.clone()
    }
}

/// A module that is no file.
fn made_up(name: &str, (start, end): (u64, u64)) -> Image {
    Image {
        name: name.to_owned(),
        path: None,
        start,
        end,
        identity: None,
    }
}

fn real(module: &Module) -> Image {
    Image {
        name: module.name.clone(),
        path: module.path.clone(),
        start: module.start,
        end: module.end,
        identity: module.identity.clone(),
    }
}
