//! The basis of pictures and exports: a recording's samples, summed by location and by time.

pub mod binned;
mod spans;
pub(crate) mod timed;

use crate::aggregate::aggregator::{Aggregator, GroupBy, GroupKey};
use crate::symbols::code_location::CodeLocation;

use crate::aggregate::locations::Code;
use crate::aggregate::marks::{MarkFilter, Marks};
use crate::aggregate::source_totals::{SourceTotals, merge, whole_time};
use crate::aggregate::thread_names::ThreadNames;
use crate::aggregate::totals::Totals;
use crate::file::{
    Metadata, Module, ProcessIds, Recording, Slices, StackId, UNKNOWN_PROCESS, mode_of,
};
use crate::number::nanoseconds;
use crate::symbols::{Frame, SourceFunction, qualified};
use binned::Binned;
use indexmap::{IndexMap, IndexSet};
use rustc_hash::{FxBuildHasher, FxHashMap};
use shared_types::{Mode, Sample};
use spans::{Span, Spans};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use timed::Timed;

/// The largest number of bins of a timeline: at least twice as many as a picture can show, because
/// bins double in width and may end up half as many.
const TIMELINE_BINS: u64 = 512;
/// The largest number of timed samples: what a browser can still load.
const TIMED_SAMPLES_MAX: usize = 1 << 19;

/// What the tracks of a timeline stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrackBy {
    /// One track for each processor.
    #[default]
    Processor,
    /// One track for each process.
    Process,
}

impl TrackBy {
    /// The word before a track's number.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Processor => "processor",
            Self::Process => "process",
        }
    }
}

/// What pictures and exports distinguish.
const GROUP_BY: GroupBy =
    GroupBy { location: true, process: true, thread: true, stack: true, ..GroupBy::NOTHING };

/// What timed samples distinguish.
const TIMED_BY: GroupBy = GroupBy { processor: true, ..GROUP_BY };

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
    pub thread: u32,
    /// The name that the program gave the thread.
    pub thread_name: Option<Arc<str>>,
    /// The mode that was interrupted.
    pub mode: Mode,
    /// Address of the interrupted instruction; 0 if `mode` is [`Mode::Unknown`].
    pub address: u64,
    /// The code at that address.
    pub frame: Arc<Frame>,
    /// Index of the module in the recording, if there is one.
    pub module: Option<usize>,
    /// Where it was called: an index in [`Samples::callers`]; `None` if that is not known.
    pub caller: Option<usize>,
}

/// Samples of one source at one location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocationTotals {
    /// Index of the source, as in samples.
    pub source: u16,
    /// Index in [`Samples::locations`].
    pub location: usize,
    /// The sum of these samples.
    pub totals: Totals,
}

/// Samples of one source at one location and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedSample {
    /// The time, as a sample's time stamp.
    pub time: u64,
    /// Index of the source, as in samples.
    pub source: u16,
    /// Index in [`Samples::locations`].
    pub location: usize,
    /// The processor.
    pub processor: u32,
    /// The sum of these samples.
    pub totals: Totals,
}

/// The rate of a source in one track of a timeline.
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

/// Sums up samples one after the other, in memory that does not grow with their number.
#[derive(Debug)]
pub struct SamplesBuilder {
    tracks: TrackBy,
    aggregator: Aggregator,
    spans: Spans,
    times: Option<(u64, u64)>,
    timeline: Binned<TrackKey>,
    timed_samples: Option<Timed<GroupKey>>,
}

/// Samples by location and by time.
#[derive(Debug)]
pub struct Samples {
    /// The recording without its samples.
    pub recording: Recording,
    process_names: ProcessNames,
    /// The sources that were recorded.
    pub sources: Vec<SourceTotals>,
    /// Every location, in order of process, thread, mode and address; with call stacks, once for each
    /// stack.
    pub locations: Vec<ThreadLocation>,
    /// Where code was called that has samples or calls such code, of all threads of a process
    /// together. The address is within the call.
    pub callers: Vec<ThreadLocation>,
    /// The sum for each source and location, in their order.
    pub location_totals: Vec<LocationTotals>,
    /// What the tracks of `timeline` stand for.
    pub tracks: TrackBy,
    /// The times of the first and of the last sample; `None` if there are none.
    pub times: Option<(u64, u64)>,
    /// The time from which a filter's time counts: that of the recording's first sample, even if a
    /// filter rejects it.
    pub start: u64,
    /// The sums by time for each track. The events of a sample happened since the one before of its
    /// source on its processor, so the first may begin before all samples.
    pub timeline: Binned<TrackKey>,
    rates: BTreeMap<u16, BTreeMap<u32, Bins>>,
    /// Single samples, or those merged within `timed_sample_ticks`; empty unless they were asked for.
    pub timed_samples: Vec<TimedSample>,
    /// How many ticks each timed sample covers: 1 if times are exact.
    pub timed_sample_ticks: u64,
    /// The program's marks, if the recording was read with them.
    pub marks: Marks,
}

impl SamplesBuilder {
    /// Sums up the samples of a recording; with `timed_samples`, single samples are kept too.
    pub fn new(tracks: TrackBy, timed_samples: bool, metadata: &Metadata) -> Self {
        Self {
            tracks,
            spans: Spans::new(metadata),
            times: None,
            aggregator: Aggregator::new(&[GROUP_BY]),
            timeline: Binned::new(TIMELINE_BINS),
            timed_samples: timed_samples.then(|| Timed::new(TIMED_SAMPLES_MAX)),
        }
    }

    /// Adds a sample without a stack.
    pub fn add(&mut self, sample: &Sample) {
        self.add_stacked(sample, StackId::NONE);
    }

    /// Adds a sample with its stack in the recording's table.
    pub fn add_stacked(&mut self, sample: &Sample, stack: StackId) {
        let totals = Totals::of(sample);
        let track = TrackKey {
            source: sample.source,
            number: match self.tracks {
                TrackBy::Processor => sample.processor,
                TrackBy::Process => sample.process,
            },
            mode: mode_of(sample.mode) as u8,
        };
        let time = sample.timestamp;
        let (first, last) = self.times.unwrap_or((time, time));
        self.times = Some((first.min(time), last.max(time)));
        let timeline = &mut self.timeline;
        self.spans.sample(sample, (track, totals), |Span { from, to, events: (track, totals) }| {
            timeline.add_over(from, to, track, totals);
        });
        self.aggregator.add(std::iter::once((sample, stack)));
        if let Some(timed_samples) = &mut self.timed_samples {
            let group = GroupKey::of(sample, stack, TIMED_BY);
            timed_samples.add(sample.timestamp, group, totals);
        }
    }

    /// Sums up; `name` finds the code at an address of a process, which is 0 for the kernel's code, and
    /// the index of its module.
    pub fn finish(
        mut self,
        mut recording: Recording,
        mut name: impl FnMut(u32, u64, Mode) -> (Frame, Option<usize>),
    ) -> Samples {
        let slices = recording.slices();
        let scaled = |source: u16, sum: Totals| whole_time(&slices, source, sum);
        for Span { from, to, events: (track, totals) } in self.spans.single() {
            self.timeline.add_over(from, to, track, totals);
        }
        self.timeline.scale(|track, totals| scaled(track.source, totals));
        let groups = self.aggregator.finish();
        let locations = groups.locations(&recording.stacks).into_iter();
        let code = locations.map(|location| {
            let (frame, module) = name(location.process, location.ip, location.mode());
            (location, (Arc::new(frame), module))
        });
        let code = code.collect();
        let process_names = ProcessNames::of(&recording);
        let mut locations = ThreadLocations::new(&recording, &code, &process_names);
        let mut by_group = FxHashMap::default();
        let mut location_totals: Vec<LocationTotals> = Vec::new();
        groups.each(GROUP_BY, None, |group, sum| {
            let location = locations.index(group);
            if self.timed_samples.is_some() {
                by_group.insert(group, location);
            }
            let (source, totals) = (group.source, scaled(group.source, sum));
            location_totals.push(LocationTotals { source, location, totals });
        });
        location_totals.sort_unstable_by_key(|own| (own.source, own.location));
        let ThreadLocations { locations, callers, .. } = locations;
        let timed_samples = self.timed_samples.map(|timed| in_order(timed, &by_group, scaled));
        let (timed_sample_ticks, timed_samples) = timed_samples.unwrap_or((1, Vec::new()));
        let process_ids = &recording.process_ids;
        let rates = rates(&self.timeline, |number| match self.tracks {
            TrackBy::Processor => number,
            TrackBy::Process => process_ids.process(number),
        });
        Samples {
            process_names,
            marks: Marks::of(&mut recording, &MarkFilter::default()),
            sources: sources(&recording, &location_totals, &slices),
            recording,
            locations,
            callers,
            location_totals,
            tracks: self.tracks,
            rates,
            times: self.times,
            start: self.times.map_or(0, |(first, _)| first),
            timeline: self.timeline,
            timed_samples,
            timed_sample_ticks,
        }
    }
}

/// Where the threads were sampled, and where that was called, each once.
struct ThreadLocations<'a> {
    recording: &'a Recording,
    code: &'a FxHashMap<CodeLocation, Code>,
    process_names: &'a ProcessNames,
    thread_names: ThreadNames,
    locations: Vec<ThreadLocation>,
    /// The process, thread, code and stack of the last location.
    last: Option<(u32, u32, CodeLocation, StackId)>,
    /// The frames of all stacks, once for each process.
    callers: Vec<ThreadLocation>,
    by_stack: FxHashMap<(u32, StackId), usize>,
}

impl<'a> ThreadLocations<'a> {
    fn new(
        recording: &'a Recording,
        code: &'a FxHashMap<CodeLocation, Code>,
        process_names: &'a ProcessNames,
    ) -> Self {
        Self {
            recording,
            code,
            process_names,
            thread_names: ThreadNames::of(recording),
            locations: Vec::new(),
            last: None,
            callers: Vec::new(),
            by_stack: FxHashMap::default(),
        }
    }

    /// The index of a group's location. Groups of one location come one after the other.
    fn index(&mut self, group: GroupKey) -> usize {
        let at = (group.process, group.thread, group.location(), group.stack);
        if self.last != Some(at) {
            let (process, thread, code, stack) = at;
            let caller = self.caller(process, stack);
            let location = self.at(code, (process, thread), caller);
            self.locations.push(location);
            self.last = Some(at);
        }
        self.locations.len() - 1
    }

    /// The index of a stack's innermost frame, which is after its callers.
    fn caller(&mut self, process: u32, stack: StackId) -> Option<usize> {
        let recording = self.recording;
        let frames = recording.stacks.callers(stack);
        // Stacks share their outer frames: those of a known one are known.
        let new = frames.take_while(|&(stack, _)| !self.by_stack.contains_key(&(process, stack)));
        let new: Vec<_> = new.collect();
        for (stack, frame) in new.into_iter().rev() {
            let caller = self.by_stack.get(&(process, frame.caller)).copied();
            let code = CodeLocation::new(process, frame.call_site(), frame.mode());
            let location = self.at(code, (process, 0), caller);
            self.by_stack.insert((process, stack), self.callers.len());
            self.callers.push(location);
        }
        self.by_stack.get(&(process, stack)).copied()
    }

    fn at(
        &self,
        code: CodeLocation,
        (process, thread): (u32, u32),
        caller: Option<usize>,
    ) -> ThreadLocation {
        let (frame, module) = self.code.get(&code).cloned().unwrap_or_default();
        let process_ids = &self.recording.process_ids;
        let process = process_ids.process(process);
        ThreadLocation {
            machine: None,
            process_name: self.process_names.name(process_ids, process),
            process,
            thread,
            thread_name: self.thread_names.name(process_ids, process, thread).cloned(),
            mode: code.mode(),
            address: code.ip,
            frame,
            module,
            caller,
        }
    }
}

/// How many ticks each timed sample covers, and all of them in order of time, with the location of
/// each.
fn in_order(
    timed: Timed<GroupKey>,
    locations: &FxHashMap<GroupKey, usize>,
    scaled: impl Fn(u16, Totals) -> Totals,
) -> (u64, Vec<TimedSample>) {
    let (ticks, sums) = timed.finish();
    let mut all = Vec::new();
    for (group, sums) in sums {
        let GroupKey { source, processor, .. } = group;
        let Some(&location) = locations.get(&group.only(GROUP_BY)) else { continue };
        all.extend(sums.into_iter().map(|(begin, totals)| TimedSample {
            time: begin,
            source,
            location,
            processor,
            totals: scaled(source, totals),
        }));
    }
    all.sort_unstable_by_key(|one| (one.time, one.location, one.source, one.processor));
    (ticks, all)
}

/// The recording's sources in its order, then those that only occur in samples.
fn sources(
    recording: &Recording,
    location_totals: &[LocationTotals],
    slices: &BTreeMap<u16, Slices>,
) -> Vec<SourceTotals> {
    let new = |index, name: &str| SourceTotals::new(index, name.into(), recording, slices);
    let named = (0..=u16::MAX).zip(&recording.metadata.sources);
    let mut sources: BTreeMap<u16, SourceTotals> =
        named.map(|(index, source)| (index, new(index, &source.name))).collect();
    for LocationTotals { source, totals, .. } in location_totals {
        let unnamed = || new(*source, &format!("source {source}"));
        sources.entry(*source).or_insert_with(unnamed).totals.add(*totals);
    }
    sources.into_values().collect()
}

/// The names of a recording's processes by the first number of each.
#[derive(Debug, Default)]
struct ProcessNames(FxHashMap<u32, Arc<str>>);

impl ProcessNames {
    fn of(recording: &Recording) -> Self {
        let process_ids = &recording.process_ids;
        let mut names = FxHashMap::default();
        for process in &recording.processes {
            let name = || match (process.name.as_str(), process.id) {
                ("", id) => format!("process {id}").into(),
                (name, id) => format!("{name} ({id})").into(),
            };
            names.entry(process_ids.of_process(process)).or_insert_with(name);
        }
        Self(names)
    }

    /// The name of the process that a number stands for.
    fn name(&self, process_ids: &ProcessIds, number: u32) -> Arc<str> {
        let Some(id) = process_ids.known_id(number) else {
            return UNKNOWN_PROCESS.into();
        };
        let known = self.0.get(&process_ids.process(number));
        known.map_or_else(|| format!("process {id}").into(), Arc::clone)
    }
}

/// A level of a picture or of a folded stack.
#[derive(Clone, Debug)]
pub struct Level<'a> {
    pub name: String,
    /// The name of the function alone, if it is one.
    pub function: Option<Arc<str>>,
    /// Whether it is a function that was inlined into the level around it.
    pub is_inlined: bool,
    /// The location that it names.
    pub location: &'a ThreadLocation,
}

impl ThreadLocation {
    /// One of its functions with its module, or the module alone.
    fn qualified(&self, function: SourceFunction<'_>) -> String {
        match function.name {
            Some(name) => qualified(&self.frame.module, name),
            None => self.frame.module.to_string(),
        }
    }

    /// The thread with its name, or its number alone.
    pub fn thread(&self) -> String {
        match &self.thread_name {
            Some(name) => format!("{name} ({})", self.thread),
            None => format!("thread {}", self.thread),
        }
    }

    /// The file's own name with the line, `main.c:7`; `None` if the line is not known.
    pub fn file_and_line(&self) -> Option<String> {
        let file = self.frame.file.as_deref()?;
        let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
        Some(format!("{name}:{}", self.frame.line?))
    }
}

impl Samples {
    /// The name of a process: its program's name with its identifier.
    pub fn process_name(&self, number: u32) -> Arc<str> {
        self.process_names.name(&self.recording.process_ids, number)
    }

    /// Several recordings as one, each with its machine's name; `None` if there are none. The
    /// result shows no times, because each machine has a clock of its own.
    pub fn combined(mut all: Vec<Self>) -> Option<Self> {
        if all.len() < 2 {
            return all.pop();
        }
        let (mut locations, mut callers) = (Vec::new(), Vec::new());
        let mut location_totals = Vec::new();
        let mut modules = Vec::new();
        let mut sources: Vec<SourceTotals> = Vec::new();
        let mut recordings = Vec::new();
        let mut rest = None;
        for mut one in all {
            let machine = one.recording.machine_name();
            let merged = merge(&mut sources, &one.sources).into_iter();
            let merged: HashMap<u16, usize> =
                one.sources.iter().map(|source| source.index).zip(merged).collect();
            location_totals.extend(one.location_totals.drain(..).map(|own| LocationTotals {
                source: merged.get(&own.source).copied().unwrap_or_default() as u16,
                location: locations.len() + own.location,
                totals: own.totals,
            }));
            let first = callers.len();
            let merged = |location: ThreadLocation| ThreadLocation {
                machine: Some(Arc::clone(&machine)),
                module: location.module.map(|module| modules.len() + module),
                process: one.recording.process_ids.id(location.process),
                caller: location.caller.map(|caller| first + caller),
                ..location
            };
            locations.extend(one.locations.drain(..).map(merged));
            callers.extend(one.callers.drain(..).map(merged));
            modules.append(&mut one.recording.modules);
            recordings.push(std::mem::take(&mut one.recording));
            rest = Some(one);
        }
        location_totals.sort_by_key(|own| (own.source, own.location));
        let recording = Recording { modules, ..Recording::combined(recordings)? };
        Some(Self {
            process_names: ProcessNames::of(&recording),
            recording,
            sources,
            locations,
            callers,
            location_totals,
            rates: BTreeMap::new(),
            timed_samples: Vec::new(),
            ..rest?
        })
    }

    /// Whether any location has a caller.
    pub const fn has_stacks(&self) -> bool {
        !self.callers.is_empty()
    }

    /// A location and its callers, innermost first.
    pub fn stack<'a>(
        &'a self,
        location: &'a ThreadLocation,
    ) -> impl Iterator<Item = &'a ThreadLocation> {
        // A caller is before what it calls: see ThreadLocations::caller.
        std::iter::successors(Some(location), |callee| self.callers.get(callee.caller?))
    }

    /// All levels of a location, outermost first: process and thread; then with call stacks the
    /// functions, without them module, symbol, what was inlined into it, and line, as far as they are
    /// known.
    pub fn levels<'a>(&'a self, location: &'a ThreadLocation) -> Vec<Level<'a>> {
        let plain = |name: String| Level { name, function: None, is_inlined: false, location };
        let mut levels: Vec<Level<'a>> =
            location.machine.iter().map(|machine| plain(machine.to_string())).collect();
        levels.push(plain(location.process_name.to_string()));
        levels.push(plain(location.thread()));
        if self.has_stacks() {
            let around = levels.len();
            levels.extend(self.stack(location).flat_map(|location| {
                location.frame.functions().map(move |function| Level {
                    name: location.qualified(function),
                    function: function.name.cloned(),
                    is_inlined: function.is_inlined,
                    location,
                })
            }));
            levels.get_mut(around..).unwrap_or_default().reverse();
            return levels;
        }
        levels.push(plain(location.frame.module.to_string()));
        levels.extend(location.frame.functions().rev().filter_map(|function| {
            let name = function.name?;
            Some(Level {
                name: name.to_string(),
                function: Some(Arc::clone(name)),
                is_inlined: function.is_inlined,
                location,
            })
        }));
        levels.extend(location.file_and_line().map(plain));
        levels
    }

    /// Whether any function was inlined at a sample or a call.
    pub fn has_inlined(&self) -> bool {
        self.locations.iter().chain(&self.callers).any(|one| !one.frame.inlined.is_empty())
    }

    /// The totals of one source, added up where all levels have the same names, each with the first
    /// location that has them.
    pub fn level_totals_of<'a>(
        &'a self,
        source: &SourceTotals,
    ) -> impl Iterator<Item = (&'a ThreadLocation, Totals)> {
        let has_stacks = self.has_stacks();
        let mut code: IndexSet<_, FxBuildHasher> = IndexSet::default();
        let mut stacks: IndexSet<_, FxBuildHasher> = IndexSet::default();
        let mut stack = |location: &'a ThreadLocation, callers: &[usize]| {
            let Frame { module, symbol, file, line, inlined, .. } = &*location.frame;
            let line = if has_stacks { None } else { Some((file, line)) };
            let inlined: Vec<_> = inlined.iter().map(|inlined| &inlined.function).collect();
            let code = code.insert_full((module, symbol, inlined, line)).0;
            let caller = location.caller.and_then(|caller| callers.get(caller).copied());
            stacks.insert_full((caller, code)).0
        };
        // Equal numbers are stacks of the same names.
        let mut callers = Vec::with_capacity(self.callers.len());
        for caller in &self.callers {
            callers.push(stack(caller, &callers));
        }
        let mut sums: IndexMap<_, (&ThreadLocation, Totals), FxBuildHasher> = IndexMap::default();
        for (location, totals) in self.location_totals_of(source) {
            let ThreadLocation { machine, process_name, thread, .. } = location;
            let levels = (machine, process_name, thread, stack(location, &callers));
            sums.entry(levels).or_insert((location, Totals::default())).1.add(totals);
        }
        sums.into_values()
    }

    /// A time in nanoseconds since [`start`](Self::start).
    pub fn since_start(&self, time: u64) -> u64 {
        self.ticks_to_ns(time.saturating_sub(self.start))
    }

    /// A time in nanoseconds since the first sample or mark.
    pub fn since_first(&self, time: u64) -> u64 {
        let samples = self.times.map(|(first, _)| first);
        let first = samples.into_iter().chain(self.marks.first()).min();
        self.ticks_to_ns(time.saturating_sub(first.unwrap_or(0)))
    }

    /// Converts ticks to nanoseconds. A recording that does not give the tick rate is read as if a
    /// tick were a nanosecond.
    pub fn ticks_to_ns(&self, ticks: u64) -> u64 {
        let frequency = self.recording.metadata.timestamp_frequency;
        nanoseconds(ticks, frequency).unwrap_or(ticks)
    }

    /// The module that contains a location, with its index in the recording.
    pub fn module_of(&self, location: &ThreadLocation) -> Option<(usize, &Module)> {
        let index = location.module?;
        Some((index, self.recording.modules.get(index)?))
    }

    /// The rates of one source over time, for each track by number.
    pub fn tracks_of(&self, source: &SourceTotals) -> impl Iterator<Item = (u32, &Bins)> {
        let tracks = self.rates.get(&source.index).into_iter().flatten();
        tracks.map(|(&number, bins)| (number, bins))
    }

    /// The timed samples of one source, in order of time.
    pub(crate) fn timed_samples_of(
        &self,
        source: &SourceTotals,
    ) -> impl Iterator<Item = &TimedSample> {
        let index = source.index;
        self.timed_samples.iter().filter(move |sample| sample.source == index)
    }

    pub fn location_totals_of(
        &self,
        source: &SourceTotals,
    ) -> impl Iterator<Item = (&ThreadLocation, Totals)> {
        let first = self.location_totals.partition_point(|own| own.source < source.index);
        let location_totals = self.location_totals.iter().skip(first);
        let index = source.index;
        location_totals
            .take_while(move |own| own.source == index)
            .filter_map(|own| Some((self.locations.get(own.location)?, own.totals)))
    }
}

/// The sums of a timeline by source and track.
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
        let bins = rates.entry(track.source).or_default().entry(number(track.number)).or_default();
        bins.entry(bin).or_default().add(by_mode);
    }
    rates
}
