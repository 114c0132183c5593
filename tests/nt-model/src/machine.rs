//! The whole machine: activities on processors, in an order that a seed decides.
//!
//! An activity is a thread, a DPC or an interrupt: a stack and registers. A processor has a pile of
//! them; the topmost runs. In each step the seed chooses a processor that has something to do,
//! whether a DPC that waits comes first, and how many instructions the slice has.

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
use hal_profile::overflow::Interrupted;
use sim::cpuid::Leaves;
use sim::hal;
use sim::host::Cpu;
use std::collections::VecDeque;

/// A kernel stack (Windows Internals: 24 KiB on x64).
const STACK: u64 = 24 << 10;
/// Steps without an end that break [`Rule::Endless`].
const STEPS: u64 = 1_000_000;

/// The process and a thread of the system.
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
    /// It looks again, without leaving its processor.
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
    /// The end of a routine for processes or images.
    Routine,
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
    /// Critical regions that it is in, and how many it was called in.
    critical: (u32, u32),
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
    /// The request that it serves, in whose thread or as its DPC.
    request: Option<u64>,
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
    /// The request whose thread has queued it.
    pub request: Option<u64>,
}

#[derive(Default)]
struct Processor {
    pile: Vec<usize>,
    dpcs: VecDeque<QueuedDpc>,
    interrupt: Option<Interrupted>,
    storm: interrupts::Storm,
    /// It was added. LVTPC is not judged there: what Windows' HAL makes of it while a processor
    /// joins is in no document.
    added: bool,
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
    /// What requests take, held against their budget.
    pub budget: Budget,
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
            budget: Budget::default(),
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

    /// The caller's IRQL is this from now on; answers what it was.
    pub fn set_irql(&mut self, irql: u8) -> u8 {
        let Some(id) = self.loaded else {
            return PASSIVE;
        };
        std::mem::replace(&mut self.activities[id].irql, irql)
    }

    /// The process and the thread of the caller.
    #[must_use]
    pub fn who(&self) -> (u32, u32) {
        self.caller().map_or(SYSTEM, |activity| activity.who)
    }

    /// The request whose thread calls.
    #[must_use]
    pub fn request_of_caller(&self) -> Option<u64> {
        let caller = self.caller()?;
        caller.request.filter(|_| caller.irql == PASSIVE)
    }

    /// The caller, as a number that tells threads apart.
    #[must_use]
    pub fn caller_number(&self) -> usize {
        self.loaded.unwrap_or(usize::MAX)
    }

    /// The caller is in one critical region more: its normal APCs are held back.
    pub fn enter_critical_region(&mut self) {
        if let Some(id) = self.loaded {
            self.activities[id].critical.0 += 1;
        }
    }

    /// The caller leaves a critical region.
    pub fn leave_critical_region(&mut self) -> Result<(), Violation> {
        let Some(id) = self.loaded else {
            return Ok(());
        };
        let activity = &mut self.activities[id];
        let Some(left) = activity.critical.0.checked_sub(1) else {
            let what = format!(
                "{} leaves a critical region that it is not in",
                activity.name
            );
            return Err(Violation::new(Rule::CriticalRegion, what));
        };
        activity.critical.0 = left;
        Ok(())
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

    /// Adds a processor.
    pub fn add_processor(&mut self, cpu: Cpu) {
        let bus = self.engine.bus();
        bus.cpus.push(cpu);
        if let Some(cpu) = bus.cpus.last_mut() {
            bus.registers.add(cpu);
        }
        self.processors.push(Processor {
            added: true,
            ..Processor::default()
        });
    }
}
