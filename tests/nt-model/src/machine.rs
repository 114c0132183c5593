//! The whole machine: activities on processors, in an order that a seed decides.
//!
//! An activity is a thread, a DPC or an interrupt: a stack and registers. A processor has a pile of
//! them; the topmost runs. In each step the seed chooses a processor that has something to do,
//! whether a DPC that waits comes first, and how many instructions the slice has.

pub mod programs;

use self::programs::Programs;
use crate::cost::Cost;
use crate::engine::{Engine, MASKED_LIMIT, Registers, Stack, Stop};
use crate::image::Image;
use crate::kernel::{self, Kernel};
use crate::kmdf::{self, Framework};
use crate::memory::{IMAGE, PAGE, STUB, STUBS};
use crate::rules::{Rule, Violation};
use anyhow::{Context, Result};
use fastrand::Rng;
use hal_profile::overflow::Interrupted;
use shared_types::Mode;
use sim::cpuid::Leaves;
use sim::event::{Counts, Event};
use sim::hal;
use sim::host::Cpu;
use std::collections::VecDeque;

/// A kernel stack (Windows Internals: 24 KiB on x64).
const STACK: u64 = 24 << 10;
/// Bytes of it that break [`Rule::Stack`]: the other half is for the interrupts that come on top,
/// and for what is below the driver. The driver's most are 7936.
const STACK_LIMIT: u64 = 12 << 10;
/// Instructions without a call to the system that break [`Rule::Spin`]. The driver's most are
/// 101,000, for a description of all processors' sources.
const SPIN_LIMIT: u64 = 1_000_000;
/// Steps without an end that break [`Rule::Endless`].
const STEPS: u64 = 1_000_000;

/// PASSIVE_LEVEL.
pub const PASSIVE: u8 = 0;
/// APC_LEVEL.
pub const APC: u8 = 1;
/// DISPATCH_LEVEL.
pub const DISPATCH: u8 = 2;
/// PROFILE_LEVEL, which is HIGH_LEVEL on x64.
pub const PROFILE: u8 = 15;

/// What a stub stands for.
#[derive(Clone, Copy)]
pub enum Stub {
    /// A function that the machine called has returned.
    Return,
    /// A function of the kernel or of the framework.
    Function(&'static Function),
    /// Something that is not modelled: its number in [`Machine::unmodelled`].
    Unmodelled(usize),
}

/// A function that the driver calls.
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// The highest IRQL that its documentation allows.
    pub irql: u8,
    /// What it does.
    pub run: fn(&mut Machine) -> Result<Outcome, Violation>,
}

/// What a function does with its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It returns this.
    Return(u64),
    /// It waits, and returns 0 when that is over.
    Wait(Wait),
    /// It waits, and looks again when that is over.
    Again(Wait),
}

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// An event at this address.
    Event(u64),
    /// A moment, in nanoseconds of the machine's time.
    Time(u64),
    /// A framework lock.
    Lock(u64),
    /// The end of a DPC.
    Dpc,
    /// The end of a callback for added processors.
    ProcessorCallback,
}

/// A thread, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadId(usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    Running,
    Waiting(Wait),
    Done(u64),
}

/// Something that runs.
struct Activity {
    registers: Registers,
    stack: u64,
    irql: u8,
    masked: bool,
    state: State,
    /// Where its stack pointer is when it has returned.
    top: u64,
    /// The lowest address of its stack that was touched.
    lowest: u64,
    /// Instructions since it began or last called the system.
    ran: u64,
    /// Instructions since it began.
    ran_in_all: u64,
    /// The process and the thread that PsGetCurrent... answer.
    who: (u32, u32),
    name: &'static str,
    /// It is a program's thread, in ring 3 once it has begun.
    program: bool,
    /// Nobody asks what it returned.
    detached: bool,
    /// The DPC or the timer that it runs for, 0 for none.
    object: u64,
    /// The trap frame that it was given, 0 for none.
    frame: u64,
    /// What the HAL goes on with when it is over.
    stopped: Option<hal::Stopped>,
    /// An overflow: what everything had cost when the driver began to answer it.
    began: Option<Cost>,
}

/// A DPC in a queue.
#[derive(Clone, Copy, Debug)]
pub struct QueuedDpc {
    /// The KDPC's address.
    pub object: u64,
    /// What is called.
    pub routine: u64,
    /// With what.
    pub arguments: [u64; 3],
}

#[derive(Default)]
struct Processor {
    pile: Vec<usize>,
    dpcs: VecDeque<QueuedDpc>,
    interrupt: Option<Interrupted>,
}

/// What comes at moments that the seed chooses, while a machine is disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disturbance {
    /// An overflow interrupt though no counter has overflowed.
    Spurious,
    /// Events that make counters go on, perhaps over their end.
    Events,
    /// The timer, before its time.
    Timer,
}

/// A number that two different histories do not share (64-bit FNV-1a).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(pub u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
}

impl Fingerprint {
    /// These bytes come next.
    pub fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
        }
    }
}

/// The machine.
pub struct Machine {
    /// The instructions.
    pub engine: Engine,
    /// What the kernel keeps.
    pub kernel: Kernel,
    /// What the framework keeps.
    pub framework: Framework,
    /// What decides.
    pub rng: Rng,
    /// What each overflow cost the driver, from its entry to its return.
    pub overflow_costs: Vec<Cost>,
    /// Names of what is not modelled.
    pub unmodelled: Vec<String>,
    /// Interrupts and timers come at any moment, not only from a workload.
    pub disturbed: bool,
    /// Overflow interrupts that the driver was given.
    pub interrupts: u64,
    /// Threads that had to wait for another's lock.
    pub contended: u64,
    /// Of the order of all calls: two runs that differ in it have differed.
    pub calls: Fingerprint,
    stubs: Vec<Stub>,
    programs: Programs,
    processors: Vec<Processor>,
    activities: Vec<Activity>,
    /// Activities that are over, and whose result nobody wants.
    idle: Vec<usize>,
    loaded: Option<usize>,
    running_on: usize,
    /// The most of any stack that was used, and by what.
    pub stack_most: (u64, &'static str),
    /// The most instructions of anything without a call to the system, and by what.
    pub spin_most: (u64, &'static str),
    /// The most instructions of a handler at PROFILE_LEVEL.
    pub handler_most: u64,
}

impl Machine {
    /// A machine of these processors with the driver's image in memory, ordered by `seed`.
    pub fn new(image: &Image, leaves: &[Leaves], seed: u64) -> Result<Self> {
        let mut cpus: Vec<Cpu> = sim::machine::processors(leaves)
            .into_iter()
            .map(Cpu::new)
            .collect();
        for cpu in &mut cpus {
            cpu.processor.boot_windows();
        }
        let processors = cpus.iter().map(|_| Processor::default()).collect();
        let mut machine = Self {
            engine: Engine::new(image, cpus)?,
            kernel: Kernel::default(),
            framework: Framework::default(),
            rng: Rng::with_seed(seed),
            overflow_costs: Vec::new(),
            unmodelled: Vec::new(),
            disturbed: false,
            interrupts: 0,
            contended: 0,
            calls: Fingerprint::default(),
            stubs: vec![Stub::Return],
            programs: Programs::default(),
            processors,
            activities: Vec::new(),
            idle: Vec::new(),
            loaded: None,
            running_on: 0,
            stack_most: (0, ""),
            spin_most: (0, ""),
            handler_most: 0,
        };
        machine.kernel.boot(&mut machine.engine)?;
        kmdf::boot(&mut machine)?;
        for import in &image.imports {
            let address = machine.resolve(&import.module, &import.name);
            machine.engine.write_u64(import.slot, address);
        }
        Ok(machine)
    }

    fn resolve(&mut self, module: &str, name: &str) -> u64 {
        if let Some(data) = self.kernel.exported_data(name) {
            return data;
        }
        let modelled = kernel::function(name).or_else(|| kmdf::loader_function(name));
        self.stub(modelled, &format!("{module}!{name}"))
    }

    /// The address of a function, whose name is told when it is called and not modelled.
    pub fn stub(&mut self, function: Option<&'static Function>, name: &str) -> u64 {
        let stub = function.map_or_else(
            || {
                self.unmodelled.push(name.to_owned());
                Stub::Unmodelled(self.unmodelled.len() - 1)
            },
            Stub::Function,
        );
        self.stubs.push(stub);
        STUBS + STUB * (self.stubs.len() as u64 - 1)
    }

    /// How many processors there are.
    #[must_use]
    pub fn processors(&self) -> usize {
        self.processors.len()
    }

    /// The processor that the function being called runs on.
    #[must_use]
    pub fn current(&self) -> usize {
        self.running_on
    }

    /// The IRQL of the caller.
    #[must_use]
    pub fn irql(&self) -> u8 {
        self.caller().map_or(PASSIVE, |activity| activity.irql)
    }

    /// The process and the thread of the caller.
    #[must_use]
    pub fn who(&self) -> (u32, u32) {
        self.caller().map_or((4, 8), |activity| activity.who)
    }

    /// The caller, as a number that tells threads apart.
    #[must_use]
    pub fn caller_number(&self) -> usize {
        self.loaded.unwrap_or(usize::MAX)
    }

    fn caller(&self) -> Option<&Activity> {
        self.activities.get(self.loaded?)
    }

    /// The machine's time in nanoseconds: that of the processor that is furthest.
    #[must_use]
    pub fn now(&self) -> u64 {
        let cpus = &self.engine.bus_ref().cpus;
        let times = cpus.iter().map(|cpu| cpu.processor.timestamp());
        times.max().unwrap_or(0)
    }

    /// Lets time pass to a moment on every processor.
    pub fn pass_to(&mut self, moment: u64) {
        for cpu in &mut self.engine.bus().cpus {
            if cpu.processor.timestamp() < moment {
                cpu.processor.set_timestamp(moment);
            }
        }
    }

    /// Starts a thread that calls a function of the driver.
    pub fn spawn(
        &mut self,
        name: &'static str,
        function: u64,
        arguments: &[u64],
        who: (u32, u32),
    ) -> Result<ThreadId> {
        let id = self.activity(name, function, arguments, PASSIVE, who)?;
        Ok(ThreadId(id))
    }

    /// Starts a thread that nobody waits for.
    pub fn spawn_detached(
        &mut self,
        name: &'static str,
        function: u64,
        arguments: &[u64],
        who: (u32, u32),
    ) -> Result<(), Violation> {
        let thread = self
            .spawn(name, function, arguments, who)
            .map_err(|error| Violation::new(Rule::Unmodelled, error.to_string()))?;
        self.activities[thread.0].detached = true;
        Ok(())
    }

    /// What a thread has returned, once it is done; it is forgotten then.
    pub fn result_of(&mut self, thread: ThreadId) -> Option<u64> {
        let State::Done(value) = self.activities[thread.0].state else {
            return None;
        };
        self.idle.push(thread.0);
        Some(value)
    }

    fn activity(
        &mut self,
        name: &'static str,
        function: u64,
        arguments: &[u64],
        irql: u8,
        who: (u32, u32),
    ) -> Result<usize> {
        let stack = self.engine.allocate(STACK, 0).context("no stack")?;
        self.unload();
        self.engine.begin_call(function, arguments, stack + STACK);
        let top = self.engine.stack_pointer() + 8;
        let id = self.idle_activity()?;
        let activity = &mut self.activities[id];
        self.engine.save(&mut activity.registers);
        activity.stack = stack;
        activity.irql = irql;
        activity.masked = false;
        activity.state = State::Ready;
        (activity.lowest, activity.ran, activity.ran_in_all) = (stack + STACK, 0, 0);
        activity.top = top;
        activity.who = who;
        activity.name = name;
        activity.program = false;
        activity.detached = irql != PASSIVE;
        activity.object = 0;
        activity.frame = 0;
        activity.stopped = None;
        activity.began = None;
        Ok(id)
    }

    /// A place for an activity, used before or new.
    fn idle_activity(&mut self) -> Result<usize> {
        if let Some(id) = self.idle.pop() {
            return Ok(id);
        }
        self.activities.push(Activity {
            registers: self.engine.registers()?,
            stack: 0,
            irql: PASSIVE,
            masked: false,
            state: State::Done(0),
            top: 0,
            lowest: 0,
            ran: 0,
            ran_in_all: 0,
            who: (0, 0),
            name: "",
            program: false,
            detached: false,
            object: 0,
            frame: 0,
            stopped: None,
            began: None,
        });
        Ok(self.activities.len() - 1)
    }

    /// Calls a function of the driver in a thread of the system, and runs until it returns and
    /// everything is quiet.
    pub fn call(
        &mut self,
        name: &'static str,
        function: u64,
        arguments: &[u64],
    ) -> Result<u64, Violation> {
        let thread = self
            .spawn(name, function, arguments, (4, 8))
            .map_err(|error| Violation::new(Rule::Unmodelled, error.to_string()))?;
        self.run_until_done(thread)
    }

    /// Runs until a thread is done and everything is quiet; answers what it returned.
    pub fn run_until_done(&mut self, thread: ThreadId) -> Result<u64, Violation> {
        self.settle()?;
        self.check_nobody_waits()?;
        self.result_of(thread)
            .ok_or_else(|| Violation::new(Rule::Wait, "a thread is not done"))
    }

    /// When everything is quiet, nobody waits.
    pub fn check_nobody_waits(&self) -> Result<(), Violation> {
        let waits = self.activities.iter().find_map(|activity| {
            let State::Waiting(wait) = activity.state else {
                return None;
            };
            Some(format!(
                "{} waits for what nobody does: {wait:?}",
                activity.name
            ))
        });
        waits.map_or(Ok(()), |what| Err(Violation::new(Rule::Wait, what)))
    }

    /// Runs until nobody can go on; time passes where somebody waits for it.
    pub fn settle(&mut self) -> Result<(), Violation> {
        for _ in 0..STEPS {
            if !self.go_on()? {
                return Ok(());
            }
        }
        Err(Violation::new(Rule::Endless, "the machine does not settle"))
    }

    /// One slice, or time passes where everybody waits for it; `false` where nobody can go on.
    pub fn go_on(&mut self) -> Result<bool, Violation> {
        if self.step()? {
            return Ok(true);
        }
        let Some(next) = self.next_moment() else {
            return Ok(false);
        };
        self.pass_to(next);
        self.wake(|wait| matches!(wait, Wait::Time(at) if *at <= next));
        Ok(true)
    }

    fn next_moment(&self) -> Option<u64> {
        let waits = self
            .activities
            .iter()
            .filter_map(|activity| match activity.state {
                State::Waiting(Wait::Time(at)) => Some(at),
                _ => None,
            });
        waits.min()
    }

    /// Threads that wait for this can go on.
    pub fn wake(&mut self, over: impl Fn(&Wait) -> bool) {
        for activity in &mut self.activities {
            if let State::Waiting(wait) = &activity.state
                && over(wait)
            {
                activity.state = State::Ready;
            }
        }
    }

    /// One thread of those that wait for this, chosen by the seed, can go on.
    pub fn wake_one(&mut self, over: impl Fn(&Wait) -> bool) -> Option<usize> {
        let waiting: Vec<usize> = (0..self.activities.len())
            .filter(|&id| matches!(&self.activities[id].state, State::Waiting(w) if over(w)))
            .collect();
        let chosen = *waiting.get(self.rng.usize(0..waiting.len().max(1)))?;
        self.activities[chosen].state = State::Ready;
        Some(chosen)
    }

    /// Puts a DPC into a processor's queue.
    pub fn queue_dpc(&mut self, processor: usize, dpc: QueuedDpc) {
        self.processors[processor].dpcs.push_back(dpc);
    }

    /// Whether a DPC, or a timer's callback, is queued or runs.
    #[must_use]
    pub fn is_under_way(&self, object: u64) -> bool {
        self.processors.iter().any(|processor| {
            let queued = processor.dpcs.iter().any(|dpc| dpc.object == object);
            let mut pile = processor.pile.iter();
            queued || pile.any(|&id| self.activities[id].object == object)
        })
    }

    /// Whether a thread of this name has not come to its end.
    #[must_use]
    pub fn is_calling(&self, name: &str) -> bool {
        let mut activities = self.activities.iter();
        activities.any(|one| one.name == name && !matches!(one.state, State::Done(_)))
    }

    /// Whether any DPC is queued or runs.
    #[must_use]
    pub fn has_dpcs(&self) -> bool {
        self.processors.iter().any(|processor| {
            let mut pile = processor.pile.iter();
            !processor.dpcs.is_empty() || pile.any(|&id| self.activities[id].object != 0)
        })
    }

    /// Whether all processors could lose their registers now: nobody is above PASSIVE_LEVEL or has
    /// interrupts masked, and no DPC waits.
    #[must_use]
    pub fn can_halt(&self) -> bool {
        let calm = |&id: &usize| {
            let activity = &self.activities[id];
            activity.irql == PASSIVE && !activity.masked
        };
        self.processors.iter().all(|processor| {
            processor.interrupt.is_none()
                && processor.dpcs.is_empty()
                && processor.pile.iter().all(calm)
        })
    }

    /// An overflow interrupt comes to a processor, and is handled.
    pub fn interrupt(
        &mut self,
        processor: usize,
        interrupted: Interrupted,
    ) -> Result<(), Violation> {
        self.processors[processor].interrupt = Some(interrupted);
        for _ in 0..STEPS {
            if !self.is_interrupted(processor) || !self.step()? {
                return Ok(());
            }
        }
        let what = "an interrupt is not handled to its end";
        Err(Violation::new(Rule::Endless, what))
    }

    fn is_interrupted(&self, processor: usize) -> bool {
        let processor = &self.processors[processor];
        let handles = |&id: &usize| self.activities[id].irql == PROFILE;
        processor.interrupt.is_some() || processor.pile.iter().any(handles)
    }

    /// Adds a processor.
    pub fn add_processor(&mut self, cpu: Cpu) {
        let bus = self.engine.bus();
        bus.cpus.push(cpu);
        if let Some(cpu) = bus.cpus.last_mut() {
            bus.registers.add(cpu);
        }
        self.processors.push(Processor::default());
    }

    /// One slice of one processor; `false` where none has anything to do.
    fn step(&mut self) -> Result<bool, Violation> {
        kmdf::present(self)?;
        if self.disturbed && self.rng.u8(0..16) == 0 {
            self.disturb();
        }
        let ready: Vec<usize> = (0..self.activities.len())
            .filter(|&id| self.activities[id].state == State::Ready)
            .collect();
        let busy = |&index: &usize| {
            let processor = &self.processors[index];
            !self.is_below_threads(index)
                || !processor.dpcs.is_empty()
                || processor.interrupt.is_some()
        };
        let quiet = ready.is_empty() && !(0..self.processors.len()).any(|index| busy(&index));
        let able: Vec<usize> = (0..self.processors.len())
            .filter(|&index| {
                if self.has_program(index) {
                    !quiet || self.program_may_run(index) > 0
                } else {
                    !ready.is_empty() || busy(&index)
                }
            })
            .collect();
        if able.is_empty() {
            return Ok(false);
        }
        let index = able[self.rng.usize(0..able.len())];
        self.choose_activity(index, &ready)?;
        let Some(&id) = self.processors[index].pile.last() else {
            return Ok(true);
        };
        self.load(id);
        let mut slice = self.slice();
        if quiet && self.activities[id].program {
            slice = slice.min(self.program_may_run(index));
        }
        self.running_on = index;
        self.engine.bus().stops_at_unmask = self.disturbed || self.is_guest();
        let stop = self.run(index, id, slice)?;
        self.activities[id].masked = self.engine.masked();
        if self.disturbed {
            self.take_pending(index);
        }
        self.take_arrived(index);
        match stop {
            Stop::Stub(number) => self.called(index, id, number)?,
            Stop::Exit => self.program_returned(index, id)?,
            Stop::Slice => {}
        }
        Ok(true)
    }

    /// Runs a slice of an activity, and holds it against the rules of what it may take.
    fn run(&mut self, index: usize, id: usize, slice: u64) -> Result<Stop, Violation> {
        let activity = &self.activities[id];
        let bus = self.engine.bus();
        let before = bus.executed;
        bus.stack = Stack {
            start: activity.stack,
            end: activity.stack + STACK,
            lowest: activity.lowest,
        };
        let stop = self.engine.run(index, slice)?;
        let bus = self.engine.bus();
        let (executed, stack) = (bus.executed - before, bus.stack);
        let activity = &mut self.activities[id];
        activity.lowest = stack.lowest;
        activity.ran += executed;
        activity.ran_in_all += executed;
        if activity.program {
            return Ok(stop);
        }
        let (name, ran) = (activity.name, activity.ran);
        self.stack_most = self.stack_most.max((stack.used(), name));
        self.spin_most = self.spin_most.max((ran, name));
        let broken = if stack.used() > STACK_LIMIT {
            let what = format!("{name} uses {} bytes of its stack", stack.used());
            Some(Violation::new(Rule::Stack, what))
        } else if ran > SPIN_LIMIT {
            let what = format!("{name} runs {ran} instructions without calling the system");
            Some(Violation::new(Rule::Spin, what))
        } else if activity.irql == PROFILE {
            let ran = activity.ran_in_all;
            self.handler_most = self.handler_most.max(ran);
            let what = format!("{name} runs {ran} instructions at PROFILE_LEVEL");
            (ran > MASKED_LIMIT).then(|| Violation::new(Rule::Masked, what))
        } else {
            None
        };
        broken.map_or(Ok(stop), |violation| Err(self.engine.with_stack(violation)))
    }

    fn slice(&mut self) -> u64 {
        let most = [4, 64, 1000, 20_000][self.rng.usize(0..4)];
        self.rng.u64(1..=most)
    }

    /// What comes onto a processor's pile: an interrupt, a DPC, a thread.
    fn choose_activity(&mut self, index: usize, ready: &[usize]) -> Result<(), Violation> {
        let top = self.processors[index].pile.last().copied();
        let (irql, masked) = top.map_or((PASSIVE, false), |id| {
            (self.activities[id].irql, self.activities[id].masked)
        });
        if masked {
            return Ok(());
        }
        if irql < PROFILE
            && let Some(mut interrupted) = self.processors[index].interrupt.take()
        {
            if self.is_guest() {
                interrupted = self.interrupted_now(index);
            }
            self.wake_processor(index);
            return self.deliver(index, &interrupted);
        }
        let late = top.is_some() && self.rng.u8(0..4) == 0;
        if irql < DISPATCH
            && !late
            && let Some(dpc) = self.processors[index].dpcs.pop_front()
        {
            let who = top.map_or((0, 0), |id| self.activities[id].who);
            self.wake_processor(index);
            kernel::dpc_begins(self, dpc)?;
            let [context, first, second] = dpc.arguments;
            let arguments = [dpc.object, context, first, second];
            let id = self.pile(index, "DPC", dpc.routine, &arguments, DISPATCH, who)?;
            self.activities[id].object = dpc.object;
            return Ok(());
        }
        if self.is_below_threads(index) && !ready.is_empty() {
            self.wake_processor(index);
            let id = ready[self.rng.usize(0..ready.len())];
            self.activities[id].state = State::Running;
            self.processors[index].pile.push(id);
        }
        Ok(())
    }

    fn pile(
        &mut self,
        index: usize,
        name: &'static str,
        function: u64,
        arguments: &[u64],
        irql: u8,
        who: (u32, u32),
    ) -> Result<usize, Violation> {
        let id = self
            .activity(name, function, arguments, irql, who)
            .map_err(|error| Violation::new(Rule::Unmodelled, error.to_string()))?;
        self.activities[id].state = State::Running;
        self.processors[index].pile.push(id);
        Ok(id)
    }

    /// The HAL takes an overflow interrupt: it calls the handler that is registered at this moment,
    /// or the callback of who has the counters, or nobody.
    fn deliver(&mut self, index: usize, interrupted: &Interrupted) -> Result<(), Violation> {
        let who = (interrupted.process, interrupted.thread);
        if let Some(handler) = self.kernel.interrupt_handler {
            let frame = kernel::trap_frame(self, interrupted)?;
            let id = self.pile(index, "interrupt", handler, &[frame, 0], PROFILE, who)?;
            self.activities[id].frame = frame;
            self.activities[id].began = Some(Cost::so_far(self));
            self.interrupts += 1;
        } else if let Some((owner, Some(callback))) = self.kernel.counters {
            let stopped = hal::stop(&mut self.engine.bus().cpus[index]);
            let arguments = [stopped.overflowed, owner];
            let id = self.pile(index, "callback", callback, &arguments, PROFILE, who)?;
            self.activities[id].stopped = Some(stopped);
            self.activities[id].began = Some(Cost::so_far(self));
            self.interrupts += 1;
        }
        Ok(())
    }

    /// Something comes at this moment.
    fn disturb(&mut self) {
        const KINDS: [Disturbance; 3] = [
            Disturbance::Spurious,
            Disturbance::Events,
            Disturbance::Timer,
        ];
        let index = self.rng.usize(0..self.processors.len());
        match KINDS[self.rng.usize(0..KINDS.len())] {
            Disturbance::Spurious => {
                self.processors[index].interrupt = Some(self.interrupted(index));
            }
            Disturbance::Events => {
                let mut events = Counts::default();
                for event in [Event::Instructions, Event::Cycles] {
                    let bits = self.rng.u32(1..21);
                    let many = self.rng.u64(0..1 << bits);
                    events.set(event, many, many / 2);
                }
                self.engine.bus().cpus[index].processor.exercise(events);
                self.take_pending(index);
            }
            Disturbance::Timer => kernel::expire_timers(self),
        }
    }

    /// An overflow that the processor's local APIC has to tell becomes an interrupt that waits.
    fn take_pending(&mut self, index: usize) {
        let cpu = &mut self.engine.bus().cpus[index];
        if cpu.processor.acknowledge_interrupt().is_some() {
            self.processors[index].interrupt = Some(self.interrupted(index));
        }
    }

    /// What an interrupt would interrupt on a processor: code of this driver.
    fn interrupted(&self, index: usize) -> Interrupted {
        let top = self.processors[index].pile.last();
        let (process, thread) = top.map_or((0, 0), |&id| self.activities[id].who);
        Interrupted {
            ip: IMAGE + PAGE,
            mode: Mode::Kernel,
            process,
            thread,
        }
    }

    fn unload(&mut self) {
        if let Some(id) = self.loaded.take() {
            self.engine.save(&mut self.activities[id].registers);
        }
    }

    fn load(&mut self, id: usize) {
        if self.loaded != Some(id) {
            self.unload();
            self.engine.load(&self.activities[id].registers);
            self.loaded = Some(id);
        }
    }

    /// A stub was called by the activity that runs.
    fn called(&mut self, index: usize, id: usize, number: usize) -> Result<(), Violation> {
        let stub = self.stubs.get(number).copied().unwrap_or(Stub::Return);
        match stub {
            Stub::Return => self.returned(index, id),
            Stub::Unmodelled(name) => {
                let name = self.unmodelled[name].clone();
                let violation = Violation::new(Rule::Unmodelled, format!("{name} is called"));
                Err(self.engine.with_stack(violation))
            }
            Stub::Function(function) => self.serve(index, id, function),
        }
    }

    fn returned(&mut self, index: usize, id: usize) -> Result<(), Violation> {
        let value = self.engine.returned();
        let moved = self.engine.stack_pointer() != self.activities[id].top;
        let not_kept = self.engine.not_kept();
        if let Some(what) = not_kept.or(moved.then(|| "RSP".to_owned())) {
            let what = format!("{} does not keep {what}", self.activities[id].name);
            let violation = Violation::new(Rule::Convention, what);
            return Err(self.engine.with_stack(violation));
        }
        if self.framework.holds_a_lock(id) {
            let what = format!("{} ends with a lock held", self.activities[id].name);
            return Err(self.engine.with_stack(Violation::new(Rule::LockHeld, what)));
        }
        if self.engine.masked() {
            let what = format!("{} ends with interrupts masked", self.activities[id].name);
            return Err(Violation::new(Rule::Masked, what));
        }
        self.processors[index].pile.pop();
        self.loaded = None;
        if let Some(began) = self.activities[id].began.take() {
            let cost = Cost::so_far(self) - began;
            self.overflow_costs.push(cost);
        }
        let activity = &mut self.activities[id];
        activity.state = State::Done(value);
        let (stack, frame, object) = (activity.stack, activity.frame, activity.object);
        if activity.detached {
            self.idle.push(id);
        }
        if let Some(stopped) = activity.stopped.take() {
            hal::go_on(&mut self.engine.bus().cpus[index], stopped);
        }
        if object != 0 {
            self.wake(|wait| *wait == Wait::Dpc);
        }
        self.wake(|wait| *wait == Wait::ProcessorCallback);
        if frame != 0 {
            self.engine.bus().arena.free(frame, 0)?;
        }
        self.engine.bus().arena.free(stack, 0)
    }

    fn serve(
        &mut self,
        index: usize,
        id: usize,
        function: &'static Function,
    ) -> Result<(), Violation> {
        let irql = self.activities[id].irql;
        self.activities[id].ran = 0;
        let broken = |what: String| Violation::new(Rule::Irql, what);
        if irql > function.irql {
            let what = format!(
                "{} is called at IRQL {irql}, at most {}",
                function.name, function.irql
            );
            return Err(self.engine.with_stack(broken(what)));
        }
        if self.engine.masked() && function.irql < PROFILE {
            let what = format!("{} is called with interrupts masked", function.name);
            return Err(self.engine.with_stack(broken(what)));
        }
        self.kernel.calling = function.name;
        self.calls.add(function.name.as_bytes());
        self.calls.add(&[index as u8, id as u8]);
        let outcome = (function.run)(self);
        match outcome.map_err(|violation| self.engine.with_stack(violation))? {
            Outcome::Return(value) => self.engine.return_from_stub(value),
            Outcome::Wait(wait) => {
                self.engine.return_from_stub(0);
                self.wait(index, id, function, wait)?;
            }
            Outcome::Again(wait) => {
                self.engine.repeat_stub();
                self.wait(index, id, function, wait)?;
            }
        }
        Ok(())
    }

    fn wait(
        &mut self,
        index: usize,
        id: usize,
        function: &Function,
        wait: Wait,
    ) -> Result<(), Violation> {
        let irql = self.activities[id].irql;
        if irql > APC {
            let what = format!("{} waits at IRQL {irql}", function.name);
            return Err(self.engine.with_stack(Violation::new(Rule::Wait, what)));
        }
        self.contended += u64::from(matches!(wait, Wait::Lock(_)));
        self.unload();
        self.activities[id].state = State::Waiting(wait);
        self.processors[index].pile.pop();
        Ok(())
    }
}
