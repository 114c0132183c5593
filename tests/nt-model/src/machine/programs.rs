//! Programs on the processors, and how the guest feed changes the way they run.
//!
//! Each processor runs one thread of a program, below whatever the system has for it: interrupts,
//! DPCs and the driver's own threads come on top. A processor with nothing but its program rests,
//! unless programs are being run; then it runs up to a moment of its own clock.

use super::{Machine, PASSIVE, STACK, STEPS, State};
use crate::guest::Guest;
use crate::kernel;
use crate::memory::user_stack;
use crate::programs::CODE;
use crate::rules::{Rule, Violation};
use hal_profile::run::overflow::Interrupted;
use shared_types::Mode;
use sim::load::run::PROCESS;
use sim::load::workload::KERNEL_CODE;

/// The thread of the first processor's program; those of the others follow.
const THREAD: u32 = PROCESS + 4;
/// Nanoseconds in the unit of a timer's period.
const TIMER_UNIT: u64 = 100;

/// The state of the programs.
#[derive(Default)]
pub(super) struct Programs {
    /// How many have not returned.
    left: usize,
    /// The moment up to which a program runs although nothing else does.
    until: u64,
    /// When the driver's timer expires next.
    timer: Option<u64>,
}

impl Machine {
    /// From now on instructions drive the PMUs, and interrupts come this many instructions late.
    pub fn feed_guest(&mut self, skid: u64) {
        let bus = self.engine.bus();
        bus.guest = Some(Guest::new(skid));
        bus.stops_at_unmask = true;
    }

    /// From now on the guest feed's interrupts come this many instructions late.
    pub fn set_skid(&mut self, skid: u64) {
        if let Some(guest) = &mut self.engine.bus().guest {
            guest.set_skid(skid);
        }
    }

    pub(super) fn is_guest(&self) -> bool {
        self.engine.bus_ref().guest.is_some()
    }

    /// Begins a program with this code on every processor, at the same moment, in place of one that
    /// has not returned.
    pub fn begin_programs(&mut self, code: &[u8]) -> Result<(), Violation> {
        self.unload();
        self.engine.load_program(code);
        self.pass_to(self.now());
        for index in 0..self.processors.len() {
            if self.has_program(index) {
                let id = self.processors[index].pile.remove(0);
                self.end_program(id)?;
            }
            self.begin_program(index)?;
        }
        self.unload();
        Ok(())
    }

    fn begin_program(&mut self, index: usize) -> Result<(), Violation> {
        let who = (PROCESS, THREAD + 4 * index as u32);
        let id = self.activity("a program", CODE.0, &[], PASSIVE, who)?;
        self.load(id);
        let activity = &mut self.activities[id];
        activity.program = true;
        activity.state = State::Running;
        let top = activity.stack + STACK;
        self.engine.begin_program(user_stack(index), top);
        // A program goes to the bottom: everything of the system comes on top of it.
        self.processors[index].pile.insert(0, id);
        self.programs.left += 1;
        Ok(())
    }

    /// Runs the programs until every processor's clock has reached a moment or all programs have
    /// returned, and until everything is quiet; returns whether any has not returned.
    pub fn run_programs(&mut self, until: u64) -> Result<bool, Violation> {
        self.programs.until = until;
        let ran = self.run_programs_on();
        self.programs.until = 0;
        ran?;
        let now = self.now();
        // The clocks agree again, as all processors' time-stamp counters do.
        self.pass_to(if self.programs.left > 0 { now.max(until) } else { now });
        Ok(self.programs.left > 0)
    }

    fn run_programs_on(&mut self) -> Result<(), Violation> {
        for _ in 0..STEPS {
            if !self.go_on()? {
                return Ok(());
            }
            self.expire_due_timers();
        }
        Err(Violation::new(Rule::Endless, "the programs do not end"))
    }

    fn expire_due_timers(&mut self) {
        let Some(period) = self.kernel.timer_period() else {
            self.programs.timer = None;
            return;
        };
        let (now, period) = (self.now(), period * TIMER_UNIT);
        let due = *self.programs.timer.get_or_insert(now + period);
        if due <= now {
            self.programs.timer = Some(now + period);
            kernel::expire_timers(self);
        }
    }

    pub(super) fn program_returned(&mut self, index: usize, id: usize) -> Result<(), Violation> {
        self.processors[index].pile.pop();
        self.loaded = None;
        self.end_program(id)
    }

    fn end_program(&mut self, id: usize) -> Result<(), Violation> {
        self.programs.left -= 1;
        let activity = &mut self.activities[id];
        activity.state = State::Done(0);
        activity.program = false;
        let stack = activity.stack;
        self.idle.push(id);
        self.engine.bus().arena.free(stack, 0)
    }

    /// Whether a processor has nothing above its program, or nothing at all.
    pub(super) fn is_below_threads(&self, index: usize) -> bool {
        let top = self.processors[index].pile.last();
        top.is_none_or(|&id| self.activities[id].program)
    }

    /// For how many nanoseconds a processor may run a program although nothing else runs anywhere.
    pub(super) fn program_may_run(&self, index: usize) -> u64 {
        let cpus = &self.engine.bus_ref().cpus;
        let now = cpus[index].processor.timestamp();
        self.programs.until.saturating_sub(now)
    }

    /// Whether a processor has a program.
    pub(super) fn has_program(&self, index: usize) -> bool {
        let bottom = self.processors[index].pile.first();
        bottom.is_some_and(|&id| self.activities[id].program)
    }

    /// A processor that was idle catches up with the time that has passed on the others.
    pub(super) fn wake_processor(&mut self, index: usize) {
        if self.is_guest() && self.processors[index].pile.is_empty() {
            let now = self.now();
            let processor = &mut self.engine.bus().cpus[index].processor;
            processor.set_timestamp(now.max(processor.timestamp()));
        }
    }

    /// Interrupts that have arrived become pending: on the processor that ran, and on others whose
    /// counters its instructions or register accesses affect.
    pub(super) fn take_arrived(&mut self, index: usize) {
        let bus = self.engine.bus();
        let Some(guest) = &bus.guest else { return };
        let came = |&other: &usize| guest.arrived(other, other == index);
        let came: Vec<usize> = (0..self.processors.len()).filter(came).collect();
        for other in came {
            let processor = &mut self.engine.bus().cpus[other].processor;
            if processor.acknowledge_interrupt().is_some() {
                self.processors[other].interrupt = Some(self.interrupted(other));
            }
        }
    }

    /// What an interrupt would interrupt on a processor at this moment; the kernel's idle code if
    /// nothing runs.
    pub(super) fn interrupted_now(&mut self, index: usize) -> Interrupted {
        let Some(&id) = self.processors[index].pile.last() else {
            return Interrupted { ip: KERNEL_CODE.0, mode: Mode::Kernel, process: 0, thread: 0 };
        };
        self.load(id);
        let (process, thread) = self.activities[id].who;
        Interrupted {
            ip: self.engine.instruction_pointer(),
            mode: match self.engine.ring() {
                0 => Mode::Kernel,
                _ => Mode::User,
            },
            process,
            thread,
        }
    }
}
