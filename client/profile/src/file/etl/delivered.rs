//! The samples of a session of Windows' own tracing while it runs, as a recording in memory.
//!
//! No stack is waited for: what a table of an interval shows is where its samples are.

use super::images::{Place, identity, module, place};
use super::{IDLE, LOST_EVENTS, TIMER, is_idle, ticks};
use crate::file::{
    Block, Context, Live, Metadata, Module, NO_PROCESS, Process, Recording, Sample, Sink,
    Statistics,
};
use halprof_etw::payload::Change;
use halprof_etw::payload::image::{Image, Pdb};
use halprof_etw::{Event, EventKind, PointerSize};
use halprof_measure::Result;
use halprof_measure::tracing::analysis::lives::Lives;
use halprof_measure::tracing::session::SampledSource;
use rustc_hash::FxHashMap;
use shared_types::Mode;

/// The samples since the last time, and what is known of processes and images.
pub struct DeliveredSamples {
    /// The sources by their indexes in the metadata, with the intervals in force.
    sources: Vec<SampledSource>,
    on_disk: Box<dyn FnMut(&str) -> String>,
    lives: Lives,
    /// The images that are loaded.
    images: FxHashMap<Place, Module>,
    samples: Vec<Sample>,
    modules: Vec<Module>,
    processes: Vec<Process>,
    idle: u64,
    taken: u64,
    live: Live,
}

impl std::fmt::Debug for DeliveredSamples {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeliveredSamples").field("sources", &self.sources).finish_non_exhaustive()
    }
}

impl DeliveredSamples {
    /// No samples yet. `metadata` describes the sources in the same order; `on_disk` gives the path by
    /// which a program opens an image's file.
    pub fn new(
        metadata: Metadata,
        sources: Vec<SampledSource>,
        on_disk: Box<dyn FnMut(&str) -> String>,
    ) -> Self {
        Self {
            sources,
            on_disk,
            lives: Lives::default(),
            images: FxHashMap::default(),
            samples: Vec::new(),
            modules: Vec::new(),
            processes: Vec::new(),
            idle: 0,
            taken: 0,
            live: Live::new(metadata),
        }
    }

    /// How many threads are known by now: what is kept of them grows.
    pub fn threads(&self) -> usize {
        self.lives.threads.instances().len()
    }

    /// Reads an event.
    pub fn event(&mut self, event: &Event<'_>) {
        self.lives.event(event);
        match &event.kind {
            EventKind::Sample(sample) => {
                let context = Context::of_timer(sample.reserved);
                self.sample(event, TIMER, (sample.thread, sample.ip), context);
            }
            // The timer's samples have the other form.
            EventKind::CounterSample(sample) if sample.source != TIMER => {
                let own = (sample.thread, sample.ip);
                self.sample(event, sample.source, own, Context::Unknown);
            }
            EventKind::Process(process) => self.process(process.process),
            EventKind::Image(image) => self.image(ticks(event.time), image),
            EventKind::Pdb(pdb) => self.pdb(pdb),
            _ => {}
        }
    }

    fn sample(
        &mut self,
        event: &Event<'_>,
        source: u16,
        (thread, ip): (u32, u64),
        context: Context,
    ) {
        if is_idle(thread) {
            self.idle += 1;
            return;
        }
        let known = self.sources.iter().position(|one| one.id == u32::from(source));
        // Another session may sample other sources.
        let Some(index) = known else { return };
        let number = self.lives.threads.current(thread);
        let process = self.lives.threads.instances()[number.0].process;
        let is_kernel = PointerSize::Eight.is_kernel(ip);
        self.samples.push(Sample {
            timestamp: ticks(event.time),
            ip,
            period: self.sources[index].interval.into(),
            process: process.unwrap_or(NO_PROCESS),
            thread,
            processor: event.processor.into(),
            source: index as u16,
            mode: context.with(if is_kernel { Mode::Kernel } else { Mode::User }),
            branches: 0,
        });
    }

    /// Notes a process that has started, ended or got its name.
    fn process(&mut self, id: u32) {
        let lives = self.lives.processes().iter();
        let Some(life) = lives.rev().find(|life| life.id == id) else { return };
        self.processes.push(Process {
            id,
            name: life.name.clone(),
            started: life.started.map(ticks),
            ended: life.ended.map(ticks),
            ..Process::default()
        });
    }

    fn image(&mut self, time: u64, event: &Image) {
        let process = event.process.unwrap_or(IDLE);
        let key = place(PointerSize::Eight, process, event.base);
        match event.change {
            Change::End => {
                if let Some(ended) = self.images.remove(&key) {
                    self.modules.push(Module { unloaded: Some(time), ..ended });
                }
            }
            change if change == Change::Start || !self.images.contains_key(&key) => {
                let loaded = (change == Change::Start).then_some(time);
                let mut module = module(key, event, loaded);
                if let Some(path) = &mut module.path {
                    *path = (self.on_disk)(path);
                }
                self.modules.push(module.clone());
                self.images.insert(key, module);
                // Its name may be that of the process.
                self.process(process);
            }
            _ => {}
        }
    }

    /// Gives a loaded image its build.
    fn pdb(&mut self, pdb: &Pdb) {
        let key = place(PointerSize::Eight, pdb.process, pdb.base);
        if let Some(module) = self.images.get_mut(&key) {
            module.identity = Some(identity(pdb.clone()));
            self.modules.push(module.clone());
        }
    }

    /// What came since the last time, as a recording and its samples; `lost`: what the session has
    /// lost since it began.
    pub fn take(&mut self, elapsed_ns: u64, lost: u64) -> Result<(Recording, Vec<Sample>)> {
        let samples = std::mem::take(&mut self.samples);
        self.taken += samples.len() as u64;
        let statistics = Statistics {
            elapsed_ns,
            generated: self.taken,
            lost: [(LOST_EVENTS.to_owned(), lost)].into(),
            idle_samples: self.idle,
            ..Statistics::default()
        };
        for block in [
            Block::Processes(std::mem::take(&mut self.processes)),
            Block::Modules(std::mem::take(&mut self.modules)),
            Block::Samples(samples),
            Block::Statistics(Box::new(statistics)),
        ] {
            self.live.put(block)?;
        }
        Ok(self.live.take())
    }
}
