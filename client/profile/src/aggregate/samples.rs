//! The basis of pictures and exports: a recording's samples, summed by place and by time.

pub mod binned;

use crate::aggregate::aggregator::{GroupBy, GroupKey, TotalsByKey};
use crate::file::{Metadata, Module, Recording, Slices};
use crate::symbols::Frame;
use crate::views::marks::{MarkFilter, Marks};
use crate::views::report::{Totals, slices, whole_time};
use binned::{Binned, Limit};
use shared_types::{Mode, Sample};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The largest number of bins of a timeline; fewer would hide detail, more could not be seen.
const TIMELINE_BINS: u64 = 256;
/// The largest number of moments: what a browser can still load.
const TIMED_SAMPLES_MAX: usize = 1 << 19;

/// What the lanes of a timeline stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrackBy {
    /// One lane for each processor.
    #[default]
    Processor,
    /// One lane for each process.
    Process,
}

impl TrackBy {
    /// The word before a lane's number.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Processor => "processor",
            Self::Process => "process",
        }
    }
}

/// What pictures and exports distinguish.
const APART: GroupBy = GroupBy { location: true, process: true, thread: true, processor: false };

/// Where samples were taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadLocation {
    /// The machine, if there are several.
    pub machine: Option<Arc<str>>,
    /// The process's name: its program's name with its identifier.
    pub process_name: Arc<str>,
    /// Process identifier, or the number of a process that has that of an earlier one: see
    /// [`Recording::process_ids`].
    pub process: u32,
    /// Thread identifier.
    pub thread: u32,
    /// The mode that was interrupted.
    pub mode: Mode,
    /// Address of the interrupted instruction; 0 if `mode` is [`Mode::Unknown`].
    pub address: u64,
    /// The code at that address.
    pub frame: Frame,
    /// Index of the module in the recording, if there is one.
    pub module: Option<usize>,
}

/// Samples of one source at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocationTotals {
    /// Index of the source, as in samples.
    pub source: u16,
    /// Index in [`Aggregate::locations`].
    pub location: usize,
    /// The sum of these samples.
    pub totals: Totals,
}

/// Samples of one source at one place and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedSample {
    /// The time, as a sample's time stamp.
    pub time: u64,
    /// Index of the source, as in samples.
    pub source: u16,
    /// Index in [`Aggregate::locations`].
    pub location: usize,
    /// The sum of these samples.
    pub totals: Totals,
}

/// One source of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// Its index, as in samples.
    pub index: u16,
    /// Its name, with its filter if it has one.
    pub name: String,
    /// Events between samples at the beginning; 0 if the recording does not say.
    pub period: u64,
    /// All its samples.
    pub totals: Totals,
    /// If it took turns on the counters: how long it was on one. All its events are scaled by that
    /// to the whole time.
    pub slices: Option<Slices>,
}

impl Source {
    /// For which part of the time it was counted, and how accurate its events are; `None` if it was
    /// on a counter all the time.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "percentages with one decimal")]
    pub fn estimated(&self) -> Option<String> {
        let slices = self.slices.as_ref()?;
        let part = slices.running as f64 / slices.enabled.max(1) as f64 * 100.0;
        let events = self.totals.events;
        let bound = slices.error(events, self.totals.samples, self.totals.squares, self.period);
        let bound = match bound.filter(|_| events != 0) {
            // Rounded up, never down.
            Some(bound) => {
                let percent = bound as f64 / events as f64 * 100.0;
                format!("±{:.1} %", (percent * 10.0).ceil() / 10.0)
            }
            None => "with an unknown bound".to_owned(),
        };
        Some(format!(
            "{} was on a counter {part:.1} % of the time: its events are estimates for all of it, {bound}",
            self.name
        ))
    }
}

/// The rate of a source in one lane of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TrackKey {
    /// Index of the source.
    pub source: u16,
    /// Number of the processor or process.
    pub number: u32,
    /// The mode that was interrupted: a [`Mode`], as a number.
    pub mode: u8,
}

/// The events of one bin, indexed by [`Mode`] as a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin(pub [u64; 3]);

impl Bin {
    /// The sum over all modes.
    #[must_use]
    pub fn events(self) -> u64 {
        self.0.iter().fold(0, |sum, &n| sum.saturating_add(n))
    }

    /// Adds the events of another bin.
    pub fn add(&mut self, other: Self) {
        for (sum, n) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(n);
        }
    }
}

/// Bins by their number.
pub type Bins = BTreeMap<u64, Bin>;

/// Gathers samples one after the other, in memory that does not grow with their number.
#[derive(Debug)]
pub struct AggregateBuilder {
    tracks: TrackBy,
    sums: TotalsByKey,
    timeline: Binned<TrackKey>,
    timed_samples: Option<Binned<GroupKey>>,
    raised_periods: Binned<u16>,
    periods: HashMap<u16, u64>,
}

/// Samples by place and by time.
#[derive(Debug)]
pub struct Aggregate {
    /// The recording without its samples.
    pub recording: Recording,
    /// The sources that were recorded.
    pub sources: Vec<Source>,
    /// Every place, in order of process, thread, mode and address.
    pub locations: Vec<ThreadLocation>,
    /// The sum for each source and place, in their order.
    pub location_totals: Vec<LocationTotals>,
    /// What the lanes of `timeline` stand for.
    pub tracks: TrackBy,
    /// The sums by time for each lane.
    pub timeline: Binned<TrackKey>,
    rates: BTreeMap<u16, BTreeMap<u32, Bins>>,
    /// By source, the samples whose period the interrupt-time guard had raised, over time.
    pub raised_periods: Binned<u16>,
    /// Single samples, or those merged within `timed_sample_ticks`; empty unless they were asked for.
    pub timed_samples: Vec<TimedSample>,
    /// How many ticks each moment covers: 1 if times are exact.
    pub timed_sample_ticks: u64,
    /// The program's marks, if the recording was read with them.
    pub marks: Marks,
}

impl AggregateBuilder {
    /// Gathers the samples of a recording; with `timed_samples`, single samples are kept too.
    #[must_use]
    pub fn new(metadata: &Metadata, tracks: TrackBy, timed_samples: bool) -> Self {
        let periods = (0..=u16::MAX).zip(metadata.sources.iter().map(period));
        Self {
            tracks,
            sums: TotalsByKey::default(),
            timeline: Binned::new(Limit::Bins(TIMELINE_BINS)),
            timed_samples: timed_samples.then(|| Binned::new(Limit::Keys(TIMED_SAMPLES_MAX))),
            raised_periods: Binned::new(Limit::Bins(TIMELINE_BINS)),
            periods: periods.collect(),
        }
    }

    /// Adds a sample.
    pub fn add(&mut self, sample: &Sample) {
        let totals = Totals::of(sample);
        let track = TrackKey {
            source: sample.source,
            number: match self.tracks {
                TrackBy::Processor => sample.processor,
                TrackBy::Process => sample.process,
            },
            mode: mode(sample.mode) as u8,
        };
        self.timeline.add(sample.timestamp, track, totals);
        let entry = GroupKey::of(sample, APART);
        self.sums.entry(entry).or_default().add(totals);
        if let Some(timed_samples) = &mut self.timed_samples {
            timed_samples.add(sample.timestamp, entry, totals);
        }
        let begun = self.periods.get(&sample.source);
        if begun.is_some_and(|&begun| begun != 0 && sample.period > begun) {
            self.raised_periods.add(sample.timestamp, sample.source, totals);
        }
    }

    /// Sums up; `name` finds the code at an address of a process, and the index of its module.
    pub fn finish(
        mut self,
        mut recording: Recording,
        mut name: impl FnMut(u32, u64, Mode) -> (Frame, Option<usize>),
    ) -> Aggregate {
        let slices = recording.slices();
        let scaled = |source: u16, sum: Totals| whole_time(&slices, source, sum);
        self.timeline.scale(|track, totals| scaled(track.source, totals));
        let mut entries: Vec<(GroupKey, Totals)> = self.sums.into_iter().collect();
        entries.sort_unstable_by_key(|&(entry, _)| entry);
        let mut locations: Vec<ThreadLocation> = Vec::new();
        let mut location_totals = Vec::with_capacity(entries.len());
        let mut place_of: HashMap<GroupKey, usize> = HashMap::with_capacity(entries.len());
        let mut last = None;
        for (entry, sum) in entries {
            let at = (entry.process, entry.thread, entry.location());
            if last != Some(at) {
                let (process, thread, location) = at;
                let (mode, address) = (location.mode(), location.ip);
                let (frame, module) = name(process, address, mode);
                let process = recording.process_ids.process(process);
                locations.push(ThreadLocation {
                    machine: None,
                    process_name: process_name(&recording, process).into(),
                    process,
                    thread,
                    mode,
                    address,
                    frame,
                    module,
                });
            }
            last = Some(at);
            let location = locations.len() - 1;
            place_of.insert(entry, location);
            location_totals.push(LocationTotals {
                source: entry.source,
                location,
                totals: scaled(entry.source, sum),
            });
        }
        location_totals
            .sort_unstable_by_key(|entry_totals| (entry_totals.source, entry_totals.location));
        let timed_sample_ticks = self.timed_samples.as_ref().map_or(1, Binned::width);
        let timed_samples = self.timed_samples.as_ref();
        let timed_samples =
            timed_samples.map(|timed_samples| timed_samples_of(timed_samples, &place_of, scaled));
        let process_ids = &recording.process_ids;
        let rates = rates(&self.timeline, |number| match self.tracks {
            TrackBy::Processor => number,
            TrackBy::Process => process_ids.process(number),
        });
        Aggregate {
            marks: Marks::of(&mut recording, &MarkFilter::default()),
            sources: sources(&recording, &location_totals, &slices),
            recording,
            locations,
            location_totals,
            tracks: self.tracks,
            rates,
            timeline: self.timeline,
            raised_periods: self.raised_periods,
            timed_samples: timed_samples.unwrap_or_default(),
            timed_sample_ticks,
        }
    }
}

/// Moments in order of time, with the place of each.
fn timed_samples_of(
    timed_samples: &Binned<GroupKey>,
    locations: &HashMap<GroupKey, usize>,
    scaled: impl Fn(u16, Totals) -> Totals,
) -> Vec<TimedSample> {
    let sums = timed_samples.totals().into_iter();
    let timed_sample = |(bin, entry, totals): (u64, GroupKey, Totals)| {
        let &location = locations.get(&entry)?;
        Some(TimedSample {
            time: timed_samples.begin(bin),
            source: entry.source,
            location,
            totals: scaled(entry.source, totals),
        })
    };
    sums.filter_map(timed_sample).collect()
}

/// The mode of a number; unknown if it is not a mode's.
fn mode(wire: u8) -> Mode {
    Mode::from_wire(wire.into()).unwrap_or(Mode::Unknown)
}

/// Events between samples at the beginning; 0 if the recording does not say.
const fn period(source: &crate::file::Source) -> u64 {
    match source.period.events {
        0 => source.period.used,
        events => events,
    }
}

/// The recording's sources in its order, then those that only occur in samples.
fn sources(
    recording: &Recording,
    location_totals: &[LocationTotals],
    slices: &BTreeMap<u16, Slices>,
) -> Vec<Source> {
    let named = (0..=u16::MAX).zip(&recording.metadata.sources);
    let mut sources: BTreeMap<u16, Source> = named
        .map(|(index, source)| {
            let source = Source {
                index,
                name: source.name.clone(),
                period: period(source),
                totals: Totals::default(),
                slices: slices.get(&index).cloned(),
            };
            (index, source)
        })
        .collect();
    for entry_totals in location_totals {
        let source = sources.entry(entry_totals.source).or_insert_with(|| Source {
            index: entry_totals.source,
            name: format!("source {}", entry_totals.source),
            period: 0,
            totals: Totals::default(),
            slices: slices.get(&entry_totals.source).cloned(),
        });
        source.totals.add(entry_totals.totals);
    }
    sources.into_values().collect()
}

/// Adds `own` to `sums`, merging sources of the same name; returns the new index of each of `own`.
fn index_of(sums: &mut Vec<Source>, own: &[Source]) -> HashMap<u16, u16> {
    let mut index_of = HashMap::new();
    for source in own {
        let known = sums.iter_mut().find(|sum| sum.name == source.name);
        let index = if let Some(sum) = known {
            sum.totals.add(source.totals);
            sum.slices = slices(sum.slices.as_ref(), source.slices.as_ref());
            sum.index
        } else {
            let index = u16::try_from(sums.len()).unwrap_or(u16::MAX);
            sums.push(Source { index, ..source.clone() });
            index
        };
        index_of.insert(source.index, index);
    }
    index_of
}

fn process_name(recording: &Recording, number: u32) -> String {
    let process_ids = &recording.process_ids;
    let (id, first) = (process_ids.id(number), process_ids.process(number));
    let mut all = recording.processes.iter();
    match all.find(|process| process.id == id && process_ids.of_process(process) == first) {
        Some(process) if !process.name.is_empty() => format!("{} ({id})", process.name),
        _ => format!("process {id}"),
    }
}

impl ThreadLocation {
    /// The file's own name with the line, `main.c:7`; `None` if the line is not known.
    #[must_use]
    pub fn file_and_line(&self) -> Option<String> {
        let file = self.frame.file.as_deref()?;
        let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
        Some(format!("{name}:{}", self.frame.line?))
    }
}

impl Aggregate {
    /// The name of a process: its program's name with its identifier.
    #[must_use]
    pub fn process_name(&self, number: u32) -> String {
        process_name(&self.recording, number)
    }

    /// Several recordings as one, each with its machine's name; `None` if there are none. The
    /// result shows no times, because each machine has a clock of its own.
    #[must_use]
    pub fn combined(mut all: Vec<(Arc<str>, Self)>) -> Option<Self> {
        if all.len() < 2 {
            return all.pop().map(|(_, one)| one);
        }
        let mut locations = Vec::new();
        let mut location_totals = Vec::new();
        let mut modules = Vec::new();
        let mut sources: Vec<Source> = Vec::new();
        let mut recordings = Vec::new();
        let mut rest = None;
        for (machine, mut one) in all {
            let index_of = index_of(&mut sources, &one.sources);
            location_totals.extend(one.location_totals.drain(..).map(|entry_totals| {
                LocationTotals {
                    source: index_of.get(&entry_totals.source).copied().unwrap_or_default(),
                    location: locations.len() + entry_totals.location,
                    totals: entry_totals.totals,
                }
            }));
            locations.extend(one.locations.drain(..).map(|location| ThreadLocation {
                machine: Some(Arc::clone(&machine)),
                module: location.module.map(|module| modules.len() + module),
                process: one.recording.process_ids.id(location.process),
                ..location
            }));
            modules.append(&mut one.recording.modules);
            recordings.push(std::mem::take(&mut one.recording));
            rest = Some(one);
        }
        location_totals.sort_by_key(|entry_totals| (entry_totals.source, entry_totals.location));
        let recording = Recording { modules, ..Recording::combined(recordings)? };
        Some(Self {
            recording,
            sources,
            locations,
            location_totals,
            rates: BTreeMap::new(),
            timed_samples: Vec::new(),
            ..rest?
        })
    }

    /// The names of all levels of a place, outermost first: process, thread, module, then the
    /// symbol and the line if they are known.
    #[must_use]
    pub fn levels(&self, location: &ThreadLocation) -> Vec<String> {
        let machine = location.machine.iter().map(ToString::to_string);
        let mut levels: Vec<String> = machine.collect();
        levels.extend([
            location.process_name.to_string(),
            format!("thread {}", location.thread),
            location.frame.module.to_string(),
        ]);
        levels.extend(location.frame.symbol.as_deref().map(str::to_owned));
        levels.extend(location.file_and_line());
        levels
    }

    /// Nanoseconds from the first sample to this time stamp.
    #[must_use]
    pub fn nanoseconds(&self, time: u64) -> u64 {
        let first = self.timeline.range().map_or(0, |(first, _)| first);
        self.ticks_to_ns(time.saturating_sub(first))
    }

    /// A time in nanoseconds since the first sample or mark.
    #[must_use]
    pub fn since_first(&self, time: u64) -> u64 {
        let samples = self.timeline.range().map(|(first, _)| first);
        let first = samples.into_iter().chain(self.marks.first()).min();
        self.ticks_to_ns(time.saturating_sub(first.unwrap_or(0)))
    }

    /// Converts ticks to nanoseconds. A recording that does not give the tick rate is read as if a
    /// tick were a nanosecond.
    #[must_use]
    pub fn ticks_to_ns(&self, ticks: u64) -> u64 {
        let frequency = match self.recording.metadata.timestamp_frequency {
            0 => 1_000_000_000,
            named => u128::from(named),
        };
        let nanoseconds = u128::from(ticks) * 1_000_000_000 / frequency;
        u64::try_from(nanoseconds).unwrap_or(u64::MAX)
    }

    /// The module that contains a place, with its index in the recording.
    #[must_use]
    pub fn module_of(&self, location: &ThreadLocation) -> Option<(usize, &Module)> {
        let index = location.module?;
        Some((index, self.recording.modules.get(index)?))
    }

    /// The rates of one source over time, for each lane by number.
    pub fn tracks_of(&self, source: &Source) -> impl Iterator<Item = (u32, &Bins)> {
        let tracks = self.rates.get(&source.index).into_iter().flatten();
        tracks.map(|(&number, bins)| (number, bins))
    }

    /// The spots of one source.
    pub fn location_totals_of(
        &self,
        source: &Source,
    ) -> impl Iterator<Item = (&ThreadLocation, Totals)> {
        let first =
            self.location_totals.partition_point(|entry_totals| entry_totals.source < source.index);
        let location_totals = self.location_totals.iter().skip(first);
        let index = source.index;
        location_totals.take_while(move |entry_totals| entry_totals.source == index).filter_map(
            |entry_totals| Some((self.locations.get(entry_totals.location)?, entry_totals.totals)),
        )
    }
}

/// The sums of a timeline by source and lane.
fn rates(
    timeline: &Binned<TrackKey>,
    number: impl Fn(u32) -> u32,
) -> BTreeMap<u16, BTreeMap<u32, Bins>> {
    let mut rates: BTreeMap<u16, BTreeMap<u32, Bins>> = BTreeMap::new();
    for (bin, track, totals) in timeline.totals() {
        let mut by_mode = Bin::default();
        if let Some(events) = by_mode.0.get_mut(usize::from(track.mode)) {
            *events = totals.events;
        }
        let tracks = rates.entry(track.source).or_default();
        let bins = tracks.entry(number(track.number)).or_default();
        bins.entry(bin).or_default().add(by_mode);
    }
    rates
}
