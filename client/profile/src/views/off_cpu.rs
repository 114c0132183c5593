//! How long threads waited, by the context switches of a trace of Windows' own tracing; and where,
//! if switches have call stacks.

mod wakers;

use super::report::{Query, Report};
use crate::aggregate::filter::Filter;
use crate::aggregate::functions::functions_that_waited;
use crate::file::is_recording;
use crate::number::thousands;
use crate::symbols::SymbolPath;
use halprof_etw::join::threads::InstanceNumber;
use halprof_etw::{Clock, Event};
use halprof_measure::float::float;
use halprof_measure::tracing::analysis::lives::{Lives, between};
use halprof_measure::tracing::analysis::waits::{Reason, Waits, Waker, Waking};
use halprof_measure::tracing::etl::{self, Etl};
use halprof_measure::{Error, Remedy, Result};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
pub use wakers::{EndedBy, EndedByRow};

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

/// What threads or processes waited for.
#[derive(Clone, Debug)]
pub struct OffCpu {
    /// The system that wrote the trace, such as `Windows 11 (10.0.22631)`.
    pub system: String,
    /// Whether a model wrote the trace.
    pub is_modelled: bool,
    /// From the trace's beginning to its last event.
    pub elapsed_ns: u64,
    /// The context switches in it.
    pub switches: u64,
    /// The events that say who made a thread ready; 0 where the trace has none.
    pub wakings: u64,
    /// Those that were lost, as far as the others show it.
    pub lost_switches: u64,
    /// The longest time first.
    pub rows: Vec<WaitRow>,
    /// Why this is not all that happened, each as a sentence.
    pub warnings: Vec<String>,
    /// What could not be read, each as the end of a sentence.
    pub damage: Vec<String>,
    /// Remarks on what looks like a loss but is not, each a sentence.
    pub remarks: Vec<String>,
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
    /// The name that its program gave it; null if it has none.
    pub thread_name: Option<String>,
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
    /// Who ended most of the waits, at most three; none where the trace does not say it.
    pub wakers: Vec<WakerRow>,
}

/// Who ended waits.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct WakerRow {
    /// The name of the process; null for a DPC, and if no event names it.
    pub process: Option<String>,
    /// The number of the process; null for a DPC, and if no event names the process.
    pub id: Option<u32>,
    /// Null for a DPC, and for all threads of the process.
    pub thread: Option<u32>,
    /// Whether it was a deferred procedure call, such as a timer's or a device's.
    pub dpc: bool,
    /// How many waits.
    pub waits: u64,
}

/// How many of those who ended waits are kept of each row.
const MOST_WAKERS: usize = 3;

/// What has rows of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Each thread instance.
    Thread,
    Process,
}

#[derive(Clone, Copy, Default)]
struct WaitTotals {
    count: u64,
    waited_ns: u64,
    longest_ns: u64,
    unfinished_ns: u64,
}

impl WaitTotals {
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

/// How many waits each has ended: a DPC, or a process with its thread if threads have rows.
type Wakers = BTreeMap<Option<(usize, Option<usize>)>, u64>;

struct Reader {
    clock: Clock,
    lives: Lives,
    waits: Waits,
    totals: BTreeMap<(usize, Reason), WaitTotals>,
    /// How many waits each has ended.
    wakers: BTreeMap<(usize, Reason, Waker), u64>,
    end: i64,
}

impl OffCpu {
    pub fn read(path: &Path, by: By) -> Result<Self> {
        refuse_recording(path)?;
        let mut trace = etl::open(path)?;
        let clock = trace.clock();
        let mut reader = Reader {
            clock,
            lives: Lives::default(),
            waits: Waits::default(),
            totals: BTreeMap::new(),
            wakers: BTreeMap::new(),
            end: clock.origin(),
        };
        while let Some(event) = trace.next_event().map_err(|error| Error::reading(path, error))? {
            reader.event(&event);
        }
        if reader.waits.switches == 0 {
            let why = "has no context switches, so waits are unknown";
            return Err(refused(path, why));
        }
        Ok(reader.finish(&trace, by))
    }

    /// The call tree of the waits that ended: where each thread went on, with what it had waited there
    /// in nanoseconds. Windows writes the stack of a switch for the thread that it puts on.
    pub fn call_tree(path: &Path, mut filter: Filter, symbol_path: &SymbolPath) -> Result<Report> {
        if !filter.symbols.is_empty() {
            filter.settle(&functions_that_waited(path, &filter, symbol_path)?);
        }
        let query = Query { call_tree: true, filter, ..Query::default() };
        let report = Report::read_waits(path, &query, symbol_path)?;
        match report.recording.stack_counts() {
            Some(_) => Ok(report),
            None => Err(refused(path, "has no call stacks of context switches")),
        }
    }
}

/// A trace without the events that say who ended waits.
fn nobody_named(path: &Path) -> Error {
    refused(path, "does not say who ended the waits of threads")
}

fn refused(path: &Path, why: &str) -> Error {
    let hint = Remedy::TraceWaits.into();
    Error::BadFile { path: path.to_owned(), why: why.to_owned(), hint }
}

/// A recording has samples and no switches.
fn refuse_recording(path: &Path) -> Result<()> {
    if !is_recording(path)? {
        return Ok(());
    }
    Err(refused(path, "is a recording, which has no context switches"))
}

impl Reader {
    fn event(&mut self, event: &Event<'_>) {
        self.end = self.end.max(event.time);
        if let Some(wait) = self.waits.event(&mut self.lives.threads, event) {
            let InstanceNumber(thread) = wait.thread;
            let ns = between(self.clock, wait.since, event.time);
            self.totals.entry((thread, wait.reason)).or_default().add(ns);
            if let Some(Waking { waker, .. }) = wait.waking {
                *self.wakers.entry((thread, wait.reason, waker)).or_default() += 1;
            }
        }
        self.lives.event(event);
    }

    fn finish(mut self, trace: &Etl, by: By) -> OffCpu {
        for wait in self.waits.unfinished(&self.lives.threads) {
            let InstanceNumber(thread) = wait.thread;
            let totals = self.totals.entry((thread, wait.reason)).or_default();
            totals.unfinished_ns = between(self.clock, wait.since, self.end);
        }
        let (processes, threads) = self.lives.named(self.clock);
        let mut sums: BTreeMap<(usize, Option<usize>, Reason), WaitTotals> = BTreeMap::new();
        for ((thread, reason), waits) in self.totals {
            let own = (by == By::Thread).then_some(thread);
            sums.entry((threads[thread].process, own, reason)).or_default().merge(waits);
        }
        let mut wakers: BTreeMap<(usize, Option<usize>, Reason), Wakers> = BTreeMap::new();
        for ((thread, reason, waker), waits) in self.wakers {
            let own = (by == By::Thread).then_some(thread);
            let waker = match waker {
                Waker::Dpc => None,
                Waker::Thread(InstanceNumber(waker)) => {
                    Some((threads[waker].process, (by == By::Thread).then_some(waker)))
                }
            };
            let of_row = wakers.entry((threads[thread].process, own, reason)).or_default();
            *of_row.entry(waker).or_default() += waits;
        }
        let waker = |(waker, waits): (Option<(usize, Option<usize>)>, u64)| match waker {
            None => WakerRow { dpc: true, waits, ..WakerRow::default() },
            Some((process, thread)) => WakerRow {
                process: processes[process].name.clone(),
                id: processes[process].id,
                thread: thread.map(|thread| threads[thread].id),
                dpc: false,
                waits,
            },
        };
        let wakers_of = |key| {
            let mut rows: Vec<WakerRow> =
                wakers.get(&key).into_iter().flatten().map(|(&one, &n)| waker((one, n))).collect();
            rows.sort_by_key(|row| std::cmp::Reverse(row.waits));
            rows.truncate(MOST_WAKERS);
            rows
        };
        let elapsed_ns = between(self.clock, self.clock.origin(), self.end);
        let rows = sums.into_iter().map(|((process, thread, reason), waits)| WaitRow {
            share: float(waits.waited_ns) / float(elapsed_ns.max(1)),
            process: processes[process].name.clone(),
            id: processes[process].id,
            thread: thread.map(|thread| threads[thread].id),
            thread_name: thread.and_then(|thread| threads[thread].name.clone()),
            started_ns: thread.and_then(|thread| threads[thread].started_ns),
            reason: name(reason),
            waits: waits.count,
            waited_ns: waits.waited_ns,
            longest_ns: waits.longest_ns,
            unfinished_ns: waits.unfinished_ns,
            wakers: wakers_of((process, thread, reason)),
        });
        let mut rows: Vec<WaitRow> = rows.collect();
        rows.sort_by_key(|row| std::cmp::Reverse((row.waited_ns, row.unfinished_ns)));
        OffCpu {
            system: etl::system(trace.header()),
            is_modelled: etl::is_modelled(trace.header()),
            elapsed_ns,
            switches: self.waits.switches,
            wakings: self.waits.wakings,
            lost_switches: self.waits.lost_switches,
            rows,
            warnings: warnings(trace, self.waits.lost_switches),
            damage: etl::damage(trace),
            remarks: etl::remarks(trace),
        }
    }
}

fn name(reason: Reason) -> String {
    let (names, what, number) = match reason {
        Reason::Wait(reason) => (&REASONS[..], "wait reason", reason),
        Reason::State(state) => (&STATES[..], "thread state", state),
    };
    let name = usize::try_from(number).ok().and_then(|index| names.get(index));
    name.map_or_else(|| format!("{what} {number}"), |&name| name.to_owned())
}

fn warnings(trace: &Etl, lost_switches: u64) -> Vec<String> {
    let losses = trace.losses();
    let lost = [
        (lost_switches, "context switches were lost"),
        (losses.lost_events(), "events were lost"),
        (losses.lost_buffers(), "buffers were lost"),
    ];
    let lost = lost.into_iter().filter(|&(n, _)| n != 0).map(|(n, what)| {
        format!("{} {what}: some waits are missing, and some are too long", thousands(n))
    });
    lost.collect()
}

#[cfg(test)]
mod tests;
