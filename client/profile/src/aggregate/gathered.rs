//! The basis of pictures and exports: a recording's samples, summed by place and by time.

pub mod binned;

use crate::aggregate::tally::{Apart, Entry, Sums};
use crate::file::{Metadata, Module, Recording, Turns};
use crate::symbols::Frame;
use crate::views::marks::{Choice, Marks};
use crate::views::report::{Sum, turns, whole_time};
use binned::{Binned, Limit};
use shared_types::{Mode, Sample};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The largest number of bins of a timeline; fewer would hide detail, more could not be seen.
const TIMELINE_BINS: u64 = 256;
/// The largest number of moments: what a browser can still load.
const MOMENTS_MAX: usize = 1 << 19;

/// What the lanes of a timeline stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lanes {
    /// One lane for each processor.
    #[default]
    Processor,
    /// One lane for each process.
    Process,
}

impl Lanes {
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
const APART: Apart = Apart { place: true, process: true, thread: true, processor: false };

/// Where samples were taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The machine, if there are several.
    pub machine: Option<Arc<str>>,
    /// The process's name: its program's name with its identifier.
    pub process_name: Arc<str>,
    /// Process identifier, or the number of a process that has that of an earlier one: see
    /// [`Recording::spaces`].
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
pub struct Spot {
    /// Index of the source, as in samples.
    pub source: u16,
    /// Index in [`Gathered::places`].
    pub place: usize,
    /// The sum of these samples.
    pub weight: Sum,
}

/// Samples of one source at one place and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The time, as a sample's time stamp.
    pub time: u64,
    /// Index of the source, as in samples.
    pub source: u16,
    /// Index in [`Gathered::places`].
    pub place: usize,
    /// The sum of these samples.
    pub weight: Sum,
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
    pub weight: Sum,
    /// If it took turns on the counters: how long it was on one. All its events are scaled by that
    /// to the whole time.
    pub turns: Option<Turns>,
}

impl Source {
    /// For which part of the time it was counted, and how accurate its events are; `None` if it was
    /// on a counter all the time.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "percentages with one decimal")]
    pub fn estimated(&self) -> Option<String> {
        let turns = self.turns.as_ref()?;
        let part = turns.running as f64 / turns.enabled.max(1) as f64 * 100.0;
        let events = self.weight.events;
        let bound = turns.error(events, self.weight.samples, self.weight.squares, self.period);
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
pub struct Lane {
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
pub struct Gatherer {
    lanes: Lanes,
    sums: Sums,
    timeline: Binned<Lane>,
    moments: Option<Binned<Entry>>,
    lengthened: Binned<u16>,
    periods: HashMap<u16, u64>,
}

/// Samples by place and by time.
#[derive(Debug)]
pub struct Gathered {
    /// The recording without its samples.
    pub recording: Recording,
    /// The sources that were recorded.
    pub sources: Vec<Source>,
    /// Every place, in order of process, thread, mode and address.
    pub places: Vec<Place>,
    /// The sum for each source and place, in their order.
    pub spots: Vec<Spot>,
    /// What the lanes of `timeline` stand for.
    pub lanes: Lanes,
    /// The sums by time for each lane.
    pub timeline: Binned<Lane>,
    rates: BTreeMap<u16, BTreeMap<u32, Bins>>,
    /// By source, the samples whose period the interrupt-time guard had raised, over time.
    pub lengthened: Binned<u16>,
    /// Single samples, or those merged within `moment_ticks`; empty unless they were asked for.
    pub moments: Vec<Moment>,
    /// How many ticks each moment covers: 1 if times are exact.
    pub moment_ticks: u64,
    /// The program's marks, if the recording was read with them.
    pub marks: Marks,
}

impl Gatherer {
    /// Gathers the samples of a recording; with `moments`, single samples are kept too.
    #[must_use]
    pub fn new(metadata: &Metadata, lanes: Lanes, moments: bool) -> Self {
        let periods = (0..=u16::MAX).zip(metadata.sources.iter().map(period));
        Self {
            lanes,
            sums: Sums::default(),
            timeline: Binned::new(Limit::Bins(TIMELINE_BINS)),
            moments: moments.then(|| Binned::new(Limit::Sums(MOMENTS_MAX))),
            lengthened: Binned::new(Limit::Bins(TIMELINE_BINS)),
            periods: periods.collect(),
        }
    }

    /// Adds a sample.
    pub fn add(&mut self, sample: &Sample) {
        let weight = Sum::of(sample);
        let lane = Lane {
            source: sample.source,
            number: match self.lanes {
                Lanes::Processor => sample.processor,
                Lanes::Process => sample.process,
            },
            mode: mode(sample.mode) as u8,
        };
        self.timeline.add(sample.timestamp, lane, weight);
        let entry = Entry::of(sample, APART);
        self.sums.entry(entry).or_default().add(weight);
        if let Some(moments) = &mut self.moments {
            moments.add(sample.timestamp, entry, weight);
        }
        let begun = self.periods.get(&sample.source);
        if begun.is_some_and(|&begun| begun != 0 && sample.period > begun) {
            self.lengthened.add(sample.timestamp, sample.source, weight);
        }
    }

    /// Sums up; `name` finds the code at an address of a process, and the index of its module.
    pub fn finish(
        mut self,
        mut recording: Recording,
        mut name: impl FnMut(u32, u64, Mode) -> (Frame, Option<usize>),
    ) -> Gathered {
        let turns = recording.turns();
        let scaled = |source: u16, sum: Sum| whole_time(&turns, source, sum);
        self.timeline.scale(|lane, weight| scaled(lane.source, weight));
        let mut entries: Vec<(Entry, Sum)> = self.sums.into_iter().collect();
        entries.sort_unstable_by_key(|&(entry, _)| entry);
        let mut places: Vec<Place> = Vec::new();
        let mut spots = Vec::with_capacity(entries.len());
        let mut place_of: HashMap<Entry, usize> = HashMap::with_capacity(entries.len());
        let mut last = None;
        for (entry, sum) in entries {
            let at = (entry.process, entry.thread, entry.place());
            if last != Some(at) {
                let (process, thread, place) = at;
                let (mode, address) = (place.mode(), place.ip);
                let (frame, module) = name(process, address, mode);
                let process = recording.spaces.process(process);
                places.push(Place {
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
            let place = places.len() - 1;
            place_of.insert(entry, place);
            spots.push(Spot { source: entry.source, place, weight: scaled(entry.source, sum) });
        }
        spots.sort_unstable_by_key(|spot| (spot.source, spot.place));
        let moment_ticks = self.moments.as_ref().map_or(1, Binned::width);
        let moments = self.moments.as_ref();
        let moments = moments.map(|moments| single(moments, &place_of, scaled));
        let spaces = &recording.spaces;
        let rates = rates(&self.timeline, |number| match self.lanes {
            Lanes::Processor => number,
            Lanes::Process => spaces.process(number),
        });
        Gathered {
            marks: Marks::of(&mut recording, &Choice::default()),
            sources: sources(&recording, &spots, &turns),
            recording,
            places,
            spots,
            lanes: self.lanes,
            rates,
            timeline: self.timeline,
            lengthened: self.lengthened,
            moments: moments.unwrap_or_default(),
            moment_ticks,
        }
    }
}

/// Moments in order of time, with the place of each.
fn single(
    moments: &Binned<Entry>,
    places: &HashMap<Entry, usize>,
    scaled: impl Fn(u16, Sum) -> Sum,
) -> Vec<Moment> {
    let sums = moments.sums().into_iter();
    let moment = |(bin, entry, weight): (u64, Entry, Sum)| {
        let &place = places.get(&entry)?;
        Some(Moment {
            time: moments.begin(bin),
            source: entry.source,
            place,
            weight: scaled(entry.source, weight),
        })
    };
    sums.filter_map(moment).collect()
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
fn sources(recording: &Recording, spots: &[Spot], turns: &BTreeMap<u16, Turns>) -> Vec<Source> {
    let told = (0..=u16::MAX).zip(&recording.metadata.sources);
    let mut sources: BTreeMap<u16, Source> = told
        .map(|(index, source)| {
            let source = Source {
                index,
                name: source.name.clone(),
                period: period(source),
                weight: Sum::default(),
                turns: turns.get(&index).cloned(),
            };
            (index, source)
        })
        .collect();
    for spot in spots {
        let source = sources.entry(spot.source).or_insert_with(|| Source {
            index: spot.source,
            name: format!("source {}", spot.source),
            period: 0,
            weight: Sum::default(),
            turns: turns.get(&spot.source).cloned(),
        });
        source.weight.add(spot.weight);
    }
    sources.into_values().collect()
}

/// Adds `own` to `sums`, merging sources of the same name; returns the new index of each of `own`.
fn index_of(sums: &mut Vec<Source>, own: &[Source]) -> HashMap<u16, u16> {
    let mut index_of = HashMap::new();
    for source in own {
        let known = sums.iter_mut().find(|sum| sum.name == source.name);
        let index = if let Some(sum) = known {
            sum.weight.add(source.weight);
            sum.turns = turns(sum.turns.as_ref(), source.turns.as_ref());
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
    let spaces = &recording.spaces;
    let (id, first) = (spaces.id(number), spaces.process(number));
    let mut all = recording.processes.iter();
    match all.find(|process| process.id == id && spaces.of_process(process) == first) {
        Some(process) if !process.name.is_empty() => format!("{} ({id})", process.name),
        _ => format!("process {id}"),
    }
}

impl Place {
    /// The file's own name with the line, `main.c:7`; `None` if the line is not known.
    #[must_use]
    pub fn file_and_line(&self) -> Option<String> {
        let file = self.frame.file.as_deref()?;
        let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
        Some(format!("{name}:{}", self.frame.line?))
    }
}

impl Gathered {
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
        let mut places = Vec::new();
        let mut spots = Vec::new();
        let mut modules = Vec::new();
        let mut sources: Vec<Source> = Vec::new();
        let mut recordings = Vec::new();
        let mut rest = None;
        for (machine, mut one) in all {
            let index_of = index_of(&mut sources, &one.sources);
            spots.extend(one.spots.drain(..).map(|spot| Spot {
                source: index_of.get(&spot.source).copied().unwrap_or_default(),
                place: places.len() + spot.place,
                weight: spot.weight,
            }));
            places.extend(one.places.drain(..).map(|place| Place {
                machine: Some(Arc::clone(&machine)),
                module: place.module.map(|module| modules.len() + module),
                process: one.recording.spaces.id(place.process),
                ..place
            }));
            modules.append(&mut one.recording.modules);
            recordings.push(std::mem::take(&mut one.recording));
            rest = Some(one);
        }
        spots.sort_by_key(|spot| (spot.source, spot.place));
        let recording = Recording { modules, ..Recording::combined(recordings)? };
        Some(Self {
            recording,
            sources,
            places,
            spots,
            rates: BTreeMap::new(),
            moments: Vec::new(),
            ..rest?
        })
    }

    /// The names of all levels of a place, outermost first: process, thread, module, then the
    /// symbol and the line if they are known.
    #[must_use]
    pub fn levels(&self, place: &Place) -> Vec<String> {
        let machine = place.machine.iter().map(ToString::to_string);
        let mut levels: Vec<String> = machine.collect();
        levels.extend([
            place.process_name.to_string(),
            format!("thread {}", place.thread),
            place.frame.module.to_string(),
        ]);
        levels.extend(place.frame.symbol.as_deref().map(str::to_owned));
        levels.extend(place.file_and_line());
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
            told => u128::from(told),
        };
        let nanoseconds = u128::from(ticks) * 1_000_000_000 / frequency;
        u64::try_from(nanoseconds).unwrap_or(u64::MAX)
    }

    /// The module that contains a place, with its index in the recording.
    #[must_use]
    pub fn module_of(&self, place: &Place) -> Option<(usize, &Module)> {
        let index = place.module?;
        Some((index, self.recording.modules.get(index)?))
    }

    /// The rates of one source over time, for each lane by number.
    pub fn lanes_of(&self, source: &Source) -> impl Iterator<Item = (u32, &Bins)> {
        let lanes = self.rates.get(&source.index).into_iter().flatten();
        lanes.map(|(&number, bins)| (number, bins))
    }

    /// The spots of one source.
    pub fn spots_of(&self, source: &Source) -> impl Iterator<Item = (&Place, Sum)> {
        let first = self.spots.partition_point(|spot| spot.source < source.index);
        let spots = self.spots.iter().skip(first);
        let index = source.index;
        spots
            .take_while(move |spot| spot.source == index)
            .filter_map(|spot| Some((self.places.get(spot.place)?, spot.weight)))
    }
}

/// The sums of a timeline by source and lane.
fn rates(
    timeline: &Binned<Lane>,
    number: impl Fn(u32) -> u32,
) -> BTreeMap<u16, BTreeMap<u32, Bins>> {
    let mut rates: BTreeMap<u16, BTreeMap<u32, Bins>> = BTreeMap::new();
    for (bin, lane, weight) in timeline.sums() {
        let mut by_mode = Bin::default();
        if let Some(events) = by_mode.0.get_mut(usize::from(lane.mode)) {
            *events = weight.events;
        }
        let lanes = rates.entry(lane.source).or_default();
        let bins = lanes.entry(number(lane.number)).or_default();
        bins.entry(bin).or_default().add(by_mode);
    }
    rates
}
