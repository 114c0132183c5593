//! The first pass over a recording: samples summed up by what later passes distinguish.

use rustc_hash::FxHashMap;
use shared_types::{Mode, Sample};

/// What a tally tells apart besides the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each stands for a key, and any may be with any")]
pub(crate) struct Apart {
    pub(crate) place: bool,
    pub(crate) process: bool,
    pub(crate) thread: bool,
    pub(crate) processor: bool,
}

impl Apart {
    /// Whether it tells apart all that the other does.
    const fn has(self, other: Self) -> bool {
        (self.place || !other.place)
            && (self.process || !other.process)
            && (self.thread || !other.thread)
            && (self.processor || !other.processor)
    }
}

/// Where samples were taken: an address of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place {
    /// 0 in kernel mode, which all processes share.
    pub(crate) process: u32,
    pub(crate) ip: u64,
    mode: u8,
}

impl Place {
    pub(crate) fn mode(self) -> Mode {
        Mode::from_wire(self.mode.into()).unwrap_or(Mode::Unknown)
    }
}

/// A number of samples, and the number of events that they stand for. All saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Samples.
    pub samples: u64,
    /// The sum of their periods.
    pub events: u64,
    /// The sum of the squares of their periods, for the accuracy of shares.
    pub squares: u128,
}

impl Sum {
    /// A single sample.
    #[must_use]
    pub const fn of(sample: &Sample) -> Self {
        Self::alike(1, sample.period)
    }

    /// Samples of one period.
    #[must_use]
    pub const fn alike(samples: u64, period: u64) -> Self {
        let square = period as u128 * period as u128;
        Self {
            samples,
            events: samples.saturating_mul(period),
            squares: square.saturating_mul(samples as u128),
        }
    }

    /// Adds another sum to this one.
    pub const fn add(&mut self, other: Self) {
        self.samples = self.samples.saturating_add(other.samples);
        self.events = self.events.saturating_add(other.events);
        self.squares = self.squares.saturating_add(other.squares);
    }

    /// Takes a part of this sum from it.
    pub(crate) const fn subtract(&mut self, part: Self) {
        self.samples = self.samples.saturating_sub(part.samples);
        self.events = self.events.saturating_sub(part.events);
        self.squares = self.squares.saturating_sub(part.squares);
    }
}

/// What a tally has of a sample: everything that it does not tell apart is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Entry {
    /// Without [`Apart::process`], that of the place.
    pub(crate) process: u32,
    pub(crate) thread: u32,
    mode: u8,
    ip: u64,
    pub(crate) processor: u32,
    pub(crate) source: u16,
}

impl Entry {
    pub(crate) fn of(sample: &Sample, apart: Apart) -> Self {
        let whole = Self {
            ip: sample.ip,
            process: sample.process,
            thread: sample.thread,
            processor: sample.processor,
            source: sample.source,
            mode: sample.mode,
        };
        whole.only(apart)
    }

    /// The same, with what `apart` does not tell apart left out.
    fn only(self, apart: Apart) -> Self {
        let place = if apart.place { self.place() } else { Place::default() };
        Self {
            ip: place.ip,
            process: if apart.process { self.process } else { place.process },
            thread: if apart.thread { self.thread } else { 0 },
            processor: if apart.processor { self.processor } else { 0 },
            source: self.source,
            mode: place.mode,
        }
    }

    pub(crate) const fn place(self) -> Place {
        let kernel = self.mode == Mode::Kernel as u8;
        Place { ip: self.ip, process: if kernel { 0 } else { self.process }, mode: self.mode }
    }
}

/// Sums by what they tell apart.
pub(crate) type Sums = FxHashMap<Entry, Sum>;

/// Everything that was summed up.
#[derive(Debug)]
pub(crate) struct Tallies {
    /// The first and the last timestamp that was counted.
    pub(crate) span: Option<(u64, u64)>,
    /// Samples with an address, by source.
    pub(crate) addressed: FxHashMap<u16, u64>,
    all: Vec<(Apart, Sums)>,
}

impl Tallies {
    /// Each sample is counted in as few tallies as there can be: a tally that tells less apart than
    /// another is a sum over it.
    pub(crate) fn new(apart: &[Apart]) -> Self {
        let mut all: Vec<(Apart, Sums)> = Vec::new();
        for &apart in apart {
            if !all.iter().any(|(other, _)| other.has(apart)) {
                all.retain(|&(other, _)| !apart.has(other));
                all.push((apart, Sums::default()));
            }
        }
        Self { span: None, addressed: FxHashMap::default(), all }
    }

    /// The time between the first and the last counted sample.
    pub(crate) fn seen_ns(&self, frequency: u64) -> u64 {
        let (first, last) = self.span.unwrap_or_default();
        let nanoseconds = u128::from(last - first) * 1_000_000_000;
        let nanoseconds = nanoseconds.checked_div(frequency.into()).unwrap_or(0);
        u64::try_from(nanoseconds).unwrap_or(u64::MAX)
    }

    /// Adds samples: all of them to one tally after the other, so that the processor waits for
    /// several entries of a large tally at the same time.
    pub(crate) fn add<'a>(&mut self, samples: &(impl Iterator<Item = &'a Sample> + Clone)) {
        let (mut first, mut last) = self.span.unwrap_or((u64::MAX, 0));
        for sample in samples.clone() {
            if sample.mode != Mode::Unknown as u8 {
                *self.addressed.entry(sample.source).or_default() += 1;
            }
            first = first.min(sample.timestamp);
            last = last.max(sample.timestamp);
        }
        self.span = (first <= last).then_some((first, last));
        for (apart, sums) in &mut self.all {
            for sample in samples.clone() {
                let entry = Entry::of(sample, *apart);
                sums.entry(entry).or_default().add(Sum::of(sample));
            }
        }
    }

    /// Passes each entry that `apart` tells apart to `visit`, with its sum.
    pub(crate) fn each(&self, apart: Apart, mut visit: impl FnMut(Entry, Sum)) {
        let Some((finer, sums)) = self.all.iter().find(|(other, _)| other.has(apart)) else {
            return;
        };
        if *finer == apart {
            for (&entry, &sum) in sums {
                visit(entry, sum);
            }
            return;
        }
        let mut coarser = Sums::default();
        for (entry, &sum) in sums {
            coarser.entry(entry.only(apart)).or_default().add(sum);
        }
        for (entry, sum) in coarser {
            visit(entry, sum);
        }
    }

    /// Every place that was told apart, once, in order.
    pub(crate) fn places(&self) -> Vec<Place> {
        let tallies = self.all.iter().filter(|(apart, _)| apart.place);
        let entries = tallies.flat_map(|(_, sums)| sums.keys());
        let mut places: Vec<Place> = entries.map(|entry| entry.place()).collect();
        places.sort_unstable();
        places.dedup();
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Apart = Apart { place: true, process: false, thread: false, processor: false };
    const PROCESS: Apart = Apart { place: false, process: true, ..PLACE };
    const NOTHING: Apart = Apart { place: false, ..PLACE };

    fn each(tallies: &Tallies, apart: Apart) -> Vec<(Entry, Sum)> {
        let mut all = Vec::new();
        tallies.each(apart, |entry, sum| all.push((entry, sum)));
        all.sort_unstable_by_key(|&(entry, _)| entry);
        all
    }

    fn sample(ip: u64, process: u32, mode: Mode) -> Sample {
        Sample { ip, process, thread: 7, period: u64::MAX, mode: mode as u8, ..Sample::default() }
    }

    #[test]
    fn what_is_not_told_apart_is_one() {
        let mut tallies = Tallies::new(&[NOTHING, PLACE, PROCESS, NOTHING, PLACE]);
        assert_eq!(tallies.all.len(), 2);
        let samples = [1, 2, 1].map(|ip| sample(ip, 4, Mode::User));
        tallies.add(&samples.iter());
        let all = each(&tallies, NOTHING);
        let sum = Sum { samples: 3, events: u64::MAX, squares: u128::MAX };
        assert_eq!(all, [(Entry::default(), sum)]);
        assert_eq!(each(&tallies, PLACE).len(), 2);
        assert_eq!(each(&tallies, PROCESS).len(), 1);
    }

    #[test]
    fn all_processes_share_the_kernel() {
        let both = Apart { process: true, ..PLACE };
        let samples =
            [sample(1, 4, Mode::Kernel), sample(1, 8, Mode::Kernel), sample(1, 8, Mode::User)];
        for apart in [&[PLACE, PROCESS][..], &[both]] {
            let mut tallies = Tallies::new(apart);
            tallies.add(&samples.iter());
            let kernel = Place { ip: 1, process: 0, mode: Mode::Kernel as u8 };
            let user = Place { ip: 1, process: 8, mode: Mode::User as u8 };
            assert_eq!(tallies.places(), [kernel, user]);
            let places = each(&tallies, PLACE);
            let places = places.iter().map(|(entry, sum)| (entry.place(), sum.samples));
            assert_eq!(places.collect::<Vec<_>>(), [(kernel, 2), (user, 1)]);
            let processes = each(&tallies, PROCESS);
            let processes = processes.iter().map(|(entry, sum)| (entry.process, sum.samples));
            assert_eq!(processes.collect::<Vec<_>>(), [(4, 1), (8, 2)]);
        }
    }
}
