//! A modelled machine's run as Windows' tracing would write it, with the truth about it.
//!
//! Threads of a few processes run on the processors in turn, from switch to switch, and each
//! processor's events are divided among its slices. The trace has the switches with the counters'
//! values, samples at each source's interval with their call stacks, and what names all of them.
//! What it cannot say is part of the truth: what ran before the first switch and after the last one.

mod branches;
mod on_way;

use crate::write::{self, Origin, Session, Writer};
pub use branches::{BranchRecording, LeftOut};
use branches::{Branches, Fate, Recorded};
use fastrand::Rng;
use halprof_etw::bytes::{Layout, Output};
use halprof_etw::clock::ClockType;
use halprof_etw::payload::branches::{Entries, Entry, LastBranches};
use halprof_etw::payload::stack::{Frames, Stack};
use halprof_etw::payload::{Change, EventKind, counters, image, process, processor, thread};
use halprof_etw::{Clock, PointerSize};
use halprof_measure::tracing::etl::MODEL_SESSION;
use halprof_measure::tracing::live::Record;
use halprof_measure::tracing::session::{SampledSource, TIMER};
use on_way::OnWay;
use sim::load::workload::Passed;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Seek, Write};
use std::sync::Arc;

/// The run that is modelled.
#[derive(Clone, Debug)]
pub struct Run {
    /// Decides everything that Windows would: who runs when, where and for how long.
    pub seed: u64,
    /// How many processors there are, at least one.
    pub processors: u16,
    /// The clock of the trace's times.
    pub clock: ClockType,
    /// The pointer size of the system.
    pub pointer_size: PointerSize,
    /// How long the session lasts, in microseconds.
    pub length_us: u64,
    /// What the switches carry, at most 7.
    pub counted: Vec<TracedSource>,
    /// The sources that are sampled.
    pub sampled: Vec<TracedSource>,
    /// Whether samples and context switches have call stacks.
    pub stacks: bool,
    /// Whether it has who ends the waits of threads.
    pub wakings: bool,
    /// How the branches before samples are recorded; `None` if they are not.
    pub branches: Option<BranchRecording>,
    /// One buffer of so many is lost; 0 for none.
    pub lost_buffers_one_in: u32,
    /// The real program whose code all processes run; without one they run code of no file.
    pub program: Option<Program>,
}

/// A real program.
#[derive(Clone, Debug)]
pub struct Program {
    /// What the kernel calls its file, which is on [`VOLUME`].
    pub path: String,
    /// Its build, if the trace is to say it, as one that has been merged does; base and process are
    /// those of its images.
    pub pdb: Option<image::Pdb>,
    /// Where it is loaded: its first address.
    pub start: u64,
    /// The first address after it.
    pub end: u64,
    /// The addresses of the instructions that are executed.
    pub instructions: Arc<[u64]>,
    /// The branches on the way through it, over and over.
    pub way: Arc<[Passed]>,
    /// The instructions through which the way leads, in ascending order: samples are there. Without
    /// them samples are at any of `instructions`.
    pub on_way: Arc<[u64]>,
}

/// The volume of files.
pub const VOLUME: &str = r"\Device\HarddiskVolume3";

/// A source, and how often its event happens.
#[derive(Clone, Debug)]
pub struct TracedSource {
    /// Windows' name.
    pub name: String,
    /// Its number, and the interval between samples.
    pub source: SampledSource,
    /// The events of each processor from its first switch to its last one. The timer needs none.
    pub events: Vec<u64>,
}

/// What happened in a run.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// What each thread did in the slices of which both ends are in the trace. Thread 0 is all idle
    /// threads.
    pub threads: BTreeMap<u32, ThreadTruth>,
    /// The samples in the order of time, with their stacks.
    pub samples: Vec<SampleTruth>,
    /// Where threads went on after context switches, in the order of time, if the run has stacks.
    pub switches: Vec<SwitchTruth>,
    /// Who ended waits, in the order of time, if the run has it.
    pub wakings: Vec<WakingTruth>,
    /// The branch records that are of no sample, or of no branch.
    pub left_out: LeftOut,
}

/// The stack of a context switch, which is that of the thread that it puts on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchTruth {
    /// In ticks.
    pub time: i64,
    /// Where it was.
    pub processor: u16,
    /// The thread that it put on.
    pub thread: u32,
    /// The kernel's half of its stack, innermost first.
    pub kernel: Vec<u64>,
    /// The user half.
    pub user: Vec<u64>,
}

/// The end of a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WakingTruth {
    /// In ticks.
    pub time: i64,
    /// The thread that had waited.
    pub thread: u32,
    /// How long it was off, in ticks.
    pub waited: i64,
    /// The thread that ended the wait; `None` for a DPC.
    pub waker: Option<u32>,
    /// The kernel's half of the call stack of what ended it, innermost first; empty without stacks.
    pub kernel: Vec<u64>,
    /// The user half; empty for a DPC.
    pub user: Vec<u64>,
}

/// What a thread did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadTruth {
    /// Its process.
    pub process: u32,
    /// How often it was switched out.
    pub switches: u64,
    /// Its time on processors, in ticks.
    pub ticks: u64,
    /// The counts, in the order of what the switches carry.
    pub counts: Vec<u64>,
    /// The events of what is sampled.
    pub sampled: Vec<u64>,
    /// Whether the trace has all of it.
    pub complete: bool,
}

/// A sample and its stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleTruth {
    /// In ticks.
    pub time: i64,
    /// Where it was.
    pub processor: u16,
    /// 0 on an idle processor.
    pub thread: u32,
    /// The source's number.
    pub source: u32,
    /// The address.
    pub ip: u64,
    /// The kernel's half of its stack, innermost first; empty if there is none.
    pub kernel: Vec<u64>,
    /// The user half.
    pub user: Vec<u64>,
    /// The branches before it that the trace has, newest first: the branch and its target.
    pub branches: Vec<(u64, u64)>,
}

/// Ticks of the performance counter in a second, as on today's Windows, and the processors' clock.
const PERF_HZ: u64 = 10_000_000;
const CPU_MHZ: u32 = 3000;
/// The clock at the session's beginning.
const ORIGIN: i64 = 1_000_000;
/// 13 June 2022 (FILETIME).
const START_TIME: u64 = 132_995_520_000_000_000;
/// The length of buffers: small, so that a short run has many.
pub const BUFFER: u32 = 4096;
/// The values of counters have so many bits, and begin anywhere.
const VALUE_BITS: u32 = 48;

/// The idle process, and the first of the others.
const IDLE: u32 = 0;
const FIRST_PROCESS: u32 = 1000;
const PROCESSES: u32 = 3;
const THREADS: u32 = 3;
/// Where the processes' code is, and the kernel's.
const IMAGE: u64 = 0x40_0000;
const IMAGE_SIZE: u64 = 0x1_0000;
/// Where the kernel makes a thread ready, where it waits, what a program called for that, and where it
/// is interrupted.
const WAKE: u64 = 0x80;
const WAIT: u64 = 0x100;
const SYSTEM_CALL: u64 = 0x200;
const INTERRUPT: u64 = 0x300;
/// Where it switches threads: `SwapContext`.
pub const SWAP_CONTEXT: u64 = 0x400;
/// The functions of a program that wait, and the one that calls them.
const WAITING_CALLS: u64 = 4;
const CALL_DISTANCE: u64 = 0x400;
const MAIN: u64 = 0x8000;
/// Where the kernel begins on a system of 64 bits, and of 32.
const KERNEL: [u64; 2] = [0xFFFF_F800_0000_0000, 0x8100_0000];

/// An event of the trace.
struct Written {
    origin: Origin,
    kind: Kind,
    values: Vec<u64>,
}

/// The content of an event; a stack's frames and a sample's branches are bytes in the trace, which an
/// event borrows.
enum Kind {
    Event(EventKind<'static>),
    Stack { event_time: i64, frames: Vec<u64> },
    Branches { event_time: i64, filter: u32, entries: Vec<Entry> },
}

/// A thread on a processor, until it is switched out or the session ends.
struct Slice {
    processor: u16,
    thread: u32,
    begin: i64,
    end: i64,
    /// The thread that runs after it; `None` if the session ends before.
    next: Option<u32>,
    /// Whether both of its ends are in the trace.
    is_whole: bool,
}

/// What runs on a processor: since when, which thread, and whether the trace has the switch to it.
type Running = (i64, u32, bool);

struct Generator {
    run: Run,
    /// Whether the run goes on after what is written now.
    goes_on: bool,
    /// The beginning of what is written now.
    from: i64,
    running: Vec<Running>,
    /// The counters of each processor.
    values: Vec<Vec<u64>>,
    /// The events of each processor since the last sample of each source.
    since_sample: Vec<Vec<u64>>,
    rng: Rng,
    /// Decides where threads waited: what else happens does not depend on stacks.
    switch_rng: Rng,
    branches: Option<Branches>,
    on_way: Option<OnWay>,
    ticks_per_us: i64,
    kernel: u64,
    events: Vec<Written>,
    truth: Truth,
    /// Threads that wait for a processor.
    ready: Vec<u32>,
    /// When a thread was last on a processor: it is nowhere else before.
    free_from: BTreeMap<u32, i64>,
    /// When which threads ended waits: a call stack names its event by both.
    waking_at: BTreeSet<(i64, u32)>,
}

impl Run {
    /// Writes the trace; returns what is true of it.
    pub fn write<W: Write + Seek>(&self, output: W) -> io::Result<(W, Truth)> {
        let mut generator = Generator::new(self.clone());
        generator.generate();
        let Generator { mut events, mut truth, mut rng, branches, .. } = generator;
        truth.left_out = branches.map_or_else(LeftOut::default, |branches| branches.left_out);
        events.sort_by_key(|event| event.origin.time);
        let mut writer = Writer::new(output, self.session())?;
        for event in &events {
            let processor = event.origin.processor;
            self.with(event, |origin, kind, values| writer.event(origin, kind, values))?;
            // About as many events as a buffer holds.
            if self.lost_buffers_one_in != 0 && rng.u32(..64 * self.lost_buffers_one_in) == 0 {
                writer.lose_buffer(processor);
            }
        }
        let end = START_TIME + self.length_us * 10;
        Ok((writer.finish(end)?, truth))
    }

    /// Gives an event as it is written.
    fn with<R>(
        &self,
        event: &Written,
        give: impl FnOnce(Origin, &EventKind<'_>, &[u64]) -> R,
    ) -> R {
        let origin = event.origin;
        match &event.kind {
            Kind::Event(kind) => give(origin, kind, &event.values),
            Kind::Stack { event_time, frames } => {
                let bytes = self.bytes_of(frames);
                let stack = EventKind::Stack(Stack {
                    event_time: event_time.cast_unsigned(),
                    process: origin.process,
                    thread: origin.thread,
                    frames: Frames::from_bytes(&bytes, self.pointer_size),
                });
                give(origin, &stack, &[])
            }
            Kind::Branches { event_time, filter, entries } => {
                let bytes = self.bytes_of_entries(entries);
                let records = EventKind::LastBranches(LastBranches {
                    event_time: event_time.cast_unsigned(),
                    process: origin.process,
                    thread: origin.thread,
                    filter: *filter,
                    entries: Entries::from_bytes(&bytes, self.pointer_size),
                });
                // Its header names no thread.
                give(Origin { thread: u32::MAX, process: u32::MAX, ..origin }, &records, &[])
            }
        }
    }

    fn session(&self) -> Session {
        Session {
            pointer_size: self.pointer_size,
            buffer_size: BUFFER,
            processors: self.processors,
            clock_type: self.clock,
            perf_freq: PERF_HZ,
            cpu_mhz: CPU_MHZ,
            origin: ORIGIN,
            start_time: START_TIME,
            name: MODEL_SESSION.to_owned(),
            ..Session::default()
        }
    }

    fn bytes_of(&self, frames: &[u64]) -> Vec<u8> {
        let length = self.pointer_size.bytes();
        frames.iter().flat_map(|frame| frame.to_le_bytes().into_iter().take(length)).collect()
    }

    fn bytes_of_entries(&self, entries: &[Entry]) -> Vec<u8> {
        let mut output = Output { bytes: Vec::new(), pointer_size: self.pointer_size };
        for entry in entries {
            entry.write(&mut output);
        }
        output.bytes
    }
}

/// A run whose events are delivered while it goes on. At the end of each part all processors switch,
/// so that all that has been counted by then is in the events.
#[derive(Debug)]
pub struct LiveRun {
    generator: Generator,
    /// The length of what has been delivered, in microseconds, and what it counted and sampled.
    length_us: u64,
    events: [Vec<Vec<u64>>; 2],
}

impl LiveRun {
    /// A run that has just begun, with what is counted and sampled in it.
    pub fn new(run: Run) -> Self {
        let mut generator = Generator::new(Run { length_us: 0, ..run });
        generator.name_all();
        generator.begin_live();
        Self { generator, length_us: 0, events: Default::default() }
    }

    /// The clock of its events.
    pub fn clock(&self) -> Option<Clock> {
        Clock::new(self.generator.run.clock, PERF_HZ, ORIGIN)
    }

    /// Gives the events of the run since the last call: `run` is the whole run until now.
    pub fn until(&mut self, run: &Run, goes_on: bool, mut give: impl FnMut(&Record<'_>)) {
        let pointer_size = self.generator.run.pointer_size;
        self.events_until(run, goes_on, |origin, kind, values| {
            let Some((id, payload)) = write::content(kind, pointer_size) else { return };
            let values: Vec<u8> = values.iter().copied().flat_map(u64::to_le_bytes).collect();
            let Origin { time, processor, .. } = origin;
            give(&Record { time, processor, id, payload: &payload, values: &values });
        });
    }

    /// The same, as they are written.
    pub fn events_until(
        &mut self,
        run: &Run,
        goes_on: bool,
        mut give: impl FnMut(Origin, &EventKind<'_>, &[u64]),
    ) {
        let generator = &mut self.generator;
        generator.from = generator.end();
        // What is counted in no time is counted in the least.
        self.length_us = run.length_us.max(self.length_us + 1);
        generator.run.length_us = self.length_us;
        generator.goes_on = goes_on;
        let [counted, sampled] = &mut self.events;
        since(&run.counted, counted, &mut generator.run.counted);
        since(&run.sampled, sampled, &mut generator.run.sampled);
        generator.generate_part();
        let mut events = std::mem::take(&mut generator.events);
        generator.truth.samples.clear();
        generator.truth.switches.clear();
        events.sort_by_key(|event| event.origin.time);
        for event in &events {
            generator.run.with(event, &mut give);
        }
    }

    /// The time until which events have been given, in ticks.
    pub fn now(&self) -> i64 {
        self.generator.end()
    }
}

/// The events of each source since those that are known, which are all afterwards.
fn since(now: &[TracedSource], known: &mut Vec<Vec<u64>>, part: &mut [TracedSource]) {
    known.resize(now.len(), Vec::new());
    for ((now, known), part) in now.iter().zip(known).zip(part) {
        known.resize(now.events.len(), 0);
        let events = now.events.iter().zip(&*known);
        part.events = events.map(|(now, known)| now.saturating_sub(*known)).collect();
        known.clone_from(&now.events);
    }
}

impl std::fmt::Debug for Generator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Generator").field("run", &self.run).finish_non_exhaustive()
    }
}

impl Generator {
    fn new(run: Run) -> Self {
        let ticks_per_us = match run.clock {
            ClockType::ProcessorCycles => i64::from(CPU_MHZ),
            ClockType::PerformanceCounter | ClockType::SystemTime => {
                (PERF_HZ / 1_000_000).cast_signed()
            }
        };
        let processors = usize::from(run.processors);
        Self {
            goes_on: false,
            from: ORIGIN,
            running: Vec::new(),
            values: vec![Vec::new(); processors],
            since_sample: vec![Vec::new(); processors],
            rng: Rng::with_seed(run.seed),
            switch_rng: Rng::with_seed(run.seed),
            branches: run.branches.map(|recording| {
                let way = run.program.as_ref().map(|program| Arc::clone(&program.way));
                let way = way.unwrap_or_else(|| branches::invented(IMAGE, IMAGE_SIZE));
                Branches::new(recording, way, run.pointer_size, run.seed)
            }),
            on_way: run.program.as_ref().and_then(OnWay::of),
            ticks_per_us,
            kernel: KERNEL[usize::from(run.pointer_size == PointerSize::Four)],
            events: Vec::new(),
            truth: Truth::default(),
            ready: Vec::new(),
            free_from: BTreeMap::new(),
            waking_at: BTreeSet::new(),
            run,
        }
    }

    fn end(&self) -> i64 {
        ORIGIN + self.run.length_us.cast_signed() * self.ticks_per_us
    }

    fn generate(&mut self) {
        self.name_all();
        self.running =
            (0..self.run.processors).map(|_| (ORIGIN, self.next_thread(ORIGIN), false)).collect();
        self.generate_part();
        self.truth.samples.sort_by_key(|sample| (sample.time, sample.processor));
        self.truth.switches.sort_by_key(|switch| (switch.time, switch.processor));
        self.truth.wakings.sort_by_key(|waking| waking.time);
    }

    /// Puts a thread on each processor, with a switch that the events have.
    fn begin_live(&mut self) {
        let begin = ORIGIN + 2;
        for processor in 0..self.run.processors {
            let thread = self.next_thread(begin);
            self.running.push((begin, thread, true));
            let values = self.values_of(processor).clone();
            let switch = Kind::Event(switch(IDLE, thread));
            self.push(begin, processor, IDLE, switch, values);
        }
    }

    /// What happens from `from` to the end.
    fn generate_part(&mut self) {
        let slices = self.schedule();
        if self.run.wakings {
            self.wake_all(&slices);
        }
        for processor in 0..self.run.processors {
            let own: Vec<&Slice> =
                slices.iter().filter(|slice| slice.processor == processor).collect();
            self.count(&own);
            self.sample_all(&own);
        }
    }

    /// Divides the run into slices: which thread runs when and where.
    fn schedule(&mut self) -> Vec<Slice> {
        let mut running = std::mem::take(&mut self.running);
        let is_live = running.iter().any(|&(.., is_whole)| is_whole);
        let mut slices = Vec::new();
        // Advance the processor that is furthest behind, so that threads move in the order of time.
        while let Some((processor, &(begin, thread, is_whole))) = (0..)
            .zip(&running)
            .filter(|(_, (begin, ..))| *begin < self.end())
            .min_by_key(|(_, (begin, ..))| *begin)
        {
            let end = (begin + self.slice_ticks()).min(self.end());
            let next = match (end < self.end(), is_live) {
                (true, _) => Some(self.next_thread(end)),
                (false, true) if self.goes_on => Some(self.next_thread(end)),
                (false, true) => Some(IDLE),
                (false, false) => None,
            };
            if next.is_some() {
                self.free_from.insert(thread, end);
                self.ready.extend((thread != IDLE).then_some(thread));
            }
            running[usize::from(processor)] = (end, next.unwrap_or(IDLE), true);
            let is_whole = is_whole && next.is_some();
            slices.push(Slice { processor, thread, begin, end, next, is_whole });
        }
        self.running = running;
        slices
    }

    /// The length of a slice: some dozens in a short run, and in a long one a few thousand at most.
    fn slice_ticks(&mut self) -> i64 {
        let length = self.end() - self.from;
        let mean = (length / 32).min(400 * self.ticks_per_us).max(length / 4096).max(1);
        1 + self.rng.i64(mean / 4..=mean)
    }

    /// A thread that is on no processor at this time; the idle one if there is none, or by chance.
    fn next_thread(&mut self, time: i64) -> u32 {
        let free: Vec<usize> = (0..self.ready.len())
            .filter(|&index| self.free_from.get(&self.ready[index]).is_none_or(|&at| at < time))
            .collect();
        match free.as_slice() {
            [] => IDLE,
            _ if self.rng.u32(..4) == 0 => IDLE,
            free => {
                let index = free[self.rng.usize(..free.len())];
                self.ready.swap_remove(index)
            }
        }
    }

    /// The switches at the ends of a processor's slices, with the counters' values.
    fn count(&mut self, slices: &[&Slice]) {
        let Some(processor) = slices.first().map(|slice| slice.processor) else { return };
        let has_stacks = self.run.stacks;
        let sources = self.run.counted.iter();
        let counts: Vec<Vec<u64>> = sources.map(|source| divided(&source.events, slices)).collect();
        let mut values = std::mem::take(self.values_of(processor));
        for (index, slice) in slices.iter().enumerate() {
            let truth = self.truth.threads.entry(slice.thread).or_default();
            truth.complete &= slice.is_whole;
            truth.switches += u64::from(slice.next.is_some());
            truth.ticks += if slice.is_whole { slice.ticks() } else { 0 };
            truth.counts.resize(counts.len(), 0);
            for (source, counts) in counts.iter().enumerate() {
                truth.counts[source] += counts[index];
                // What happened in a slice that the trace does not have whole cannot be known from it.
                let count = if slice.is_whole { counts[index] } else { self.rng.u64(..1_000_000) };
                values[source] = (values[source] + count) % (1 << VALUE_BITS);
            }
            if let Some(next) = slice.next {
                let switch = Kind::Event(switch(slice.thread, next));
                self.push(slice.end, slice.processor, slice.thread, switch, values.clone());
                if has_stacks && next != IDLE {
                    self.stack_of_switch(slice.end, slice.processor, next);
                }
            }
        }
        *self.values_of(processor) = values;
    }

    /// The values of a processor's counters. Some are about to wrap.
    fn values_of(&mut self, processor: u16) -> &mut Vec<u64> {
        let Self { values, run, rng, .. } = self;
        let values = &mut values[usize::from(processor)];
        if values.is_empty() {
            let begin = |_: &TracedSource| (1 << VALUE_BITS) - 1 - rng.u64(..1_000_000);
            *values = run.counted.iter().map(begin).collect();
        }
        values
    }

    /// What ends the waits of threads: before each goes on, what runs on some processor makes it ready, a
    /// DPC where nothing else runs.
    fn wake_all(&mut self, slices: &[Slice]) {
        let mut off_since: BTreeMap<u32, i64> = BTreeMap::new();
        let mut by_end: Vec<&Slice> = slices.iter().collect();
        by_end.sort_by_key(|slice| slice.end);
        for slice in by_end {
            if let Some(next) = slice.next.filter(|&next| next != IDLE)
                && let Some(since) = off_since.remove(&next)
            {
                self.wake(slices, next, (since, slice.end));
            }
            off_since.insert(slice.thread, slice.end);
        }
    }

    /// Ends the wait of a thread that is off from one time to another.
    fn wake(&mut self, slices: &[Slice], thread: u32, (since, until): (i64, i64)) {
        // Its call stack follows within two ticks, and the reader must have seen who runs.
        let runs_at = |slice: &Slice, time| {
            slice.begin > ORIGIN && slice.begin < time && time < slice.end - 2
        };
        let time = since + 1 + self.switch_rng.i64(0..(until - since).max(1));
        let mut running: Vec<&Slice> = slices.iter().filter(|one| runs_at(one, time)).collect();
        running.retain(|one| !self.waking_at.contains(&(time, one.thread)));
        if time >= until || running.is_empty() {
            return;
        }
        let &Slice { processor, thread: running, .. } =
            running[self.switch_rng.usize(..running.len())];
        self.waking_at.insert((time, running));
        let is_dpc = running == IDLE;
        let ready = thread::Ready { thread, flags: u8::from(is_dpc), ..thread::Ready::default() };
        self.push(time, processor, running, Kind::Event(EventKind::Ready(ready)), Vec::new());
        let (mut kernel, mut user) =
            (vec![self.kernel + WAKE, self.kernel + SYSTEM_CALL], Vec::new());
        if is_dpc {
            kernel[1] = self.kernel + INTERRUPT;
        } else {
            user = vec![self.waking_call(), IMAGE + MAIN];
        }
        let halves = [kernel, user].map(|half| if self.run.stacks { half } else { Vec::new() });
        for (delay, frames) in (1..).zip(&halves) {
            if !frames.is_empty() {
                let stack = Kind::Stack { event_time: time, frames: frames.clone() };
                self.push(time + delay, processor, running, stack, Vec::new());
            }
        }
        let [kernel, user] = halves;
        let waker = (!is_dpc).then_some(running);
        let waited = until - since;
        self.truth.wakings.push(WakingTruth { time, thread, waited, waker, kernel, user });
    }

    /// Where a program ends a wait.
    fn waking_call(&mut self) -> u64 {
        match self.run.program.as_ref().map(|program| &program.instructions) {
            Some(instructions) if !instructions.is_empty() => {
                // The address behind a call, as in `user_address`.
                instructions[self.switch_rng.usize(..instructions.len())] + 1
            }
            _ => IMAGE + MAIN + self.switch_rng.u64(1..=WAITING_CALLS) * CALL_DISTANCE,
        }
    }

    /// The stack of the thread that a switch puts on: it waited in the kernel, in a call that its
    /// program made, or where it was on its way.
    fn stack_of_switch(&mut self, time: i64, processor: u16, thread: u32) {
        let kernel = vec![self.kernel + WAIT, self.kernel + SYSTEM_CALL];
        let user = if let Some(on_way) = &self.on_way {
            let place = on_way.place(&mut self.switch_rng);
            on_way.stack(place, true, &mut self.switch_rng)
        } else {
            let call = self.switch_rng.u64(1..=WAITING_CALLS) * CALL_DISTANCE;
            vec![IMAGE + call, IMAGE + MAIN]
        };
        for (delay, frames) in (1..).zip([&kernel, &user]) {
            let stack = Kind::Stack { event_time: time, frames: frames.clone() };
            self.push(time + delay, processor, thread, stack, Vec::new());
        }
        self.truth.switches.push(SwitchTruth { time, processor, thread, kernel, user });
    }

    /// The samples of a processor, at each source's interval.
    fn sample_all(&mut self, slices: &[&Slice]) {
        let Some(processor) = slices.first().map(|slice| slice.processor) else { return };
        let sampled: Vec<SampledSource> =
            self.run.sampled.iter().map(|source| source.source).collect();
        let events: Vec<Vec<u64>> = self
            .run
            .sampled
            .iter()
            .map(|source| match source.source.id {
                // In units of 100 ns, as the interval.
                TIMER => slices
                    .iter()
                    .map(|one| one.ticks() * 10 / self.ticks_per_us.unsigned_abs())
                    .collect(),
                _ => divided(&source.events, slices),
            })
            .collect();
        let mut since_sample = std::mem::take(&mut self.since_sample[usize::from(processor)]);
        since_sample.resize(events.len(), 0);
        for (index, slice) in slices.iter().enumerate() {
            let mut times = Vec::new();
            for (number, events) in events.iter().enumerate() {
                let source = sampled[number];
                let own =
                    sample_times(slice, events[index], &mut since_sample[number], source.interval);
                times.extend(own.map(|time| (time, source.id)));
                let truth = self.truth.threads.entry(slice.thread).or_default();
                truth.sampled.resize(sampled.len(), 0);
                truth.sampled[number] += events[index];
            }
            times.sort_unstable();
            // A stack names its sample by time and thread: two at once would share it.
            times.dedup_by_key(|(time, _)| *time);
            // Its stack follows within two ticks, on this processor. At the begin of the slice is the
            // switch, whose stack names it by this time and thread.
            times.retain(|&(time, _)| time > slice.begin && time < slice.end - 2);
            times.retain(|&(time, _)| !self.waking_at.contains(&(time, slice.thread)));
            for (time, source) in times {
                self.sample((time, slice.processor, slice.thread), source, slice.begin);
            }
        }
        self.since_sample[usize::from(processor)] = since_sample;
    }

    /// Writes a sample of a thread that was switched in at `begin`.
    fn sample(&mut self, (time, processor, thread): (i64, u16, u32), source: u32, begin: i64) {
        let in_kernel = thread == IDLE || self.rng.u32(..3) == 0;
        let place = self.on_way.as_ref().map(|on_way| on_way.place(&mut self.rng));
        let user = self.user_stack(place, in_kernel);
        let kernel: Vec<u64> = (0..self.rng.u64(1..4)).map(|_| self.address(self.kernel)).collect();
        let kernel = if in_kernel { kernel } else { Vec::new() };
        // An idle thread has no user mode.
        let user = if thread == IDLE { Vec::new() } else { user };
        let fate = self.branches.as_mut().map(|branches| branches.fate(in_kernel));
        let ip = match fate {
            Some(Fate::Switching) => self.kernel + SWAP_CONTEXT,
            _ => kernel.first().or(user.first()).copied().unwrap_or(self.kernel),
        };
        let kind = match source {
            TIMER => EventKind::Sample(processor::Sample { ip, thread, count: 1, reserved: 0 }),
            _ => EventKind::CounterSample(processor::CounterSample {
                ip,
                thread,
                source: source as u16,
                reserved: 0,
            }),
        };
        self.push(time, processor, thread, Kind::Event(kind), Vec::new());
        let kernel_entry = in_kernel.then_some(self.kernel + INTERRUPT);
        let branches = fate.map_or_else(Vec::new, |fate| {
            self.branches_of((time, processor, thread), (kernel_entry, place), fate, begin)
        });
        let halves =
            [&kernel, &user].map(|half| if self.run.stacks { half.clone() } else { Vec::new() });
        for (delay, frames) in (1..).zip(&halves) {
            if !frames.is_empty() {
                let stack = Kind::Stack { event_time: time, frames: frames.clone() };
                self.push(time + delay, processor, thread, stack, Vec::new());
            }
        }
        let [kernel, user] = halves;
        let sample = SampleTruth { time, processor, thread, source, ip, kernel, user, branches };
        self.truth.samples.push(sample);
    }

    /// Writes the branches before a sample; returns those that a reader must give it.
    fn branches_of(
        &mut self,
        (time, processor, thread): (i64, u16, u32),
        (kernel_entry, place): (Option<u64>, Option<usize>),
        fate: Fate,
        begin: i64,
    ) -> Vec<(u64, u64)> {
        let Some(branches) = &mut self.branches else { return Vec::new() };
        if fate == Fate::Lost {
            return Vec::new();
        }
        let (filter, left_out) = (branches.filter(), branches.left_out);
        let Recorded { entries, taken } = match fate {
            Fate::Switching => branches.of_other(),
            _ => branches.of_sample(kernel_entry, place),
        };
        let mut written = vec![(time, entries)];
        if fate == Fate::WithSwitch {
            // There is no sample at the switch, so none of its records counts.
            let left_out = branches.left_out;
            written.push((begin, branches.of_other().entries));
            branches.left_out = LeftOut { without_sample: left_out.without_sample + 1, ..left_out };
        }
        if thread == IDLE {
            branches.left_out = left_out;
        }
        for (event_time, entries) in written {
            let records = Kind::Branches { event_time, filter, entries };
            self.push(time + 1, processor, thread, records, Vec::new());
        }
        if thread == IDLE { Vec::new() } else { taken }
    }

    /// The user half of a stack: at this place on the way, or anywhere.
    fn user_stack(&mut self, place: Option<usize>, is_interrupted: bool) -> Vec<u64> {
        if let Some((on_way, place)) = self.on_way.as_ref().zip(place) {
            return on_way.stack(place, is_interrupted, &mut self.rng);
        }
        (0..self.rng.u64(1..6)).map(|depth| self.user_address(depth != 0)).collect()
    }

    fn user_address(&mut self, is_caller: bool) -> u64 {
        match self.run.program.as_ref().map(|program| &program.instructions) {
            Some(instructions) if !instructions.is_empty() => {
                // A caller's address is that behind a call: one byte into the next instruction it is
                // within the one that it stands for.
                instructions[self.rng.usize(..instructions.len())] + u64::from(is_caller)
            }
            _ => self.address(IMAGE),
        }
    }

    fn address(&mut self, base: u64) -> u64 {
        base + self.rng.u64(..IMAGE_SIZE)
    }

    /// Processes, threads, images, sources and counters.
    fn name_all(&mut self) {
        let (run, kernel) = (self.run.clone(), self.kernel);
        let names = run.counted.iter().map(|source| source.name.clone()).collect();
        self.begin(EventKind::CounterNames(counters::CounterNames { names }));
        for TracedSource { name, source, .. } in &run.sampled {
            self.begin(EventKind::Interval(Box::new(counters::Interval {
                source: source.id,
                interval: source.interval,
                old_interval: source.interval,
                name: name.clone(),
            })));
        }
        self.begin(image(IDLE, (kernel, IMAGE_SIZE), 1, r"\SystemRoot\system32\ntoskrnl.exe"));
        for number in 0..PROCESSES {
            let process = FIRST_PROCESS + 100 * number;
            let name = match &run.program {
                None => format!("model{number}.exe"),
                Some(program) => program.path.rsplit('\\').next().unwrap_or_default().to_owned(),
            };
            let running = process::Process::new(Change::RundownStart, process, &name);
            self.begin(EventKind::Process(Box::new(running)));
            self.begin(match &run.program {
                None => image(process, (IMAGE, IMAGE_SIZE), 1, &format!(r"{VOLUME}\{name}")),
                Some(Program { path, start, end, .. }) => {
                    image(process, (*start, end - start), 0, path)
                }
            });
            if let Some(Program { pdb: Some(pdb), start, .. }) = &run.program {
                let pdb = image::Pdb { base: *start, process, ..pdb.clone() };
                self.begin(EventKind::Pdb(Box::new(pdb)));
            }
            for thread in (1..=THREADS).map(|thread| process + 4 * thread) {
                let running = thread::Thread::new(Change::RundownStart, process, thread);
                self.begin(EventKind::Thread(Box::new(running)));
                let truth = ThreadTruth { process, complete: true, ..ThreadTruth::default() };
                self.truth.threads.insert(thread, truth);
                self.ready.push(thread);
            }
        }
    }

    /// Writes what was there when the session began.
    fn begin(&mut self, kind: EventKind<'static>) {
        self.push(ORIGIN + 1, 0, 0, Kind::Event(kind), Vec::new());
    }

    fn push(&mut self, time: i64, processor: u16, thread: u32, kind: Kind, values: Vec<u64>) {
        let process = self.truth.threads.get(&thread).map_or(IDLE, |thread| thread.process);
        let origin = Origin { time, processor, thread, process };
        self.events.push(Written { origin, kind, values });
    }
}

/// `KTHREAD_STATE` and `KWAIT_REASON`: waiting for a user's request.
const WAITING: i8 = 5;
const USER_REQUEST: i8 = 6;

fn switch(old_thread: u32, new_thread: u32) -> EventKind<'static> {
    EventKind::Switch(processor::Switch {
        new_thread,
        old_thread,
        new_priority: 8,
        old_priority: 8,
        previous_c_state: 0,
        spare: 0,
        old_wait_reason: USER_REQUEST,
        old_wait_mode: 1,
        old_state: WAITING,
        old_ideal_processor: 0,
        new_wait_time: 0,
        reserved: 0,
    })
}

/// An image with the stamp of its file; 0 if only the file says it.
fn image(
    process: u32,
    (base, size): (u64, u64),
    time_date_stamp: u32,
    name: &str,
) -> EventKind<'static> {
    EventKind::Image(Box::new(image::Image {
        change: Change::RundownStart,
        base,
        size,
        process: Some(process),
        name: name.to_owned(),
        file: Some(image::File { time_date_stamp, ..image::File::default() }),
    }))
}

impl Slice {
    const fn ticks(&self) -> u64 {
        (self.end - self.begin).unsigned_abs()
    }

    /// Its share of the processor's events: busy threads have more of them in the same time.
    const fn weight(&self) -> u128 {
        if self.is_whole { self.ticks() as u128 * (1 + self.thread / 4 % 7) as u128 } else { 0 }
    }
}

/// The events of a processor, in each of its slices; exact in total if one of them is whole.
fn divided(events: &[u64], slices: &[&Slice]) -> Vec<u64> {
    let processor = slices.first().map_or(0, |slice| usize::from(slice.processor));
    let events = u128::from(events.get(processor).copied().unwrap_or(0));
    let all: u128 = slices.iter().map(|slice| slice.weight()).sum();
    let mut weight = 0;
    let until = |weight: u128| (events * weight).checked_div(all).unwrap_or(0);
    slices
        .iter()
        .map(|slice| {
            let before = until(weight);
            weight += slice.weight();
            (until(weight) - before) as u64
        })
        .collect()
}

/// When the samples of a slice are taken, whose events are evenly spread over it.
fn sample_times(
    slice: &Slice,
    events: u64,
    since_sample: &mut u64,
    interval: u32,
) -> impl Iterator<Item = i64> {
    let (interval, before) = (u64::from(interval.max(1)), *since_sample);
    let samples = (before + events) / interval;
    *since_sample = (before + events) % interval;
    let (begin, ticks) = (slice.begin, u128::from(slice.ticks()));
    (1..=samples).map(move |number| {
        let ticks = u128::from(number * interval - before) * ticks / u128::from(events.max(1));
        begin + ticks as i64
    })
}
