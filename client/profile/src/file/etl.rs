//! A trace of Windows' own tracing (.etl) as a source of samples.
//!
//! The trace is read once: samples of the timer and of counters with their call stacks and branch
//! records, processes, and images with what identifies their symbols. The samples are kept in memory
//! until the end, because the process of a thread, the interval of a counter and the frames of a stack
//! may be named long after the first sample that has them. What the trace does not say is left open:
//! times before the session began, intervals that no event names.

mod branches;
mod delivered;
mod images;
mod methods;
mod wakings;

use super::format::{self, Format};
use super::inventory::System;
use super::known_rows::KnownRows;
use super::methods::SampledAddresses;
use super::source::{BranchVisitor, SampleSource, SampleVisitor};
use super::stacks::StackTableBuilder;
use super::{
    Build, Context, ContextCounts, DroppedBranches, Ending, Metadata, NO_PROCESS, NamedThread,
    Period, Process, ProcessIds, Recording, Sample, Source, StackCounts, StackId, StackTable,
    Statistics, TraceContents, Writer, mode_of,
};
use branches::{SampleBranches, TraceBranches};
pub use delivered::DeliveredSamples;
use halprof_etw::join::stacks::{Joined, Joiner, StackNumber, StackTable as HalfTable};
use halprof_etw::join::threads::InstanceNumber;
use halprof_etw::payload::processor::CounterSample;
use halprof_etw::payload::stack::Half;
use halprof_etw::payload::thread::Thread;
use halprof_etw::payload::{EventKind, counters};
use halprof_etw::{Clock, Event, PointerSize};
use halprof_measure::tracing::analysis::counts::{Counter, Query, TraceFacts};
use halprof_measure::tracing::analysis::lives::{Lives, ProcessLife, between};
use halprof_measure::tracing::analysis::waits::{Wait, Waits};
use halprof_measure::tracing::etl::{self, Etl};
use halprof_measure::{Error, Result};
use images::Images;
use indexmap::IndexSet;
use methods::Methods;
use rustc_hash::{FxBuildHasher, FxHashMap};
use shared_types::Mode;
use std::collections::BTreeMap;
use std::path::Path;
pub(crate) use wakings::EndedWaits;
use wakings::{Ended, EndedWait, Named};

/// The source of the timer's samples, as Windows lists it (KPROFILE_SOURCE 0).
const TIMER: u16 = 0;
const TIMER_NAME: &str = "Timer";

/// The number for the source of waits; Windows has no such source.
const WAITED: u16 = u16::MAX;
const WAITED_NAME: &str = "waited";

/// The interval of Windows' timer unless somebody sets another, in units of 100 ns: 1 ms.
const TIMER_INTERVAL: u32 = 10_000;

/// The idle process, whose threads all have identifier 0.
const IDLE: u32 = 0;
/// The process of the kernel's own threads.
const SYSTEM: u32 = 4;

/// Whether a sample is of an idle processor. Shares are of work that was done, so that such samples are only
/// numbered.
const fn is_idle(thread: u32) -> bool {
    thread == 0
}

/// How long an event waits for its stack, in nanoseconds. The longest user half seen came after
/// 0.3 seconds.
const STACK_PATIENCE_NS: u64 = 2_000_000_000;

/// The cause of losses of a session that knows how many events it lost, but not of which kinds. In
/// the worst case all of them were samples.
pub const LOST_EVENTS: &str = "trace-events";
/// The cause of the loss of whole buffers, each with an unknown number of events.
pub const LOST_BUFFERS: &str = "trace-buffers";

/// Seconds from 1601, where FILETIME begins, to 1970.
const UNIX_EPOCH: u64 = 11_644_473_600;

/// Whether a file is a trace or an archive, which may have one: by its extension, else by its first
/// bytes.
pub(super) fn is_trace(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let has_extension = [".etl", ".etl.zip"].iter().any(|extension| name.ends_with(extension));
    has_extension || matches!(format::of_file(path), Some(Format::Trace | Format::Archive))
}

/// How many samples are passed on at a time.
const PIECE_SAMPLES: usize = 1 << 14;

/// How many processors the machine has that was traced.
pub(super) fn processors(path: &Path) -> Result<u32> {
    Ok(etl::open(path)?.header().processors)
}

/// The machine that was traced, if it is this one.
pub struct Files<'a> {
    /// Knows where the files of images are.
    pub system: &'a mut dyn System,
    /// Reads the build of a file.
    pub build: &'a dyn Fn(&str) -> Build,
}

impl std::fmt::Debug for Files<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files").finish_non_exhaustive()
    }
}

/// The traces among files, those of one session together.
pub(super) fn sessions<'a>(paths: &[&'a Path]) -> Result<Vec<Vec<&'a Path>>> {
    etl::sessions(paths)
}

/// Writes a trace as the recording `target`, as [`convert_session`] does.
pub fn convert(
    path: &Path,
    target: &Path,
    process: Option<u32>,
    complete: impl FnOnce(&mut Metadata),
    files: Option<Files<'_>>,
    key: Option<Vec<u8>>,
) -> Result<()> {
    convert_session(&[path], target, process, complete, files, key)
}

/// Writes the files of a session as the recording `target`, of one `process` alone if it is given.
/// `complete` adds what its recorder knows and the trace does not say; with `files` images get the paths
/// of their files, and those with samples their builds. A key seals the files that it names, which may
/// otherwise be those of another machine.
pub fn convert_session(
    paths: &[&Path],
    target: &Path,
    process: Option<u32>,
    complete: impl FnOnce(&mut Metadata),
    files: Option<Files<'_>>,
    key: Option<Vec<u8>>,
) -> Result<()> {
    // Samples keep the identifiers of their processes, because whoever reads the recording numbers
    // them.
    let mut trace =
        TraceSamples::events(paths, Content::Samples, Some(&Query::default()), process)?;
    complete(&mut trace.recording.metadata);
    if let Some(files) = files {
        let addresses =
            SampledAddresses::new(&trace.samples, &trace.stacks, &trace.recording.stacks);
        images::locate(&mut trace.recording.modules, &addresses, files);
    }
    let writer = Writer::create(target, &trace.recording.metadata)?.sealing(key);
    trace.write(writer)
}

/// The samples of a trace, or its waits: then each sample is where a thread went on after one, and its
/// period the time of the wait in nanoseconds.
pub(super) struct TraceSamples {
    metadata: Metadata,
    recording: Recording,
    samples: Vec<Sample>,
    stacks: Vec<StackId>,
    branches: SampleBranches,
    /// The wait that each sample ended, where samples are what ended waits.
    ended: Vec<EndedWait>,
    named: Named,
}

/// Which events of a trace become its samples.
#[derive(Clone, Copy)]
enum Content {
    Samples,
    /// The places where threads continued after waits.
    Waits,
    /// What ended waits.
    EndedWaits,
}

impl TraceSamples {
    /// Reads the samples of the files of a session.
    pub(super) fn read(paths: &[&Path]) -> Result<Self> {
        Ok(Self::events(paths, Content::Samples, None, None)?.with_process_ids())
    }

    pub(super) fn read_waits(path: &Path) -> Result<Self> {
        Ok(Self::events(&[path], Content::Waits, None, None)?.with_process_ids())
    }

    fn read_ended(path: &Path) -> Result<Self> {
        Ok(Self::events(&[path], Content::EndedWaits, None, None)?.with_process_ids())
    }

    /// The samples of a trace, or its waits, as a recording has them; and the counts of its threads
    /// if a `query` says which. Of one `process` alone if it is given.
    fn events(
        paths: &[&Path],
        content: Content,
        query: Option<&Query>,
        process: Option<u32>,
    ) -> Result<Self> {
        let mut trace = etl::open_all(paths)?;
        let path = paths.first().copied().unwrap_or(Path::new(""));
        let mut builder = Builder::new(trace.pointer_size(), trace.clock(), content);
        builder.only_process = process;
        let processors = trace.header().processors;
        let mut counter = query.map(|query| Counter::new(query, trace.clock(), processors));
        while let Some(event) = trace.next_event().map_err(|error| Error::reading(path, error))? {
            if let Some(counter) = &mut counter {
                counter.event(&event);
            }
            builder.event(event);
        }
        let mut samples = builder.finish(&trace);
        path.clone_into(&mut samples.recording.file);
        // A trace that lacks what its counts would need may have samples all the same.
        samples.recording.counts =
            counter.and_then(|counter| counter.finish(TraceFacts::of(&trace)).ok());
        Ok(samples)
    }

    /// Gives samples the numbers of their processes.
    fn with_process_ids(mut self) -> Self {
        self.recording.process_ids = ProcessIds::of(&self.recording);
        self.recording.process_ids.renumber(&mut self.samples);
        for stack in &mut self.stacks {
            *stack = stack.unmarked();
        }
        self
    }

    fn write(self, mut writer: Writer) -> Result<()> {
        let Self { recording, samples, stacks, branches, .. } = self;
        writer.processes(&recording.processes)?;
        writer.threads(&recording.threads)?;
        writer.modules(&recording.modules)?;
        writer.methods(&recording.methods)?;
        if recording.stacks.is_empty() {
            writer.branched(&samples, branches.all())?;
        } else {
            writer.frames(&recording.stacks)?;
            writer.stacked(&samples, &stacks, branches.all())?;
        }
        if let Some(counts) = &recording.counts {
            writer.counts(counts)?;
        }
        writer.finish(&recording.statistics.unwrap_or_default(), false)
    }
}

impl SampleSource for TraceSamples {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn samples(&mut self, visit: &mut SampleVisitor<'_>) -> Result<()> {
        let pieces = self.samples.chunks(PIECE_SAMPLES);
        for (samples, stacks) in pieces.zip(self.stacks.chunks(PIECE_SAMPLES)) {
            visit(samples, stacks);
        }
        Ok(())
    }

    fn branches(&mut self, visit: &mut BranchVisitor<'_>) -> Result<()> {
        let mut rest = self.branches.all();
        for sample in self.samples.iter().filter(|sample| sample.branches != 0) {
            if let Some(own) = rest.split_off(sample.branches.into()) {
                visit(sample, own);
            }
        }
        Ok(())
    }

    fn take_recording(&mut self) -> Recording {
        std::mem::take(&mut self.recording)
    }
}

/// What the intervals say of a source.
#[derive(Default)]
struct SourceState {
    name: String,
    /// The first interval, which is that of samples before any event names one.
    first: Option<u32>,
    /// The interval in force.
    now: Option<u32>,
}

/// An event of the timer. Where a session samples the timer as a counter too, an interrupt has two, of
/// both forms.
#[derive(Clone, Copy)]
struct Tick {
    form: TickForm,
    time: i64,
    thread: u32,
    ip: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TickForm {
    Sample,
    CounterSample,
}

impl Tick {
    const fn new(event: &Event<'_>, form: TickForm, thread: u32, ip: u64) -> Self {
        Self { form, time: event.time, thread, ip }
    }
}

/// How far apart the two events of one interrupt may be. Two interrupts are at least 122 µs apart,
/// so this never takes two interrupts for one.
const SAME_TICK_NS: u64 = 50_000;

/// The halves of a sample's stack, by their numbers in the joiner's table, and the sample's mode.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Halves {
    kernel: Option<StackNumber>,
    user: Option<StackNumber>,
    is_shared: bool,
    mode: u8,
}

struct Builder {
    pointer: PointerSize,
    clock: Clock,
    /// The last event of the timer on each processor.
    ticks: FxHashMap<u16, Tick>,
    /// The waits, if they are wanted instead of samples.
    waits: Option<Waits>,
    /// The waits that ended, if the caller asked what ended them.
    ended: Option<Ended>,
    /// The only process that is kept.
    only_process: Option<u32>,
    lives: Lives,
    /// The sources by the numbers that Windows gives them.
    sources: Vec<(u16, SourceState)>,
    /// Their indexes by these numbers.
    source_indexes: FxHashMap<u16, usize>,
    /// The samples so far. Their `source` is an index in `sources`, and their `thread` the number
    /// of an instance, because the process of a thread may be named later.
    samples: Vec<Sample>,
    /// The stack of each of `samples`, as an index of `halves`.
    sample_halves: Vec<u32>,
    /// Each stack once, for each mode. Only their halves' numbers are kept, because a trace may
    /// define the frames at its end.
    halves: IndexSet<Halves, FxBuildHasher>,
    /// Samples until their stacks are complete; `None` stands for one of the idle threads.
    joiner: Joiner<Option<Sample>>,
    stack_counts: StackCounts,
    idle_samples: u64,
    switches: u64,
    images: Images,
    threads: Vec<NamedThread>,
    methods: Methods,
    branches: TraceBranches,
    /// The branch records that were left out; known once the samples have theirs.
    dropped_branches: Option<DroppedBranches>,
    /// The times of the first and the last event, in nanoseconds since the trace began.
    span_ns: Option<(i64, i64)>,
}

impl Builder {
    fn new(pointer: PointerSize, clock: Clock, content: Content) -> Self {
        Self {
            pointer,
            clock,
            ticks: FxHashMap::default(),
            waits: match content {
                Content::Samples => None,
                Content::Waits | Content::EndedWaits => Some(Waits::default()),
            },
            ended: matches!(content, Content::EndedWaits).then(Ended::default),
            only_process: None,
            lives: Lives::default(),
            sources: Vec::new(),
            source_indexes: FxHashMap::default(),
            samples: Vec::new(),
            sample_halves: Vec::new(),
            halves: IndexSet::default(),
            joiner: Joiner::new(clock.ticks(STACK_PATIENCE_NS)),
            stack_counts: StackCounts::default(),
            idle_samples: 0,
            switches: 0,
            images: Images::new(pointer),
            threads: Vec::new(),
            methods: Methods::default(),
            branches: TraceBranches::default(),
            dropped_branches: None,
            span_ns: None,
        }
    }

    fn event(&mut self, event: Event<'_>) {
        let time = ticks(event.time);
        let first = self.span_ns.map_or(event.ns, |(first, _)| first);
        self.span_ns = Some((first, event.ns));
        // This comes before `lives` reads the event, because a switch may end its old thread.
        let waits = self.waits.as_mut();
        if let Some(wait) = waits.and_then(|waits| waits.event(&mut self.lives.threads, &event)) {
            self.wait(event.time, event.processor, wait);
        }
        if self.ended.is_some() && matches!(event.kind, EventKind::Ready(_)) {
            self.waking(event.time, event.processor);
        }
        self.switches += u64::from(matches!(event.kind, EventKind::Switch(_)));
        self.lives.event(&event);
        self.joiner.stacks_of(&event);
        match event.kind {
            EventKind::Sample(_)
            | EventKind::CounterSample(_)
            | EventKind::Interval(_)
            | EventKind::LastBranches(_)
                if self.waits.is_some() => {}
            EventKind::Sample(sample) => {
                let tick = Tick::new(&event, TickForm::Sample, sample.thread, sample.ip);
                if !self.has_tick(event.processor, tick) {
                    let context = Context::of_timer(sample.reserved);
                    self.sample(&event, TIMER, (sample.thread, sample.ip), context);
                }
            }
            EventKind::CounterSample(sample) => {
                let CounterSample { thread, source, ip, .. } = sample;
                let tick = Tick::new(&event, TickForm::CounterSample, thread, ip);
                if source != TIMER || !self.has_tick(event.processor, tick) {
                    // No document says that the reserved field of these says it too.
                    self.sample(&event, source, (thread, ip), Context::Unknown);
                }
            }
            EventKind::LastBranches(records) => self.branches.add(event.processor, &records),
            EventKind::Interval(interval) => self.interval(*interval),
            EventKind::Process(process) => {
                self.methods.process(process.process, process.change, time);
            }
            EventKind::Managed(managed) => {
                if let Some((_, process)) = event.writer {
                    self.methods.event(process, time, *managed);
                }
            }
            EventKind::Thread(thread) => {
                let Thread { process, thread, name, .. } = *thread;
                self.thread_name(time, process, thread, name.unwrap_or_default());
            }
            EventKind::ThreadName(named) => {
                self.thread_name(time, named.process, named.thread, named.name);
            }
            EventKind::Image(image) => self.images.image(time, &image),
            EventKind::ImageId(id) => self.images.image_id(time, &id),
            EventKind::Pdb(pdb) => self.images.pdb(time, *pdb),
            EventKind::Volume(volume) => self.images.volume(&volume),
            _ => {}
        }
        while let Some(joined) = self.joiner.next_joined() {
            self.joined(joined);
        }
    }

    fn thread_name(&mut self, seen: u64, process: u32, thread: u32, name: String) {
        if !name.is_empty() {
            self.threads.push(NamedThread { process, thread, name, seen });
        }
    }

    /// Whether this interrupt of the timer is known by its event of the other form.
    fn has_tick(&mut self, processor: u16, tick: Tick) -> bool {
        let last = self.ticks.remove(&processor);
        let longest = self.clock.ticks(SAME_TICK_NS);
        let is_known = last.is_some_and(|last| {
            last.form != tick.form
                && (last.thread, last.ip) == (tick.thread, tick.ip)
                && last.time.abs_diff(tick.time) <= longest
        });
        // A tick that has met its other form is used up: what comes next is of another interrupt.
        if !is_known {
            self.ticks.insert(processor, tick);
        }
        is_known
    }

    /// Takes a sample whose stack will not get more complete.
    fn joined(&mut self, joined: Joined<Option<Sample>>) {
        let Joined { event, kernel, user, is_shared, process } = joined;
        self.stack_counts.add(kernel.is_some(), user.is_some(), is_shared);
        if let Some(mut sample) = event {
            sample.process = process.unwrap_or(NO_PROCESS);
            let mode = mode_of(sample.mode) as u8;
            let halves = Halves { kernel, user, is_shared, mode };
            self.samples.push(sample);
            self.sample_halves.push(self.halves.insert_full(halves).0 as u32);
        }
    }

    fn sample(
        &mut self,
        event: &Event<'_>,
        source: u16,
        (thread, ip): (u32, u64),
        context: Context,
    ) {
        let (time, processor) = (event.time, event.processor);
        if is_idle(thread) {
            self.idle_samples += 1;
            self.joiner.event(time, thread, processor, Half::Kernel, None);
            return;
        }
        let instance = self.lives.threads.current(thread);
        let mode = if self.pointer.is_kernel(ip) { Mode::Kernel } else { Mode::User };
        let (source, state) = self.source(source);
        let period = state.now.unwrap_or(0).into();
        let mode = context.with(mode);
        let sample = Sample { ip, period, source, mode, ..Sample::default() };
        self.add(time, processor, instance, sample);
    }

    /// Takes a wait that ends as a sample, with the time of the wait as its period. The stack says
    /// where the thread went on.
    fn wait(&mut self, time: i64, processor: u16, wait: Wait) {
        let period = between(self.clock, wait.since, time);
        if let Some(ended) = &mut self.ended {
            ended.add(&wait, period);
            return;
        }
        let (source, state) = self.source(WAITED);
        WAITED_NAME.clone_into(&mut state.name);
        let sample = Sample { period, source, mode: Mode::Unknown as u8, ..Sample::default() };
        self.add(time, processor, wait.thread, sample);
    }

    /// Turns an event that makes a thread ready into a sample, with the event's number as its period until
    /// the waits are known. The event's stack names the thread that was running, even where a DPC ran on
    /// that thread's time.
    fn waking(&mut self, time: i64, processor: u16) {
        let Some(waits) = &self.waits else { return };
        let (number, running) = (waits.wakings, waits.running(processor));
        let instance = self.lives.threads.current(running.unwrap_or(0));
        let (source, state) = self.source(WAITED);
        WAITED_NAME.clone_into(&mut state.name);
        let sample =
            Sample { period: number, source, mode: Mode::Unknown as u8, ..Sample::default() };
        self.add(time, processor, instance, sample);
    }

    /// Adds a sample of a thread, which waits for its stack.
    fn add(&mut self, time: i64, processor: u16, instance: InstanceNumber, sample: Sample) {
        let InstanceNumber(number) = instance;
        let sample = Sample {
            timestamp: ticks(time),
            thread: u32::try_from(number).unwrap_or(u32::MAX),
            processor: processor.into(),
            ..sample
        };
        let thread = self.lives.threads.instances()[number].thread;
        // A thread always waits in the kernel.
        let half = if mode_of(sample.mode) == Mode::User { Half::User } else { Half::Kernel };
        self.joiner.event(time, thread, processor, half, Some(sample));
    }

    fn interval(&mut self, event: counters::Interval) {
        let Ok(number) = u16::try_from(event.source) else { return };
        let (_, state) = self.source(number);
        if !event.name.is_empty() {
            state.name = event.name;
        }
        state.first.get_or_insert(event.interval);
        state.now = Some(event.interval);
    }

    /// The state of the source that Windows gives this number, and its index.
    fn source(&mut self, number: u16) -> (u16, &mut SourceState) {
        let index = *self.source_indexes.entry(number).or_insert_with(|| {
            self.sources.push((number, SourceState::default()));
            self.sources.len() - 1
        });
        (index as u16, &mut self.sources[index].1)
    }

    fn finish(mut self, trace: &Etl) -> TraceSamples {
        while let Some(joined) = self.joiner.pop() {
            self.joined(joined);
        }
        let sources: Vec<Source> =
            self.sources.iter().map(|(n, state)| source(*n, state)).collect();
        for sample in &mut self.samples {
            let instance = self.lives.threads.instances()[sample.thread as usize];
            sample.thread = instance.thread;
            // Without events of threads, a reused identifier may belong to several processes, and
            // only the process that the sample's stack names is certain.
            if instance.is_named || sample.process == NO_PROCESS {
                sample.process = instance.process.unwrap_or(NO_PROCESS);
            }
            if sample.period == 0 && self.waits.is_none() {
                sample.period = sources[usize::from(sample.source)].period.used;
            }
        }
        if self.waits.is_some() {
            self.locate_waits();
        }
        let (mut ended, mut named) = (Vec::new(), Named::default());
        if let Some(of) = self.ended.take() {
            let made_ready = std::mem::take(&mut self.samples).into_iter();
            let made_ready = made_ready.zip(std::mem::take(&mut self.sample_halves));
            let (kept, waits) = of.of(made_ready.collect());
            (self.samples, self.sample_halves) = kept.into_iter().unzip();
            (ended, named) = (waits, Named::of(&self.lives, self.clock));
        }
        if let Some(process) = self.only_process {
            self.retain(process);
        }
        let branches = std::mem::take(&mut self.branches);
        let (branches, recorded) =
            branches.of_samples(&mut self.samples, self.only_process, self.pointer);
        let (how, dropped) = recorded.unzip();
        self.dropped_branches = dropped;
        let (table, stacks) = self.stacks();
        let metadata = Metadata { branches: how, ..metadata(trace, sources) };
        let statistics = self.statistics(trace);
        let samples = self.samples.len() as u64;
        let mut recording = Recording {
            metadata: metadata.clone(),
            samples,
            stacks: table,
            branches: branches.all().branches.len() as u64,
            damaged_parts: statistics.damage.clone(),
            remarks: etl::remarks(trace),
            statistics: Some(statistics),
            ending: Some(Ending { samples, ..Ending::default() }),
            ..Recording::default()
        };
        let mut known = KnownRows::default();
        for process in self.processes() {
            known.add_process(&mut recording, process);
        }
        let is_kept = |owner| self.only_process.is_none_or(|only| only == owner);
        recording.threads = std::mem::take(&mut self.threads);
        recording.threads.retain(|thread| is_kept(thread.process));
        for module in self.images.finish() {
            if module.process.is_none_or(is_kept) {
                known.add_module(&mut recording, module);
            }
        }
        // Most traces have no methods, and all addresses of millions of samples are not free.
        if !self.methods.is_empty() {
            let addresses = SampledAddresses::new(&self.samples, &stacks, &recording.stacks);
            recording.methods = self.methods.finish(&addresses);
            recording.methods.retain(|method| is_kept(method.process));
        }
        TraceSamples { metadata, recording, samples: self.samples, stacks, branches, ended, named }
    }

    /// Leaves out the samples of all processes except one, and these processes.
    fn retain(&mut self, process: u32) {
        let (samples, halves) = (std::mem::take(&mut self.samples), &self.sample_halves);
        let kept = samples.into_iter().zip(halves.iter().copied());
        (self.samples, self.sample_halves) =
            kept.filter(|(sample, _)| sample.process == process).unzip();
        self.stack_counts = StackCounts::default();
        for &halves in &self.sample_halves {
            let Some(halves) = self.halves.get_index(halves as usize) else { continue };
            self.stack_counts.add(halves.kernel.is_some(), halves.user.is_some(), halves.is_shared);
        }
        self.idle_samples = 0;
    }

    /// The processes that are kept.
    fn processes(&self) -> impl Iterator<Item = Process> {
        let lives = self.lives.processes().iter();
        let kept = lives.filter(|life| self.only_process.is_none_or(|only| only == life.id));
        kept.map(|ProcessLife { id, name, started, ended, .. }| Process {
            id: *id,
            name: name.clone(),
            started: started.map(ticks),
            ended: ended.map(ticks),
            ..Process::default()
        })
    }

    fn statistics(&self, trace: &Etl) -> Statistics {
        let has_stacks = self.stack_counts.none != self.stack_counts.samples;
        let (first, last) = self.span_ns.unwrap_or_default();
        let contents = TraceContents {
            events: trace.events(),
            processes: self.processes().count() as u64,
            switches: self.switches,
        };
        Statistics {
            trace: Some(contents),
            elapsed_ns: u64::try_from(last.saturating_sub(first)).unwrap_or(0),
            generated: self.samples.len() as u64,
            lost: lost(trace),
            idle_samples: self.idle_samples,
            stacks: has_stacks.then_some(self.stack_counts),
            dropped_branches: self.dropped_branches,
            contexts: ContextCounts::of(&self.samples),
            damage: etl::damage(trace),
            ..Statistics::default()
        }
    }

    /// Sets the address of each wait: the innermost frame of its stack, if it has one.
    fn locate_waits(&mut self) {
        let table = self.joiner.table();
        let frame = |half: Option<StackNumber>| table.frames(half?)?.first().copied();
        for (wait, &halves) in self.samples.iter_mut().zip(&self.sample_halves) {
            let Some(halves) = self.halves.get_index(halves as usize) else { continue };
            if let Some(ip) = frame(halves.kernel) {
                (wait.ip, wait.mode) = (ip, Mode::Kernel as u8);
            } else if let Some(ip) = frame(halves.user) {
                (wait.ip, wait.mode) = (ip, Mode::User as u8);
            }
        }
    }

    /// The callers of each sample, from the halves of its stack.
    fn stacks(&mut self) -> (StackTable, Vec<StackId>) {
        let table = self.joiner.table();
        let mut builder = StackTableBuilder::default();
        let ids: Vec<StackId> =
            self.halves.iter().map(|halves| halves.callers(table, &mut builder)).collect();
        let stacks = std::mem::take(&mut self.sample_halves).into_iter();
        let stacks = stacks.map(|halves| ids.get(halves as usize).copied().unwrap_or_default());
        (builder.finish(), stacks.collect())
    }
}

impl Halves {
    /// The stack of the callers of the sampled code.
    fn callers(&self, table: &HalfTable, builder: &mut StackTableBuilder) -> StackId {
        let frames = |half: Option<StackNumber>| half.and_then(|half| table.frames(half));
        let (kernel, user) = (frames(self.kernel), frames(self.user).unwrap_or(&[]));
        // A wait is where the innermost known frame is.
        let in_kernel = match Mode::from_wire(self.mode.into()) {
            Some(Mode::Kernel) => true,
            Some(Mode::User) => false,
            _ => kernel.is_some_and(|kernel| !kernel.is_empty()),
        };
        // Windows' walk begins with the sampled code itself, in its mode; that frame is no caller.
        // A sample of user code has no kernel half.
        let (kernel, user) = if in_kernel {
            (kernel.unwrap_or(&[]).get(1..).unwrap_or(&[]), user)
        } else {
            (&[][..], user.get(1..).unwrap_or(&[]))
        };
        let kernel = kernel.iter().rev().map(|&address| (address, Mode::Kernel));
        let user = user.iter().rev().map(|&address| (address, Mode::User));
        builder.stack(user.chain(kernel)).marked(self.is_shared)
    }
}

/// A source as the metadata of its samples describes it.
fn source(number: u16, state: &SourceState) -> Source {
    let name = match (number, state.name.as_str()) {
        (TIMER, "") => TIMER_NAME.to_owned(),
        (_, "") => format!("source {number} of Windows"),
        (_, name) => name.to_owned(),
    };
    // If no event names the interval, a sample counts as one event: nothing says how many more.
    let unknown = if number == TIMER { TIMER_INTERVAL } else { 1 };
    let interval = state.first.unwrap_or(unknown).into();
    let period = Period { requested: interval, used: interval, ..Period::default() };
    Source { name, period, ..Source::default() }
}

fn metadata(trace: &Etl, sources: Vec<Source>) -> Metadata {
    let header = trace.header();
    Metadata {
        machine: etl::system(header),
        modelled: etl::is_modelled(header),
        interface: "ETW".to_owned(),
        timestamp_frequency: trace.clock().frequency(),
        processors: header.processors,
        began: (header.start_time / 10_000_000).saturating_sub(UNIX_EPOCH),
        sources,
        passes: 1,
        ..Metadata::default()
    }
}

/// What the session lost, by cause.
fn lost(trace: &Etl) -> BTreeMap<String, u64> {
    let losses = trace.losses();
    let mut lost = BTreeMap::from([(LOST_EVENTS.to_owned(), losses.lost_events())]);
    if losses.lost_buffers() != 0 {
        lost.insert(LOST_BUFFERS.to_owned(), losses.lost_buffers());
    }
    lost
}

/// A time stamp. A damaged trace may have times before its clock began.
fn ticks(time: i64) -> u64 {
    u64::try_from(time).unwrap_or(0)
}

#[cfg(test)]
pub(crate) mod tests;
