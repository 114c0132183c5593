//! What runs on the machine that is measured: what Windows tells, or what a model runs.

use super::runner::Runner;
use crate::inventory::{Image, System};
use crate::recording::Module;
use sim::run::PROCESS;
use sim::workload::KERNEL_CODE;

/// What a workload is called that is no real program.
const PROGRAM: &str = "modelled.exe";

/// The system behind what the runner runs.
pub(super) fn system(runner: &Runner) -> Box<dyn System> {
    match runner.user_code() {
        Some(code) => Box::new(Modelled {
            program: runner.image().map_or_else(|| made_up(PROGRAM, code), real),
        }),
        None => windows(),
    }
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
    })
}

/// A model runs one process with one module, and a kernel.
struct Modelled {
    program: Image,
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
        vec![made_up("modelled kernel", KERNEL_CODE)]
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
