//! How long threads waited, by the context switches of a trace of Windows' own tracing.
//!
//! A thread is off the processors from the switch that takes it off to the next one that puts it on,
//! on whatever processor. The first of them says why: it waits for something, or others ran in its
//! place.

use crate::file::MAGIC;
use crate::number::thousands;
use halprof_etw::join::threads::InstanceNumber;
use halprof_etw::payload::processor::Switch;
use halprof_etw::{Clock, Event, EventKind};
use halprof_measure::tracing::etl::{self, Etl};
use halprof_measure::tracing::lives::{Lives, between};
use halprof_measure::{Error, Result};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// How a trace must be recorded.
const RECORD: &str =
    "`xperf -on PROC_THREAD+LOADER+CSWITCH` records one, and `xperf -d FILE` ends it.";

/// Why a thread waits: `KWAIT_REASON` (wdm.h, and the MOF class `CSwitch`), without its prefixes.
const REASONS: [&str; 39] = [
    "Executive",
    "FreePage",
    "PageIn",
    "PoolAllocation",
    "DelayExecution",
    "Suspended",
    "UserRequest",
    "WrExecutive",
    "WrFreePage",
    "WrPageIn",
    "WrPoolAllocation",
    "WrDelayExecution",
    "WrSuspended",
    "WrUserRequest",
    "WrEventPair",
    "WrQueue",
    "WrLpcReceive",
    "WrLpcReply",
    "WrVirtualMemory",
    "WrPageOut",
    "WrRendezvous",
    "WrKeyedEvent",
    "WrTerminated",
    "WrProcessInSwap",
    "WrCpuRateControl",
    "WrCalloutStack",
    "WrKernel",
    "WrResource",
    "WrPushLock",
    "WrMutex",
    "WrQuantumEnd",
    "WrDispatchInt",
    "WrPreempted",
    "WrYieldExecution",
    "WrFastMutex",
    "WrGuardedMutex",
    "WrRundown",
    "WrAlertByThreadId",
    "WrDeferredPreempt",
];

/// The states of a thread that was taken off a processor: `KTHREAD_STATE`.
const STATES: [&str; 9] = [
    "initialized",
    "ready",
    "running",
    "standby",
    "terminated",
    "waiting",
    "transition",
    "deferred ready",
    "gate wait",
];
const TERMINATED: i8 = 4;
const WAITING: i8 = 5;

/// What threads or processes waited for.
#[derive(Clone, Debug)]
pub struct OffCpu {
    /// The system that wrote the trace, such as `Windows 10.0.19041`.
    pub system: String,
    /// From the trace's beginning to its last event.
    pub elapsed_ns: u64,
    /// The context switches in it.
    pub switches: u64,
    /// Those that were lost, as far as the others show it.
    pub lost_switches: u64,
    /// The longest time first.
    pub rows: Vec<WaitRow>,
    /// Why this is not all that happened, each as a sentence.
    pub warnings: Vec<String>,
}

/// The waits of one thread, or of the threads of one process, for one reason.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct WaitRow {
    /// The name of the process; null if no event names it.
    pub process: Option<String>,
    /// Of the process; null if no event names it.
    pub id: Option<u32>,
    /// Null for all threads of the process.
    pub thread: Option<u32>,
    /// Since the trace began; null if it ran before.
    pub started_ns: Option<u64>,
    /// Why it was off the processors: what Windows calls the reason of a wait, else the thread's
    /// state, such as `ready` where others ran in its place.
    pub reason: String,
    /// How often. A wait whose end is not in the trace is not counted.
    pub waits: u64,
    /// How long altogether.
    pub waited_ns: u64,
    /// The same as a part of the trace's time; of a process's threads together it may be above 1.
    pub share: f64,
    /// The longest time.
    pub longest_ns: u64,
    /// How long until the trace's end, where it was still off then.
    pub unfinished_ns: u64,
}

/// What has rows of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Each thread instance.
    Thread,
    /// Each process.
    Process,
}

/// Why a thread was taken off: its state, and the reason if it waits.
type Reason = (i8, i8);

#[derive(Clone, Copy, Default)]
struct Waits {
    count: u64,
    waited_ns: u64,
    longest_ns: u64,
    unfinished_ns: u64,
}

impl Waits {
    fn add(&mut self, ns: u64) {
        self.count += 1;
        self.waited_ns = self.waited_ns.saturating_add(ns);
        self.longest_ns = self.longest_ns.max(ns);
    }

    fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.waited_ns = self.waited_ns.saturating_add(other.waited_ns);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.unfinished_ns = self.unfinished_ns.saturating_add(other.unfinished_ns);
    }
}

struct Reader {
    clock: Clock,
    lives: Lives,
    /// Threads that are off: since when, and why.
    off: HashMap<usize, (i64, Reason)>,
    /// The thread on each processor.
    running: HashMap<u16, u32>,
    waits: BTreeMap<(usize, Reason), Waits>,
    switches: u64,
    lost: u64,
    end: i64,
}

impl OffCpu {
    /// Reads a trace.
    pub fn read(path: &Path, by: By) -> Result<Self> {
        refuse_recording(path)?;
        let mut trace = etl::open(path)?;
        let mut reader = Reader::new(trace.clock());
        while let Some(event) = trace.next_event().map_err(|error| Error::reading(path, error))? {
            reader.event(&event);
        }
        if reader.switches == 0 {
            return Err(Error::BadFile {
                path: path.to_owned(),
                why: "has no context switches, so that nobody knows who waited".to_owned(),
                hint: RECORD.to_owned(),
            });
        }
        Ok(reader.finish(&trace, by))
    }
}

/// A recording has samples and no switches.
fn refuse_recording(path: &Path) -> Result<()> {
    let mut magic = Vec::new();
    let file = File::open(path).map_err(|error| Error::reading(path, error))?;
    file.take(MAGIC.len() as u64)
        .read_to_end(&mut magic)
        .map_err(|error| Error::reading(path, error))?;
    if magic != MAGIC {
        return Ok(());
    }
    Err(Error::BadFile {
        path: path.to_owned(),
        why: "is a recording, which has no context switches".to_owned(),
        hint: format!("A trace of Windows' own tracing (.etl) has them. {RECORD}"),
    })
}

impl Reader {
    fn new(clock: Clock) -> Self {
        Self {
            clock,
            lives: Lives::default(),
            off: HashMap::new(),
            running: HashMap::new(),
            waits: BTreeMap::new(),
            switches: 0,
            lost: 0,
            end: clock.origin(),
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        self.end = self.end.max(event.time);
        if event.is_after_gap {
            self.lose(event.processor);
        }
        match &event.kind {
            EventKind::Switch(switch) => self.switch(event.time, event.processor, switch),
            _ => self.lives.event(event),
        }
    }

    /// Switches of a processor are missing: nobody knows since when its thread is off.
    fn lose(&mut self, processor: u16) {
        if let Some(running) = self.running.remove(&processor) {
            self.lost += 1;
            let InstanceNumber(lost) = self.lives.threads.current(running);
            self.off.remove(&lost);
        }
    }

    fn switch(&mut self, time: i64, processor: u16, switch: &Switch) {
        self.switches += 1;
        if self.running.get(&processor).is_some_and(|&running| running != switch.old_thread) {
            self.lose(processor);
        }
        self.running.insert(processor, switch.new_thread);
        // The idle threads wait for work: that is no wait of anybody's.
        if switch.old_thread != 0 {
            let InstanceNumber(old) = self.lives.threads.current(switch.old_thread);
            let reason = if switch.old_state == WAITING { switch.old_wait_reason } else { 0 };
            self.off.insert(old, (time, (switch.old_state, reason)));
        }
        if switch.new_thread != 0 {
            let InstanceNumber(new) = self.lives.threads.current(switch.new_thread);
            if let Some((since, reason)) = self.off.remove(&new) {
                let ns = between(self.clock, since, time);
                self.waits.entry((new, reason)).or_default().add(ns);
            }
        }
    }

    fn finish(mut self, trace: &Etl, by: By) -> OffCpu {
        let instances = self.lives.threads.instances();
        for (thread, (since, reason)) in self.off {
            // A thread that has ended does not wait.
            if reason.0 != TERMINATED && instances[thread].ended.is_none() {
                let waits = self.waits.entry((thread, reason)).or_default();
                waits.unfinished_ns = between(self.clock, since, self.end);
            }
        }
        let (processes, threads) = self.lives.named(self.clock);
        let mut sums: BTreeMap<(usize, Option<usize>, Reason), Waits> = BTreeMap::new();
        for ((thread, reason), waits) in self.waits {
            let own = (by == By::Thread).then_some(thread);
            sums.entry((threads[thread].process, own, reason)).or_default().merge(waits);
        }
        let elapsed_ns = between(self.clock, self.clock.origin(), self.end);
        let rows = sums.into_iter().map(|((process, thread, reason), waits)| WaitRow {
            share: fraction(waits.waited_ns, elapsed_ns),
            process: processes[process].name.clone(),
            id: processes[process].id,
            thread: thread.map(|thread| threads[thread].id),
            started_ns: thread.and_then(|thread| threads[thread].started_ns),
            reason: name(reason),
            waits: waits.count,
            waited_ns: waits.waited_ns,
            longest_ns: waits.longest_ns,
            unfinished_ns: waits.unfinished_ns,
        });
        let mut rows: Vec<WaitRow> = rows.collect();
        rows.sort_by_key(|row| std::cmp::Reverse((row.waited_ns, row.unfinished_ns)));
        let header = trace.header();
        OffCpu {
            system: format!("Windows {}.{}.{}", header.major, header.minor, header.build),
            elapsed_ns,
            switches: self.switches,
            lost_switches: self.lost,
            rows,
            warnings: warnings(trace, self.lost),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share needs few digits")]
fn fraction(part_ns: u64, whole_ns: u64) -> f64 {
    part_ns as f64 / whole_ns.max(1) as f64
}

fn name((state, reason): Reason) -> String {
    let (names, what, number) = match state {
        WAITING => (&REASONS[..], "wait reason", reason),
        _ => (&STATES[..], "thread state", state),
    };
    let name = usize::try_from(number).ok().and_then(|index| names.get(index));
    name.map_or_else(|| format!("{what} {number}"), |&name| name.to_owned())
}

fn warnings(trace: &Etl, lost_switches: u64) -> Vec<String> {
    let losses = trace.losses();
    let lost = [
        (lost_switches, "context switches were lost"),
        (losses.events, "events were lost"),
        (losses.buffers.max(losses.missing_buffers), "buffers were lost"),
    ];
    let lost = lost.into_iter().filter(|&(n, _)| n != 0).map(|(n, what)| {
        format!("{} {what}: some waits are missing, and some are too long", thousands(n))
    });
    let findings = trace.damage().findings();
    let damage = findings
        .map(|(cause, found)| format!("the trace is damaged: {cause}: {}", thousands(found.count)));
    lost.chain(damage).collect()
}

#[cfg(test)]
mod tests;
