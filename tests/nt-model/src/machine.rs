//! The whole machine: activities on processors, in an order that a seed decides.
//!
//! An activity is a thread, a DPC or an interrupt: a stack and registers. Each processor has a pile
//! of activities, of which the topmost runs. In each step the seed chooses a processor that has
//! something to do, whether a queued DPC comes first, and how many instructions the slice has.

mod activities;
mod calls;
mod interrupts;
pub mod programs;
mod scheduler;

use self::programs::Programs;
use crate::cost::{Budget, Cost};
use crate::engine::{Engine, Registers};
use crate::image::Image;
use crate::kernel::{self, Kernel};
use crate::kmdf::{self, Framework};
use crate::memory::{STUB, STUBS};
use crate::rules::{Rule, Violation};
use anyhow::Result;
use fastrand::Rng;
use hal_profile::run::overflow::Interrupted;
use sim::Processor as ModelledProcessor;
use sim::cpu::Cpu;
use sim::cpu::cpuid::Leaves;
use std::collections::VecDeque;

/// A kernel stack (Windows Internals: 24 KiB on x64).
const STACK: u64 = 24 << 10;
/// The number of steps without coming to rest that breaks [`Rule::Endless`].
const STEPS: u64 = 1_000_000;

/// The System process, and one of its threads.
pub const SYSTEM: (u32, u32) = (4, 8);
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
    pub name: &'static str,
    /// The highest IRQL that its documentation allows.
    pub irql: u8,
    /// Carries it out.
    pub run: fn(&mut Machine) -> Result<Outcome, Violation>,
}

/// What a function does to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It returns this.
    Return(u64),
    /// It waits, then returns 0.
    Wait(Wait),
    /// It waits, then is called again.
    Again(Wait),
    /// It is called again, without leaving its processor.
    Spin,
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

/// The number of a thread.
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
    /// The stack pointer after it has returned.
    top: u64,
    /// The lowest address of its stack that it touched.
    lowest: u64,
    /// Instructions since it began, or since it last called the system.
    ran: u64,
    /// Instructions since it began.
    ran_in_all: u64,
    /// The process and the thread that PsGetCurrent... return.
    who: (u32, u32),
    name: &'static str,
    /// The critical regions that it is in, and those that it was called in.
    critical: (u32, u32),
    /// Whether it is a program's thread, in ring 3 once it has begun.
    program: bool,
    /// No one needs its result.
    detached: bool,
    /// The DPC or the timer that it runs for; 0 for none.
    object: u64,
    /// The trap frame that it was given; 0 for none.
    frame: u64,
    /// The request that it serves, as its thread or as one of its DPCs.
    request: Option<u64>,
    /// For an overflow: the total cost when the driver began to handle it.
    began: Option<Cost>,
}

#[derive(Clone, Copy, Debug)]
pub struct QueuedDpc {
    /// The KDPC's address.
    pub object: u64,
    /// The routine that is called.
    pub routine: u64,
    pub arguments: [u64; 3],
    /// The request whose thread queued it.
    pub request: Option<u64>,
    /// It goes to the front of the queue.
    pub first: bool,
    /// At the front of the queue, in how many steps it begins once while anything else goes on: more
    /// than 1 if its processor is not interrupted for it.
    pub patience: u16,
}

#[derive(Default)]
struct Processor {
    pile: Vec<usize>,
    dpcs: VecDeque<QueuedDpc>,
    interrupt: Option<Interrupted>,
    storm: interrupts::Storm,
}

/// A hash that two different histories do not share (64-bit FNV-1a).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(pub u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
}

impl Fingerprint {
    /// Appends these bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
        }
    }
}

pub struct Machine {
    /// The engine that executes the instructions.
    pub engine: Engine,
    /// The state of the kernel.
    pub kernel: Kernel,
    /// The state of the framework.
    pub framework: Framework,
    /// The source of every decision.
    pub rng: Rng,
    /// What each overflow cost the driver, from its entry to its return.
    pub overflow_costs: Vec<Cost>,
    /// What requests take, checked against their budget.
    pub budget: Budget,
    /// Names of what is not modelled.
    pub unmodelled: Vec<String>,
    /// Interrupts and timers come at any moment, not only because of a workload.
    pub disturbed: bool,
    /// The bytes of stack that the driver may use beyond the limit: for one that is built otherwise than
    /// the shipped one.
    pub more_stack: u64,
    /// Slices have a few instructions only: so what comes between two of them is likely to be tried.
    pub finely: bool,
    /// Overflow interrupts that were delivered to the driver.
    pub interrupts: u64,
    /// Threads that had to wait for another's lock.
    pub contended: u64,
    /// A hash of the order of all calls: if it differs, two runs have differed.
    pub calls: Fingerprint,
    stubs: Vec<Stub>,
    programs: Programs,
    processors: Vec<Processor>,
    activities: Vec<Activity>,
    /// Activities that are over, and whose result no one needs.
    idle: Vec<usize>,
    loaded: Option<usize>,
    running_on: usize,
    /// Nothing goes on but DPCs that may begin late.
    only_late: bool,
}

impl Machine {
    /// A machine of these processors with the driver's image in memory, ordered by `seed`.
    pub fn new(image: &Image, leaves: &[Leaves], seed: u64) -> Result<Self> {
        let cpus = booted(leaves, 0);
        let processors = cpus.iter().map(|_| Processor::default()).collect();
        let mut machine = Self {
            engine: Engine::new(image, cpus)?,
            kernel: Kernel::default(),
            framework: Framework::default(),
            rng: Rng::with_seed(seed),
            overflow_costs: Vec::new(),
            budget: Budget::default(),
            unmodelled: Vec::new(),
            disturbed: false,
            more_stack: 0,
            finely: false,
            interrupts: 0,
            contended: 0,
            calls: Fingerprint::default(),
            // Stub 0 is where the functions that the machine calls return to.
            stubs: vec![Stub::Return],
            programs: Programs::default(),
            processors,
            activities: Vec::new(),
            idle: Vec::new(),
            loaded: None,
            running_on: 0,
            only_late: false,
        };
        kernel::boot(&mut machine);
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

    /// The address of a stub for a function; if it is called and not modelled, its name is
    /// reported.
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

    pub fn processors(&self) -> usize {
        self.processors.len()
    }

    /// The processor that the function being called runs on.
    pub fn current(&self) -> usize {
        self.running_on
    }

    /// The IRQL of the caller.
    pub fn irql(&self) -> u8 {
        self.caller().map_or(PASSIVE, |activity| activity.irql)
    }

    /// Sets the caller's IRQL; returns what it was.
    pub fn set_irql(&mut self, irql: u8) -> u8 {
        let Some(id) = self.loaded else {
            return PASSIVE;
        };
        std::mem::replace(&mut self.activities[id].irql, irql)
    }

    /// The process and the thread of the caller.
    pub fn who(&self) -> (u32, u32) {
        self.caller().map_or(SYSTEM, |activity| activity.who)
    }

    /// The request whose thread makes the call.
    pub fn request_of_caller(&self) -> Option<u64> {
        let caller = self.caller()?;
        // A DPC that queues another DPC does so for itself, not for the request.
        caller.request.filter(|_| caller.irql == PASSIVE)
    }

    /// The DPC or the timer that the caller runs for; 0 for none.
    pub fn object_of_caller(&self) -> u64 {
        self.caller().map_or(0, |activity| activity.object)
    }

    /// A number that identifies the calling thread.
    pub fn caller_number(&self) -> usize {
        self.loaded.unwrap_or(usize::MAX)
    }

    /// The caller enters one more critical region: its normal APCs are held back.
    pub fn enter_critical_region(&mut self) {
        if let Some(id) = self.loaded {
            self.activities[id].critical.0 += 1;
        }
    }

    pub fn leave_critical_region(&mut self) -> Result<(), Violation> {
        let Some(id) = self.loaded else {
            return Ok(());
        };
        let activity = &mut self.activities[id];
        let Some(left) = activity.critical.0.checked_sub(1) else {
            let what = format!("{} leaves a critical region that it is not in", activity.name);
            return Err(Violation::new(Rule::CriticalRegion, what));
        };
        activity.critical.0 = left;
        Ok(())
    }

    fn caller(&self) -> Option<&Activity> {
        self.activities.get(self.loaded?)
    }

    /// The machine's time in nanoseconds: that of the processor that is furthest ahead.
    pub fn now(&self) -> u64 {
        let cpus = &self.engine.bus_ref().cpus;
        let times = cpus.iter().map(|cpu| cpu.processor.timestamp());
        times.max().unwrap_or(0)
    }

    /// Lets time pass up to a moment on every processor.
    pub fn pass_to(&mut self, moment: u64) {
        for cpu in &mut self.engine.bus().cpus {
            if cpu.processor.timestamp() < moment {
                cpu.processor.set_timestamp(moment);
            }
        }
    }

    /// Processors like these, to be added now.
    pub fn new_processors(&self, leaves: &[Leaves]) -> Vec<Cpu> {
        booted(leaves, self.now())
    }

    pub fn add_processor(&mut self, cpu: Cpu) {
        let bus = self.engine.bus();
        bus.cpus.push(cpu);
        if let Some(cpu) = bus.cpus.last_mut() {
            bus.registers.add(cpu);
        }
        self.processors.push(Processor::default());
    }
}

/// Processors as Windows has started them, at this time.
fn booted(leaves: &[Leaves], now: u64) -> Vec<Cpu> {
    let boot = |mut processor: ModelledProcessor| {
        processor.boot_windows();
        processor.set_timestamp(now);
        Cpu::new(processor)
    };
    sim::cpu::topology::processors(leaves).into_iter().map(boot).collect()
}
