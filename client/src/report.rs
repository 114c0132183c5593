//! What a recording says: samples by source, processor, process, module and address.

use crate::Result;
use crate::recording::{self, Module, Recording};
use shared_types::{Mode, Sample};
use std::collections::HashMap;
use std::hash::Hash;
use std::path::Path;

/// A recording, summed up. Every list begins with the most samples.
#[derive(Clone, Debug)]
pub struct Report {
    /// What the file has beside its samples.
    pub recording: Recording,
    /// By source, with its filter if one was given.
    pub by_source: Vec<(String, u64)>,
    /// By processor's index.
    pub by_processor: Vec<(u32, u64)>,
    /// By process identifier.
    pub by_process: Vec<(u32, u64)>,
    /// By module; `unknown` where no module was loaded.
    pub by_module: Vec<(String, u64)>,
    /// By address; 0 where samples have none.
    pub by_address: Vec<(u64, u64)>,
}

#[derive(Debug, Default)]
struct Tallies {
    sources: HashMap<u16, u64>,
    processors: HashMap<u32, u64>,
    processes: HashMap<u32, u64>,
    addresses: HashMap<(u32, u64, u8), u64>,
}

impl Tallies {
    fn add(&mut self, sample: &Sample) {
        *self.sources.entry(sample.source).or_default() += 1;
        *self.processors.entry(sample.processor).or_default() += 1;
        *self.processes.entry(sample.process).or_default() += 1;
        let place = (sample.process, sample.ip, sample.mode);
        *self.addresses.entry(place).or_default() += 1;
    }
}

impl Report {
    /// Reads and sums up a recording.
    pub fn read(path: &Path) -> Result<Self> {
        let mut tallies = Tallies::default();
        let recording = recording::read(path, |samples| {
            for sample in samples {
                tallies.add(sample);
            }
        })?;
        let source = |index: u16| match recording.metadata.sources.get(usize::from(index)) {
            Some(source) => source.name.clone(),
            None => format!("source {index}"),
        };
        let modules = &recording.modules;
        let place = |&(process, ip, mode): &(u32, u64, u8)| module_of(modules, process, ip, mode);
        let addresses = &tallies.addresses;
        Ok(Self {
            by_source: sorted(
                tallies
                    .sources
                    .iter()
                    .map(|(&index, &n)| (source(index), n)),
            ),
            by_processor: sorted(tallies.processors),
            by_process: sorted(tallies.processes),
            by_module: sorted(addresses.iter().map(|(key, &n)| (place(key), n))),
            by_address: sorted(addresses.iter().map(|(&(_, ip, _), &n)| (ip, n))),
            recording,
        })
    }

    /// The module an address is in.
    #[must_use]
    pub fn module(&self, ip: u64) -> &str {
        let mut modules = self.recording.modules.iter();
        let module = modules.find(|module| module.contains(ip));
        module.map_or("unknown", |module| &module.name)
    }
}

fn module_of(modules: &[Module], process: u32, ip: u64, mode: u8) -> String {
    let here = |module: &&Module| module.process.is_none_or(|id| id == process);
    let mut modules = modules.iter().filter(here);
    let module = modules.find(|module| module.contains(ip));
    match (module, Mode::from_wire(mode.into())) {
        (Some(module), _) => module.name.clone(),
        (None, None | Some(Mode::Unknown)) => "no address".to_owned(),
        (None, Some(_)) => "unknown".to_owned(),
    }
}

/// Sums by key; the most first, equals in order of their keys.
fn sorted<K: Ord + Hash>(pairs: impl IntoIterator<Item = (K, u64)>) -> Vec<(K, u64)> {
    let mut sums: HashMap<K, u64> = HashMap::new();
    for (key, n) in pairs {
        *sums.entry(key).or_default() += n;
    }
    let mut all: Vec<_> = sums.into_iter().collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Metadata, Source, Statistics, Writer};

    #[test]
    fn samples_are_summed_by_every_key() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.rec");
        let metadata = Metadata {
            sources: vec![Source {
                name: "TotalCycles".to_owned(),
                ..Source::default()
            }],
            ..Metadata::default()
        };
        let module = Module {
            process: Some(7),
            name: "a.exe".to_owned(),
            start: 0x1000,
            end: 0x2000,
            ..Module::default()
        };
        let sample = |ip, processor, mode: Mode| Sample {
            ip,
            processor,
            process: 7,
            mode: mode as u8,
            ..Sample::default()
        };
        let mut writer = Writer::create(&path, &metadata).expect("created");
        writer.modules(&[module]).expect("written");
        writer
            .samples(&[
                sample(0x1000, 0, Mode::User),
                sample(0x1FFF, 1, Mode::User),
                sample(0x2000, 1, Mode::Kernel),
                sample(0, 1, Mode::Unknown),
            ])
            .expect("written");
        writer
            .finish(&Statistics::default(), false)
            .expect("finished");
        let report = Report::read(&path).expect("read");
        assert_eq!(report.by_source, [("TotalCycles".to_owned(), 4)]);
        assert_eq!(report.by_processor, [(1, 3), (0, 1)]);
        assert_eq!(report.by_process, [(7, 4)]);
        let modules = [("a.exe", 2), ("no address", 1), ("unknown", 1)];
        assert_eq!(
            report.by_module,
            modules.map(|(name, n)| (name.to_owned(), n))
        );
        assert_eq!(report.by_address.len(), 4);
    }
}
