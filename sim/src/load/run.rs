//! A workload, run on modelled processors in intervals that end where something happens: an
//! overflow, its interrupt, a timer tick. Within an interval all counters advance at once.

use crate::cpu::Cpu;
use crate::cpu::event::{Counts, Event};
use crate::cpu::processor::Processor;
use crate::load::workload::{PROGRAMS_MAX, ShortChange, Workload};
use crate::quirks::Quirk;
use crate::service_host::INTERRUPT_COST;
use hal_profile::run::overflow::Interrupted;
use shared_types::Mode;
use std::collections::BTreeMap;

/// The most timer ticks of a processor in one workload, and of all processors together, because time
/// may pass in larger steps; but ticks are never left out for longer than a counter takes to wrap.
const TICKS_MAX: u64 = 1 << 16;
const TICKS_MAX_OF_ALL: u64 = 1 << 22;
/// Nanoseconds in a timer's unit.
const TIMER_UNIT: u64 = 100;
/// The most interrupts taken one after the other before anything else happens.
const INTERRUPTS_IN_A_ROW: usize = 100;
/// The most branches reported for one interval: older ones would be pushed out of the records,
/// unless a filter leaves most of these out.
const BRANCHES_MOST: u64 = 256;
/// The process of a workload's first program, in user mode and in the kernel.
pub const PROCESS: u32 = 4096;
pub const THREAD: u32 = 4100;
/// The distance from one program's process and thread ids to the next program's: Windows' ids are
/// multiples of 4, and processes and threads share them.
const NEXT: u32 = 8;
/// The process of a workload's short program, and its thread.
pub const SHORT: (u32, u32) =
    (PROCESS + NEXT * PROGRAMS_MAX as u32, THREAD + NEXT * PROGRAMS_MAX as u32);
/// The path of its image, as the kernel has it.
pub const SHORT_PATH: &str = r"\Device\HarddiskVolume3\Programs\short.exe";

/// The process of each program of a workload.
pub fn processes(workload: &Workload) -> impl Iterator<Item = u32> {
    (0..workload.programs() as u32).map(|program| PROCESS + NEXT * program)
}

/// What handles events on modelled processors: the service in process, or a driver.
pub trait Answering {
    /// The processors, in order of their index.
    fn cpus(&mut self) -> &mut [Cpu];
    /// The period of the timers that it has set, in units of 100 ns; `None` while none is set.
    fn timer_period(&self) -> Option<u32>;
    /// An overflow interrupt has arrived at a processor.
    fn interrupt(&mut self, index: usize, interrupted: &Interrupted);
    /// A processor's timer is due.
    fn tick(&mut self, index: usize);
    /// The short program starts or ends.
    fn short(&mut self, change: ShortChange);
}

/// A workload being run.
pub struct Run {
    workload: Workload,
    runners: Vec<Runner>,
    /// Workload time that every processor has reached.
    time: u64,
    /// Where the short program starts and where it ends, if the workload gets there.
    short: [Option<u64>; 2],
    /// The processor that starts the short program.
    first: Option<usize>,
    /// How many of its start and its end have happened.
    told: usize,
}

/// One processor's progress.
#[derive(Clone, Copy, Debug)]
struct Runner {
    position: u64,
    /// The time-stamp counter when the workload began.
    began: u64,
    /// Whether it runs the workload; the others only let time pass.
    works: bool,
    /// The other thread of its package.
    sibling: Option<usize>,
    /// The other threads of its core that run the workload.
    others: u8,
    /// The thread of its core into whose counters its own leak.
    leaks_into: Option<usize>,
    /// Time since then that was not the workload's: interrupts, and waiting for others.
    overhead: u64,
    /// The workload time of the last timer tick, or of the beginning.
    ticked: u64,
    /// An interrupt has been requested, and arrives at this position, caused by this event.
    interrupt: Option<(u64, Event)>,
}

impl Run {
    /// At the start of a workload.
    pub fn begin(workload: &Workload, answering: &mut impl Answering) -> Self {
        let cpus = answering.cpus();
        for cpu in cpus.iter_mut() {
            cpu.processor.name_events(workload.codes());
            cpu.processor.begin_anew();
        }
        let working = working(cpus, workload);
        let runner = |index: usize| Runner {
            position: 0,
            began: cpus[index].processor.timestamp(),
            works: workload.runs_on(index as u32),
            sibling: sibling(cpus, index),
            others: working[index].saturating_sub(u8::from(workload.runs_on(index as u32))),
            leaks_into: leaks_into(cpus, index),
            overhead: 0,
            ticked: 0,
            interrupt: None,
        };
        let runners = (0..cpus.len()).map(runner).collect();
        Self {
            workload: workload.clone(),
            runners,
            time: 0,
            short: workload.short().map_or([None; 2], |(start, end)| {
                [start, end].map(|time| workload.position_at(time))
            }),
            first: (0..cpus.len()).find(|&index| workload.runs_on(index as u32)),
            told: 0,
        }
    }

    /// Runs the workload for at most this many nanoseconds of its time on every processor. Returns
    /// whether any of it is left.
    pub fn advance(&mut self, answering: &mut impl Answering, nanoseconds: u64) -> bool {
        self.time = self.time.saturating_add(nanoseconds);
        let limit = self.workload.position_at(self.time).unwrap_or(self.workload.length());
        for index in 0..self.runners.len() {
            self.run_to(answering, index, limit);
        }
        self.wait_for_slowest(answering);
        limit < self.workload.length()
    }

    /// Modelled time since the workload began, interrupts included.
    pub fn elapsed_ns(&self, answering: &mut impl Answering) -> u64 {
        let elapsed = answering.cpus().iter().zip(&self.runners);
        elapsed
            .map(|(cpu, runner)| cpu.processor.timestamp().wrapping_sub(runner.began))
            .max()
            .unwrap_or(0)
    }

    fn run_to(&mut self, answering: &mut impl Answering, index: usize, limit: u64) {
        let tick = self.tick_after(answering, index);
        while self.runners[index].position < limit {
            let runner = &self.runners[index];
            let start = runner.position;
            let due = tick.map(|tick| runner.ticked.saturating_add(tick));
            let mut next = limit;
            if let Some(at) = due.and_then(|due| self.workload.position_at(due)) {
                next = next.min(at);
            }
            if let Some(at) = self.overflow(answering, index, start, next) {
                next = next.min(at);
            }
            if let Some((at, _)) = self.runners[index].interrupt {
                next = next.min(at);
            }
            if let Some(at) = self.edge(index, start) {
                next = next.min(at);
            }
            // The step has at least one position, or the overflow at `start` itself would be found
            // again and again.
            let next = next.max(start + 1).min(limit);
            self.retire(answering, index, next);
            self.tell_of_short(answering, index, next);
            self.tick(answering, index, due);
        }
    }

    /// How long after its last tick a processor's timer ticks again, in nanoseconds; `None` if none
    /// is set.
    ///
    /// A workload of many periods has ticks left out that would only add up totals: what is skipped
    /// at once is a whole number of periods, and never more than half of what wraps the narrowest
    /// counter.
    fn tick_after(&self, answering: &mut impl Answering, index: usize) -> Option<u64> {
        let period = u64::from(answering.timer_period()?.max(1)) * TIMER_UNIT;
        let end = self.workload.time_at(self.workload.length());
        let width = processor(answering, index).map_or(0, |processor| processor.counter_width());
        let wrap = 1_u64.checked_shl(width).unwrap_or(u64::MAX);
        let safe = self.workload.time_at(wrap / 2).max(period);
        let most = TICKS_MAX_OF_ALL / self.runners.len().max(1) as u64;
        let few = (end / most.clamp(1, TICKS_MAX)).max(period).min(safe);
        Some(few / period * period)
    }

    /// The position of the next overflow, if it is not after `last`; its interrupt comes later by
    /// the workload's skid.
    fn overflow(
        &mut self,
        answering: &mut impl Answering,
        index: usize,
        start: u64,
        last: u64,
    ) -> Option<u64> {
        let runner = self.runners[index];
        if !runner.works && runner.others == 0 {
            return None;
        }
        let counts = runner.on_core(&Counts::default());
        let (at, event) = look_ahead(answering, &self.workload, index, start, &counts)?;
        let runner = &mut self.runners[index];
        if at > last {
            return None;
        }
        // Only the first overflow brings an interrupt: one during its skid is found by the same
        // handler.
        if runner.interrupt.is_none() {
            runner.interrupt = Some((at.saturating_add(self.workload.skid()), event));
        }
        Some(at)
    }

    /// Runs one processor up to a position, and takes the interrupts that are due there.
    fn retire(&mut self, answering: &mut impl Answering, index: usize, next: u64) {
        let end = self.workload.length();
        let runner = &mut self.runners[index];
        let before = core::mem::replace(&mut runner.position, next);
        let now = runner.began + self.workload.time_at(next) + runner.overhead;
        let counts = if runner.works || runner.others != 0 {
            runner.on_core(&self.workload.counts_at(next))
        } else {
            Counts::default()
        };
        if let Some(processor) = processor(answering, index) {
            processor.set_timestamp(now);
            if self.runners[index].works && processor.records_branches() {
                // The branches come before the events: an overflow among the events finds them in
                // the records.
                let taken = self.workload.branches_between(before, next, BRANCHES_MOST);
                taken.for_each(|taken| processor.branch(&taken));
            }
            processor.retire(counts);
        }
        // At the end of the workload every interrupt is due: no later position would deliver it.
        let due = self.runners[index].interrupt.is_none_or(|(at, _)| at <= next) || next == end;
        if due {
            let event = self.runners[index].interrupt.take().map(|(_, event)| event);
            self.interrupt(answering, index, event);
        }
        // On NetBurst an event of one thread can interrupt the other: OVF_PMI names the thread.
        if let Some(sibling) = self.runners[index].sibling {
            self.interrupt(answering, sibling, None);
        }
        if let Some(other) = self.runners[index].leaks_into {
            if let Ok([own, other]) = answering.cpus().get_disjoint_mut([index, other]) {
                own.processor.leak_into(&mut other.processor);
            }
            self.interrupt(answering, other, None);
        }
    }

    /// Where the short program next starts or ends, after a position.
    fn edge(&self, index: usize, position: u64) -> Option<u64> {
        let mut edges = self.short.into_iter().flatten();
        edges.find(|&at| at > position && self.runners[index].works)
    }

    /// Reports the start or end of the short program, once the first processor has reached it.
    fn tell_of_short(&mut self, answering: &mut impl Answering, index: usize, position: u64) {
        if self.first != Some(index) {
            return;
        }
        for (number, at) in self.short.into_iter().enumerate() {
            if self.told == number && at.is_some_and(|at| at <= position) {
                self.told += 1;
                let code = (number == 0).then_some(self.workload.code());
                let timestamp = processor(answering, index).map_or(0, |one| one.timestamp());
                answering.short(ShortChange { timestamp, code });
            }
        }
    }

    fn interrupt(&mut self, answering: &mut impl Answering, index: usize, event: Option<Event>) {
        for _ in 0..INTERRUPTS_IN_A_ROW {
            let taken = processor(answering, index).and_then(Processor::acknowledge_interrupt);
            if taken.is_none() {
                return;
            }
            let position = self.runners[index].position;
            let (ip, user) = match event {
                Some(event) => self.workload.ip_of(event, position),
                None => self.workload.ip_at(position),
            };
            let mode = if user { Mode::User } else { Mode::Kernel };
            let (process, thread) = self.who(position);
            let interrupted = Interrupted { ip, mode, process, thread };
            if let Some(cpu) = answering.cpus().get_mut(index) {
                cpu.interrupt_cost = INTERRUPT_COST;
            }
            answering.interrupt(index, &interrupted);
            if let Some(cpu) = answering.cpus().get_mut(index) {
                cpu.end_interrupt();
            }
            // The workload stands still while an interrupt is handled.
            self.runners[index].overhead += INTERRUPT_COST;
        }
    }

    /// The process and the thread that run between the previous position and this one.
    fn who(&self, position: u64) -> (u32, u32) {
        if let [Some(start), end] = self.short
            && start < position
            && end.is_none_or(|end| position <= end)
        {
            return SHORT;
        }
        let others = NEXT * self.workload.program_at(position) as u32;
        (PROCESS + others, THREAD + others)
    }

    /// Ticks one processor's timer if it is `due`, in workload time.
    fn tick(&mut self, answering: &mut impl Answering, index: usize, due: Option<u64>) {
        let runner = &mut self.runners[index];
        let time = self.workload.time_at(runner.position);
        if due.is_some_and(|due| time >= due) {
            runner.ticked = time;
            answering.tick(index);
        }
    }

    /// Processors that have less to do wait for the one that has most.
    fn wait_for_slowest(&mut self, answering: &mut impl Answering) {
        let least = self.time.min(self.workload.time_at(self.workload.length()));
        let elapsed = self.elapsed_ns(answering).max(least);
        // The time-stamp counters of all processors agree after each step, as Windows expects.
        for (cpu, runner) in answering.cpus().iter_mut().zip(&mut self.runners) {
            let now = cpu.processor.timestamp();
            runner.overhead += (runner.began + elapsed).wrapping_sub(now);
            cpu.processor.set_timestamp(runner.began + elapsed);
        }
    }
}

fn processor(answering: &mut impl Answering, index: usize) -> Option<&mut Processor> {
    let cpu = answering.cpus().get_mut(index)?;
    Some(&mut cpu.processor)
}

/// Which event causes the next interrupt, and where; `counts` says who runs on the core.
fn look_ahead(
    answering: &mut impl Answering,
    workload: &Workload,
    index: usize,
    position: u64,
    counts: &Counts,
) -> Option<(u64, Event)> {
    let mut first: Option<(u64, Event)> = None;
    processor(answering, index)?.watches(|watch| {
        let running = counts.running(watch.feed.threads);
        if running != 0
            // Threads that run together feed a counter with AnyThread `running` times as fast.
            && let Some(at) = workload.position_of(watch.feed, watch.at.div_ceil(running))
            && at > position
            && first.is_none_or(|(other, _)| at < other)
        {
            first = Some((at, watch.feed.event));
        }
    });
    first
}

impl Runner {
    /// What a workload has done, as the counters of its processor see it.
    fn on_core(&self, counts: &Counts) -> Counts {
        counts.on_core(!self.works, self.others)
    }
}

/// How many threads of each processor's core run a workload.
fn working(cpus: &[Cpu], workload: &Workload) -> Vec<u8> {
    let cores: Vec<Option<u32>> = cpus.iter().map(|cpu| cpu.processor.core()).collect();
    let mut working: BTreeMap<u32, u8> = BTreeMap::new();
    for (index, core) in cores.iter().enumerate() {
        if let Some(core) = core.filter(|_| workload.runs_on(index as u32)) {
            let threads = working.entry(core).or_default();
            *threads = threads.saturating_add(1);
        }
    }
    let of_core = |core: &Option<u32>| core.and_then(|core| working.get(&core).copied());
    cores.iter().map(|core| of_core(core).unwrap_or(0)).collect()
}

/// The processor that shares its unit with this one.
fn sibling(cpus: &[Cpu], index: usize) -> Option<usize> {
    let own = &cpus[index].processor;
    let shares = |other: &usize| *other != index && own.shares_unit_with(&cpus[*other].processor);
    (0..cpus.len()).find(shares)
}

/// The other thread of its core, if a processor has [`Quirk::ThreadLeak`].
fn leaks_into(cpus: &[Cpu], index: usize) -> Option<usize> {
    let own = &cpus[index].processor;
    let core = own.core().filter(|_| own.quirks().has(Quirk::ThreadLeak))?;
    (0..cpus.len()).find(|&other| other != index && cpus[other].processor.core() == Some(core))
}

#[cfg(test)]
mod tests;
