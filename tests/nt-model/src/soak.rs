//! A long randomized run: machine after machine, each with many sequences of [`crate::traffic`].
//!
//! A life is one machine: its seed decides the model, the number of processors, their quirks
//! behaviours, what its sessions do, and every sequence. So the seed of a life replays it.

use crate::device::Device;
use crate::machine::Fingerprint;
use crate::rules::Violation;
use crate::traffic::{Action, Told, Traffic};
use anyhow::{Result, anyhow};
use fastrand::Rng;
use shared_types::RequestHeader;
use shared_types::request::RequestCode;
use sim::cpu::cpuid::Leaves;
use sim::load::workload;
use sim::machines::models::{MODELS, repeat};
use sim::quirks::{Behaviour, Quirks, ROWS};
use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use zerocopy::FromBytes;

/// Sequences on one machine.
pub const SEQUENCES: u64 = 50;
/// The most actions in one sequence; there are always at least a few.
const ACTIONS: usize = 60;
const FEWEST_ACTIONS: usize = 8;
/// The most quirks behaviours of one machine.
const BEHAVIOURS: usize = 3;
/// The most processors of one machine.
const PROCESSORS: usize = 3;
const WORK: &str = "instructions=3000000,cycles=5000000,branches=70000,processors=all";

/// The results of a life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Life {
    /// Sequences that were played.
    pub sequences: u64,
    /// Instructions of the driver that were executed.
    pub instructions: u64,
    /// Overflow interrupts that were delivered to it.
    pub interrupts: u64,
    /// Threads that had to wait for another's lock.
    pub contended: u64,
    /// Calls that were made to fail.
    pub faults: u64,
    /// A hash of the order of all its calls.
    pub calls: Fingerprint,
    /// The totals of all sequences.
    pub told: Told,
}

/// A life that broke a rule.
#[derive(Debug)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// The model, the sequence and its last actions.
    pub story: String,
    /// The rule.
    pub violation: Violation,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "seed {}: {}\n{}\nreplay: cargo run --release -p nt-model --bin soak -- --seed {} --lives 1",
            self.seed, self.violation, self.story, self.seed
        )
    }
}

/// Runs the life of a seed, with this many sequences.
pub fn live(file: &[u8], seed: u64, sequences: u64) -> Result<Life, Box<Failure>> {
    let mut rng = Rng::with_seed(seed);
    let model = &MODELS[rng.usize(..MODELS.len())];
    let mut leaves = repeat(&model.processors(), rng.usize(1..=PROCESSORS));
    let quirks = quirks(seed, &leaves[0]);
    for leaves in &mut leaves {
        *leaves = leaves.with_quirks(quirks);
    }
    let features = Rng::with_seed(seed ^ 0xFEA7).bool();
    let work = workload::parse(WORK).unwrap_or_default();
    let mut story =
        vec![format!("on {} with {} processors, quirks: {quirks:?}", model.name, leaves.len())];
    let mut life = Life::default();
    let mut play = || -> Result<(), Violation> {
        let mut device = Device::new(file, &leaves, seed).map_err(|error| broken(&error))?;
        let status = device.start()?;
        if status != 0 {
            return Err(broken(&anyhow!("the driver does not start: {status:#x}")));
        }
        for number in 0..sequences {
            story.truncate(1);
            story.push(format!("sequence {number}"));
            let actions = rng.usize(FEWEST_ACTIONS..=ACTIONS);
            let traffic = Traffic::new(&mut device, rng.u64(..), &work, &leaves[0], features);
            let told = traffic.play(actions, |action| story.push(short(action)))?;
            life.told.add(&told);
            life.sequences += 1;
        }
        device.remove()?;
        life.instructions = device.machine.engine.bus().executed;
        life.interrupts = device.machine.interrupts;
        life.contended = device.machine.contended;
        life.faults = device.machine.kernel.failed.len() as u64;
        life.calls = device.machine.calls;
        Ok(())
    };
    match play() {
        Ok(()) => Ok(life),
        Err(violation) => Err(Box::new(Failure { seed, story: story.join("\n  "), violation })),
    }
}

/// The quirks behaviours of a life: none in half of the lives, otherwise up to [`BEHAVIOURS`]. They
/// are drawn separately from everything else, so that a life without them is unchanged.
///
/// No storm on AMD: delivery does not mask LVTPC there, so a storm whose handler is removed would
/// never end.
fn quirks(seed: u64, leaves: &Leaves) -> Quirks {
    const AUTHENTIC_AMD: u32 = 0x6874_7541;
    let amd = leaves.get(0, 0).ebx == AUTHENTIC_AMD;
    let mut rng = Rng::with_seed(seed ^ 0x0BAD);
    if rng.bool() {
        return Quirks::default();
    }
    let mut quirks = Quirks::default();
    for _ in 0..rng.usize(1..=BEHAVIOURS) {
        let behaviour = ROWS[rng.usize(..ROWS.len())].behaviour;
        if !(amd && behaviour == Behaviour::Storm) {
            quirks = quirks.with(behaviour);
        }
    }
    quirks
}

fn broken(error: &anyhow::Error) -> Violation {
    Violation::new(crate::rules::Rule::Unmodelled, error.to_string())
}

fn short(action: &Action) -> String {
    match action {
        Action::Request(client, code, input, room) => {
            let name = RequestCode::ALL.iter().find(|(known, _)| known == code);
            let name = name.map_or("?", |(_, name)| name);
            let flags =
                RequestHeader::read_from_prefix(input).map_or(0, |(header, _)| header.flags);
            format!(
                "Request({client}, {name}, flags {flags:#x}, {} bytes, room {room})",
                input.len()
            )
        }
        other => format!("{other:?}"),
    }
}

/// When to stop: at least one of the two must be set.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// The number of lives.
    pub lives: u64,
    /// The time.
    pub time: Duration,
}

/// The threads that can run at once on this computer.
#[must_use]
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Does numbered work on this many threads, each until there is no more.
pub(crate) fn on_threads(threads: usize, work: impl Fn(u64) -> ControlFlow<()> + Sync) {
    let next = AtomicU64::new(0);
    let worker = || while work(next.fetch_add(1, Ordering::Relaxed)).is_continue() {};
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(worker);
        }
    });
}

/// Runs lives on this many threads, with seeds counting up from `first`; returns the totals, or the
/// failure with the lowest seed among those found.
pub fn soak(file: &[u8], first: u64, limit: Limit, threads: usize) -> Result<Life, Box<Failure>> {
    let total = Mutex::new(Life::default());
    let failure: Mutex<Option<Box<Failure>>> = Mutex::new(None);
    let began = Instant::now();
    on_threads(threads, |number| {
        let over = number >= limit.lives || began.elapsed() >= limit.time;
        if over || lock(&failure).is_some() {
            return ControlFlow::Break(());
        }
        match live(file, first + number, SEQUENCES) {
            Ok(life) => lock(&total).add(&life),
            Err(found) => {
                let mut kept = lock(&failure);
                if kept.as_ref().is_none_or(|kept| found.seed < kept.seed) {
                    *kept = Some(found);
                }
            }
        }
        ControlFlow::Continue(())
    });
    let failure = lock(&failure).take();
    failure.map_or_else(|| Ok(*lock(&total)), Err)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Life {
    fn add(&mut self, other: &Self) {
        self.sequences += other.sequences;
        self.instructions += other.instructions;
        self.interrupts += other.interrupts;
        self.contended += other.contended;
        self.faults += other.faults;
        self.told.add(&other.told);
    }
}
