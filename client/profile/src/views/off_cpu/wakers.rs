//! Who ended waits, and in which of their functions.

use super::{By, OffCpu, WaitTotals, nobody_named};
use crate::file::{EndedWaits, StackId};
use crate::symbols::{Opened, SymbolPath, Symbols};
use halprof_etw::join::threads::InstanceNumber;
use halprof_measure::Result;
use halprof_measure::float::float;
use halprof_measure::tracing::analysis::waits::Waker;
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::Serialize;
use shared_types::{Mode, Sample};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Every thread that wakes another goes through these modules, so the function that called into them
/// says more.
const ON_THE_WAY: [&str; 5] =
    ["ntoskrnl.exe", "hal.dll", "ntdll.dll", "kernelbase.dll", "kernel32.dll"];

/// The waits that one function of one thread ended.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct EndedByRow {
    /// The name of the process that ended them; null for a DPC, and if no event names it.
    pub waker_process: Option<String>,
    /// The number of that process; null for a DPC, and if no event names the process.
    pub waker_id: Option<u32>,
    /// The thread that ended them; null for a DPC.
    pub waker_thread: Option<u32>,
    /// Whether it was a deferred procedure call, such as a timer's or a device's.
    pub dpc: bool,
    /// The module of the function; null without a call stack.
    pub module: Option<String>,
    /// The innermost function of the call stack that is not in the kernel, `ntdll.dll`,
    /// `kernelbase.dll` or `kernel32.dll`; null if its name is not known.
    pub symbol: Option<String>,
    /// Whose waits these were: the name of the process; null unless `--by` names it too.
    pub process: Option<String>,
    /// The number of that process; null unless `--by` names it too.
    pub id: Option<u32>,
    /// The thread that waited; null unless `--by` names it too.
    pub thread: Option<u32>,
    /// How many waits.
    pub waits: u64,
    /// How long altogether.
    pub waited_ns: u64,
    /// The same as a part of the trace's time; of several threads together it may be above 1.
    pub share: f64,
    /// The longest time.
    pub longest_ns: u64,
}

/// Waits by what ended them.
#[derive(Clone, Debug)]
pub struct EndedBy {
    /// The longest time first.
    pub rows: Vec<EndedByRow>,
    /// The waits of which the trace says who ended them, and those of them that have a call stack.
    pub waits: u64,
    pub with_stack: u64,
    /// The symbols that were looked for.
    pub symbols: Vec<Opened>,
}

/// The function of a waker: its module and its name.
type Function = (Option<Arc<str>>, Option<Arc<str>>);

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    /// Its process and its thread, as indexes; `None` for a DPC.
    waker: Option<(usize, usize)>,
    function: Function,
    /// Who waited, as far as rows tell waiters apart.
    waiting: Option<(usize, Option<usize>)>,
}

impl OffCpu {
    /// The waits of the processes that pass, by who ended them and, with `by`, also by who waited.
    pub fn ended_by(
        &self,
        path: &Path,
        by: Option<By>,
        passes: &dyn Fn(Option<&str>, Option<u32>) -> bool,
        symbol_path: &SymbolPath,
    ) -> Result<EndedBy> {
        if self.wakings == 0 {
            return Err(nobody_named(path));
        }
        let trace = EndedWaits::read(path)?;
        let mut functions = Functions {
            symbols: Symbols::open(&trace.recording, symbol_path),
            trace: &trace,
            known: FxHashMap::default(),
        };
        let mut groups: BTreeMap<Group, WaitTotals> = BTreeMap::new();
        let (mut waits, mut with_stack) = (0, 0);
        for (wait, place) in trace.waits.iter().zip(&trace.places) {
            let InstanceNumber(waiting) = wait.thread;
            let process = trace.threads[waiting].process;
            let whose = &trace.processes[process];
            if !passes(whose.name.as_deref(), whose.id) {
                continue;
            }
            let waker = match wait.waker {
                Waker::Dpc => None,
                Waker::Thread(InstanceNumber(waker)) => Some((trace.threads[waker].process, waker)),
            };
            let function = functions.of(place);
            waits += 1;
            with_stack += u64::from(function.0.is_some());
            let waiting = by.map(|by| (process, (by == By::Thread).then_some(waiting)));
            groups.entry(Group { waker, function, waiting }).or_default().add(wait.waited_ns);
        }
        let row = |(group, totals): (Group, WaitTotals)| {
            let Group { waker, function: (module, symbol), waiting } = group;
            let by = waker.map(|(process, thread)| (&trace.processes[process], thread));
            let whose = waiting.map(|(process, _)| &trace.processes[process]);
            let waiting = waiting.and_then(|(_, thread)| thread);
            EndedByRow {
                waker_process: by.and_then(|(process, _)| process.name.clone()),
                waker_id: by.and_then(|(process, _)| process.id),
                waker_thread: by.map(|(_, thread)| trace.threads[thread].id),
                dpc: by.is_none(),
                module: module.map(|name| name.to_string()),
                symbol: symbol.map(|name| name.to_string()),
                process: whose.and_then(|process| process.name.clone()),
                id: whose.and_then(|process| process.id),
                thread: waiting.map(|thread| trace.threads[thread].id),
                waits: totals.count,
                waited_ns: totals.waited_ns,
                share: float(totals.waited_ns) / float(self.elapsed_ns.max(1)),
                longest_ns: totals.longest_ns,
            }
        };
        let mut rows: Vec<EndedByRow> = groups.into_iter().map(row).collect();
        rows.sort_by_key(|row| Reverse(row.waited_ns));
        Ok(EndedBy { rows, waits, with_stack, symbols: functions.symbols.opened() })
    }
}

/// Finds the functions of places.
struct Functions<'a> {
    symbols: Symbols,
    trace: &'a EndedWaits,
    known: FxHashMap<(u32, u64, StackId), Function>,
}

impl Functions<'_> {
    fn of(&mut self, (sample, stack): &(Sample, StackId)) -> Function {
        // A wait has no address if no call stack was found for what ended it.
        let Some(mode) = Mode::from_wire(sample.mode.into()).filter(|&mode| mode != Mode::Unknown)
        else {
            return Function::default();
        };
        let key = (sample.process, sample.ip, *stack);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let trace = self.trace;
        let callers = trace.recording.stacks.callers(*stack);
        let callers = callers.map(|(_, frame)| (frame.call_site(), frame.mode()));
        let says_more = |&(ip, mode): &(u64, Mode)| {
            let module = self.symbols.module_alone(sample.process, ip, mode).module;
            !ON_THE_WAY.iter().any(|name| module.eq_ignore_ascii_case(name))
        };
        let innermost = (sample.ip, mode);
        let chosen = std::iter::once(innermost).chain(callers).find(says_more);
        let (ip, mode) = chosen.unwrap_or(innermost);
        let frame = self.symbols.frame(sample.process, ip, mode);
        let function = (Some(frame.module), frame.symbol);
        self.known.insert(key, function.clone());
        function
    }
}
