//! The first pass over a recording: samples summed up by what later passes distinguish.

use rustc_hash::FxHashMap;
use shared_types::{Mode, Sample};

/// What a tally distinguishes apart from the source. Everything else is 0 in its keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each stands for a key, and any may be with any"
)]
pub(crate) struct Apart {
    pub(crate) place: bool,
    pub(crate) process: bool,
    pub(crate) thread: bool,
    pub(crate) processor: bool,
}

/// Where samples were taken: an address of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) ip: u64,
    /// 0 in kernel mode, which all processes share.
    pub(crate) process: u32,
    mode: u8,
}

impl Place {
    fn of(sample: &Sample) -> Self {
        let kernel = sample.mode == Mode::Kernel as u8;
        Self {
            ip: sample.ip,
            process: if kernel { 0 } else { sample.process },
            mode: sample.mode,
        }
    }

    pub(crate) fn mode(self) -> Mode {
        Mode::from_wire(self.mode.into()).unwrap_or(Mode::Unknown)
    }
}

/// A process and one of its threads.
pub(crate) type Task = (u32, u32);

/// A number of samples, and the number of events that they stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Samples.
    pub samples: u64,
    /// The sum of their periods, saturating at 2^64 - 1.
    pub events: u64,
}

impl Sum {
    /// Adds another sum to this one.
    pub const fn add(&mut self, other: Self) {
        self.samples = self.samples.saturating_add(other.samples);
        self.events = self.events.saturating_add(other.events);
    }
}

/// The key of an entry of a tally: place and task are indexes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) place: u32,
    pub(crate) task: u32,
    pub(crate) processor: u32,
    pub(crate) source: u16,
}

impl Entry {
    fn packed(self) -> u128 {
        u128::from(self.place)
            | u128::from(self.task) << 32
            | u128::from(self.processor) << 64
            | u128::from(self.source) << 96
    }

    fn unpacked(key: u128) -> Self {
        Self {
            place: key as u32,
            task: (key >> 32) as u32,
            processor: (key >> 64) as u32,
            source: (key >> 96) as u16,
        }
    }
}

/// Everything that was summed up.
#[derive(Debug)]
pub(crate) struct Tallies {
    pub(crate) places: Vec<Place>,
    pub(crate) tasks: Vec<Task>,
    /// The first and the last timestamp that was counted.
    pub(crate) span: Option<(u64, u64)>,
    /// Samples with an address, by source.
    pub(crate) addressed: FxHashMap<u16, u64>,
    place_index: FxHashMap<Place, u32>,
    task_index: FxHashMap<Task, u32>,
    all: Vec<(Apart, FxHashMap<u128, Sum>)>,
    needs_place: bool,
}

impl Tallies {
    /// Tallies that distinguish the same are shared.
    pub(crate) fn new(apart: &[Apart]) -> Self {
        let mut tallies: Vec<(Apart, FxHashMap<u128, Sum>)> = Vec::new();
        for &apart in apart {
            if tallies.iter().all(|&(other, _)| other != apart) {
                tallies.push((apart, FxHashMap::default()));
            }
        }
        Self {
            places: Vec::new(),
            tasks: Vec::new(),
            span: None,
            addressed: FxHashMap::default(),
            place_index: FxHashMap::default(),
            task_index: FxHashMap::default(),
            needs_place: apart.iter().any(|apart| apart.place),
            all: tallies,
        }
    }

    /// The time between the first and the last counted sample.
    pub(crate) fn seen_ns(&self, frequency: u64) -> u64 {
        let (first, last) = self.span.unwrap_or_default();
        let nanoseconds = u128::from(last - first) * 1_000_000_000;
        let nanoseconds = nanoseconds.checked_div(frequency.into()).unwrap_or(0);
        u64::try_from(nanoseconds).unwrap_or(u64::MAX)
    }

    /// Adds a sample; returns its entry in the first tally.
    pub(crate) fn add(&mut self, sample: &Sample) -> Entry {
        let mut entered = None;
        let place = if self.needs_place {
            index(&mut self.place_index, &mut self.places, Place::of(sample))
        } else {
            0
        };
        if sample.mode != Mode::Unknown as u8 {
            *self.addressed.entry(sample.source).or_default() += 1;
        }
        let (first, last) = self.span.unwrap_or((u64::MAX, 0));
        self.span = Some((first.min(sample.timestamp), last.max(sample.timestamp)));
        for (apart, sums) in &mut self.all {
            let process = if apart.process { sample.process } else { 0 };
            let thread = if apart.thread { sample.thread } else { 0 };
            let task = if apart.process || apart.thread {
                index(&mut self.task_index, &mut self.tasks, (process, thread))
            } else {
                0
            };
            let entry = Entry {
                place: if apart.place { place } else { 0 },
                task,
                processor: if apart.processor { sample.processor } else { 0 },
                source: sample.source,
            };
            entered.get_or_insert(entry);
            sums.entry(entry.packed()).or_default().add(Sum {
                samples: 1,
                events: sample.period,
            });
        }
        entered.unwrap_or_default()
    }

    /// The entries of the tally that distinguishes `apart`.
    pub(crate) fn entries(&self, apart: Apart) -> impl Iterator<Item = (Entry, Sum)> + '_ {
        let tally = self.all.iter().find(|&&(other, _)| other == apart);
        let sums = tally.into_iter().flat_map(|(_, sums)| sums);
        sums.map(|(&key, &sum)| (Entry::unpacked(key), sum))
    }
}

/// The index of a value among those seen so far; a new one is added.
fn index<T: Copy + Eq + std::hash::Hash>(
    known: &mut FxHashMap<T, u32>,
    all: &mut Vec<T>,
    value: T,
) -> u32 {
    *known.entry(value).or_insert_with(|| {
        all.push(value);
        (all.len() - 1) as u32
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_keeps_its_parts_whole() {
        let entry = Entry {
            place: u32::MAX,
            task: 1,
            processor: u32::MAX - 1,
            source: u16::MAX,
        };
        assert_eq!(Entry::unpacked(entry.packed()), entry);
    }

    #[test]
    fn what_is_not_told_apart_is_one() {
        let place = Apart {
            place: true,
            ..Apart::default()
        };
        let mut tallies = Tallies::new(&[place, Apart::default(), place]);
        assert_eq!(tallies.all.len(), 2);
        for ip in [1, 2, 1] {
            tallies.add(&Sample {
                ip,
                period: u64::MAX,
                mode: Mode::User as u8,
                ..Sample::default()
            });
        }
        let all: Vec<_> = tallies.entries(Apart::default()).collect();
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].1.samples, all[0].1.events), (3, u64::MAX));
        assert_eq!(tallies.entries(place).count(), 2);
    }
}
