//! What runs on the measured machine: as Windows reports it, or as a model runs it.

use crate::model::work::{ModelledWork, drive};
use crate::target::built_in;
use halprof_measure::Code;
use halprof_measure::native_path::{self, Volume};
use halprof_measure::processes::ProcessSource;
#[cfg(windows)]
use halprof_measure::tracing::analysis::TracedProcesses;
use halprof_profile::file::Module;
pub(crate) use halprof_profile::file::inventory::System;
use sim::load::run::PROCESS;
use sim::load::workload::KERNEL_CODE;
use sim_etw::generator::VOLUME;
use std::collections::BTreeMap;

/// The system of a modelled machine, with the model's own `modules`.
pub(crate) fn modelled(work: &ModelledWork, modules: &[Code]) -> Box<dyn System> {
    let ModelledWork { workload, image, .. } = work;
    let mut programs = modules.iter().filter(|module| module.process == Some(PROCESS));
    let program = match (programs.next(), image) {
        (Some(code), _) => module_of(code),
        (None, Some(module)) => module.clone(),
        (None, None) => without_file(built_in::NAME, workload.code()),
    };
    let mut kernel: Vec<Module> =
        modules.iter().filter(|module| module.process.is_none()).map(module_of).collect();
    kernel.push(without_file("modelled kernel", KERNEL_CODE));
    let mut programs = BTreeMap::new();
    for (number, process) in (1..).zip(sim::load::run::processes(workload)) {
        let name = match number {
            1 => program.name.clone(),
            _ => format!("modelled-{number}.exe"),
        };
        programs.insert(process, Module { name, ..program.clone() });
    }
    let path = image.as_ref().and_then(|module| module.path.as_deref()).unwrap_or_default();
    let drive = drive(path).0.to_owned();
    let volumes = vec![Volume { drive, device: VOLUME.to_owned() }];
    Box::new(Modelled { programs, kernel, volumes })
}

#[cfg(windows)]
pub(crate) fn windows() -> Box<dyn System> {
    Box::new(Windows(halprof_setup::windows::Running::begin()))
}

/// Processes and images as Windows' own tracing reports them.
#[cfg(windows)]
#[expect(clippy::unnecessary_wraps, reason = "other systems have none")]
pub(crate) fn windows_processes() -> Option<Box<dyn ProcessSource>> {
    Some(Box::new(TracedProcesses(halprof_measure::tracer())))
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

    fn modules(&mut self, process: u32) -> Option<Vec<Module>> {
        let modules = self.0.modules(process)?;
        Some(modules.into_iter().map(loaded).collect())
    }

    fn kernel(&mut self) -> Vec<Module> {
        self.0.kernel().into_iter().map(loaded).collect()
    }

    fn thread_name(&mut self, thread: u32) -> Option<String> {
        halprof_measure::thread_name(thread)
    }

    fn on_disk(&mut self, native: &str) -> String {
        self.0.on_disk(native)
    }
}

#[cfg(windows)]
fn loaded(loaded: halprof_setup::windows::Loaded) -> Module {
    Module {
        name: loaded.name,
        path: loaded.path,
        start: loaded.start,
        end: loaded.end,
        ..Module::default()
    }
}

/// Other systems have models only.
#[cfg(not(windows))]
pub(crate) fn windows() -> Box<dyn System> {
    Box::new(Modelled { programs: BTreeMap::new(), kernel: Vec::new(), volumes: Vec::new() })
}

#[cfg(not(windows))]
pub(crate) fn windows_processes() -> Option<Box<dyn ProcessSource>> {
    None
}

/// A model runs programs with one module each, and a kernel.
struct Modelled {
    programs: BTreeMap<u32, Module>,
    kernel: Vec<Module>,
    volumes: Vec<Volume>,
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

    fn modules(&mut self, process: u32) -> Option<Vec<Module>> {
        Some(self.programs.get(&process).cloned().into_iter().collect())
    }

    fn kernel(&mut self) -> Vec<Module> {
        self.kernel.clone()
    }

    /// A model has the files of the system that it runs on, and no folder of Windows. The program in
    /// the tool is no file, and keeps the name by which it is known again.
    fn on_disk(&mut self, native: &str) -> String {
        if built_in::is_traced_path(native) {
            return native.to_owned();
        }
        let path = native_path::on_disk(native, r"\SystemRoot", &self.volumes);
        match native.strip_prefix(VOLUME) {
            Some(_) => path.replace('\\', std::path::MAIN_SEPARATOR_STR),
            None => path,
        }
    }
}

fn without_file(name: &str, (start, end): (u64, u64)) -> Module {
    Module { name: name.to_owned(), start, end, ..Module::default() }
}

fn module_of(code: &Code) -> Module {
    without_file(&code.name, (code.start, code.end))
}
