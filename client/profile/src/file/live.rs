//! A recording in memory that is read while it is made, each time with the samples since the last.

use super::{
    Block, Ending, Metadata, Module, Process, ProcessIds, Recording, Sample, Sink, Statistics,
};
use halprof_measure::Result;
use std::collections::BTreeMap;

/// A recording in memory. It keeps what runs and what is loaded, and everything else until it is
/// taken.
#[derive(Debug, Default)]
pub struct Live {
    metadata: Metadata,
    /// Processes by identifier and beginning.
    processes: BTreeMap<(u32, Option<u64>), Process>,
    /// Modules by process, first address and beginning.
    modules: BTreeMap<(Option<u32>, u64, Option<u64>), Module>,
    /// Samples and events since the last time.
    samples: Vec<Sample>,
    events: Vec<super::RecordedEvent>,
    statistics: Statistics,
    /// The statistics of the last time.
    before: Statistics,
}

impl Live {
    /// Begins with nothing known.
    pub fn new(metadata: Metadata) -> Self {
        Self { metadata, ..Self::default() }
    }

    /// What came since the last call, as a recording and its samples. The processes of the samples
    /// are numbers of its [`Recording::process_ids`].
    pub fn take(&mut self) -> (Recording, Vec<Sample>) {
        let mut samples = std::mem::take(&mut self.samples);
        let count = samples.len() as u64;
        let first = samples.iter().map(|sample| sample.timestamp).min();
        let mut recording = Recording {
            metadata: self.metadata.clone(),
            processes: self.processes.values().cloned().collect(),
            modules: self.modules.values().cloned().collect(),
            events: std::mem::take(&mut self.events),
            statistics: Some(self.statistics.since(&self.before)),
            samples: count,
            ending: Some(Ending { samples: count, ..Ending::default() }),
            ..Recording::default()
        };
        self.before = self.statistics.clone();
        recording.process_ids = ProcessIds::of(&recording);
        recording.process_ids.renumber(&mut samples);
        self.forget_before(first.unwrap_or(0));
        (recording, samples)
    }

    /// Forgets what ended before a time, because no later sample can belong to it.
    fn forget_before(&mut self, time: u64) {
        let stays = |end: Option<u64>| end.is_none_or(|end| end >= time);
        let processes = &mut self.processes;
        let mut gone = Vec::new();
        processes.retain(|&(id, _), process| {
            let stays = stays(process.ended);
            gone.extend((!stays).then_some(id));
            stays
        });
        gone.retain(|&id| processes.range((id, None)..=(id, Some(u64::MAX))).next().is_none());
        self.modules.retain(|(process, ..), module| {
            stays(module.unloaded) && process.is_none_or(|id| !gone.contains(&id))
        });
    }
}

impl Sink for Live {
    /// Keeps a part; branch records, names of threads and marks are dropped.
    fn put(&mut self, block: Block) -> Result<()> {
        match block {
            Block::Samples(samples) | Block::Branched(samples, _) => self.samples.extend(samples),
            Block::Processes(processes) => {
                let keyed = processes.into_iter();
                self.processes
                    .extend(keyed.map(|process| ((process.id, process.started), process)));
            }
            Block::Modules(modules) => {
                let keyed = modules.into_iter();
                self.modules.extend(
                    keyed.map(|module| ((module.process, module.start, module.loaded), module)),
                );
            }
            Block::Events(events) => self.events.extend(events),
            Block::Statistics(statistics) => self.statistics = *statistics,
            Block::Threads(_) | Block::Marks(_) | Block::Channels(_) => {}
        }
        Ok(())
    }
}
