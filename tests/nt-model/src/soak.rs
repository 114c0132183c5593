//! Long runs of the driver, row after row of what is tried, on every core of this computer.
//!
//! A life is one machine with many sequences of [`crate::traffic`]: its seed decides the model, the
//! number of processors, their quirks, what its sessions do, and every sequence. So the seed of a
//! life replays it.
//!
//! With skids a machine samples, run after run, with interrupts that come so many instructions late:
//! `record -e TotalIssues:4096 -C 0 --guest loop --skid K` with shared set-up. A run is right if
//! every period is accounted for: generated is floor(events / period) within one, every event is in
//! a sample or in a loss with a cause, no interrupt is lost where the processor loses none, and no
//! rule is broken.

use crate::device::Device;
use crate::load::Action;
use crate::programs::Program;
use crate::traffic::{Totals, Traffic};
use crate::transport::{Broken, DriverTransport, Guest};
use anyhow::{Context, Result, anyhow, ensure};
use fastrand::Rng;
use halprof_measure::{Connection, Session};
use halprof_tests::machines::try_sample_in;
use halprof_tests::requests;
use shared_types::RequestHeader;
use shared_types::request::RequestCode;
use shared_types::request::session::Spec;
use sim::cpu::cpuid::Leaves;
use sim::load::workload::{self, Workload};
use sim::machines::models::{MODELS, repeat};
use sim::quirks::{QUIRKS, Quirk, Quirks};
use std::num::NonZero;
use std::sync::{Mutex, PoisonError};
use zerocopy::FromBytes;

/// Sequences on one machine.
pub const SEQUENCES: u64 = 50;
/// The most actions in one sequence; there are always at least a few.
const ACTIONS: usize = 60;
const FEWEST_ACTIONS: usize = 8;
/// The most quirks of one machine.
const BEHAVIOURS: usize = 3;
/// The most processors of one machine.
const PROCESSORS: usize = 3;
const WORK: &str = "instructions=3000000,cycles=5000000,branches=70000,processors=all";

/// The machines on which skids are tried: their interrupts and global registers differ.
pub const MACHINES: [&str; 7] =
    ["skylake", "haswell", "sapphire-rapids", "core2", "pentium-m", "zen2", "zen4"];
/// Events from one sample to the next.
pub const PERIOD: u64 = 4096;
/// The largest skid: three periods.
pub const LATEST: u64 = 3 * PERIOD;
/// Rounds of the program: about 24 periods.
const ROUNDS: u32 = 20_000;
const SOURCE: u32 = 0x02;

/// Tries each row, as many at once as there are cores; returns the results in any order.
pub fn sweep<Row: Send, T: Send>(
    rows: impl IntoIterator<Item = Row, IntoIter: Send>,
    run: impl Fn(Row) -> T + Sync,
) -> Vec<T> {
    let rows = Mutex::new(rows.into_iter());
    let results = Mutex::new(Vec::new());
    let worker = || {
        loop {
            let row = rows.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(row) = row else { break };
            let result = run(row);
            results.lock().unwrap_or_else(PoisonError::into_inner).push(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(worker);
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the lives of these seeds, [`SEQUENCES`] each; returns what has happened in all of them.
///
/// # Errors
/// With every life that broke a rule.
pub fn soak(file: &[u8], seeds: impl IntoIterator<Item = u64, IntoIter: Send>) -> Result<Totals> {
    let mut totals = Totals::default();
    let mut failures = Vec::new();
    for life in sweep(seeds, |seed| live(file, seed, SEQUENCES)) {
        match life {
            Ok(life) => totals.add(&life),
            Err(failure) => failures.push(format!("{failure:#}")),
        }
    }
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(totals)
}

/// Runs the life of a seed, with this many sequences.
pub fn live(file: &[u8], seed: u64, sequences: u64) -> Result<Totals> {
    let mut rng = Rng::with_seed(seed);
    let model = &MODELS[rng.usize(..MODELS.len())];
    let mut leaves = repeat(&model.processors(), rng.usize(1..=PROCESSORS));
    let quirks = quirks(seed, &leaves[0]);
    for leaves in &mut leaves {
        *leaves = leaves.with_quirks(quirks);
    }
    // This is drawn apart from everything else, so that a life without them is unchanged.
    let features = Rng::with_seed(seed ^ 0xFEA7).bool();
    let work = workload::parse(WORK)?;
    let mut story =
        vec![format!("on {} with {} processors, quirks: {quirks:?}", model.name, leaves.len())];
    let mut totals = Totals::default();
    let mut play = || -> Result<()> {
        let mut device = Device::new(file, &leaves, seed)?;
        let status = device.start()?;
        ensure!(status == 0, "the driver does not start: {status:#x}");
        for number in 0..sequences {
            // The story of a failure has only its own sequence, because those before it passed.
            story.truncate(1);
            story.push(format!("sequence {number}"));
            let actions = rng.usize(FEWEST_ACTIONS..=ACTIONS);
            let seed = rng.u64(..);
            Traffic::new(&mut device, seed, &work, &leaves[0], features, &mut totals)
                .play(actions, |action| story.push(short(action)))?;
        }
        device.remove()?;
        let machine = &mut device.machine;
        totals.instructions = machine.engine.bus().executed;
        totals.interrupts = machine.interrupts;
        totals.contended = machine.contended;
        totals.faults = machine.kernel.failed.len() as u64;
        totals.history[0] = machine.calls;
        Ok(())
    };
    let played = play();
    played.map(|()| totals).with_context(|| {
        let story = story.join("\n  ");
        let replay = "cargo run --release -p nt-model --bin soak -- --lives 1 --seed";
        format!("{story}\nreplay: {replay} {seed}")
    })
}

/// The quirks of a life: none in half of the lives, otherwise up to [`BEHAVIOURS`]. They are drawn
/// separately from everything else, so that a life without them is unchanged.
///
/// No storm on AMD: delivery does not mask LVTPC there, so a storm whose handler is removed would
/// never end.
fn quirks(seed: u64, leaves: &Leaves) -> Quirks {
    const AUTHENTIC_AMD: u32 = 0x6874_7541;
    let amd = leaves.get(0, 0).ebx == AUTHENTIC_AMD;
    let mut rng = Rng::with_seed(seed ^ 0x0BAD);
    let mut quirks = Quirks::default();
    if rng.bool() {
        return quirks;
    }
    for _ in 0..rng.usize(1..=BEHAVIOURS) {
        let quirk = QUIRKS[rng.usize(..QUIRKS.len())].quirk;
        if !(amd && quirk == Quirk::Storm) {
            quirks = quirks.with(quirk);
        }
    }
    quirks
}

fn short(action: &Action) -> String {
    let Action::Request(client, code, input, room) = action else {
        return format!("{action:?}");
    };
    let name = RequestCode::ALL.iter().find(|(known, _)| known == code);
    let name = name.map_or("?", |(_, name)| name);
    let flags = RequestHeader::read_from_prefix(input).map_or(0, |(header, _)| header.flags);
    let length = input.len();
    format!("Request({client}, {name}, flags {flags:#x}, {length} bytes, room {room})")
}

/// Samples with each of these skids on a machine, as `--machine` names it; returns the failures in
/// words. After a failure it goes on with another machine of that name.
pub fn try_skids(file: &[u8], machine: &str, skids: &[u64]) -> Vec<String> {
    let mut failures = Vec::new();
    let mut open = None;
    for &skid in skids {
        let broken = Broken::default();
        let connection = match open.take() {
            Some(connection) => Ok(connection),
            None => connect(file, machine, &broken),
        };
        let outcome = connection.and_then(|mut connection| {
            sample(&mut connection, skid, under_way(machine, skid))?;
            Ok(connection)
        });
        match outcome {
            Ok(connection) => open = Some(connection),
            Err(error) => failures.push(format!("{machine}, skid {skid}: {error:#}")),
        }
    }
    failures
}

fn connect(file: &[u8], machine: &str, broken: &Broken) -> Result<Connection<DriverTransport>> {
    let spec = halprof_measure::spec(&format!("{machine},processors=1"))?;
    let guest =
        Guest { program: Program::find("loop").context("no program")?, rounds: ROUNDS, skid: 0 };
    let transport = DriverTransport::open(file, &spec.leaves, 0, Some(guest), broken)?;
    Ok(Connection::new(transport)?)
}

/// One run, in which this many periods may have no interrupt; the error says what is wrong with it.
fn sample(connection: &mut Connection<DriverTransport>, skid: u64, without: u64) -> Result<()> {
    connection.transport().device.machine.set_skid(skid);
    let spec = Spec { interval: PERIOD, ..requests::spec(SOURCE) };
    let session = Session::open(connection, true, true)?;
    let sampled = try_sample_in(session, vec![spec], &Workload::default(), u64::MAX >> 1)?;
    sampled.unaccounted(PERIOD, without).map_or(Ok(()), |wrong| Err(anyhow!(wrong)))
}

/// The most periods whose interrupt may be under way when the session stops, without a limit where
/// the processor loses interrupts. Late ones come up to three periods later than the skid.
fn under_way(machine: &str, skid: u64) -> u64 {
    let quirks = |name| machine.split(['=', '+']).any(|option| option == name);
    if quirks("lost") {
        return u64::MAX;
    }
    let late = if quirks("late") { 3 } else { 0 };
    skid / PERIOD + 1 + late
}
