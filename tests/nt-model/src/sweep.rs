//! Sampling, run after run, with interrupts that come later and later: `record -e TotalIssues:4096
//! -C 0 --guest loop --skid K` for every K, with shared set-up.
//!
//! A run is right if every period is accounted for: generated is floor(events / period) within one,
//! every event is in a sample or in a loss with a cause, no interrupt is lost where the processor
//! loses none, and no rule is broken.

use crate::programs::Program;
use crate::soak::{cores, on_threads};
use crate::transport::{Broken, DriverTransport, Guest};
use anyhow::{Context, Result, anyhow};
use halprof_measure::{Connection, Session};
use halprof_tests::machines::try_sample_in;
use halprof_tests::requests;
use shared_types::request::session::Spec;
use sim::load::workload::Workload;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

/// The machines whose interrupts and global registers differ.
pub const MACHINES: [&str; 7] =
    ["skylake", "haswell", "sapphire-rapids", "core2", "pentium-m", "zen2", "zen4"];
/// Events from one sample to the next.
pub const PERIOD: u64 = 4096;
/// The largest skid: three periods.
pub const LATEST: u64 = 3 * PERIOD;
/// How far around a multiple of the period every skid is tried.
const NEAR: u64 = 32;
/// The distance between skids elsewhere.
const STEP: u64 = 64;
/// Rounds of the program: about 24 periods.
const ROUNDS: u32 = 20_000;
/// TotalIssues.
const SOURCE: u32 = 0x02;

/// Every skid to try: all of them near a multiple of the period, every 64th elsewhere.
pub fn full() -> Vec<u64> {
    let near = |skid: &u64| (skid + NEAR) % PERIOD <= 2 * NEAR;
    (0..=LATEST + NEAR).filter(|skid| skid % STEP == 0 || near(skid)).collect()
}

/// This many of them, spread over the whole range.
pub fn spread(many: u64) -> Vec<u64> {
    // A prime step, so that the remainders modulo the period differ.
    (0..many).map(|index| index * 617 % (LATEST + 1)).collect()
}

/// A machine, as `--machine` names it, and the skids to try on it.
pub type Part = (String, Vec<u64>);

/// Runs all parts, several at once; returns the failures in words.
///
/// # Panics
///
/// If a run does.
pub fn sweep(file: &[u8], parts: &[Part]) -> Vec<String> {
    let failures = Mutex::new(Vec::new());
    on_threads(cores(), |number| {
        let Some((machine, skids)) = parts.get(number as usize) else {
            return ControlFlow::Break(());
        };
        let failed = try_machine(file, machine, skids);
        failures.lock().unwrap_or_else(PoisonError::into_inner).extend(failed);
        ControlFlow::Continue(())
    });
    failures.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Tries skids one after the other on one machine; creates a new one after each failure.
fn try_machine(file: &[u8], machine: &str, skids: &[u64]) -> Vec<String> {
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
    connection.transport().device().machine.set_skid(skid);
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
