//! The Firefox Profiler: <https://profiler.firefox.com>, its processed profile format.

use super::{Export, MARKS_MAX, ThreadLocation};
use crate::aggregate::key::INLINED;
use crate::aggregate::processor_time::ProcessorTime;
use crate::aggregate::source_totals::SourceTotals;
use crate::file::{Identity, Module, NO_PROCESS};
use crate::number::thousands;
use fxprof_processed_profile::debugid::DebugId;
use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, LibraryHandle,
    LibraryInfo, MarkerFieldFlags, MarkerFieldFormat, MarkerTiming, ProcessHandle, Profile,
    ReferenceTimestamp, SamplingInterval, StackHandle, StaticSchemaMarker, StaticSchemaMarkerField,
    StringHandle, Symbol, SymbolTable, ThreadHandle, Timestamp, WeightType,
};
use rustc_hash::FxHashMap;
use shared_types::Mode;
use std::io::{self, Write};
use std::iter::successors;
use std::sync::Arc;

/// Writes one source: a track for each thread, every sample weighted by its events, and every mark.
pub(super) fn write(export: &Export<'_>, out: &mut dyn Write) -> io::Result<()> {
    let source = export.source();
    let mut writer = Writer::new(export, &source);
    writer.samples();
    writer.marks();
    Ok(serde_json::to_writer(out, &writer.profile)?)
}

struct Writer<'a> {
    export: &'a Export<'a>,
    source: &'a SourceTotals,
    profile: Profile,
    weights: Weights,
    user: CategoryHandle,
    kernel: CategoryHandle,
    marked: CategoryHandle,
    processes: FxHashMap<u32, ProcessHandle>,
    threads: FxHashMap<(u32, u32), ThreadHandle>,
    /// The track of the driver's events.
    driver: Option<ThreadHandle>,
    libraries: FxHashMap<usize, LibraryHandle>,
    /// By index of the location.
    stacks: FxHashMap<usize, Option<StackHandle>>,
    /// By index in [`Samples::callers`](super::Samples::callers): a thousand stacks of a thousand frames
    /// mostly share them.
    callers: FxHashMap<(ThreadHandle, usize), Option<StackHandle>>,
    /// By index of the module: those whose functions have names.
    named: FxHashMap<usize, Vec<&'a ThreadLocation>>,
}

impl<'a> Writer<'a> {
    fn new(export: &'a Export<'a>, source: &'a SourceTotals) -> Self {
        let began = export.samples.recording.metadata.began;
        let began = ReferenceTimestamp::from_millis_since_unix_epoch(began as f64 * 1000.0);
        let elapsed = export.samples.recording.elapsed_ns();
        let mean = elapsed.checked_div(source.totals.samples).unwrap_or(0);
        let interval = SamplingInterval::from_nanos(mean.max(1));
        let (machine, rest) = {
            let mut captions = export.captions();
            let machine = captions.remove(0);
            (machine, captions.join("; "))
        };
        let weights = Weights::new(export, source);
        let totals = weights.in_words();
        let (name, title) = (&source.name, &export.title);
        let product = format!("halprof: {name} of {title}; weights are {totals}; {rest}");
        let mut profile = Profile::new(&product, began, interval);
        profile.set_os_name(&machine);
        profile.set_symbolicated(true);
        let user = profile.add_category("User", CategoryColor::Blue);
        let kernel = profile.add_category("Kernel", CategoryColor::Orange);
        let marked = profile.add_category("Marks", CategoryColor::Green);
        let samples = export.samples;
        let mut named: FxHashMap<usize, Vec<&ThreadLocation>> = FxHashMap::default();
        for location in samples.locations.iter().chain(&samples.callers) {
            if let Some(module) = location.module.filter(|_| location.frame.symbol.is_some()) {
                named.entry(module).or_default().push(location);
            }
        }
        Self {
            export,
            source,
            profile,
            weights,
            user,
            kernel,
            marked,
            processes: FxHashMap::default(),
            threads: FxHashMap::default(),
            driver: None,
            libraries: FxHashMap::default(),
            stacks: FxHashMap::default(),
            callers: FxHashMap::default(),
            named,
        }
    }

    fn thread(&mut self, process: u32, thread: u32) -> ThreadHandle {
        if let Some(&known) = self.threads.get(&(process, thread)) {
            return known;
        }
        let begin = Timestamp::from_nanos_since_reference(0);
        let known = self.processes.get(&process).copied();
        let handle = known.unwrap_or_else(|| {
            let name = self.export.samples.process_name(process);
            // The format has no process without an identifier.
            let number = if process == NO_PROCESS { 0 } else { process };
            self.profile.add_process(&name, number, begin)
        });
        self.processes.insert(process, handle);
        let main = known.is_none();
        let added = self.profile.add_thread(handle, thread, begin, main);
        self.profile.set_thread_name(added, &format!("thread {thread}"));
        self.profile.set_thread_samples_weight_type(added, self.weights.kind.clone());
        self.threads.insert((process, thread), added);
        added
    }

    fn driver_track(&mut self) -> ThreadHandle {
        let Self { driver, profile, .. } = self;
        *driver.get_or_insert_with(|| {
            let begin = Timestamp::from_nanos_since_reference(0);
            let process = profile.add_process("halprof.sys", 0, begin);
            let track = profile.add_thread(process, 0, begin, true);
            profile.set_thread_name(track, "events of the driver");
            track
        })
    }

    fn marks(&mut self) {
        let samples = self.export.samples;
        for (channel, mark) in samples.marks.named().take(MARKS_MAX) {
            let thread = match mark.process.zip(mark.thread) {
                Some((process, thread)) => self.thread(process, thread),
                None => self.driver_track(),
            };
            let time = Timestamp::from_nanos_since_reference(samples.since_first(mark.time));
            let made = Marked {
                channel: self.profile.intern_string(channel),
                value: self.profile.intern_string(&mark.value.to_string()),
                category: self.marked,
            };
            self.profile.add_marker(thread, MarkerTiming::Instant(time), made);
        }
    }

    fn samples(&mut self) {
        let samples = self.export.samples;
        // Tracks in order of process and thread.
        for (location, _) in samples.location_totals_of(self.source) {
            let thread = self.thread(location.process, location.thread);
            if location.thread_name.is_some() {
                self.profile.set_thread_name(thread, &location.thread());
            }
        }
        for timed_sample in samples.timed_samples_of(self.source) {
            let Some(location) = samples.locations.get(timed_sample.location) else {
                continue;
            };
            let thread = self.thread(location.process, location.thread);
            let stack = self.stack(thread, timed_sample.location, location);
            let time =
                Timestamp::from_nanos_since_reference(samples.since_first(timed_sample.time));
            let totals = self.weights.of(timed_sample.totals.events);
            self.profile.add_sample(thread, time, stack, CpuDelta::ZERO, totals);
        }
    }

    /// The stack of the location with this index.
    fn stack(
        &mut self,
        thread: ThreadHandle,
        index: usize,
        location: &ThreadLocation,
    ) -> Option<StackHandle> {
        if let Some(&known) = self.stacks.get(&index) {
            return known;
        }
        let caller = self.caller(thread, location.caller);
        let stack = Some(self.push(thread, caller, location));
        self.stacks.insert(index, stack);
        stack
    }

    /// The stack of a caller with this index.
    fn caller(&mut self, thread: ThreadHandle, index: Option<usize>) -> Option<StackHandle> {
        let samples = self.export.samples;
        let callers = &samples.callers;
        let is_new = |index: &usize| !self.callers.contains_key(&(thread, *index));
        let chain = successors(index, |&index| callers.get(index)?.caller);
        let new: Vec<usize> = chain.take_while(is_new).collect();
        // The outermost comes first.
        for index in new.into_iter().rev() {
            let location = callers.get(index)?;
            let outer = location.caller.and_then(|outer| *self.callers.get(&(thread, outer))?);
            let stack = Some(self.push(thread, outer, location));
            self.callers.insert((thread, index), stack);
        }
        *self.callers.get(&(thread, index?))?
    }

    fn push(
        &mut self,
        thread: ThreadHandle,
        caller: Option<StackHandle>,
        location: &ThreadLocation,
    ) -> StackHandle {
        let frame = self.frame(location);
        let category_pair = frame.category_pair;
        let frame = self.profile.intern_frame(thread, frame);
        let stack = self.profile.intern_stack(thread, caller, frame);
        // The library writes no frames that are inlined in others, so they are frames without an address.
        location.frame.functions().rev().filter(|function| function.is_inlined).fold(
            stack,
            |caller, function| {
                let name = function.name.unwrap_or(&location.frame.module);
                let name = self.profile.intern_string(&format!("{name}{INLINED}"));
                let flags = FrameFlags::empty();
                let frame = FrameInfo { frame: Frame::Label(name), category_pair, flags };
                let frame = self.profile.intern_frame(thread, frame);
                self.profile.intern_stack(thread, Some(caller), frame)
            },
        )
    }

    fn frame(&mut self, location: &ThreadLocation) -> FrameInfo {
        let category = if location.mode == Mode::Kernel { self.kernel } else { self.user };
        let frame = self.library_frame(location).unwrap_or_else(|| {
            let name = location.frame.symbol.as_ref().unwrap_or(&location.frame.module);
            Frame::Label(self.profile.intern_string(name))
        });
        FrameInfo { frame, category_pair: category.into(), flags: FrameFlags::empty() }
    }

    /// An address in a library; `None` if no module is known or the offset is too large for the
    /// format.
    fn library_frame(&mut self, location: &ThreadLocation) -> Option<Frame> {
        let (index, module) = self.export.samples.module_of(location)?;
        let address = u32::try_from(location.address.checked_sub(module.start)?).ok()?;
        let library = if let Some(&known) = self.libraries.get(&index) {
            known
        } else {
            let library = self.profile.add_lib(self.library(index, module));
            self.libraries.insert(index, library);
            library
        };
        Some(Frame::RelativeAddressFromInstructionPointer(library, address))
    }

    fn library(&self, index: usize, module: &Module) -> LibraryInfo {
        let path = module.path.clone().unwrap_or_else(|| module.name.clone());
        let (debug_path, debug_id, code_id) = match &module.identity {
            Some(Identity::Pdb { file, guid, age }) => {
                (file.clone(), DebugId::from_breakpad(&format!("{guid}{age:x}")).ok(), None)
            }
            Some(Identity::BuildId(id)) => (path.clone(), None, Some(id.clone())),
            None => (path.clone(), None, None),
        };
        let debug_name = debug_path.rsplit(['/', '\\']).next().unwrap_or_default();
        LibraryInfo {
            name: module.name.clone(),
            debug_name: debug_name.to_owned(),
            path,
            debug_path: debug_path.clone(),
            debug_id: debug_id.unwrap_or_default(),
            code_id,
            arch: Some("x86_64".to_owned()),
            symbol_table: Some(Arc::new(self.symbols(index, module))),
        }
    }

    /// The symbols of a module that has samples.
    fn symbols(&self, index: usize, module: &Module) -> SymbolTable {
        let locations = self.named.get(&index).into_iter().flatten();
        let symbols = locations.filter_map(|location| {
            let name = location.frame.symbol.as_ref()?.to_string();
            let offset = location.frame.offset?;
            let begin = location.address.checked_sub(offset)?;
            let address = u32::try_from(begin.checked_sub(module.start)?).ok()?;
            // Code after the last sampled address may belong to another symbol.
            let size = u32::try_from(offset).ok()?.checked_add(1)?;
            Some(Symbol { address, size: Some(size), name })
        });
        let mut longest: FxHashMap<u32, Symbol> = FxHashMap::default();
        for symbol in symbols {
            let known = longest.entry(symbol.address).or_insert_with(|| symbol.clone());
            known.size = known.size.max(symbol.size);
        }
        SymbolTable::new(longest.into_values().collect())
    }
}

/// A mark, as the profiler shows it.
struct Marked {
    channel: StringHandle,
    /// A string, because a number would lose digits.
    value: StringHandle,
    category: CategoryHandle,
}

impl StaticSchemaMarker for Marked {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "Mark";
    const CHART_LABEL: Option<&'static str> = Some("{marker.data.value}");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.name} {marker.data.value}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[StaticSchemaMarkerField {
        key: "value",
        label: "Value",
        format: MarkerFieldFormat::String,
        flags: MarkerFieldFlags::SEARCHABLE,
    }];

    fn name(&self, _profile: &mut Profile) -> StringHandle {
        self.channel
    }

    fn category(&self, _profile: &mut Profile) -> CategoryHandle {
        self.category
    }

    fn string_field_value(&self, _field_index: u32) -> StringHandle {
        self.value
    }

    fn number_field_value(&self, _field_index: u32) -> f64 {
        0.0
    }
}

/// What weights stand for. The format has 32 bits for each.
struct Weights {
    time: Option<ProcessorTime>,
    /// The events, or the nanoseconds of processor time, of a weight of 1.
    unit: u64,
    kind: WeightType,
}

impl Weights {
    const MILLISECOND: u64 = 1_000_000;

    /// Milliseconds where samples of time are whole ones; else units in which the largest fits.
    fn new(export: &Export<'_>, source: &SourceTotals) -> Self {
        let time = source.time;
        let own = export.samples.timed_samples_of(source);
        let amounts = own.map(|sample| amount(time, sample.totals.events));
        let (mut most, mut is_whole) = (0, time.is_some());
        for amount in amounts {
            most = amount.max(most);
            is_whole &= amount % Self::MILLISECOND == 0;
        }
        if is_whole {
            return Self { time, unit: Self::MILLISECOND, kind: WeightType::TracingMs };
        }
        let unit = most.div_ceil(i32::MAX as u64).max(1);
        Self { time, unit, kind: WeightType::Samples }
    }

    fn in_words(&self) -> String {
        match (self.time, self.unit) {
            (Some(_), Self::MILLISECOND) => "milliseconds of processor time".to_owned(),
            (Some(_), unit) => format!("of {} ns of processor time each", thousands(unit)),
            (None, 1) => "events".to_owned(),
            (None, unit) => format!("of {} events each", thousands(unit)),
        }
    }

    fn of(&self, events: u64) -> i32 {
        i32::try_from(amount(self.time, events) / self.unit).unwrap_or(i32::MAX)
    }
}

fn amount(time: Option<ProcessorTime>, events: u64) -> u64 {
    time.map_or(events, |time| time.nanoseconds(events))
}
